//! A request, as its handler sees it. Cheap to clone.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::dev::Url;
use actix_web::http::{Method, Uri};

use super::connection::Connection;
use super::head::{BodyLength, Head, Headers};
use crate::peers::Via;

#[derive(Clone)]
pub struct Request(Rc<Parts>);

struct Parts {
    head: Head,
    /// The decoded path, if it is not as it was sent.
    decoded: Option<Url>,
    connection: Option<Arc<Connection>>,
    /// How another node has passed it on.
    via: Option<Via>,
}

impl Request {
    /// `connection` is what it came on, unless that is the operator's socket.
    pub fn new(head: Head, connection: Option<Arc<Connection>>) -> Self {
        let is_encoded = memchr::memchr(b'%', head.path().as_bytes()).is_some();
        let decoded = if is_encoded { Uri::try_from(head.path()).ok().map(Url::new) } else { None };
        Self(Rc::new(Parts { head, decoded, connection, via: None }))
    }

    pub fn method(&self) -> &Method {
        &self.0.head.method
    }

    pub fn headers(&self) -> &Headers {
        &self.0.head.headers
    }

    /// The path as it was sent.
    pub fn path(&self) -> &str {
        self.0.head.path()
    }

    /// The decoded path; encoded slashes stay encoded, since they would change its segments.
    pub fn decoded_path(&self) -> &str {
        self.0.decoded.as_ref().map_or_else(|| self.path(), Url::path)
    }

    pub fn query_string(&self) -> &str {
        self.0.head.query()
    }

    pub fn path_and_query(&self) -> &str {
        self.0.head.path_and_query()
    }

    /// The bytes of its body; 0 if it comes in chunks, of which nobody knows how many there are.
    pub fn body_length(&self) -> u64 {
        match self.0.head.body {
            BodyLength::Bytes(length) => length,
            BodyLength::Chunked => 0,
        }
    }

    pub fn connection(&self) -> Option<&Arc<Connection>> {
        self.0.connection.as_ref()
    }

    pub fn via(&self) -> Option<&Via> {
        self.0.via.as_ref()
    }

    /// The same request, which another node has passed on. Nothing has used it yet.
    pub fn passed_on(mut self, via: Option<Via>) -> Self {
        if let Some(parts) = Rc::get_mut(&mut self.0) {
            parts.via = via;
        }
        self
    }

    /// The address of the client.
    pub fn client_address(&self) -> Option<IpAddr> {
        match &self.0.via {
            Some(via) => via.client,
            None => Some(self.connection()?.socket.peer?.ip()),
        }
    }
}

#[cfg(test)]
impl Request {
    /// A `GET` of this target, for tests; `None` if it is none.
    pub fn get(target: &str) -> Option<Self> {
        let head = format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n");
        let (head, _) = Head::read(head.as_bytes()).ok()??;
        Some(Self::new(head, None))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_path_is_decoded_but_for_its_slashes() {
        for (sent, decoded) in
            [("/a/b", "/a/b"), ("/%61/b%20c?x=%61", "/a/b c"), ("/a%2Fb%2f%25", "/a%2Fb%2f%25"), ("/a%", "/a%")]
        {
            assert_eq!(Request::get(sent).unwrap().decoded_path(), decoded, "{sent}");
        }
    }
}

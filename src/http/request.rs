//! A request, as its handler sees it. Cheap to clone.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use actix_http::RequestHead;
use actix_web::dev::Url;
use actix_web::http::header::HeaderMap;
use actix_web::http::{ConnectionType, Method, Uri, Version};

use super::connection::Connection;

#[derive(Clone)]
pub struct Request(Rc<Parts>);

struct Parts {
    head: actix_http::Request,
    /// The decoded path, if it is not as it was sent.
    decoded: Option<Url>,
    connection: Option<Arc<Connection>>,
}

impl Request {
    /// `connection` is what it came on, unless that is the operator's socket.
    pub fn new(head: actix_http::Request, connection: Option<Arc<Connection>>) -> Self {
        let is_encoded = memchr::memchr(b'%', head.path().as_bytes()).is_some();
        let decoded = is_encoded.then(|| Url::new(head.uri().clone()));
        Self(Rc::new(Parts { head, decoded, connection }))
    }

    pub fn method(&self) -> &Method {
        &self.head().method
    }

    pub fn uri(&self) -> &Uri {
        &self.head().uri
    }

    pub fn version(&self) -> Version {
        self.head().version
    }

    pub fn headers(&self) -> &HeaderMap {
        &self.head().headers
    }

    /// Whether the client asks to keep, close or upgrade the connection.
    pub fn connection_type(&self) -> ConnectionType {
        self.head().connection_type()
    }

    /// The path as it was sent.
    pub fn path(&self) -> &str {
        self.uri().path()
    }

    /// The decoded path; encoded slashes stay encoded, since they would change its segments.
    pub fn decoded_path(&self) -> &str {
        self.0.decoded.as_ref().map_or_else(|| self.path(), Url::path)
    }

    pub fn query_string(&self) -> &str {
        self.uri().query().unwrap_or_default()
    }

    pub fn connection(&self) -> Option<&Arc<Connection>> {
        self.0.connection.as_ref()
    }

    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.connection()?.socket.peer
    }

    fn head(&self) -> &RequestHead {
        self.0.head.head()
    }
}

#[cfg(test)]
impl Request {
    /// A `GET` of this address, for tests.
    pub fn get(uri: Uri) -> Self {
        let mut head = actix_http::Request::new();
        *head.uri_mut() = uri;
        Self::new(head, None)
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
            assert_eq!(Request::get(sent.parse().unwrap()).decoded_path(), decoded, "{sent}");
        }
    }
}

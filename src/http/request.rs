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
    url: Url,
    connection: Option<Arc<Connection>>,
}

impl Request {
    /// `connection` is what it came on, unless that is the operator's socket.
    pub fn new(head: actix_http::Request, connection: Option<Arc<Connection>>) -> Self {
        let url = Url::new(head.uri().clone());
        Self(Rc::new(Parts { head, url, connection }))
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

    /// What the client wants to become of the connection.
    pub fn connection_type(&self) -> ConnectionType {
        self.head().connection_type()
    }

    /// The path as it was sent.
    pub fn path(&self) -> &str {
        self.uri().path()
    }

    /// The decoded path; encoded slashes stay encoded, since they would change its segments.
    pub fn decoded_path(&self) -> &str {
        self.0.url.path()
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

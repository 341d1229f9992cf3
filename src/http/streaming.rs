//! Streamed answers: their fit to the client's HTTP version, and to clients that do not read.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::UPGRADE;
use actix_web::http::{ConnectionType, Version};
use actix_web::web::Bytes;
use actix_web::{HttpResponse, HttpResponseBuilder};
use futures_util::stream;

use super::connection::Connection;
use super::problem::Problem;
use super::request::Request;

/// For `HEAD`: the length of the body is not known, and the web server would read all of it only to drop it.
pub fn bare(mut response: HttpResponseBuilder) -> HttpResponse {
    response.streaming(stream::empty::<Result<Bytes, Problem>>())
}

/// HTTP/1.0 has no chunks, and the web server makes none for who asked to upgrade: there, an answer of unknown length ends
/// with its connection.
pub fn fitted(request: &Request, mut response: HttpResponse) -> HttpResponse {
    if request.version() < Version::HTTP_11 || request.headers().contains_key(UPGRADE) {
        response.head_mut().no_chunking(true);
        response.head_mut().set_connection_type(ConnectionType::Close);
    }
    response
}

/// Lets a client leave its answer unread for longer or shorter than usual, until this is dropped.
pub struct OwnPatience(Option<Arc<Connection>>);

impl OwnPatience {
    pub fn new(request: &Request, patience: Duration) -> Self {
        let connection = request.connection().cloned();
        if let Some(connection) = &connection {
            connection.set_patience(Some(patience));
        }
        Self(connection)
    }
}

impl Drop for OwnPatience {
    fn drop(&mut self) {
        if let Some(connection) = &self.0 {
            connection.set_patience(None);
        }
    }
}

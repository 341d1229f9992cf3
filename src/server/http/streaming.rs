//! Streamed answers, and clients that do not read them.

use std::sync::Arc;
use std::time::Duration;

use actix_web::web::Bytes;
use futures_util::stream;

use super::connection::Connection;
use super::problem::Problem;
use super::request::Request;
use super::response::Response;

/// For `HEAD`: the length of the body is not known, and nothing of it needs to be made.
pub fn bare(response: Response) -> Response {
    response.streaming(stream::empty::<Result<Bytes, Problem>>())
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

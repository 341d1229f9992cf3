//! Streamed answers: their fit to the client's HTTP version, and their end.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::{ConnectionType, Version};
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use futures_util::stream;
use tokio::sync::oneshot;

use super::connections::Connection;
use super::problem::Problem;
use crate::actors::Environments;

/// How long a client may take to read the rest of its answer when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// For `HEAD`: the length of the body is not known, and the web server would read all of it only to drop it.
pub fn bare(mut response: HttpResponseBuilder) -> HttpResponse {
    response.streaming(stream::empty::<Result<Bytes, Problem>>())
}

/// HTTP/1.0 has no chunks: there, an answer of unknown length ends with its connection.
pub fn fitted(request: &HttpRequest, mut response: HttpResponse) -> HttpResponse {
    if request.version() < Version::HTTP_11 {
        response.head_mut().no_chunking(true);
        response.head_mut().set_connection_type(ConnectionType::Close);
    }
    response
}

/// The stream of a client that does not read is not polled, so it would not notice that the server stops. Its connection is
/// shut down when the server stops, or when `given_up` resolves. Applies until the returned sender is dropped.
pub fn cut_off(
    request: &HttpRequest,
    environments: &Environments,
    given_up: impl Future<Output = ()> + 'static,
) -> oneshot::Sender<()> {
    let (guard, dropped) = oneshot::channel();
    if let Some(connection) = request.conn_data::<Arc<Connection>>().cloned() {
        let environments = environments.clone();
        let stopped = async move {
            environments.closed().await;
            tokio::time::sleep(STOP_GRACE).await;
        };
        actix_web::rt::spawn(async move {
            tokio::select! {
                _ = dropped => {}
                () = stopped => connection.socket.shut_down(),
                () = given_up => connection.socket.shut_down(),
            }
        });
    }
    guard
}

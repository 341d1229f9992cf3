//! Answers that are written as things happen: how they fit the client's version of HTTP, and their end.

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

/// What a client has to take the rest of its answer when the server ends: nobody waits for one that does not read.
const PARTING: Duration = Duration::from_secs(1);

/// For `HEAD`: how long the body would be is not known, and the web server would read all of it only to drop it.
pub fn bare(mut response: HttpResponseBuilder) -> HttpResponse {
    response.streaming(stream::empty::<Result<Bytes, Problem>>())
}

/// HTTP/1.0 knows no chunks: there, an answer whose length is not known ends with its connection.
pub fn fitted(request: &HttpRequest, mut response: HttpResponse) -> HttpResponse {
    if request.version() < Version::HTTP_11 {
        response.head_mut().no_chunking(true);
        response.head_mut().set_connection_type(ConnectionType::Close);
    }
    response
}

/// A client that does not read keeps its answer from being asked for more, so that it would not end with the server, nor
/// hear of anything else: it is cut off at the end, and when it is `given_up`. Holds as long as what it returns lives.
pub fn cut_off(
    request: &HttpRequest,
    environments: &Environments,
    given_up: impl Future<Output = ()> + 'static,
) -> oneshot::Sender<()> {
    let (there, gone) = oneshot::channel();
    if let Some(connection) = request.conn_data::<Arc<Connection>>().cloned() {
        let environments = environments.clone();
        let the_end = async move {
            environments.closed().await;
            tokio::time::sleep(PARTING).await;
        };
        actix_web::rt::spawn(async move {
            tokio::select! {
                _ = gone => {}
                () = the_end => connection.socket.shut_down(),
                () = given_up => connection.socket.shut_down(),
            }
        });
    }
    there
}

//! Wraps every request: its id, span and metrics, and a problem for every error, including panics.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::http::StatusCode;
use actix_web::web::Bytes;
use futures_util::FutureExt;
use metrics::Counter;
use tracing::Instrument;

use super::answer::EarlyReturn;
use super::call::{Front, PerThread, Realms};
use super::codes::Code;
use super::content::{Content, TransportSecurity};
use super::problem::Problem;
use super::request::{REQUEST_ID, RequestId};
use super::router::Router;
use super::routing::dispatch;
use super::state::Node;
use super::{idempotent, routing};
use http1::{ActiveRequest, Body, Common, Connection, Incoming, Reply, Request, Response};

pub async fn observe(
    front: &Front,
    router: &Router,
    security: Option<&TransportSecurity>,
    request: Request,
    incoming: Incoming,
) -> Reply {
    let (request, refusal) = match &front.realms {
        Realms::Only(_) => (request, None),
        Realms::Shards(cluster) => routing::arrived(cluster, request),
    };
    let connection = request.connection();
    let only_probes = connection.is_some_and(|connection| front.node.connections.serves_only_probes(connection));
    let in_flight = RequestInFlight::begin(&front.node, connection);
    let id = RequestId::of(request.headers());
    let started = Instant::now();
    // A span costs as much as reading and writing the request, so it exists only at debug level.
    let span = tracing::debug_span!("request", ?id, method = %request.method(), path = loggable(&request));

    let found = router.find(&request);
    let meter = found.as_ref().ok().map(|resource| &resource.meter);
    let content = found.as_ref().map_or(Content::Data, |resource| resource.content);
    let answering = async {
        if let Some(refusal) = &refusal {
            return Err(routing::not_believed(refusal).into());
        }
        let resource = found?;
        if only_probes && !resource.is_probe {
            let why = "the server has as many connections as it may (http.max_connections), all of them in use";
            return Err(Problem::overloaded(why).into());
        }
        dispatch(front, resource, &request, incoming, &id).await
    };
    let answered = AssertUnwindSafe(answering).catch_unwind().instrument(span.clone()).await;
    let _entered = span.enter();
    let answered = answered.unwrap_or_else(|_| Err(Problem::internal("a handler panicked").into()));
    let response = answered.unwrap_or_else(|early| match early {
        EarlyReturn::Problem(problem) => refused(&problem, &request, &id),
        EarlyReturn::Replay(answer) => idempotent::replayed(*answer),
    });
    let is_content = response.status.is_success() || response.status == StatusCode::NOT_MODIFIED;
    let content = if is_content { content } else { Content::Data };
    let elapsed = started.elapsed();
    if let Some(meter) = meter {
        meter.record(request.method(), response.status, elapsed.as_secs_f64());
    }
    tracing::debug!(status = response.status.as_u16(), micros = elapsed.as_micros() as u64, "answered");
    let response = match security {
        Some(security) => security.protect(request.headers(), response),
        None => response,
    };
    let common =
        (!response.is_passed_on).then(|| Common { lines: content.protection(), name: REQUEST_ID, value: id.shared() });
    Reply {
        response: Response { body: in_flight.with(response.body), ..response },
        is_last: only_probes || front.node.draining.load(Ordering::Relaxed),
        common,
    }
}

fn refused(problem: &Problem, request: &Request, id: &RequestId) -> Response {
    let code = problem.code();
    count_problem(code);
    // A refusal by a stopping server is not a failure.
    if code.status().is_server_error() && code != Code::ShuttingDown {
        let (method, path, code) = (request.method(), loggable(request), code.as_str());
        match problem.cause() {
            // A remote server failed: the client is told, and the operator need not act.
            Some(cause) if code == Code::RemoteFailed.as_str() => {
                tracing::warn!(?id, %method, path, code, cause, "a request failed");
            }
            Some(cause) => tracing::error!(?id, %method, path, code, cause, "a request failed"),
            None => tracing::warn!(?id, %method, path, code, "a request failed"),
        }
    }
    problem.render(id)
}

fn count_problem(code: Code) {
    static COUNTERS: LazyLock<Vec<OnceLock<Counter>>> =
        LazyLock::new(|| Code::ALL.iter().map(|_| OnceLock::new()).collect());
    if let Some(counter) = COUNTERS.get(code as usize) {
        counter.get_or_init(|| metrics::counter!("lockkeeper_problems_total", "code" => code.as_str())).increment(1);
    }
}

/// The path of a request for the log. An invitation's path is equivalent to a password, so it is hidden wherever it
/// occurs.
fn loggable(request: &Request) -> &str {
    let decoded = request.decoded_path();
    let is_secret = decoded.contains("lki_") || decoded.starts_with("/auth/invitations/");
    if is_secret { "/auth/invitations/…" } else { request.path() }
}

/// Counts a request as in progress until it is answered, or until its streamed response ends.
struct RequestInFlight {
    node: PerThread<Node>,
    _connection: Option<ActiveRequest>,
}

impl RequestInFlight {
    fn begin(node: &PerThread<Node>, connection: Option<&Arc<Connection>>) -> Self {
        node.underway.fetch_add(1, Ordering::Relaxed);
        Self { node: node.clone(), _connection: connection.map(Connection::request_began) }
    }

    /// Holds the count until the body is sent. A small response fits into the socket's buffer; a larger one stays in
    /// progress until its last piece is written.
    fn with(self, body: Body) -> Body {
        match body.size() {
            BodySize::None => body,
            BodySize::Sized(size) if size <= PIECE_BYTES as u64 => body,
            BodySize::Sized(_) | BodySize::Stream => Body::Other(match body.boxed().try_into_bytes() {
                Ok(rest) => BoxBody::new(Pieces { rest, _in_flight: self }),
                Err(stream) => BoxBody::new(Streamed { stream, _in_flight: self }),
            }),
        }
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.node.underway.fetch_sub(1, Ordering::Release);
    }
}

/// The number of bytes written together.
const PIECE_BYTES: usize = 16 * 1024;

struct Pieces {
    rest: Bytes,
    _in_flight: RequestInFlight,
}

impl MessageBody for Pieces {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        self.rest.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let length = self.rest.len().min(PIECE_BYTES);
        Poll::Ready((length > 0).then(|| Ok(self.rest.split_to(length))))
    }
}

struct Streamed {
    stream: BoxBody,
    _in_flight: RequestInFlight,
}

impl MessageBody for Streamed {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.stream.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.stream).poll_next(context)
    }
}

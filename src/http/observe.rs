//! Around every request: its id, its span, its numbers, and a clear answer whatever went wrong inside.

use std::convert::Infallible;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use actix_web::http::{ConnectionType, Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::web::Bytes;
use actix_web::{Error, HttpResponse, ResponseError};
use futures_util::FutureExt;
use metrics::{Counter, Histogram};
use tracing::Instrument;

use super::codes::Code;
use super::connections::{Busy, Connection};
use super::problem::{self, Problem};
use super::{App, access};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub async fn observe(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let app = access::app(request.request());
    let underway = Underway::begin(&app, request.conn_data());
    let id = request_id(&request);
    let method = request.method().clone();
    let started = Instant::now();
    let span = tracing::info_span!("request", id = %id, %method, path = request.path());

    let outcome = AssertUnwindSafe(next.call(request)).catch_unwind().instrument(span.clone()).await;
    let _entered = span.enter();
    let mut response = match outcome {
        Ok(Ok(response)) => with_problem_rendered(response.map_into_boxed_body(), &id),
        Ok(Err(error)) => {
            return Err(Fault { problem: Problem::of_status(error.as_response_error().status_code()), id }.into());
        }
        Err(_) => {
            tracing::error!("a handler panicked");
            count_problem(Code::InternalError);
            return Err(Fault { problem: Problem::internal(), id }.into());
        }
    };
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    if app.draining.load(Ordering::Relaxed) {
        response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    }
    let elapsed = started.elapsed();
    if let Some(meter) = response.request().app_data::<Meter>() {
        meter.record(&method, response.status(), elapsed.as_secs_f64());
    }
    tracing::debug!(status = response.status().as_u16(), micros = elapsed.as_micros() as u64, "answered");
    Ok(response.map_body(|_, body| underway.with(body)))
}

/// A problem leaves its handler without a body; anything else that went wrong was not made by us. Both become one.
fn with_problem_rendered(response: ServiceResponse<BoxBody>, id: &str) -> ServiceResponse<BoxBody> {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let known = response.response().error().and_then(|error| error.as_error::<Problem>());
    let (rendered, code) = match known {
        Some(problem) => (problem.render(id), problem.code()),
        None if is_problem(&response) => return response,
        None => {
            let problem = Problem::of_status(status);
            (problem.render(id), problem.code())
        }
    };
    count_problem(code);
    // That a server which stops sends its clients away is no failure.
    if status.is_server_error() && code != Code::ShuttingDown {
        tracing::warn!(code = code.as_str(), "a request failed");
    }
    let request = response.into_parts().0;
    ServiceResponse::new(request, rendered)
}

fn is_problem(response: &ServiceResponse<BoxBody>) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == problem::CONTENT.as_bytes())
}

/// The client's own id if it can stand in a log line and a header, else a new one.
fn request_id(request: &ServiceRequest) -> String {
    const LENGTH_MAX: usize = 128;
    let sane = |id: &&str| (1..=LENGTH_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    let own = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(sane);
    own.map_or_else(|| format!("req_{}", crate::entropy::id_seed()), str::to_owned)
}

/// For faults where no response was made: renders itself, with its request id.
#[derive(Debug)]
struct Fault {
    problem: Problem,
    id: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl ResponseError for Fault {
    fn status_code(&self) -> StatusCode {
        self.problem.code().status()
    }

    fn error_response(&self) -> HttpResponse<BoxBody> {
        let mut response = self.problem.render(&self.id);
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        response
    }
}

/// Counts a request as under way as long as it, or an answer that is written piece by piece, lives.
struct Underway {
    app: App,
    _busy: Option<Busy>,
}

impl Underway {
    fn begin(app: &App, connection: Option<&Arc<Connection>>) -> Self {
        app.underway.fetch_add(1, Ordering::Relaxed);
        Self { app: app.clone(), _busy: connection.map(|connection| app.connections.busy(connection)) }
    }

    /// A small answer is in the socket's buffer at once; a larger one is under way until its last piece is.
    fn with(self, body: BoxBody) -> BoxBody {
        match body.size() {
            BodySize::None => body,
            BodySize::Sized(size) if size <= PIECE_BYTES as u64 => body,
            BodySize::Sized(_) | BodySize::Stream => match body.try_into_bytes() {
                Ok(rest) => BoxBody::new(Pieces { rest, _underway: self }),
                Err(stream) => BoxBody::new(Stream { stream, _underway: self }),
            },
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.app.underway.fetch_sub(1, Ordering::Release);
    }
}

/// What is handed to the socket at once; half of what the web server buffers before it waits for the client.
const PIECE_BYTES: usize = 16 * 1024;

struct Pieces {
    rest: Bytes,
    _underway: Underway,
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

struct Stream {
    stream: BoxBody,
    _underway: Underway,
}

impl MessageBody for Stream {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.stream.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.stream).poll_next(context)
    }
}

/// The numbers of one route, looked up once and not with every request.
pub struct Meter {
    methods: Vec<(Method, Histogram, [Counter; 4])>,
}

impl Meter {
    pub fn new(route: &'static str, methods: impl IntoIterator<Item = Method>) -> Self {
        let methods = methods.into_iter().map(|method| {
            let name = method.to_string();
            let seconds =
                metrics::histogram!("lockkeeper_http_request_seconds", "route" => route, "method" => name.clone());
            let counters = ["2xx", "3xx", "4xx", "5xx"].map(|class| {
                metrics::counter!(
                    "lockkeeper_http_requests_total", "route" => route, "method" => name.clone(), "status" => class
                )
            });
            (method, seconds, counters)
        });
        Self { methods: methods.collect() }
    }

    fn record(&self, method: &Method, status: StatusCode, seconds: f64) {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let Some((_, histogram, counters)) = self.methods.iter().find(|(known, ..)| known == method) else {
            return;
        };
        histogram.record(seconds);
        let class = usize::from(status.as_u16() / 100).saturating_sub(2);
        if let Some(counter) = counters.get(class) {
            counter.increment(1);
        }
    }
}

fn count_problem(code: Code) {
    static COUNTERS: OnceLock<Vec<Counter>> = OnceLock::new();
    let counters = COUNTERS.get_or_init(|| {
        Code::ALL.iter().map(|code| metrics::counter!("lockkeeper_problems_total", "code" => code.as_str())).collect()
    });
    if let Some(counter) = counters.get(code as usize) {
        counter.increment(1);
    }
}

//! Clients that wait, for a lock or for a change, as long as they are connected; and those that are slow to read a streamed
//! answer.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use actix_web::http::header::IF_NONE_MATCH;
use actix_web::web::Bytes;
use futures_util::stream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::access::Access;
use super::answer;
use super::codes::Code;
use super::paging::Query;
use super::problem::Problem;
use crate::forms::WAIT_SECONDS_MAX;
use http1::{Connection, Request, Response};
use locks::Watch;

/// How often a request that waits for a queued session counts as polling it, which holds its place.
const POLL_EVERY: Duration = Duration::from_secs(20);

/// Whether the client was still connected when its answer was ready.
pub enum Waited<T> {
    There(T),
    /// It disconnected before there was an answer; the awaited future has been dropped, or was never begun.
    Gone,
    /// It had disconnected by the time there was an answer.
    TooLate(T),
    /// It lost its access while it waited, and is answered with the problem; with what it would have got, if that was there.
    Revoked(Problem, Option<T>),
}

/// Awaits an answer, and gives up when the client disconnects or loses its access. A connection polls its handler
/// whenever anything happens on its connection, including its end: we check each time. A request that does not wait (`waits`
/// is false) is not given up once it has begun, only found to be too late.
///
/// A client that closes only its half counts as gone: it looks the same as one that has died. One that did so with its
/// request does not even get the lock for a moment.
pub async fn while_connected<F: Future>(
    request: &Request,
    access: &Access,
    waits: bool,
    mut answer: Pin<&mut F>,
) -> Waited<F::Output> {
    let connection = request.connection();
    let is_gone = || connection.is_some_and(|connection| connection.socket.is_gone());
    let is_known_gone = || connection.is_some_and(|connection| connection.socket.is_known_gone());
    if is_known_gone() {
        return Waited::Gone;
    }
    let mut lost = pin!(access.lost());
    poll_fn(|context| match answer.as_mut().poll(context) {
        Poll::Ready(answer) if is_gone() => Poll::Ready(Waited::TooLate(answer)),
        Poll::Ready(answer) => Poll::Ready(match if waits { access.check_again() } else { Ok(()) } {
            Ok(()) => Waited::There(answer),
            Err(problem) => Waited::Revoked(problem, Some(answer)),
        }),
        // From the first poll on: the connection may have ended with the request, and there is no second notification.
        Poll::Pending if waits && is_known_gone() => Poll::Ready(Waited::Gone),
        Poll::Pending if waits => lost.as_mut().poll(context).map(|problem| Waited::Revoked(problem, None)),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// The answer for a client that has disconnected; it is seen only in logs and metrics.
pub fn gone() -> Problem {
    Problem::new(Code::ClientGone, Code::ClientGone.meaning())
}

/// A watch that reports every change since it was created.
pub trait Changes {
    async fn changed(&mut self);
}

impl Changes for Watch {
    async fn changed(&mut self) {
        Watch::changed(self).await;
    }
}

impl Changes for watch::Receiver<()> {
    async fn changed(&mut self) {
        // The sender lives as long as the server.
        watch::Receiver::changed(self).await.ok();
    }
}

/// `waitSeconds` of a read without other parameters.
pub fn wait_of(request: &Request) -> Result<Duration, Problem> {
    let mut query = Query::of(request);
    let wait = query.number("waitSeconds", 0, WAIT_SECONDS_MAX).unwrap_or(0);
    query.finish()?;
    Ok(Duration::from_secs(wait))
}

/// Waits for something to end while the client is connected and has access; returns its newest state. `read` finds nothing if it has
/// ended and was removed already.
pub async fn newest_within<T, W: Changes>(
    request: &Request,
    access: &Access,
    wait: Duration,
    first: T,
    has_ended: impl Fn(&T) -> bool,
    watch: impl FnOnce() -> W,
    read: impl Fn() -> Result<Option<T>, Problem>,
) -> Result<T, Problem> {
    if wait.is_zero() || has_ended(&first) {
        return Ok(first);
    }
    let _held = access.hold_connection()?;
    let environments = &access.realm.environments;
    let mut watch = watch();
    let deadline = Instant::now() + wait;
    let waiting = async {
        let mut newest = first;
        while let Some(found) = read()? {
            newest = found;
            if has_ended(&newest) || Instant::now() >= deadline {
                break;
            }
            tokio::select! {
                () = watch.changed() => {}
                () = tokio::time::sleep_until(deadline) => {}
                () = environments.closed() => break,
            }
        }
        Ok(newest)
    };
    match while_connected(request, access, true, pin!(waiting)).await {
        Waited::There(newest) => newest,
        Waited::Revoked(problem, _) => Err(problem),
        Waited::TooLate(_) | Waited::Gone => Err(gone()),
    }
}

/// A state and its `ETag`.
pub struct Read<T> {
    pub state: T,
    pub etag: String,
}

/// Reads at once, unless the client wants to wait: then it reads when the state is no longer the one that the client has,
/// or, if it has not said which it has, the present one.
pub async fn read_when_changed<T, W: Changes>(
    request: &Request,
    access: &Access,
    wait: Duration,
    watch: impl FnOnce() -> W,
    read: impl Fn() -> Result<Read<T>, Problem>,
) -> Result<Read<T>, Problem> {
    let present = read()?;
    let has_said = request.headers().contains(&IF_NONE_MATCH);
    let is_known =
        |etag: &str| if has_said { answer::is_known(request.headers(), etag) } else { *etag == present.etag };
    if wait.is_zero() || !is_known(&present.etag) {
        return Ok(present);
    }
    let _held = access.hold_connection()?;
    let environments = &access.realm.environments;
    let mut watch = watch();
    let deadline = Instant::now() + wait;
    let changed = async {
        loop {
            let now = read()?;
            if !is_known(&now.etag) {
                return Ok(now);
            }
            let asked = Instant::now();
            tokio::select! {
                () = watch.changed() => {}
                () = tokio::time::sleep_until(deadline.min(asked + POLL_EVERY)) => {}
                () = environments.closed() => return read(),
            }
            if Instant::now() >= deadline {
                return read();
            }
        }
    };
    match while_connected(request, access, true, pin!(changed)).await {
        Waited::There(read) => read,
        Waited::Revoked(problem, _) => Err(problem),
        // Nobody received it: a lock that was granted in the meantime does not count as seen.
        Waited::TooLate(_) | Waited::Gone => Err(gone()),
    }
}

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

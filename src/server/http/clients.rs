//! Clients that stay connected while they wait for a lock or a change, and clients that are slow to read a streamed
//! response.

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

/// How often a request that waits for a queued session counts as a poll, which holds the place in the queue.
const POLL_EVERY: Duration = Duration::from_secs(20);

/// Whether the client was still connected when its response was ready.
pub enum Waited<T> {
    There(T),
    /// The client disconnected before there was a response; the future was dropped, or never started.
    Gone,
    /// The client had disconnected by the time there was a response.
    TooLate(T),
    /// The client lost its access while waiting and gets the problem. The second field is the response, if there
    /// already was one.
    Revoked(Problem, Option<T>),
}

/// Awaits a response, and gives up when the client disconnects or loses its access. A connection polls its handler on
/// every event, including its end, so this checks at each poll. A request that does not wait (`waits` is false) always
/// runs to its end once begun, but its response may be too late.
///
/// A client that closes only its sending half counts as gone, because it is indistinguishable from a dead one. A client
/// that did so together with its request does not get the lock even for a moment.
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
        // Checked from the first poll on: the connection may have ended with the request, and there is no second
        // notification.
        Poll::Pending if waits && is_known_gone() => Poll::Ready(Waited::Gone),
        Poll::Pending if waits => lost.as_mut().poll(context).map(|problem| Waited::Revoked(problem, None)),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// A watch that reports every change since its creation.
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

/// Reads `waitSeconds` for a request without other parameters.
pub fn wait_of(request: &Request) -> Result<Duration, Problem> {
    let mut query = Query::of(request);
    let wait = query.number("waitSeconds", 0, WAIT_SECONDS_MAX).unwrap_or(0);
    query.finish()?;
    Ok(Duration::from_secs(wait))
}

/// Waits for something to end while the client is connected and has access; returns the newest state. `read` returns
/// `None` if it has ended and was removed.
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
        Waited::TooLate(_) | Waited::Gone => Err(Code::ClientGone.into()),
    }
}

pub struct Read<T> {
    pub state: T,
    pub etag: String,
}

/// Reads immediately, unless the client wants to wait. Then it reads once the state differs from the one that the
/// client names, or from the current one if the client names none.
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
        // Nobody received the state, so a lock granted in the meantime does not count as seen.
        Waited::TooLate(_) | Waited::Gone => Err(Code::ClientGone.into()),
    }
}

/// The response for `HEAD`: no body is rendered, so the length is unknown.
pub fn bare(response: Response) -> Response {
    response.streaming(stream::empty::<Result<Bytes, Problem>>())
}

/// Sets a separate limit on how long the client may leave its response unread, until dropped.
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

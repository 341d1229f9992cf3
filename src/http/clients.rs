//! Clients that wait, for their turn or for a change: as long as they are there, and no longer.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use actix_web::HttpRequest;
use tokio::sync::watch;
use tokio::time::Instant;

use super::answer;
use super::codes::Code;
use super::connections::Connection;
use super::problem::Problem;
use crate::actors::{Environments, Watch};

/// The longest that a request is held open.
pub const WAIT_SECONDS_MAX: u64 = 300;
/// Somebody who waits for a queued session to change asks about it all the while.
const ASK_EVERY: Duration = Duration::from_secs(20);

/// Whether a client was still there when its answer was.
pub enum Waited<T> {
    There(T),
    /// It went before there was an answer; what was awaited has been dropped.
    Gone,
    /// It had gone by the time there was an answer.
    TooLate(T),
}

/// Awaits an answer for a client, and gives up when the client hangs up. The web server polls a request's handler
/// whenever anything happens on its connection, the end of it included: each time, we look.
/// What is answered at once is not given up (`waits` is false), only found to be too late.
pub async fn while_connected<F: Future>(request: &HttpRequest, waits: bool, answer: F) -> Waited<F::Output> {
    let connection = request.conn_data::<Arc<Connection>>().cloned();
    let is_gone = || connection.as_ref().is_some_and(|connection| connection.socket.is_gone());
    let is_known_gone = || connection.as_ref().is_some_and(|connection| connection.socket.is_known_gone());
    let mut answer = pin!(answer);
    poll_fn(|context| match answer.as_mut().poll(context) {
        Poll::Ready(answer) if is_gone() => Poll::Ready(Waited::TooLate(answer)),
        Poll::Ready(answer) => Poll::Ready(Waited::There(answer)),
        // From the first time on: the end of the connection may have come with the request, and is not told twice.
        Poll::Pending if waits && is_known_gone() => Poll::Ready(Waited::Gone),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// What is answered to a client that is not there any more: somebody has to be told something.
pub fn gone() -> Problem {
    Problem::new(Code::ClientGone, Code::ClientGone.meaning())
}

/// What tells of every change since it was made.
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
        // Whoever tells of changes lives as long as the server.
        watch::Receiver::changed(self).await.ok();
    }
}

/// Something that is read, and its `ETag`.
pub struct Read<T> {
    pub state: T,
    pub etag: String,
}

/// Reads at once; but if the client has that state already and wants to wait for another, when there is one.
pub async fn read_when_changed<T, W: Changes>(
    request: &HttpRequest,
    environments: &Environments,
    wait: Duration,
    watch: impl FnOnce() -> W,
    read: impl Fn() -> Result<Read<T>, Problem>,
) -> Result<Read<T>, Problem> {
    if wait.is_zero() || !answer::is_known(request.headers(), &read()?.etag) {
        return read();
    }
    let mut watch = watch();
    let deadline = Instant::now() + wait;
    let changed = async {
        loop {
            let now = read()?;
            if !answer::is_known(request.headers(), &now.etag) {
                return Ok(now);
            }
            let asked = Instant::now();
            tokio::select! {
                () = watch.changed() => {}
                () = tokio::time::sleep_until(deadline.min(asked + ASK_EVERY)) => {}
                () = environments.closed() => return read(),
            }
            if Instant::now() >= deadline {
                return read();
            }
        }
    };
    match while_connected(request, true, changed).await {
        Waited::There(read) => read,
        // Nobody has heard of it: a lock that was granted meanwhile does not count as told.
        Waited::TooLate(_) | Waited::Gone => Err(gone()),
    }
}

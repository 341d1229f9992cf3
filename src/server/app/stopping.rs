//! The signals of a server, and what it finishes at its end.

use std::time::Duration;

use nix::sys::signal::{SigSet, Signal::SIGHUP};
use tokio::signal::unix::{Signal, SignalKind, signal as handle};

use crate::http::RunningServer;
use delivery::runner::Runner;

/// Finishes, unless a second signal comes. Returns whether all processes of steps have ended, as `finish` does.
pub async fn stop(finish: impl Future<Output = bool>, runner: &Runner, signals: &mut Signals) -> bool {
    tracing::info!("stopping: answering the requests in flight; a second signal stops at once");
    tokio::select! {
        gone = finish => gone,
        () = signals.next() => {
            tracing::warn!("stopped at once by a second signal");
            runner.shut_down(Duration::ZERO).await
        }
    }
}

/// Answers the requests in flight, for up to `patience`.
pub async fn drain(running: RunningServer, patience: Duration) {
    let left = running.drain(patience).await;
    if left > 0 {
        tracing::warn!(left, "stopped before all requests were answered; raise http.drain_seconds to wait longer");
    }
}

/// Ctrl-C and SIGTERM.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: handle(SignalKind::terminate())?, interrupt: handle(SignalKind::interrupt())? })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Keeps SIGHUP pending from now on, also while the program executes itself: until there is a handler it would end the
/// process. To be called before there is a second thread.
pub fn hold_hangups() -> std::io::Result<()> {
    Ok(SigSet::from(SIGHUP).thread_block()?)
}

/// SIGHUP: the server reads its files again. It never ends the server, also not one that starts or stops.
pub struct Hangups(Signal);

impl Hangups {
    pub fn new() -> std::io::Result<Self> {
        let hangups = handle(SignalKind::hangup())?;
        SigSet::from(SIGHUP).thread_unblock()?;
        Ok(Self(hangups))
    }

    /// Several that come while nobody waits are one.
    pub async fn next(&mut self) {
        self.0.recv().await;
    }
}

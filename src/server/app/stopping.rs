//! The end of a server: its signals, and what it finishes.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::http::RunningServer;
use crate::runner::Runner;

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
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

//! The server's end of a supervisor's standard input. When it is closed, the supervisor kills the step.

use futures_util::FutureExt;
use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;

use super::protocol::{self, Request};
use super::step_lease::Moment;

pub(super) struct Lifeline {
    pipe: Option<ChildStdin>,
}

impl Lifeline {
    pub fn new(pipe: Option<ChildStdin>) -> Self {
        Self { pipe }
    }

    pub fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    pub fn close(&mut self) {
        self.pipe = None;
    }

    /// Waits while the pipe is full.
    pub async fn send(&mut self, message: &impl Serialize) {
        if let (Some(pipe), Ok(message)) = (&mut self.pipe, protocol::encode(message)) {
            // Fails only if the supervisor is dead, which its reader notices.
            pipe.write_all(&message).await.ok();
        }
    }

    /// Sends the moment at which the server owned the environment, or nothing if the pipe is full: a supervisor that is
    /// stopped reads nothing, and the server must not wait for it.
    pub fn beat(&mut self, owned_at: Moment) {
        if let (Some(pipe), Ok(message)) = (&mut self.pipe, protocol::encode(&Request::Beat(owned_at))) {
            // So short a message is written whole or not at all.
            _ = pipe.write(&message).now_or_never();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::Stdio;

    use rustix::io::ioctl_fionread;
    use rustix::pipe::fcntl_getpipe_size;
    use tokio::process::Command;
    use tokio::task::unconstrained;

    use super::*;

    /// More than a pipe holds.
    const MANY: usize = 20_000;

    #[tokio::test]
    async fn beats_that_nobody_reads_neither_block_nor_fail() {
        // It never reads its standard input.
        let mut reader = Command::new("sleep").arg("1000").stdin(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lifeline = Lifeline::new(reader.stdin.take());
        lifeline.send(&"an order").await;
        let mut fill = async || {
            for _ in 0..MANY {
                lifeline.beat(Moment::now());
            }
            let pipe = lifeline.pipe.as_ref().unwrap();
            (ioctl_fionread(pipe).unwrap(), fcntl_getpipe_size(pipe).unwrap() as u64)
        };
        // Otherwise the runtime makes a task that writes so much pause.
        let (unread, capacity) = unconstrained(fill()).await;
        assert!(unread > capacity / 2, "{unread} bytes of {capacity} are used");
        assert_eq!(unconstrained(fill()).await, (unread, capacity));
        reader.kill().await.unwrap();
        // Nobody has the other end any more.
        lifeline.beat(Moment::now());
        lifeline.send(&Request::Terminate).await;
        assert!(lifeline.is_open());
    }
}

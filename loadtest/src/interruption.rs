//! Handles the signals that request an early end: Ctrl-C, and those that a CI system sends on a timeout. Once an
//! [`Interruption`] exists, none of them ends this process without its clean-up.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

pub struct Interruption([Signal; 3]);

impl Interruption {
    pub fn new() -> io::Result<Self> {
        Ok(Self([signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?]))
    }

    pub async fn comes(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

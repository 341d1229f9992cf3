//! Ports for servers that tests start.

#![allow(clippy::unwrap_used)]

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that the kernel gives to outgoing connections and to whoever asks for any port: a server that is killed and
/// started again finds its own still free.
const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

/// A port that nobody listens on, and that is not given twice by this process. Several processes begin at different ones.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % u32::from(COUNT)).unwrap();
    loop {
        let offset = u32::from(start) + u32::from(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + u16::try_from(offset % u32::from(COUNT)).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

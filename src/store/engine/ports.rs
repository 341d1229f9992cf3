//! Ports for servers started by tests.

#![allow(clippy::unwrap_used)]

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that the kernel assigns to outgoing connections and to port-0 listeners: a server that is killed and
/// restarted finds its port still free.
const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

/// A port without a listener, returned only once per process. Processes start at different ports.
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

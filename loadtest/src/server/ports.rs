//! Owns the ports of servers that are down now and then. They are not taken from those that the system gives to outgoing
//! connections: one of these could have the port of a server that is to start again, and even reach itself there.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below Linux's `ip_local_port_range`.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;
/// More than one of them uses. Neighbours in time have neighbouring process ids.
const PORTS_EACH: u32 = 101;

/// On loopback.
pub fn free_address() -> std::io::Result<SocketAddr> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Two load tests at a time begin far from each other.
    let start = (std::process::id().wrapping_mul(PORTS_EACH) % u32::from(COUNT)) as u16;
    let mut last = Err(std::io::ErrorKind::AddrInUse.into());
    for _ in 0..COUNT {
        let port = FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT;
        last = TcpListener::bind(("127.0.0.1", port)).and_then(|listener| listener.local_addr());
        if last.is_ok() {
            break;
        }
    }
    last
}

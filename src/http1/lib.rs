//! The server side of HTTP/1.1. `README.md` says why it exists.
//!
//! [`serve`] is the loop of one connection: it reads a request, passes it to the handler, and writes the answer. The
//! body arrives as [`Incoming`], the answer is a [`Reply`]. [`Connections`] watches all connections: it limits their
//! number, and cuts off those whose clients stall. A handler asks [`Socket::is_gone`] whether its client is still
//! there.
//!
//! Each of these files uses only those before it:
//!
//! - `spare_buffer`, `json`: a buffer for the answers of a thread, and JSON written into it
//! - `head`, `incoming`: what a client sends
//! - `socket`, `connection`: the state of a connection; `transport`: its bytes, plain or encrypted; `connections`
//! - `request`, `response`: a handler's input and output; `reply`: the answer with the server's common headers
//! - `serve`

mod connection;
mod connections;
mod head;
mod incoming;
pub mod json;
mod reply;
mod request;
mod response;
mod serve;
mod socket;
pub mod spare_buffer;
#[cfg(test)]
mod tests;
mod transport;

pub use connection::{ActiveRequest, Connection, ConnectionTimeouts};
pub use connections::{Connections, CutOffCounters, Shut};
pub use head::{Headers, ascii};
pub use incoming::{CutShort, Incoming};
pub use reply::{Common, Reply};
pub use request::{Path, Request, SEGMENTS_MAX, Segments};
pub use response::{Body, Response};
pub use serve::{Rules, serve};
pub use socket::Socket;
pub use transport::{Encrypted, Failed, Failures, HandshakeCounters, HandshakeLimit, Handshakes, Plain, Transport};

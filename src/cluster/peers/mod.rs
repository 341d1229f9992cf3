//! Requests from one node of a cluster to another. A node forwards a request to the owner of its shard, and names the
//! client. The owner trusts that, since only nodes have the signing key, and accepts each request once.
//!
//! - `via`: the header that names the forwarding node, with a signature, and which signed requests are new; pure
//! - `gate`: admits or refuses requests that another node has forwarded
//! - `client`: forwards requests, over connections that leave URLs unchanged

mod client;
mod gate;
mod via;

pub use client::{Forward, Forwarded, NotForwarded, PeerClient, uri};
pub use gate::{REFUSED, ViaError};
pub use via::{BodyHash, HeadersHash, VIA, Via, ViaKey};

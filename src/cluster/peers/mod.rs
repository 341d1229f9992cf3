//! Requests from one node of a cluster to another. A node forwards a request to the owner of its shard, and names the
//! client; the owner trusts it, since only nodes have the signing key, and accepts each request once.
//!
//! - `via`: the header that names the forwarding node, with its signature, and which signed requests are new, pure
//! - `gate`: admits or refuses requests that another node has forwarded
//! - `client`: forwards a request, over connections that leave URLs unchanged

mod client;
mod gate;
mod via;

pub use client::{Forward, Forwarded, NotForwarded, PeerClient, uri};
pub use gate::{REFUSED, ViaError};
pub use via::{BodyHash, HeadersHash, VIA, Via, ViaKey};

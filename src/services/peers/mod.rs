//! Requests from one node of a cluster to another. A node passes a request on to the owner of its shard, and says for whom;
//! the owner believes it, since only nodes have the key that signs it.
//!
//! `via`: the header that says so, pure; `client`: sends a request on.

mod client;
mod via;

pub use client::{Forward, Forwarded, NotForwarded, PeerClient};
pub use via::{VIA, Via, ViaKey};

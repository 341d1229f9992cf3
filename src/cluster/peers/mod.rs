//! Requests from one node of a cluster to another. A node passes a request on to the owner of its shard, and says for whom;
//! the owner believes it, since only nodes have the key that signs it, and takes each request once.
//!
//! - `via`: the header that says who passed a request on, with its signature, and which signed requests are new, pure
//! - `gate`: what a node says to a request that another one has passed on
//! - `client`: sends a request on, over connections that leave URLs as they are

mod client;
mod gate;
mod via;

pub use client::{Forward, Forwarded, NotForwarded, PeerClient, uri};
pub use gate::{REFUSED, Refusal};
pub use via::{BodyHash, HeadersHash, VIA, Via, ViaKey};

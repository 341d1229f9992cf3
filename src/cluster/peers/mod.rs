//! Requests from one node of a cluster to another. A node passes a request on to the owner of its shard, and says for whom;
//! the owner believes it, since only nodes have the key that signs it, and takes each request once.
//!
//! - `freshness`: which signed requests are new, pure
//! - `via`: the header that says who passed a request on, with its signature, pure
//! - `gate`: what a node says to a request that another one has passed on
//! - `connector`: connections to other nodes, and URLs that stay as they are
//! - `client`: sends a request on

mod client;
mod connector;
mod freshness;
mod gate;
mod via;

pub use client::{Forward, Forwarded, NotForwarded, PeerClient};
pub use connector::uri;
pub use gate::{REFUSED, Refusal};
pub use via::{BodyHash, HeadersHash, VIA, Via, ViaKey};

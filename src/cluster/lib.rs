//! Several machines: which node owns which shard of the engine, and since when, by which clock.
//!
//! Each line uses only those above it:
//!
//! - `placement`: the shard of an organization, the node that should own it, and when a shard is handed over; pure
//! - `sightings`: the shards and nodes that a node has seen, and when it may take a shard; pure
//! - `status`: the cluster as its operator sees it; pure
//! - `ownership`: the loop that writes the node's record, watches the others and takes shards

mod ownership;
pub mod peers;
mod placement;
mod sightings;
#[cfg(test)]
mod simulation;
mod status;
#[cfg(test)]
mod tests;

pub use ownership::{SeenNode, ShardOwnership, ShardOwnershipOptions, TakenShard, View};
pub use placement::{Balance, best, shard_of};
pub use status::{ClusterStatus, NodeStatus, ShardOwner, ShardStatus, Snapshot};

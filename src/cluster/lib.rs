//! Several machines: who owns which shard of the engine, and since when, by whose clock.
//!
//! Each line may use those above it, and none below:
//!
//! - `placement`: the shard of an organization, the node that should own it, and when it is handed over to that node,
//!   pure
//! - `sightings`: the shards and nodes that a node has seen, and when it may take a shard, pure
//! - `status`: the cluster as its operator sees it, pure
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

//! Several machines: who owns which shard of the engine, and since when by whose clock.
//!
//! Each line may use those above it, and none below:
//!
//! - `placement`: which shard an organization belongs to, and which node should own it, pure
//! - `balance`: when a shard is handed over to a node that should rather own it, pure
//! - `sightings`: the shards and nodes that a node has seen, and when it may take a shard, pure
//! - `status`: the cluster as its operator sees it, pure
//! - `steward`: the loop that writes the node's record, watches the others and takes shards

mod balance;
pub mod peers;
mod placement;
mod sightings;
#[cfg(test)]
mod simulation;
mod status;
mod steward;
#[cfg(test)]
mod tests;

pub use balance::{Balance, best};
pub use placement::shard_of;
pub use status::{ClusterStatus, NodeStatus, ShardOwner, ShardStatus, Snapshot};
pub use steward::{SeenNode, Steward, StewardOptions, TakenShard, View};

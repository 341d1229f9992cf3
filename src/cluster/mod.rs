//! Several machines: who owns which shard of the engine, and since when by whose clock.
//!
//! Each line may use those above it, and none below:
//!
//! - `placement`: which shard an organization belongs to, and which node should own it, pure
//! - `sightings`: what a node has seen of shards and of other nodes, and when it may take a shard, pure
//! - `steward`: the loop that writes the node's record, watches the others and takes shards

mod placement;
mod sightings;
#[cfg(test)]
mod simulation;
mod steward;
#[cfg(test)]
mod tests;

pub use placement::{rank, shard_of};
pub use steward::{SeenNode, Steward, StewardOptions, TakenShard, View};

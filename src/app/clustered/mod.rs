//! A node of a cluster: it takes shards of the engine, opens a realm on each, and gives them up when it stops.
//!
//! Each line may use those above it, and none below:
//!
//! - `engine`: the engine of the settings
//! - `logs`: its logs, and those of other nodes
//! - `status`: the state of the cluster for its operator
//! - `shard_map`: the realms here, and the owners of the others
//! - `versions`: when old versions are forgotten; `owned`: the shards of this node
//! - `serving`: from the start of a node to its end

mod engine;
mod logs;
mod owned;
mod serving;
mod shard_map;
mod status;
mod versions;

pub use serving::serve;
pub use status::status;

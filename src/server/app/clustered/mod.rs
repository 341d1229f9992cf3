//! A node of a cluster: it takes shards of the engine, opens a realm on each, and gives them up when it stops.
//!
//! Each line may use those above it, and none below:
//!
//! - `engine`: the engine of the settings, and the state of the cluster in it
//! - `operations`: what operators do beside the nodes; `rotation`: a new master key
//! - `shards`: the realms here, the owners of the other shards, and what this node owns
//! - `serve`: from the start of a node to its end, with its logs and those of other nodes

mod engine;
mod operations;
mod rotation;
mod serve;
mod shards;

pub use engine::status;
pub use operations::{ClusterError, audit, export, give_up, import};
pub use rotation::rotate;
pub use serve::serve;

//! A node of a cluster: takes shards of the engine, opens a realm on each, and gives them up when it stops.
//!
//! Each line may use those above it:
//!
//! - `engine`: the engine of the settings, and the state of the cluster in it
//! - `operations`: the operator's commands beside the nodes; `rotation`: a new master key
//! - `shards`: the local realms, the owners of other shards, and the shards of this node
//! - `serve`: a node from start to end, with its logs and those of other nodes

mod engine;
mod operations;
mod rotation;
mod serve;
mod shards;

pub use engine::status;
pub use operations::{ClusterError, audit, export, give_up, import};
pub use rotation::rotate;
pub use serve::serve;

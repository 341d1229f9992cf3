//! A node of a cluster: it takes shards of the engine, opens a realm on each, and gives them up when it stops.
//!
//! Each line may use those above it, and none below:
//!
//! - `engine`: the engine of the settings
//! - `logs`: its logs, and those of other nodes
//! - `status`: the state of the cluster for its operator; `running`: whether a node of it runs
//! - `operating`: what operators do beside the nodes; of that `moved` (import and export), `verified` (events), `rotation` (the
//!   rule of a new master key, pure), `rotated` (the master key)
//! - `shard_map`: the realms here, and the owners of the others
//! - `versions`: when old versions are forgotten; `owned`: the shards of this node
//! - `serving`: from the start of a node to its end

mod engine;
mod logs;
mod moved;
mod operating;
mod owned;
mod rotated;
mod rotation;
mod running;
mod serving;
mod shard_map;
mod status;
mod verified;
mod versions;

pub use moved::{export, give_up, import};
pub use operating::ClusterError;
pub use rotated::rotate;
pub use serving::serve;
pub use status::status;
pub use verified::audit;

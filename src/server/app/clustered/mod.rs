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
pub use operations::{audit, audit_store, export, give_up, import};
pub use rotation::rotate;

use super::error::ServeError;
use super::signals::{Reloading, Signals};
use crate::config::{Cluster, Settings};

/// Serves until asked to stop.
pub async fn serve(
    settings: &Settings,
    cluster: &Cluster,
    step_umask: u32,
    signals: Signals,
    reloading: Reloading,
) -> Result<(), ServeError> {
    engine::with_engine!(cluster, |engine| serve::serve(engine, settings, cluster, step_umask, signals, reloading)
        .await)
}

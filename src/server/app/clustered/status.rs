//! The state of a cluster, as its engine shows it.

use std::time::Duration;

use super::engine;
use crate::app::error::ServeError;
use crate::config::{Cluster, Engine as EngineSettings};
use cluster::{ClusterStatus, Snapshot};
use store::engine::{Engine, EngineError, Timing};

/// How late a living node may write.
const MARGIN: Duration = Duration::from_millis(500);

/// Looks twice, for as long as living nodes need to show themselves.
pub fn status(cluster: &Cluster) -> Result<ClusterStatus, ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &cluster.engine {
        EngineSettings::Etcd(etcd) => {
            let engine = engine::etcd(etcd, cluster.quota_bytes)?;
            runtime.block_on(look_twice(&engine))
        }
        EngineSettings::Postgres(url) => {
            let engine = engine::postgres(url, cluster.quota_bytes)?;
            runtime.block_on(look_twice(&engine))
        }
    }
    .map_err(engine::refused)
}

pub async fn look_twice(engine: &impl Engine) -> Result<ClusterStatus, EngineError> {
    let before = look(engine).await?;
    tokio::time::sleep(Timing::default().announce_every + MARGIN).await;
    let after = look(engine).await?;
    let cluster = engine.cluster().await?;
    Ok(ClusterStatus::new(cluster, &before, after, engine.room().await?))
}

async fn look(engine: &impl Engine) -> Result<Snapshot, EngineError> {
    let (shards, nodes) = tokio::try_join!(engine.shards(), engine.nodes())?;
    Ok(Snapshot { shards, nodes })
}

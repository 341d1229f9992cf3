//! The operator's commands for a cluster, which run beside its nodes.

use std::path::PathBuf;
use std::sync::Arc;

use super::engine;
use crate::app::error::ServeError;
use crate::config::{Cluster, Engine as EngineSettings};
use crate::moving::{ExportError, ImportError, NotReady, answered};
use accounts::secrets::{self, MasterKey};
use store::engine::{Engine, EngineError};

/// Why it was not done: one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("{0} is no data directory of a server; name it with --data-dir")]
    NoData(PathBuf),
    #[error(transparent)]
    Open(#[from] store::OpenError),
    #[error(
        "the secrets of {0} were sealed under another master key than LOCKKEEPER_MASTER_KEY; set that to the key of this data \
         directory: the content of its file master.key, or the LOCKKEEPER_MASTER_KEY of its server"
    )]
    ForeignKey(PathBuf),
    #[error(transparent)]
    Secrets(#[from] secrets::OpenError),
    #[error(transparent)]
    Store(#[from] store::StoreError),
    #[error(transparent)]
    NotReady(#[from] NotReady),
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error(transparent)]
    Export(#[from] ExportError),
    #[error("{0} runs: stop all nodes first, with SIGTERM")]
    NodeRuns(String),
    #[error(
        "the rotation that was interrupted was begun with other keys; run it again with the same two keys, or with the two \
         exchanged to go back to the old one"
    )]
    OtherKeys,
    #[error(
        "another rotation has taken the place of this one, which has stopped; wait for the other one, and look at the result with \
         `lockkeeper cluster status`"
    )]
    Replaced,
    #[error(
        "cluster: {0}; nodes do not start until this rotation is run again with the same two keys, or with the two exchanged to \
         go back to the old one"
    )]
    Interrupted(EngineError),
    #[error(
        "{0}; an earlier rotation has left some secrets under each of the two keys, so no node starts: restore the cluster from \
         its last export, or the engine from its backup"
    )]
    Stuck(secrets::OpenError),
    #[error("--fencing-margin 0 is for a cluster that is stopped and not started again, and {0} runs")]
    MarginWhileRunning(String),
}

impl From<EngineError> for ClusterError {
    fn from(error: EngineError) -> Self {
        Self::Serve(ServeError::Engine(error))
    }
}

/// Something to be done with an engine, whichever it is.
pub trait Operation {
    type Outcome;

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<Self::Outcome, ClusterError>;
}

/// With the engine of the settings, if that is set up for us.
pub fn operate<O: Operation>(cluster: &Cluster, operation: O) -> Result<O::Outcome, ClusterError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::Io)?;
    match &cluster.engine {
        EngineSettings::Etcd(etcd) => {
            let engine = engine::etcd(etcd, cluster.quota_bytes)?;
            runtime.block_on(probed(engine, operation))
        }
        EngineSettings::Postgres(url) => {
            let engine = engine::postgres(url, cluster.quota_bytes)?;
            runtime.block_on(probed(engine, operation))
        }
    }
}

async fn probed<E: Engine, O: Operation>(engine: E, operation: O) -> Result<O::Outcome, ClusterError> {
    answered(async || engine.probe().await).await?;
    operation.run(Arc::new(engine)).await
}

/// That of the settings, which a cluster must have.
pub fn master_key(settings: &crate::config::Settings) -> Result<MasterKey, ServeError> {
    let missing = || ServeError::Cluster("LOCKKEEPER_MASTER_KEY is not set".to_owned());
    settings.master_key.clone().ok_or_else(missing)
}

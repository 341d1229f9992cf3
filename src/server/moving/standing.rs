//! Whether a cluster is whole, so that it can be served or read.

use super::answered::answered;
use store::FORMAT_NUMBER;
use store::engine::{ClusterRecord, ClusterState, Engine, EngineError};

/// Why a cluster cannot be read: one sentence that says what to do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotReady {
    #[error("cluster: {0}; run the command again when the engine answers and accepts it")]
    Engine(#[from] EngineError),
    #[error(
        "there is no cluster in this engine, or its keys have another prefix: check cluster.etcd_prefix and the address of the \
         engine, or start a node or import a data directory first"
    )]
    Missing,
    #[error(
        "the cluster is being filled by `lockkeeper cluster import` and is not whole; wait until that has finished; if it was \
         interrupted, run it again, or give it up with `lockkeeper cluster import --give-up`"
    )]
    Filling,
    #[error(
        "the master key of the cluster is being replaced by `lockkeeper secrets rotate-key`; wait until that has finished; if \
         it was interrupted, run it again with the same two keys, or with the two exchanged to go back to the old one"
    )]
    Rotating,
    #[error(
        "the cluster's data has format {found}, and this version reads format {FORMAT_NUMBER}: a newer version of lockkeeper \
         has written it; use that version"
    )]
    Format { found: u32 },
    #[error(
        "LOCKKEEPER_MASTER_KEY is not the key of this cluster, which it was first started with or which `lockkeeper secrets \
         rotate-key` has given it; all nodes need the same one, since each must be able to open the secrets of all organizations"
    )]
    Key,
}

/// The record of a cluster that can be served with the master key of this hash.
pub async fn ready(engine: &impl Engine, key: u64) -> Result<ClusterRecord, NotReady> {
    let record = answered(async || engine.cluster().await).await?.ok_or(NotReady::Missing)?;
    check(&record, key)?;
    Ok(record)
}

pub fn check(record: &ClusterRecord, key: u64) -> Result<(), NotReady> {
    if record.format != FORMAT_NUMBER {
        return Err(NotReady::Format { found: record.format });
    }
    match record.state {
        ClusterState::Filling { .. } => Err(NotReady::Filling),
        ClusterState::Rotating { .. } => Err(NotReady::Rotating),
        ClusterState::Ready | ClusterState::Filled { .. } if record.key != key => Err(NotReady::Key),
        ClusterState::Ready | ClusterState::Filled { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    #[test]
    fn only_a_whole_cluster_of_this_key_and_format_is_served() {
        let ready =
            ClusterRecord { format: FORMAT_NUMBER, shards: NonZeroU16::MIN, key: 7, state: ClusterState::Ready };
        assert!(check(&ready, 7).is_ok());
        assert!(matches!(check(&ready, 8), Err(NotReady::Key)));
        let filled = ClusterRecord { state: ClusterState::Filled { run: 1 }, ..ready };
        assert!(check(&filled, 7).is_ok() && matches!(check(&filled, 8), Err(NotReady::Key)));
        let newer = ClusterRecord { format: FORMAT_NUMBER + 1, ..ready };
        assert!(matches!(check(&newer, 7), Err(NotReady::Format { .. })));
        let filling = ClusterRecord { state: ClusterState::Filling { run: 1 }, ..ready };
        assert!(matches!(check(&filling, 7), Err(NotReady::Filling)));
        let rotating = ClusterRecord { state: ClusterState::Rotating { from: 1, run: None }, ..ready };
        assert!(matches!(check(&rotating, 7), Err(NotReady::Rotating)));
    }
}

//! The engine of the settings, and the state of the cluster in it: for the operator, and to find running nodes.

use std::path::Path;
use std::time::Duration;

use zeroize::Zeroizing;

use crate::app::error::ServeError;
use crate::config::{Cluster, EngineCertificates, EtcdEngine, PostgresEngine};
use cluster::{ClusterStatus, NodeStatus, ShardOwner, ShardStatus, Snapshot};
use store::engine::etcd::{Credentials, Etcd, EtcdSettings};
use store::engine::postgres::{Postgres, PostgresSettings};
use store::engine::{Engine, EngineError, EngineTls, Timing};

/// Opens the engine of the settings for an expression, whose type may depend on it.
macro_rules! with_engine {
    ($cluster:expr, |$engine:ident| $use:expr) => {
        match &$cluster.engine {
            crate::config::Engine::Etcd(etcd) => {
                let $engine = crate::app::clustered::engine::open_etcd(etcd, $cluster.quota_bytes)?;
                $use
            }
            crate::config::Engine::Postgres(postgres) => {
                let $engine = crate::app::clustered::engine::open_postgres(postgres, $cluster.quota_bytes)?;
                $use
            }
        }
    };
}
pub(super) use with_engine;

pub fn open_etcd(settings: &EtcdEngine, quota_bytes: u64) -> Result<Etcd, ServeError> {
    let credentials = settings.credentials.as_ref().map(|(user, password)| Credentials {
        user: user.clone(),
        password: Zeroizing::new(password.reveal().to_owned()),
    });
    let settings = EtcdSettings {
        members: settings.members.clone(),
        prefix: format!("{}/", settings.prefix.trim_end_matches('/')),
        tls: tls(&settings.certificates)?,
        credentials,
        quota_bytes,
    };
    Ok(Etcd::new(settings)?)
}

pub fn open_postgres(settings: &PostgresEngine, quota_bytes: u64) -> Result<Postgres, ServeError> {
    let (url, tls) = (settings.url.reveal().to_owned(), tls(&settings.certificates)?);
    Ok(Postgres::new(&PostgresSettings { url, tls, quota_bytes })?)
}

fn tls(files: &EngineCertificates) -> Result<Option<EngineTls>, ServeError> {
    let Some(authority) = &files.authority else { return Ok(None) };
    let identity = match &files.identity {
        Some((certificate, key)) => Some((read(certificate)?, Zeroizing::new(read(key)?))),
        None => None,
    };
    Ok(Some(EngineTls { authority: read(authority)?, identity }))
}

pub fn read(path: &Path) -> Result<Vec<u8>, ServeError> {
    std::fs::read(path).map_err(|source| ServeError::EngineFile { path: path.to_owned(), source })
}

/// How late a living node may write.
const MARGIN: Duration = Duration::from_millis(500);

/// Reads the state twice, at an interval in which living nodes announce themselves.
pub fn status(cluster: &Cluster) -> Result<ClusterStatus, ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(with_engine!(cluster, |engine| runtime.block_on(look_twice(&engine)))?)
}

async fn look_twice(engine: &impl Engine) -> Result<ClusterStatus, EngineError> {
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

/// A node that has written between two reads, if there is one. Commands that own shards do not announce themselves, so
/// they do not count.
pub async fn running_node(engine: &impl Engine) -> Result<Option<String>, EngineError> {
    let status = look_twice(engine).await?;
    let is_active = |node: &NodeStatus| {
        let owns = |shard: &ShardStatus| shard.owner == ShardOwner::Active(node.node.clone());
        node.lives || status.shards.iter().any(owns)
    };
    Ok(status.nodes.iter().find(|node| is_active(node)).map(|node| format!("node {}", node.node)))
}

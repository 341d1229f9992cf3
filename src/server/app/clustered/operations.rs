//! The operator's commands for a cluster, which run beside its nodes: import, export, and verifying the events of each
//! shard at one moment.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::engine;
use super::engine::running_node;
use crate::app::error::ServeError;
use crate::app::one_machine::open_store;
use crate::config::{Cluster, Engine as EngineSettings, Settings};
use crate::moving::{self, ExportError, Exported, ImportError, NotReady, Target, Totals, answered};
use accounts::secrets::{self, FoundAuditKey, MasterKey};
use ambient::entropy;
use domain::Identifier;
use events::{AuditReport, Events, Expectation};
use store::engine::{Engine, EngineError, Owner, Room};
use store::{Inspection, LoggedStore, Snapshot, Store};

/// Why the command failed: one sentence that says what to do.
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

/// A command that works with either engine.
pub trait Operation {
    type Outcome;

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<Self::Outcome, ClusterError>;
}

/// Runs an operation on the engine of the settings.
pub fn operate<O: Operation>(cluster: &Cluster, operation: O) -> Result<O::Outcome, ClusterError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::Io)?;
    match &cluster.engine {
        EngineSettings::Etcd(etcd) => {
            let engine = engine::open_etcd(etcd, cluster.quota_bytes)?;
            runtime.block_on(probed(engine, operation))
        }
        EngineSettings::Postgres(url) => {
            let engine = engine::open_postgres(url, cluster.quota_bytes)?;
            runtime.block_on(probed(engine, operation))
        }
    }
}

async fn probed<E: Engine, O: Operation>(engine: E, operation: O) -> Result<O::Outcome, ClusterError> {
    answered(async || engine.probe().await).await?;
    operation.run(Arc::new(engine)).await
}

/// The master key of the settings, which a cluster must have.
fn master_key(settings: &Settings) -> Result<MasterKey, ServeError> {
    let missing = || ServeError::Cluster("LOCKKEEPER_MASTER_KEY is not set".to_owned());
    settings.master_key.clone().ok_or_else(missing)
}

/// The owner's name in the shard records while a process fills a cluster.
const NAME: &str = "import";

/// Called from time to time with the totals so far.
pub type Progress<'a> = &'a mut dyn FnMut(&Totals);

/// Moves the data directory of the settings into their cluster, which must be empty.
pub fn import(settings: &Settings, cluster: &Cluster, progress: Progress<'_>) -> Result<(Totals, Room), ClusterError> {
    let master = master_key(settings)?;
    // The store would create a missing directory, and a typo would look like an empty one.
    if !matches!(store::inspect(&settings.data_dir)?, Inspection::Ours { .. }) {
        return Err(ClusterError::NoData(settings.data_dir.clone()));
    }
    let source = open_store(settings, false)?;
    check_key(&source, settings, &master)?;
    let imported = operate(cluster, Import { cluster, key: master.short_hash(), source: &source, progress });
    source.close();
    imported
}

/// Empties a cluster that an import has begun to fill.
pub fn give_up(cluster: &Cluster) -> Result<Room, ClusterError> {
    operate(cluster, GiveUp)
}

/// Copies the cluster into a new data directory. With a margin of 0, no node may be granting fencing tokens.
pub fn export(
    settings: &Settings,
    cluster: &Cluster,
    (to, margin, options): (&Path, u64, store::Options),
    progress: Progress<'_>,
) -> Result<Exported, ClusterError> {
    let master = master_key(settings)?;
    operate(cluster, Export { master, to, margin, options, progress })
}

/// Checks that the nodes can open everything in the data directory.
fn check_key(source: &LoggedStore, settings: &Settings, master: &MasterKey) -> Result<(), ClusterError> {
    let foreign = || ClusterError::ForeignKey(settings.data_dir.clone());
    match secrets::check_opens(source, &[master]) {
        Err(secrets::OpenError::WrongVariable { .. } | secrets::OpenError::ForeignSeals { .. }) => {
            return Err(foreign());
        }
        checked => checked?,
    }
    match secrets::find_audit_key(source, &settings.data_dir, Some(master.clone()))? {
        FoundAuditKey::Key(_) | FoundAuditKey::NotMade => Ok(()),
        FoundAuditKey::DoesNotOpen | FoundAuditKey::NoMasterKey => Err(foreign()),
    }
}

fn target<'a, E: Engine>(engine: &'a E, cluster: &Cluster, key: u64) -> Target<'a, E> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let owner = Owner { node: NAME.to_owned(), url: String::new(), run: entropy::run() };
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    Target { engine, shards: cluster.shards, key, owner, millis }
}

struct Import<'a> {
    cluster: &'a Cluster,
    key: u64,
    source: &'a dyn Store,
    progress: Progress<'a>,
}

impl Operation for Import<'_> {
    type Outcome = (Totals, Room);

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<(Totals, Room), ClusterError> {
        let target = target(&*engine, self.cluster, self.key);
        let totals = moving::import(&target, self.source, self.progress).await?;
        let room = answered(async || engine.room().await).await?;
        Ok((totals, room))
    }
}

struct GiveUp;

impl Operation for GiveUp {
    type Outcome = Room;

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<Room, ClusterError> {
        moving::give_up(&*engine).await?;
        Ok(answered(async || engine.room().await).await?)
    }
}

struct Export<'a> {
    master: MasterKey,
    to: &'a Path,
    margin: u64,
    options: store::Options,
    progress: Progress<'a>,
}

impl Operation for Export<'_> {
    type Outcome = Exported;

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<Exported, ClusterError> {
        let Export { master, to, margin, options, progress } = self;
        if margin == 0
            && let Some(node) = running_node(&*engine).await?
        {
            return Err(ClusterError::MarginWhileRunning(node));
        }
        Ok(moving::export(&*engine, &master, (to, margin, options), progress).await?)
    }
}

/// Verifies the events of one organization or of all, ordered by name.
pub fn audit(
    settings: &Settings,
    cluster: &Cluster,
    organization: Option<&str>,
    expected: &[Expectation],
) -> Result<Vec<AuditReport>, ClusterError> {
    operate(cluster, Audit { master: master_key(settings)?, organization, expected })
}

struct Audit<'a> {
    master: MasterKey,
    organization: Option<&'a str>,
    expected: &'a [Expectation],
}

impl Operation for Audit<'_> {
    type Outcome = Vec<AuditReport>;

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<Vec<AuditReport>, ClusterError> {
        let cluster = moving::ready(&*engine, self.master.short_hash()).await?;
        let mut reports = Vec::new();
        for number in 0..cluster.shards.get() {
            let copied = answered(async || engine.copy(number).await).await?;
            if let Some((shard, pairs)) = copied {
                reports.extend(self.audit(Arc::new(Snapshot::new(shard, pairs)))?);
            }
        }
        reports.sort_by(|one, other| one.organization.cmp(&other.organization));
        Ok(reports)
    }
}

impl Audit<'_> {
    fn audit(&self, shard: Arc<Snapshot>) -> Result<Vec<AuditReport>, ClusterError> {
        let found = secrets::find_audit_key(&*shard, Path::new(""), Some(self.master.clone()))?;
        let events = Events::new(shard);
        let events = match found {
            FoundAuditKey::Key(key) => events.with_key(key),
            // Without a key, the report says that the seals could not be checked.
            FoundAuditKey::NotMade | FoundAuditKey::NoMasterKey | FoundAuditKey::DoesNotOpen => events,
        };
        let is_wanted = |organization: &Identifier| self.organization.is_none_or(|name| organization.as_str() == name);
        let organizations = events.audited()?.into_iter().filter(is_wanted);
        organizations.map(|organization| Ok(events.audit(&organization, self.expected)?)).collect()
    }
}

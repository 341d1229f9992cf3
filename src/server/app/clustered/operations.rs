//! The operator's commands for a cluster, which run beside its nodes: import, export, and verifying the events of each
//! shard at one moment.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::engine::{running_node, with_engine};
use crate::app::error::ServeError;
use crate::app::one_machine::open_store;
use crate::config::{Cluster, Settings};
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

/// Runs a command on an engine that is set up for us.
pub fn operate<E: Engine, T>(
    engine: E,
    command: impl AsyncFnOnce(Arc<E>) -> Result<T, ClusterError>,
) -> Result<T, ClusterError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::Io)?;
    runtime.block_on(async {
        answered(async || engine.probe().await).await?;
        command(Arc::new(engine)).await
    })
}

/// The master key of the settings, which a cluster must have.
pub fn master_key(settings: &Settings) -> Result<&MasterKey, ServeError> {
    let missing = || ServeError::Cluster("LOCKKEEPER_MASTER_KEY is not set".to_owned());
    settings.master_key.as_ref().ok_or_else(missing)
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
    check_key(&source, settings, master)?;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let owner = Owner { node: NAME.to_owned(), url: String::new(), run: entropy::run() };
    let (shards, key) = (cluster.shards, master.short_hash());
    let imported = with_engine!(cluster, |engine| operate(engine, async |engine| {
        let target = Target { engine: &*engine, shards, key, owner, millis };
        let totals = moving::import(&target, &source, progress).await?;
        Ok((totals, answered(async || engine.room().await).await?))
    }));
    source.close();
    imported
}

/// Empties a cluster that an import has begun to fill.
pub fn give_up(cluster: &Cluster) -> Result<Room, ClusterError> {
    with_engine!(cluster, |engine| operate(engine, async |engine| {
        moving::give_up(&*engine).await?;
        Ok(answered(async || engine.room().await).await?)
    }))
}

/// Copies the cluster into a new data directory. With a margin of 0, no node may be granting fencing tokens.
pub fn export(
    settings: &Settings,
    cluster: &Cluster,
    to: (&Path, u64, store::Options),
    progress: Progress<'_>,
) -> Result<Exported, ClusterError> {
    let master = master_key(settings)?;
    with_engine!(cluster, |engine| operate(engine, async |engine| {
        let (_, margin, _) = to;
        if margin == 0
            && let Some(node) = running_node(&*engine).await?
        {
            return Err(ClusterError::MarginWhileRunning(node));
        }
        Ok(moving::export(&*engine, master, to, progress).await?)
    }))
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

/// Verifies the events of one organization or of all, ordered by name. Each shard is read at one moment.
pub fn audit(
    settings: &Settings,
    cluster: &Cluster,
    organization: Option<&str>,
    expected: &[Expectation],
) -> Result<Vec<AuditReport>, ClusterError> {
    let master = master_key(settings)?;
    with_engine!(cluster, |engine| operate(engine, async |engine| {
        let cluster = moving::ready(&*engine, master.short_hash()).await?;
        let mut reports = Vec::new();
        for number in 0..cluster.shards.get() {
            let Some((shard, pairs)) = answered(async || engine.copy(number).await).await? else { continue };
            let shard = Arc::new(Snapshot::new(shard, pairs));
            let (found, _) = audit_store(shard, (Path::new(""), Some(master)), organization, expected)?;
            reports.extend(found);
        }
        reports.sort_by(|one, other| one.organization.cmp(&other.organization));
        Ok(reports)
    }))
}

/// Verifies the events of one organization of a store, or of all. Without the audit key, the reports say that the seals
/// could not be checked.
pub fn audit_store(
    store: Arc<dyn Store>,
    (data_dir, master): (&Path, Option<&MasterKey>),
    organization: Option<&str>,
    expected: &[Expectation],
) -> Result<(Vec<AuditReport>, FoundAuditKey), secrets::OpenError> {
    let found = secrets::find_audit_key(&*store, data_dir, master.cloned())?;
    let events = match &found {
        FoundAuditKey::Key(key) => Events::new(store).with_key(key.clone()),
        FoundAuditKey::NotMade | FoundAuditKey::NoMasterKey | FoundAuditKey::DoesNotOpen => Events::new(store),
    };
    let is_wanted = |name: &Identifier| organization.is_none_or(|organization| name.as_str() == organization);
    let organizations = events.audited()?.into_iter().filter(is_wanted);
    let reports = organizations.map(|organization| events.audit(&organization, expected)).collect::<Result<_, _>>();
    Ok((reports?, found))
}

//! `lockkeeper cluster import` and `export`.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::operating::{ClusterError, Operation, master_key, operate};
use super::running;
use crate::app::stores::open_store;
use crate::config::{Cluster, Settings};
use crate::moving::{self, Exported, Target, Totals};
use accounts::secrets::{self, FoundAuditKey, MasterKey};
use ambient::entropy;
use store::engine::{Engine, Owner, Room};
use store::{Inspection, LoggedStore, Store};

/// The name of a process that fills a cluster, in the records of its shards.
const NAME: &str = "import";

/// Called now and then with what was moved so far.
pub type Progress<'a> = &'a mut dyn FnMut(&Totals);

/// Moves the data directory of the settings into their cluster, which must be empty.
pub fn import(settings: &Settings, cluster: &Cluster, progress: Progress<'_>) -> Result<(Totals, Room), ClusterError> {
    let master = master_key(settings)?;
    // The store would create it, and a typo would look like an empty one.
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

/// Copies the cluster into a new data directory. Without a margin of fencing tokens nobody may be giving some.
pub fn export(
    settings: &Settings,
    cluster: &Cluster,
    (to, margin, options): (&Path, u64, store::Options),
    progress: Progress<'_>,
) -> Result<Exported, ClusterError> {
    let master = master_key(settings)?;
    operate(cluster, Export { master, to, margin, options, progress })
}

/// Everything in the data directory must open for the nodes.
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
        let room = moving::answered(async || engine.room().await).await?;
        Ok((totals, room))
    }
}

struct GiveUp;

impl Operation for GiveUp {
    type Outcome = Room;

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<Room, ClusterError> {
        moving::give_up(&*engine).await?;
        Ok(moving::answered(async || engine.room().await).await?)
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
            && let Some(node) = running::node(&*engine).await?
        {
            return Err(ClusterError::MarginWhileRunning(node));
        }
        Ok(moving::export(&*engine, &master, (to, margin, options), progress).await?)
    }
}

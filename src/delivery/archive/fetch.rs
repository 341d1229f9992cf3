//! Fetches parts of logs to this node: from the node that wrote them while it is up, otherwise from the store. A log
//! only grows, so each copy is a prefix of the original part, and is continued.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::object::ObjectError;
use super::sources::{PART_BYTES_MAX, Sources, part_target};
use super::store::LogStore;
use super::uploads::UploadControl;
use crate::blocking;
use crate::logs::{LogCopy, LogFile, LogId, Logs};
use cluster::peers::PeerClient;
use domain::{DeploymentId, DroppedLog, Identifier, LogPart};
use shares::{Capacity, Permits};

/// Parts fetched concurrently: each holds a piece in memory.
const FETCHES_MAX: usize = 8;
/// Waiting fetches.
const FETCHES_WAITING_MAX: usize = 256;

/// Returns the URL of another node, by name, if it is up.
pub type NodeUrls = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

pub struct ArchiveOptions {
    /// The name of this node.
    pub node: String,
    pub logs: Logs,
    pub store: Option<LogStore>,
    pub client: PeerClient,
    pub urls: NodeUrls,
    /// `None` without a store.
    pub uploads: Option<UploadControl>,
    /// How many organizations share this node.
    pub organizations: usize,
}

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Archive(Option<Arc<Inner>>);

struct Inner {
    /// The name of this node.
    node: String,
    logs: Logs,
    sources: Sources,
    urls: NodeUrls,
    uploads: Option<UploadControl>,
    fetches: Permits,
    /// The parts being fetched, so that no two requests write the same file.
    under_way: Mutex<HashMap<LogFile, Arc<tokio::sync::Mutex<()>>>>,
}

/// Why a log cannot be read at the moment.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    #[error("{why}, and {node}, which wrote a part of this log, {}; {}", .unreached, help(.why, .node))]
    Node { node: Arc<str>, unreached: String, why: StoreState },
    #[error(
        "the store of logs does not work, and {node}, which wrote a part of this log, no longer has it; it can be read when the \
         store works again"
    )]
    Store { node: Arc<str> },
    #[error("too many logs are being fetched: {0}")]
    Busy(String),
    #[error("this organization has used its space for logs on the node that answers; the oldest are being removed")]
    NoRoom,
    #[error("cannot keep a log that was fetched: {0}")]
    Disk(#[from] io::Error),
}

/// Why a part cannot be read from the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreState {
    #[error("this cluster has no store of logs")]
    None,
    #[error("the store of logs does not have it yet")]
    Without,
    /// The reason is only in the log of the node; organizations do not see it.
    #[error("the store of logs does not work")]
    Failed,
}

fn help(why: &StoreState, node: &str) -> String {
    let back = format!("it can be read when {node} is back");
    match why {
        StoreState::None => format!("{back}. With cluster.logs, logs outlive their node"),
        StoreState::Without => back,
        StoreState::Failed => format!("{back}, or the store"),
    }
}

impl Archive {
    /// Without options, as on one machine, every log is local.
    pub fn new(options: ArchiveOptions) -> Self {
        let ArchiveOptions { node, logs, store, client, urls, uploads, organizations } = options;
        let capacity = |most| Capacity::turns(most).among(organizations);
        let fetches = Permits::new("log_fetches", capacity(FETCHES_MAX), capacity(FETCHES_WAITING_MAX));
        let (sources, under_way) = (Sources::new(store, client), Mutex::default());
        Self(Some(Arc::new(Inner { node, logs, sources, urls, uploads, fetches, under_way })))
    }

    /// Fetches all parts of a log to this node, and lists them. A part that its node has removed is skipped, as on one
    /// machine.
    pub async fn bring(
        &self,
        organization: &Identifier,
        deployment: DeploymentId,
        parts: &[LogPart],
    ) -> Result<LogId, Unavailable> {
        if let Some(inner) = &self.0 {
            for part in parts {
                inner.bring(organization, deployment, part).await?;
            }
        }
        Ok(LogId::of(organization, deployment, parts.iter().map(|part| part.number)))
    }

    /// Removes the log of a deployment from the store. Does nothing without a store.
    pub async fn remove(&self, log: &DroppedLog) -> Result<bool, ObjectError> {
        let Some((inner, store)) = self.0.as_ref().and_then(|inner| Some((inner, inner.sources.store()?))) else {
            return Ok(false);
        };
        for part in log.parts.iter().filter(|part| part.in_store) {
            store.remove(&inner.logs.file(&log.organization, log.deployment, part.number)).await?;
        }
        Ok(true)
    }

    /// Uploads everything that is not in the store yet, within this time and while the store works.
    pub async fn finish_uploads(&self, patience: Duration) {
        let Some(uploads) = self.0.as_ref().and_then(|inner| inner.uploads.as_ref()) else { return };
        tokio::time::timeout(patience, uploads.finish()).await.ok();
        let left = uploads.left();
        if left > 0 {
            tracing::warn!(left, "stopped before all logs were uploaded; they are when this node starts again");
        }
    }
}

impl Inner {
    async fn bring(
        &self,
        organization: &Identifier,
        deployment: DeploymentId,
        part: &LogPart,
    ) -> Result<(), Unavailable> {
        let logs = &self.logs;
        let file = logs.file(organization, deployment, part.number);
        let is_own = *part.node == *self.node;
        if is_own && (logs.has(&file) || !part.in_store || self.sources.store().is_none()) {
            return Ok(());
        }
        let _place =
            self.fetches.acquire(organization).await.map_err(|refused| Unavailable::Busy(refused.to_string()))?;
        let turn = self.under_way.lock().entry(file.clone()).or_default().clone();
        let fetched = {
            let _turn = turn.lock().await;
            self.fetch(organization, &file, part, is_own).await
        };
        drop(turn);
        self.under_way.lock().retain(|_, turn| Arc::strong_count(turn) > 1);
        fetched
    }

    async fn fetch(
        &self,
        organization: &Identifier,
        file: &LogFile,
        part: &LogPart,
        is_own: bool,
    ) -> Result<(), Unavailable> {
        let was_here = self.logs.has(file);
        let (logs, of, whose) = (self.logs.clone(), file.clone(), organization.clone());
        let copy = blocking(move || logs.copy_of(&of, &whose)).await?;
        // Ask the node first: the store may have an older state of the part, from an earlier stage.
        let (copy, at_node) = match (self.urls)(&part.node) {
            _ if is_own => (copy, Ok(false)),
            None => (copy, Err("is not there".to_owned())),
            Some(url) => {
                let target = |from| part_target(organization, file.deployment, part.number, from);
                let (copy, pulled) = pull(copy, |from| self.sources.ask_node((&part.node, &url), target(from))).await?;
                (copy, pulled.map_err(|error| format!("does not answer ({error})")))
            }
        };
        if at_node == Ok(true) {
            return Ok(blocking(|| copy.finish()).await?);
        }
        let why = match self.sources.store().filter(|_| part.in_store) {
            None => StoreState::None,
            Some(store) => match pull(copy, |from| self.sources.ask_store(store, file, from)).await? {
                (copy, Ok(true)) => return Ok(blocking(|| copy.finish()).await?),
                (_, Ok(false)) => StoreState::Without,
                (_, Err(_)) => StoreState::Failed,
            },
        };
        let node = part.node.clone();
        match (at_node, why) {
            // The local copy was complete when it was fetched.
            _ if was_here => Ok(()),
            (Err(unreached), why) => Err(Unavailable::Node { node, unreached, why }),
            (Ok(_), StoreState::Failed) => Err(Unavailable::Store { node }),
            // The part was removed.
            (Ok(_), StoreState::None | StoreState::Without) => Ok(()),
        }
    }
}

/// Continues a copy to the current end at the source; false if the source does not have the part.
async fn pull<F: Future<Output = Result<Option<Vec<u8>>, ObjectError>>>(
    mut copy: LogCopy,
    get: impl Fn(u64) -> F,
) -> Result<(LogCopy, Result<bool, ObjectError>), Unavailable> {
    loop {
        let piece = match get(copy.length()).await {
            Ok(Some(piece)) => piece,
            Ok(None) => return Ok((copy, Ok(false))),
            Err(error) => return Ok((copy, Err(error))),
        };
        let is_last = piece.len() < PART_BYTES_MAX;
        let has_room;
        (copy, has_room) = blocking(move || {
            let has_room = piece.is_empty() || copy.write(&piece)?;
            Ok((copy, has_room))
        })
        .await?;
        match (has_room, is_last) {
            (false, _) => return Err(Unavailable::NoRoom),
            (true, true) => return Ok((copy, Ok(true))),
            (true, false) => {}
        }
    }
}

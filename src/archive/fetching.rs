//! Brings the parts of a log to this node: from the store, or from the node that wrote them. What is here is a prefix of what is
//! there, since logs only grow; so a part that is here in part is continued.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::error::StoreFailure;
use super::store::LogStore;
use super::uploads::UploadProgress;
use crate::domain::{DeploymentId, DroppedLog, Identifier, LogPart};
use crate::logs::{LogCopy, LogFile, LogId, Logs};
use crate::peers::{Forward, PeerClient};
use crate::shares::{Capacity, Places};

/// The largest piece of a part that one node asks another for, or the store.
pub const PART_BYTES_MAX: usize = 1024 * 1024;
/// For a piece from another node.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
/// Parts that are fetched at once: each holds a piece in memory.
const FETCHES_MAX: usize = 8;
/// Those that wait for it.
const FETCHES_WAITING_MAX: usize = 256;

/// Where the other nodes are: the URL of one that lives.
pub type NodeUrls = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

pub struct ArchiveOptions {
    /// The name of this node.
    pub node: String,
    pub logs: Logs,
    pub store: Option<LogStore>,
    pub client: PeerClient,
    pub urls: NodeUrls,
    /// What is being uploaded.
    pub uploads: Option<watch::Receiver<UploadProgress>>,
    /// How many organizations share this node.
    pub organizations: usize,
}

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Archive(Option<Arc<Inner>>);

struct Inner {
    options: ArchiveOptions,
    fetches: Places,
    /// Those that are fetched, so that no two requests write the same file.
    under_way: Mutex<HashMap<LogFile, Arc<tokio::sync::Mutex<()>>>>,
}

/// Why a log cannot be read at the moment.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    #[error("{why}, and {node}, which wrote a part of this log, {}; {}", .unreached, help(.why, .node))]
    Node { node: Arc<str>, unreached: String, why: StoreState },
    #[error("too many logs are being fetched: {0}")]
    Busy(String),
    #[error("this organization has used its space for logs on the node that answers; the oldest are being removed")]
    NoRoom,
    #[error("cannot keep a log that was fetched: {0}")]
    Disk(#[from] io::Error),
}

/// The state of a part in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreState {
    None,
    Without,
    /// Why is in the log of the node, and is not for the organizations.
    Failed,
}

impl std::fmt::Display for StoreState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreState::None => f.write_str("this cluster has no store of logs"),
            StoreState::Without => f.write_str("the store of logs does not have it yet"),
            StoreState::Failed => f.write_str("the store of logs does not work"),
        }
    }
}

fn help(why: &StoreState, node: &str) -> String {
    let back = format!("it can be read when {node} is back");
    match why {
        StoreState::None => format!("{back}. With cluster.logs, logs outlive their node"),
        StoreState::Without => back,
        StoreState::Failed => format!("{back}, or the store"),
    }
}

/// The request for a part of a log that another node has, from this byte on.
pub fn part_target(organization: &Identifier, deployment: DeploymentId, number: u32, from: u64) -> String {
    format!("/cluster/logs/{organization}/{deployment}/{number}?from={from}")
}

impl Archive {
    /// Without one, as on one machine, everything is here.
    pub fn new(options: ArchiveOptions) -> Self {
        let capacity = |most| Capacity::turns(most).among(options.organizations);
        let fetches = Places::new("log_fetches", capacity(FETCHES_MAX), capacity(FETCHES_WAITING_MAX));
        Self(Some(Arc::new(Inner { options, fetches, under_way: Mutex::default() })))
    }

    /// Brings all parts of a log here, and says which they are. A part that its node has removed is passed over, as on one
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

    /// Removes from the store what a deployment has left there. Does nothing without a store.
    pub async fn remove(&self, log: &DroppedLog) -> Result<bool, StoreFailure> {
        let Some((inner, store)) = self.0.as_ref().and_then(|inner| Some((inner, inner.options.store.as_ref()?)))
        else {
            return Ok(false);
        };
        for part in log.parts.iter().filter(|part| part.in_store) {
            store.remove(&inner.options.logs.file(&log.organization, log.deployment, part.number)).await?;
        }
        Ok(true)
    }

    /// Waits until everything is uploaded, unless the store fails.
    pub async fn finish_uploads(&self, patience: Duration) {
        let Some(mut uploads) = self.0.as_ref().and_then(|inner| inner.options.uploads.clone()) else { return };
        let done = uploads.wait_for(|now| now.fails || now.waiting + now.running == 0);
        tokio::time::timeout(patience, done).await.ok();
    }
}

impl Inner {
    async fn bring(
        &self,
        organization: &Identifier,
        deployment: DeploymentId,
        part: &LogPart,
    ) -> Result<(), Unavailable> {
        let logs = &self.options.logs;
        let file = logs.file(organization, deployment, part.number);
        let is_own = *part.node == *self.options.node;
        if is_own && (logs.has(&file) || !part.in_store || self.options.store.is_none()) {
            return Ok(());
        }
        let _place =
            self.fetches.acquire(organization).await.map_err(|refused| Unavailable::Busy(refused.to_string()))?;
        let turn = self.turn_of(&file);
        let fetched = {
            let _turn = turn.lock().await;
            self.fetch(organization, &file, part, is_own).await
        };
        drop(turn);
        self.under_way.lock().retain(|_, turn| Arc::strong_count(turn) > 1);
        fetched
    }

    fn turn_of(&self, file: &LogFile) -> Arc<tokio::sync::Mutex<()>> {
        self.under_way.lock().entry(file.clone()).or_default().clone()
    }

    async fn fetch(
        &self,
        organization: &Identifier,
        file: &LogFile,
        part: &LogPart,
        is_own: bool,
    ) -> Result<(), Unavailable> {
        let was_here = self.options.logs.has(file);
        let (logs, of, whose) = (self.options.logs.clone(), file.clone(), organization.clone());
        let mut copy = blocking(move || logs.copy_of(&of, &whose)).await?;
        let why = match self.options.store.as_ref().filter(|_| part.in_store) {
            None => StoreState::None,
            Some(store) => {
                let pulled;
                (copy, pulled) = pull(copy, |from| store.get(file, from, PART_BYTES_MAX)).await?;
                match pulled {
                    Ok(true) => return Ok(blocking(|| copy.finish()).await?),
                    Ok(false) => StoreState::Without,
                    Err(error) => {
                        tracing::warn!(deployment = %file.deployment, %error, "cannot read a log from the store of logs");
                        StoreState::Failed
                    }
                }
            }
        };
        // What is here was whole when it was fetched, and a part of this node's own that is nowhere was removed.
        if was_here || is_own {
            return Ok(());
        }
        let unavailable =
            |unreached: String| Unavailable::Node { node: part.node.clone(), unreached, why: why.clone() };
        let Some(url) = (self.options.urls)(&part.node) else {
            return Err(unavailable("is not there".to_owned()));
        };
        let asked = |from| self.ask(&part.node, &url, part_target(organization, file.deployment, part.number, from));
        let (copy, pulled) = pull(copy, asked).await?;
        // Without a copy, its node has removed it.
        if pulled.map_err(|error| unavailable(format!("does not answer ({error})")))? {
            blocking(|| copy.finish()).await?;
        }
        Ok(())
    }

    /// `None` if the other node does not have it.
    async fn ask(&self, node: &str, url: &str, target: String) -> Result<Option<Vec<u8>>, StoreFailure> {
        let (headers, body, request_id) = (Vec::new(), Vec::new(), "log-part");
        let forward =
            Forward { method: "GET", target: &target, headers, body, request_id, client: None, encrypted: false };
        let answered = async {
            let answer = self.options.client.send((node, url), forward).await;
            let answer = answer.map_err(|error| StoreFailure::passing(error.to_string()))?;
            match answer.status {
                200 if answer.length().is_some_and(|length| length <= PART_BYTES_MAX as u64) => {
                    Ok(Some(answer.whole().await.map_err(StoreFailure::passing)?.to_vec()))
                }
                204 => Ok(None),
                status => Err(StoreFailure::passing(format!("it answered {status}"))),
            }
        };
        let slow = |_| StoreFailure::passing("it took too long");
        tokio::time::timeout(ANSWERED_WITHIN, answered).await.map_err(slow)?
    }
}

type Pulled = Result<bool, StoreFailure>;

/// Continues a copy up to the end of what the source has; false if that has nothing.
async fn pull<F: Future<Output = Result<Option<Vec<u8>>, StoreFailure>>>(
    mut copy: LogCopy,
    get: impl Fn(u64) -> F,
) -> Result<(LogCopy, Pulled), Unavailable> {
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

async fn blocking<T: Send + 'static>(action: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(action).await.map_err(io::Error::other)?
}

//! The output of deployments' steps: append-only files, which outlive the server. On one machine there is one per
//! deployment; in a cluster one for each part that a node wrote before another node continued.
//!
//! Knows nothing of processes and secrets: output arrives here already masked. Reading and writing block; only
//! [`Logs::watch`] is for async tasks.

mod file;
mod reader;
mod registry;
mod space;
#[cfg(test)]
mod tests;
mod transfer;
mod writer;

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tracing::warn;

pub use file::{LogFile, LogId, Section};
pub use reader::{Line, LogReader};
pub(crate) use transfer::read_range;
pub use transfer::{LogCopy, RestoredLogs, SettledLog};
pub use writer::{LogWriter, StepLog};

use crate::if_present;
use domain::{DeploymentId, Identifier};
use file::{EXTENSION, PENDING};
use registry::Registry;
use space::Space;
use store::space::all_bytes;

/// The folder of the logs in a data directory.
pub const FOLDER: &str = "logs";
const ONLY_OWNER: u32 = 0o700;
/// The size of the pieces in which a log is copied.
const PIECE_BYTES: usize = 256 * 1024;
/// A file takes at least this much of a disk.
const BLOCK_BYTES: u64 = 4096;
/// Logs use at most a quarter of the disk: when a disk is full, steps are ended, even those of other organizations.
const DISK_PART: u64 = 4;

/// The logs of all deployments. Cheap to clone.
#[derive(Clone)]
pub struct Logs {
    dir: Arc<Path>,
    space: Arc<Space>,
    registry: Arc<Registry>,
    /// `None` on one machine.
    parts: Option<Parts>,
}

/// How a node of a cluster keeps logs.
#[derive(Clone)]
pub struct Parts {
    /// The space for logs of shards on other nodes.
    pub foreign_bytes_max: u64,
    /// Receives the files of ended stages for upload; None without a store.
    pub ended: Option<mpsc::Sender<LogFile>>,
}

/// The owner of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogOwner {
    Organization(Identifier),
    /// The deployment is on another node, which may request the log.
    Foreign,
    /// The deployment cannot be read, and the log may be needed.
    Unknown,
    /// The deployment is no longer kept.
    Nobody,
}

impl Logs {
    /// The logs of one machine.
    pub fn open(dir: &Path, max_total_bytes: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(ONLY_OWNER).create(dir)?;
        let quarter = all_bytes(dir)? / DISK_PART;
        if quarter < max_total_bytes {
            tracing::warn!(
                bytes = quarter,
                "storage.log_max_mb is more than a quarter of the disk: logs of deployments get a quarter"
            );
        }
        let (space, registry) = (Arc::new(Space::new(max_total_bytes.min(quarter))), Arc::default());
        Ok(Self { dir: Arc::from(dir), space, registry, parts: None })
    }

    /// The logs of a node of a cluster.
    pub fn open_in_parts(dir: &Path, max_total_bytes: u64, parts: Parts) -> io::Result<Self> {
        let logs = Self { parts: Some(parts), ..Self::open(dir, max_total_bytes)? };
        logs.remove_unfinished_copies();
        Ok(logs)
    }

    /// Opens a part of a log for appending, and creates it if necessary. If that fails, the output is lost: a
    /// deployment does not fail because of its log. Waits while another writer has the part open.
    pub fn append_part(&self, organization: &Identifier, deployment: DeploymentId, number: u32) -> LogWriter {
        let file = self.file(organization, deployment, number);
        let ended = self.parts.as_ref().and_then(|parts| parts.ended.clone());
        let registration = self.registry.register(file.clone(), &self.dir, ended);
        self.mark_pending(&file);
        LogWriter::open(&self.path(&file), registration, self.space.of(organization))
    }

    /// Opens the log of a deployment on one machine. `None` on a node of a cluster: the newest part may be another
    /// node's.
    pub fn append(&self, organization: &Identifier, deployment: DeploymentId) -> Option<LogWriter> {
        self.parts.is_none().then(|| self.append_part(organization, deployment, 0))
    }

    /// The lines from number `from_line`, counted from 0. Parts that are not on this node are skipped.
    pub fn read(&self, log: &LogId, from_line: u64) -> LogReader {
        let mut reader = LogReader::new(from_line);
        self.extend(&mut reader, log);
        reader
    }

    /// Adds the parts that were begun since the reader was created.
    pub fn extend(&self, reader: &mut LogReader, log: &LogId) {
        let whole = LogFile { deployment: log.deployment, number: 0, organization: None };
        for number in &log.parts {
            let part = LogFile { number: *number, organization: Some(log.organization.clone()), ..whole.clone() };
            // The log was written on one machine, and copied to this node.
            let is_imported = self.parts.is_some() && *number == 0 && !self.has(&part) && self.has(&whole);
            if self.parts.is_some() || self.has(&part) {
                reader.add(*number, self.path(if is_imported { &whole } else { &part }));
            }
        }
        if self.parts.is_none() {
            // After the parts that the log had in a cluster.
            reader.add(u32::MAX, self.path(&whole));
        }
    }

    /// Whether a part is on this node.
    pub fn has(&self, file: &LogFile) -> bool {
        self.path(file).exists()
    }

    pub fn file(&self, organization: &Identifier, deployment: DeploymentId, number: u32) -> LogFile {
        LogFile { deployment, number, organization: self.parts.as_ref().map(|_| organization.clone()) }
    }

    /// Changes whenever something is appended; the log need not exist yet.
    pub fn watch(&self, deployment: DeploymentId) -> watch::Receiver<u64> {
        self.registry.watch(deployment)
    }

    /// Removes a file, unless it is being written.
    fn remove(&self, file: &LogFile) {
        let removed = self.registry.unless_written(file.deployment, || {
            fs::remove_file(self.named(file, PENDING)).ok();
            if_present(fs::remove_file(self.path(file)))
        });
        if let Some(Err(error)) = removed {
            warn!(deployment = %file.deployment, %error, "cannot remove the log of a deployment");
        }
    }

    /// Resolves when the logs take too much space, and [`Logs::sweep`] should be called.
    pub async fn too_full(&self) {
        self.space.too_full().await;
    }

    /// Removes logs without an owner, and the oldest logs of other nodes beyond their limit, if the store has them. If
    /// the rest takes too much space, also the oldest logs of the organizations that use most.
    pub fn sweep(&self, owner: impl Fn(&LogFile) -> LogOwner) {
        self.registry.remove_unused();
        let mut kept: HashMap<Option<Identifier>, Vec<(LogFile, u64)>> = HashMap::new();
        let mut foreign = Vec::new();
        for (file, bytes) in self.all() {
            match owner(&file) {
                LogOwner::Organization(organization) => kept.entry(Some(organization)).or_default(),
                LogOwner::Foreign if self.is_in_store(&file) => &mut foreign,
                LogOwner::Foreign => kept.entry(file.organization.clone()).or_default(),
                LogOwner::Unknown => kept.entry(None).or_default(),
                LogOwner::Nobody => {
                    self.remove(&file);
                    continue;
                }
            }
            .push((file, bytes));
        }
        let mut of_others = self.remove_foreign(foreign);
        let level = self.space.level(of_others, kept.values().map(|logs| size(logs)).collect());
        let mut sizes = HashMap::new();
        for (organization, mut logs) in kept {
            logs.sort_unstable();
            let left = self.remove_first(logs, level);
            match organization {
                Some(organization) => _ = sizes.insert(organization, left),
                None => of_others += left,
            }
        }
        self.space.swept(&sizes, of_others);
    }

    /// Whether the part can be read from the store.
    fn is_in_store(&self, file: &LogFile) -> bool {
        let has_store = self.parts.as_ref().is_some_and(|parts| parts.ended.is_some());
        has_store && file.organization.is_some() && !self.named(file, PENDING).exists()
    }

    fn remove_foreign(&self, foreign: Vec<(LogFile, u64)>) -> u64 {
        let bytes_max = self.parts.as_ref().map_or(0, |parts| parts.foreign_bytes_max);
        let mut foreign: Vec<_> = foreign.into_iter().map(|(file, bytes)| (file, bytes.max(BLOCK_BYTES))).collect();
        foreign.sort_unstable();
        self.remove_first(foreign, bytes_max)
    }

    /// Removes logs in order until the rest has at most this size, which it returns. Logs being written stay.
    fn remove_first(&self, logs: Vec<(LogFile, u64)>, bytes_max: u64) -> u64 {
        let mut left = size(&logs);
        for (file, bytes) in logs {
            if left <= bytes_max {
                break;
            }
            self.remove(&file);
            if !self.path(&file).exists() {
                left -= bytes;
            }
        }
        left
    }

    /// Visits every log, oldest first: its bytes in pieces, up to its length at that time, and at least one piece. A
    /// log that is removed meanwhile is skipped. Output appended meanwhile may be cut off, as after a crash.
    pub fn copy(&self, mut visit: impl FnMut(DeploymentId, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut all = self.all();
        all.sort_unstable();
        let mut piece = vec![0; PIECE_BYTES];
        for (log, _) in all {
            let Some(mut file) = if_present(File::open(self.path(&log)))? else { continue };
            let length = file.metadata()?.len();
            let mut left = (&mut file).take(length);
            let mut first = true;
            loop {
                let read = left.read(&mut piece)?;
                if read == 0 && !first {
                    break;
                }
                visit(log.deployment, &piece[..read])?;
                first = false;
            }
        }
        Ok(())
    }

    fn all(&self) -> Vec<(LogFile, u64)> {
        let with_size = |(file, entry): (LogFile, fs::DirEntry)| Some((file, entry.metadata().ok()?.len()));
        self.listed(EXTENSION).into_iter().filter_map(with_size).collect()
    }

    /// The files in the folder with this extension.
    fn listed(&self, extension: &str) -> Vec<(LogFile, fs::DirEntry)> {
        let named = |entry: fs::DirEntry| Some((LogFile::parse(Path::new(&entry.file_name()), extension)?, entry));
        match fs::read_dir(&self.dir) {
            Ok(entries) => entries.filter_map(|entry| named(entry.ok()?)).collect(),
            Err(error) => {
                warn!(dir = %self.dir.display(), %error, "cannot list the logs of deployments");
                Vec::new()
            }
        }
    }

    fn path(&self, file: &LogFile) -> PathBuf {
        self.named(file, EXTENSION)
    }

    fn named(&self, file: &LogFile, extension: &str) -> PathBuf {
        self.dir.join(file.name(extension))
    }
}

fn size(logs: &[(LogFile, u64)]) -> u64 {
    logs.iter().map(|(_, bytes)| bytes).sum()
}

//! The output of deployments' steps: one append-only file per deployment, which outlives the server.
//!
//! Knows nothing of processes and secrets: output arrives here already masked. Reading and writing block; only
//! [`Logs::watch`] is for async tasks.

mod cap;
mod frame;
mod reader;
mod registry;
mod restored;
mod space;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;
use tracing::warn;

pub use frame::Section;
pub use reader::{Line, LogReader};
pub use restored::RestoredLogs;
pub use writer::{LogWriter, StepLog};

use crate::domain::{DeploymentId, Identifier};
use registry::Registry;
use space::Space;

/// The folder of the logs in a data directory.
pub const FOLDER: &str = "logs";
const ONLY_OWNER: u32 = 0o700;
const EXTENSION: &str = "log";
/// How much of a log is copied at once.
const PIECE_BYTES: usize = 256 * 1024;

/// The logs of all deployments. Cheap to clone.
#[derive(Clone)]
pub struct Logs {
    dir: Arc<Path>,
    space: Arc<Space>,
    registry: Arc<Registry>,
}

/// Whose log it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogOwner {
    Organization(Identifier),
    /// Its deployment cannot be read, and may be needed.
    Unknown,
    /// Its deployment is no longer kept.
    Nobody,
}

impl Logs {
    pub fn open(dir: &Path, max_total_bytes: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(ONLY_OWNER).create(dir)?;
        Ok(Self { dir: Arc::from(dir), space: Arc::new(Space::new(max_total_bytes)), registry: Arc::default() })
    }

    /// Opens the log for appending, and creates it if necessary. If that fails, the output is lost: a deployment does not
    /// fail because of its log. Waits while another writer has it open.
    pub fn append(&self, organization: &Identifier, deployment: DeploymentId) -> LogWriter {
        let registration = self.registry.register(deployment, &self.dir);
        LogWriter::open(&self.path(deployment), registration, self.space.of(organization))
    }

    /// The lines from number `from_line` on, counted from 0; `None` if there is no log.
    pub fn read(&self, deployment: DeploymentId, from_line: u64) -> Option<LogReader> {
        match LogReader::open(&self.path(deployment), from_line) {
            Ok(reader) => Some(reader),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                warn!(%deployment, %error, "cannot read the log of a deployment");
                None
            }
        }
    }

    /// Changes whenever something is appended; the log need not exist yet.
    pub fn watch(&self, deployment: DeploymentId) -> watch::Receiver<u64> {
        self.registry.watch(deployment)
    }

    /// Removes the log, unless it is being written.
    pub fn remove(&self, deployment: DeploymentId) {
        let removed = self.registry.unless_written(deployment, || fs::remove_file(self.path(deployment)));
        match removed {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                warn!(%deployment, %error, "cannot remove the log of a deployment");
            }
            Some(Ok(()) | Err(_)) | None => {}
        }
    }

    /// Resolves when the logs take more space than they should, so that [`Logs::sweep`] should be called.
    pub async fn too_full(&self) {
        self.space.too_full().await;
    }

    /// Removes the logs that are nobody's. If the rest takes too much space, also the oldest logs of the organizations that
    /// take most.
    pub fn sweep(&self, owner: impl Fn(DeploymentId) -> LogOwner) {
        self.registry.remove_unused();
        let mut kept: HashMap<Option<Identifier>, Vec<(DeploymentId, u64)>> = HashMap::new();
        for (deployment, bytes) in self.all() {
            match owner(deployment) {
                LogOwner::Organization(organization) => kept.entry(Some(organization)).or_default(),
                LogOwner::Unknown => kept.entry(None).or_default(),
                LogOwner::Nobody => {
                    self.remove(deployment);
                    continue;
                }
            }
            .push((deployment, bytes));
        }
        let level = self.space.level(kept.values().map(|logs| size(logs)).collect());
        let (mut sizes, mut of_unknown) = (HashMap::new(), 0);
        for (organization, logs) in kept {
            let left = self.remove_oldest(logs, level);
            match organization {
                Some(organization) => _ = sizes.insert(organization, left),
                None => of_unknown = left,
            }
        }
        self.space.swept(&sizes, of_unknown);
    }

    /// Removes the oldest until the rest is at most this large, and returns how large it is. Those being written stay.
    fn remove_oldest(&self, mut logs: Vec<(DeploymentId, u64)>, bytes_max: u64) -> u64 {
        let mut left = size(&logs);
        // Ids sort by time.
        logs.sort_unstable();
        for (deployment, bytes) in logs {
            if left <= bytes_max {
                break;
            }
            self.remove(deployment);
            if !self.path(deployment).exists() {
                left -= bytes;
            }
        }
        left
    }

    /// Visits every log, oldest first: its bytes in pieces, up to the length that it has by then, and at least one piece. One
    /// that is removed meanwhile is left out. What is appended meanwhile may end in the middle, as after a crash.
    pub fn copy(&self, mut visit: impl FnMut(DeploymentId, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut all = self.all();
        all.sort_unstable();
        let mut piece = vec![0; PIECE_BYTES];
        for (deployment, _) in all {
            let mut file = match File::open(self.path(deployment)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let length = file.metadata()?.len();
            let mut left = (&mut file).take(length);
            let mut first = true;
            loop {
                let read = left.read(&mut piece)?;
                if read == 0 && !first {
                    break;
                }
                visit(deployment, &piece[..read])?;
                first = false;
            }
        }
        Ok(())
    }

    /// Writes the logs of a backup to a new folder.
    pub fn restore(dir: &Path) -> io::Result<RestoredLogs> {
        RestoredLogs::begin(dir, EXTENSION)
    }

    fn all(&self) -> Vec<(DeploymentId, u64)> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) => {
                warn!(dir = %self.dir.display(), %error, "cannot list the logs of deployments");
                return Vec::new();
            }
        };
        let logs = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let path = PathBuf::from(entry.file_name());
            let ours = path.extension()? == EXTENSION;
            let deployment = path.file_stem()?.to_str()?.parse().ok()?;
            ours.then_some((deployment, entry.metadata().ok()?.len()))
        });
        logs.collect()
    }

    fn path(&self, deployment: DeploymentId) -> PathBuf {
        self.dir.join(format!("{deployment}.{EXTENSION}"))
    }
}

fn size(logs: &[(DeploymentId, u64)]) -> u64 {
    logs.iter().map(|(_, bytes)| bytes).sum()
}

//! The output of deployments' steps: one append-only file per deployment, which outlives the server.
//!
//! Knows nothing of processes and secrets: output arrives here already masked. Reading and writing block; only
//! [`Logs::watch`] is for async tasks.

mod cap;
mod frame;
mod reader;
mod registry;
#[cfg(test)]
mod tests;
mod writer;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;
use tracing::warn;

pub use frame::Section;
pub use reader::{Line, LogReader};
pub use writer::{LogWriter, StepLog};

use crate::domain::DeploymentId;
use registry::Registry;

const ONLY_OWNER: u32 = 0o700;
const EXTENSION: &str = "log";

/// The logs of all deployments. Cheap to clone.
#[derive(Clone)]
pub struct Logs {
    dir: Arc<Path>,
    max_total_bytes: u64,
    registry: Arc<Registry>,
}

impl Logs {
    pub fn open(dir: &Path, max_total_bytes: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(ONLY_OWNER).create(dir)?;
        Ok(Self { dir: Arc::from(dir), max_total_bytes, registry: Arc::default() })
    }

    /// Opens the log for appending, and creates it if necessary. If that fails, the output is lost: a deployment does not
    /// fail because of its log. Waits while another writer has it open.
    pub fn append(&self, deployment: DeploymentId) -> LogWriter {
        LogWriter::open(&self.path(deployment), self.registry.register(deployment, &self.dir))
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

    /// Removes the logs of all other deployments, and then the oldest ones until the total size is within its bound.
    pub fn sweep(&self, keep: impl Fn(DeploymentId) -> bool) {
        self.registry.remove_unused();
        let mut kept = Vec::new();
        for (deployment, bytes) in self.all() {
            if keep(deployment) {
                kept.push((deployment, bytes));
            } else {
                self.remove(deployment);
            }
        }
        kept.sort_unstable();
        let mut total = kept.iter().map(|(_, bytes)| bytes).sum::<u64>();
        for (deployment, bytes) in kept {
            if total <= self.max_total_bytes {
                break;
            }
            self.remove(deployment);
            if !self.path(deployment).exists() {
                total -= bytes;
            }
        }
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

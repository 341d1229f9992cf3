//! What the steps of deployments have written: one append-only file a deployment, which outlives the server.
//!
//! Knows nothing of processes and secrets: what comes here is masked. Reading and writing block; only
//! [`Logs::watch`] is for tasks.

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

    /// To go on at the end of its log, which is made if there is none. If it cannot be opened, what is written is lost:
    /// a deployment does not fail for its log. Waits while somebody else writes it.
    pub fn append(&self, deployment: DeploymentId) -> LogWriter {
        LogWriter::open(&self.path(deployment), self.registry.register(deployment, &self.dir))
    }

    /// Its lines from this one on, counted from 0; none if it has no log.
    pub fn read(&self, deployment: DeploymentId, from_line: u64) -> Option<LogReader> {
        match LogReader::open(&self.path(deployment), from_line) {
            Ok(reader) => Some(reader),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                warn!(%deployment, %error, "the log of a deployment cannot be read");
                None
            }
        }
    }

    /// Changes whenever something was appended, also if there is nothing yet.
    pub fn watch(&self, deployment: DeploymentId) -> watch::Receiver<u64> {
        self.registry.watch(deployment)
    }

    /// Removes its log, unless it is being written.
    pub fn forget(&self, deployment: DeploymentId) {
        let removed = self.registry.unless_written(deployment, || fs::remove_file(self.path(deployment)));
        match removed {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                warn!(%deployment, %error, "the log of a deployment cannot be removed");
            }
            Some(Ok(()) | Err(_)) | None => {}
        }
    }

    /// Removes the logs that are not to be kept, and then the oldest until all together are within their bound.
    pub fn sweep(&self, keep: impl Fn(DeploymentId) -> bool) {
        self.registry.tidy();
        let mut kept = Vec::new();
        for (deployment, bytes) in self.all() {
            if keep(deployment) {
                kept.push((deployment, bytes));
            } else {
                self.forget(deployment);
            }
        }
        kept.sort_unstable();
        let mut total = kept.iter().map(|(_, bytes)| bytes).sum::<u64>();
        for (deployment, bytes) in kept {
            if total <= self.max_total_bytes {
                break;
            }
            self.forget(deployment);
            if !self.path(deployment).exists() {
                total -= bytes;
            }
        }
    }

    fn all(&self) -> Vec<(DeploymentId, u64)> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) => {
                warn!(dir = %self.dir.display(), %error, "the logs of deployments cannot be listed");
                return Vec::new();
            }
        };
        let described = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let path = PathBuf::from(entry.file_name());
            let ours = path.extension()? == EXTENSION;
            let deployment = path.file_stem()?.to_str()?.parse().ok()?;
            ours.then_some((deployment, entry.metadata().ok()?.len()))
        });
        described.collect()
    }

    fn path(&self, deployment: DeploymentId) -> PathBuf {
        self.dir.join(format!("{deployment}.{EXTENSION}"))
    }
}

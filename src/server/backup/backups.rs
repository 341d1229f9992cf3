//! Backups of a running server, from its store and its logs to a stream. Only one at a time, since each keeps a part of
//! the redo log.

use std::io::{self, Write};
use std::sync::Arc;

use super::stream::{About, BackupWriter, Header, Totals};
use delivery::logs::Logs;
use shares::{Limited, LimitedPermit};
use store::{CopyError, FORMAT_NUMBER, LoggedStore};

/// Why there is no backup: each message completes "the backup failed: ".
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error("the logs of deployments cannot be read: {0}")]
    Logs(#[source] io::Error),
    /// The reader has gone.
    #[error("it cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// Writes everything; blocks meanwhile. The reader is also told about a failure of the server.
pub fn make(store: &LoggedStore, logs: &Logs, about: About, out: impl Write) -> Result<Totals, MakeError> {
    let copying = store.begin_copy();
    let header = Header { about, data_format: FORMAT_NUMBER, sequence: copying.from.0 };
    let mut writer = BackupWriter::begin(out, &header)?;
    let copied = (|| {
        copying.pairs(|key, value| writer.pair(key, value))?;
        let last = copying.batches(|batches| writer.batches(&batches))?;
        // Logs come after the last batch, so that every line that a batch refers to is included.
        let mut broken = None;
        let copied = logs.copy(|deployment, piece| {
            writer.log(deployment, piece).inspect_err(|error| broken = Some(io::Error::from(error.kind())))
        });
        match (copied, broken) {
            (Ok(()), _) => Ok(last),
            (Err(_), Some(broken)) => Err(MakeError::Write(broken)),
            (Err(error), None) => Err(MakeError::Logs(error)),
        }
    })();
    match copied {
        Ok(last) => Ok(writer.finish(last)?),
        Err(error @ (MakeError::Write(_) | MakeError::Copy(CopyError::Write(_)))) => Err(error),
        Err(error @ (MakeError::Copy(_) | MakeError::Logs(_))) => {
            // Without a failure frame, the reader would only see that the stream ends too early.
            let _ = writer.fail(&error.to_string());
            Err(error)
        }
    }
}

/// Another backup is being taken.
#[derive(Debug)]
pub struct InProgress;

pub struct Backups {
    store: Arc<LoggedStore>,
    logs: Logs,
    master_key: Option<String>,
    running: Limited<()>,
}

/// The right to take a backup, until dropped.
pub struct Taking {
    store: Arc<LoggedStore>,
    logs: Logs,
    about: About,
    _running: LimitedPermit<()>,
}

impl Backups {
    /// `master_key` is the key's fingerprint.
    pub fn new(store: Arc<LoggedStore>, logs: Logs, master_key: Option<String>) -> Self {
        Self { store, logs, master_key, running: Limited::new(1) }
    }

    pub fn begin(&self, created_at: String, organizations: Vec<String>) -> Result<Taking, InProgress> {
        let running = self.running.try_acquire(()).map_err(|_| InProgress)?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let about = About { version, created_at, organizations, master_key: self.master_key.clone() };
        Ok(Taking { store: self.store.clone(), logs: self.logs.clone(), about, _running: running })
    }
}

impl Taking {
    /// Blocks until everything is written.
    pub fn write_to(self, out: impl Write) -> Result<Totals, MakeError> {
        make(&self.store, &self.logs, self.about, out)
    }
}

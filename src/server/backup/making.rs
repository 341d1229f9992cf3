//! From a store and the logs to a stream.

use std::io::{self, Write};

use super::form::{About, Header, Totals};
use super::writer::BackupWriter;
use delivery::logs::Logs;
use store::{CopyError, FORMAT_NUMBER, LoggedStore};

/// Why there is no backup: each completes "the backup failed: ".
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error("the logs of deployments cannot be read: {0}")]
    Logs(#[source] io::Error),
    /// Nobody takes it any more.
    #[error("it cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// Writes everything, and blocks while it does. A failure of the server's own is also told to the reader.
pub fn make(store: &LoggedStore, logs: &Logs, about: About, out: impl Write) -> Result<Totals, MakeError> {
    let copying = store.begin_copy();
    let header = Header { about, data_format: FORMAT_NUMBER, sequence: copying.from.0 };
    let mut writer = BackupWriter::begin(out, &header)?;
    let copied = (|| {
        copying.pairs(|key, value| writer.pair(key, value))?;
        let last = copying.batches(|batches| writer.batches(&batches))?;
        // After the last batch, so that every line is there that it speaks of.
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
            // Without the word for it, the reader would only see that it ends too early.
            let _ = writer.fail(&error.to_string());
            Err(error)
        }
    }
}

//! A part of a log in the store: its location, its uploaded bytes, and the errors of the store.

use std::io;

use crate::logs::{LogFile, Logs, SettledLog};

/// The largest upload in one S3 request. Readers ignore a frame that is cut off.
const BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;
/// Bytes of a log in memory at a time during an upload.
pub const PIECE_BYTES: usize = 256 * 1024;

/// The names of an object relative to the root of the store; `None` for a log of one machine.
pub fn names(file: &LogFile) -> Option<[String; 3]> {
    let organization = file.organization.as_ref()?;
    Some([organization.to_string(), file.deployment.to_string(), format!("{}.log", file.number)])
}

/// The bytes of a log from its beginning up to a length. Blocking.
#[derive(Clone)]
pub struct Uploaded {
    logs: Logs,
    file: LogFile,
    pub length: u64,
}

impl Uploaded {
    pub fn new(logs: Logs, file: LogFile, settled: SettledLog) -> Self {
        Self { logs, file, length: settled.length.min(BYTES_MAX) }
    }

    /// The piece at this offset; empty at the end.
    pub fn piece(&self, from: u64) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.length.saturating_sub(from)).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let piece = self.logs.bytes(&self.file, from, left)?.unwrap_or_default();
        if piece.len() < left {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the log was removed while it was uploaded"));
        }
        Ok(piece)
    }
}

/// It is logged, so it contains neither URLs of objects nor secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct StoreFailure {
    why: String,
    /// Whether a retry may succeed.
    pub is_passing: bool,
}

impl StoreFailure {
    pub fn passing(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_passing: true }
    }

    pub fn lasting(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_passing: false }
    }
}

impl From<io::Error> for StoreFailure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Errors of a single object, returned immediately.
            io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory => Self::lasting(error.to_string()),
            _ => Self::passing(error.to_string()),
        }
    }
}

//! A part of a log in the store: its uploaded bytes, and the errors of the store.

use std::io;

use crate::logs::{LogFile, Logs, SettledLog};

/// The largest upload in one S3 request. Readers ignore a frame that is cut off.
const BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;
/// Bytes of a log held in memory during an upload.
pub const PIECE_BYTES: usize = 256 * 1024;

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

    pub fn for_each_piece(&self, mut action: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut from = 0;
        loop {
            let piece = self.piece(from)?;
            if piece.is_empty() {
                return Ok(());
            }
            action(&piece)?;
            from += piece.len() as u64;
        }
    }
}

/// An error of the store. It is logged, so it contains neither object URLs nor secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ObjectError {
    why: String,
    /// Whether a retry may succeed.
    pub is_passing: bool,
}

impl ObjectError {
    pub fn passing(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_passing: true }
    }

    pub fn lasting(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_passing: false }
    }
}

impl From<io::Error> for ObjectError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Errors of a single object, returned immediately.
            io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory => Self::lasting(error.to_string()),
            _ => Self::passing(error.to_string()),
        }
    }
}

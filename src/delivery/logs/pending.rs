//! Logs that are not in the store yet: an empty file beside each, so that they are found again after a restart.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use tracing::warn;

use super::Logs;
use super::file::{LogFile, PENDING};
use super::reader::whole_length;

/// The length of a log at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettledLog {
    /// Of its undamaged part.
    pub length: u64,
    on_disk: u64,
}

impl Logs {
    /// Before the first output. Synced with the directory when the stage ends.
    pub(super) fn mark_pending(&self, file: &LogFile) {
        if self.parts.as_ref().is_some_and(|parts| parts.ended.is_some())
            && let Err(error) = File::create(self.mark(file))
        {
            warn!(deployment = %file.deployment, %error, "cannot mark a log as not yet uploaded: it may stay on this node");
        }
    }

    /// The logs that nobody writes and the store does not have yet, oldest first.
    pub fn pending(&self) -> Vec<LogFile> {
        let all = self.listed(PENDING).into_iter().map(|(file, _)| file);
        let mut all: Vec<_> =
            all.filter(|file| self.registry.unless_written(file.deployment, || ()).is_some()).collect();
        all.sort_unstable();
        all
    }

    /// Makes what there is of a log durable. `None` if there is none.
    pub fn settled(&self, file: &LogFile) -> io::Result<Option<SettledLog>> {
        let path = self.path(file);
        let opened = match File::open(&path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let on_disk = opened.metadata()?.len();
        opened.sync_data()?;
        Ok(Some(SettledLog { length: whole_length(&path)?.min(on_disk), on_disk }))
    }

    /// So many bytes from there on, or up to the end; `None` if there is no such file.
    pub fn bytes(&self, file: &LogFile, from: u64, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        let opened = match File::open(self.path(file)) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let left = opened.metadata()?.len().saturating_sub(from);
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(bytes_max).min(bytes_max)];
        opened.read_exact_at(&mut bytes, from)?;
        Ok(Some(bytes))
    }

    /// The store has it, as it was then: it is no longer pending, unless it is being written or has grown.
    pub fn uploaded(&self, file: &LogFile, then: Option<SettledLog>) {
        let removed = self.registry.unless_written(file.deployment, || match fs::metadata(self.path(file)) {
            Ok(now) if then.is_none_or(|then| then.on_disk != now.len()) => Ok(()),
            Ok(_) => fs::remove_file(self.mark(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::remove_file(self.mark(file)),
            Err(error) => Err(error),
        });
        match removed {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                warn!(deployment = %file.deployment, %error, "cannot remove the mark of an uploaded log: it is uploaded again");
            }
            Some(Ok(()) | Err(_)) | None => {}
        }
    }
}

//! Logs that leave or enter this node: parts to be uploaded (each has an empty file next to it, so that it is found
//! again after a restart), copies of parts that other nodes wrote, and the logs of a backup.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tracing::warn;

use super::Logs;
use super::file::{EXTENSION, FETCHED, LogFile, PENDING};
use super::reader::whole_length;
use super::space::OwnSpace;
use crate::if_present;
use domain::{DeploymentId, Identifier};

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The length of a log at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettledLog {
    /// The length of its undamaged part.
    pub length: u64,
    on_disk: u64,
}

impl Logs {
    /// Called before the first output. Synced with the directory when the stage ends.
    pub(super) fn mark_pending(&self, file: &LogFile) {
        if self.parts.as_ref().is_some_and(|parts| parts.ended.is_some())
            && let Err(error) = File::create(self.named(file, PENDING))
        {
            warn!(deployment = %file.deployment, %error, "cannot mark a log as not yet uploaded: it may stay on this node");
        }
    }

    /// The logs that are not being written and not in the store yet, oldest first.
    pub fn pending(&self) -> Vec<LogFile> {
        let all = self.listed(PENDING).into_iter().map(|(file, _)| file);
        let mut all: Vec<_> =
            all.filter(|file| self.registry.unless_written(file.deployment, || ()).is_some()).collect();
        all.sort_unstable();
        all
    }

    /// Makes the current content of a log durable. `None` if there is no such log.
    pub fn settled(&self, file: &LogFile) -> io::Result<Option<SettledLog>> {
        let path = self.path(file);
        let Some(opened) = if_present(File::open(&path))? else { return Ok(None) };
        let on_disk = opened.metadata()?.len();
        opened.sync_data()?;
        Ok(Some(SettledLog { length: whole_length(&path)?.min(on_disk), on_disk }))
    }

    /// At most `bytes_max` bytes from `from`; `None` if there is no such file.
    pub fn bytes(&self, file: &LogFile, from: u64, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        read_range(&self.path(file), from, bytes_max)
    }

    /// Called when the store has the log in the state `then`: unless it is being written or has grown, it is no longer
    /// pending.
    pub fn uploaded(&self, file: &LogFile, then: Option<SettledLog>) {
        let removed = self.registry.unless_written(file.deployment, || {
            let now = if_present(fs::metadata(self.path(file)))?;
            let has_grown = now.is_some_and(|now| then.is_none_or(|then| then.on_disk != now.len()));
            if has_grown { Ok(None) } else { if_present(fs::remove_file(self.named(file, PENDING))) }
        });
        if let Some(Err(error)) = removed {
            warn!(deployment = %file.deployment, %error, "cannot remove the mark of an uploaded log: it is uploaded again");
        }
    }

    /// Continues the local copy, or creates a new one. Concurrent copies of one file would overwrite each other.
    pub fn copy_of(&self, file: &LogFile, organization: &Identifier) -> io::Result<LogCopy> {
        let (path, fetched) = (self.path(file), self.named(file, FETCHED));
        let is_new = !path.exists();
        let length = if is_new { 0 } else { whole_length(&path)? };
        let opened = if is_new { &fetched } else { &path };
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(opened)?;
        file.set_len(length)?;
        let renamed = is_new.then_some((fetched, path));
        Ok(LogCopy { file, length, space: self.space.of(organization), renamed })
    }

    pub(super) fn remove_unfinished_copies(&self) {
        for (file, _) in self.listed(FETCHED) {
            fs::remove_file(self.named(&file, FETCHED)).ok();
        }
    }

    /// Writes the logs of a backup to a new folder.
    pub fn restore(dir: &Path) -> io::Result<RestoredLogs> {
        fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
        Ok(RestoredLogs { dir: dir.to_owned(), current: None, files: 0 })
    }
}

/// At most `bytes_max` bytes of a file from `from`; `None` if there is no such file.
pub(crate) fn read_range(path: &Path, from: u64, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = if_present(File::open(path))? else { return Ok(None) };
    let left = file.metadata()?.len().saturating_sub(from);
    let mut bytes = vec![0; usize::try_from(left).unwrap_or(bytes_max).min(bytes_max)];
    file.read_exact_at(&mut bytes, from)?;
    Ok(Some(bytes))
}

/// A copy being created or continued. A new copy that is dropped before [`LogCopy::finish`] is discarded.
pub struct LogCopy {
    file: File,
    length: u64,
    space: OwnSpace,
    /// The temporary and the final path, if the file is renamed at the end.
    renamed: Option<(PathBuf, PathBuf)>,
}

impl LogCopy {
    pub fn length(&self) -> u64 {
        self.length
    }

    /// False if the organization has no space for more.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<bool> {
        if !self.space.has_room() {
            self.space.refused();
            return Ok(false);
        }
        self.file.write_all_at(bytes, self.length)?;
        self.length += bytes.len() as u64;
        self.space.add(bytes.len() as u64);
        Ok(true)
    }

    /// A file with its final name must be complete, even after a power cut.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        self.renamed.take().map_or(Ok(()), |(from, to)| fs::rename(from, to))
    }
}

impl Drop for LogCopy {
    fn drop(&mut self) {
        if let Some((unfinished, _)) = &self.renamed {
            fs::remove_file(unfinished).ok();
        }
    }
}

/// Writes the logs of a backup to a new folder.
pub struct RestoredLogs {
    dir: PathBuf,
    current: Option<(DeploymentId, File)>,
    /// The number of files.
    pub files: u64,
}

impl RestoredLogs {
    /// The next piece of a log; the pieces of one log must be consecutive.
    pub fn append(&mut self, deployment: DeploymentId, piece: &[u8]) -> io::Result<()> {
        if self.current.as_ref().is_none_or(|(current, _)| *current != deployment) {
            self.end_file()?;
            let path = self.dir.join(format!("{deployment}.{EXTENSION}"));
            let file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
            self.files += 1;
            self.current = Some((deployment, file));
        }
        self.current.as_mut().map_or(Ok(()), |(_, file)| file.write_all(piece))
    }

    /// When this returns, everything is durable.
    pub fn finish(mut self) -> io::Result<u64> {
        self.end_file()?;
        File::open(&self.dir)?.sync_all()?;
        Ok(self.files)
    }

    fn end_file(&mut self) -> io::Result<()> {
        self.current.take().map_or(Ok(()), |(_, file)| file.sync_all())
    }
}

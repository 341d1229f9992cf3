//! Copies of parts that other nodes wrote. A copy is a file like any other, and counts like one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use super::Logs;
use super::file::{FETCHED, LogFile};
use super::reader::whole_length;
use super::space::OwnSpace;
use domain::Identifier;

const ONLY_OWNER: u32 = 0o600;

/// A copy that is being made or continued. What is dropped before [`LogCopy::finish`] is not there, if it was new.
pub struct LogCopy {
    file: File,
    length: u64,
    space: OwnSpace,
    /// From where to where it is renamed at the end.
    renamed: Option<(PathBuf, PathBuf)>,
}

impl Logs {
    /// Continues the copy that is here, or makes a new one. Two of one file at once would disturb each other.
    pub fn copy_of(&self, file: &LogFile, organization: &Identifier) -> io::Result<LogCopy> {
        let (path, fetched) = (self.path(file), self.path_while_fetched(file));
        let is_new = !path.exists();
        let length = if is_new { 0 } else { whole_length(&path)? };
        let opened = if is_new { &fetched } else { &path };
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(ONLY_OWNER).open(opened)?;
        file.set_len(length)?;
        let renamed = is_new.then_some((fetched, path));
        Ok(LogCopy { file, length, space: self.space.of(organization), renamed })
    }

    pub(super) fn remove_unfinished_copies(&self) {
        for (file, _) in self.listed(FETCHED) {
            fs::remove_file(self.path_while_fetched(&file)).ok();
        }
    }
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

    /// A file under its final name is taken for whole, also after a power cut.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        match self.renamed.take() {
            Some((from, to)) => fs::rename(from, to),
            None => Ok(()),
        }
    }
}

impl Drop for LogCopy {
    fn drop(&mut self) {
        if let Some((unfinished, _)) = &self.renamed {
            fs::remove_file(unfinished).ok();
        }
    }
}

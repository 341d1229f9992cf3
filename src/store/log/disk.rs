//! The operations of recovery on the log's files, as a trait so that tests can run it on a disk that loses power.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::format::END_PAGE;
use crate::sync_dir::sync_dir;

const SUFFIX: &str = ".log";

/// A segment is named after the first sequence in it.
pub fn segment_name(first: u64) -> String {
    format!("{first:020}{SUFFIX}")
}

fn segment_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

/// When a method returns, its effect is durable.
pub trait Disk {
    /// The first sequences of all segments, ascending.
    fn segments(&self) -> io::Result<Vec<u64>>;
    fn read(&self, segment: u64) -> io::Result<Vec<u8>>;
    fn write(&self, segment: u64, offset: usize, bytes: &[u8]) -> io::Result<()>;
    /// Ends the segment at this offset: drops everything after it, and leaves no room for more.
    fn end_at(&self, segment: u64, offset: usize) -> io::Result<()>;
    /// Keeps a copy of bytes that are about to be discarded.
    fn set_aside(&self, segment: u64, offset: usize, bytes: &[u8]) -> io::Result<()>;
    /// Takes a whole segment out of the log and keeps it.
    fn set_aside_whole(&self, segment: u64) -> io::Result<()>;
}

/// The log's directory on the real disk.
pub struct LogDir {
    dir: PathBuf,
}

impl LogDir {
    pub fn new(dir: &Path) -> LogDir {
        LogDir { dir: dir.to_owned() }
    }

    fn damaged(&self, segment: u64, offset: usize) -> PathBuf {
        // Without the suffix of a segment, so that no start takes it for one. An earlier file of the same name is kept.
        let base = format!("damaged-{segment:020}-{offset}");
        let free = (0..).map(|n| if n == 0 { base.clone() } else { format!("{base}.{n}") });
        free.map(|name| self.dir.join(name)).find(|path| !path.exists()).unwrap_or_else(|| self.dir.join(base))
    }
}

impl Disk for LogDir {
    fn segments(&self) -> io::Result<Vec<u64>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            if let Some(first) = entry?.file_name().to_str().and_then(segment_of) {
                found.push(first);
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn read(&self, segment: u64) -> io::Result<Vec<u8>> {
        std::fs::read(self.dir.join(segment_name(segment)))
    }

    fn write(&self, segment: u64, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.dir.join(segment_name(segment)))?;
        file.write_all_at(bytes, offset as u64)?;
        file.sync_all()
    }

    fn end_at(&self, segment: u64, offset: usize) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.dir.join(segment_name(segment)))?;
        file.set_len(offset as u64)?;
        file.write_all_at(&END_PAGE, offset as u64)?;
        file.sync_all()
    }

    fn set_aside(&self, segment: u64, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let path = self.damaged(segment, offset);
        let file = File::create(&path)?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()?;
        sync_dir(&self.dir)
    }

    fn set_aside_whole(&self, segment: u64) -> io::Result<()> {
        std::fs::rename(self.dir.join(segment_name(segment)), self.damaged(segment, 0))?;
        sync_dir(&self.dir)
    }
}

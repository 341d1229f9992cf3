//! The log's files. Recovery uses them through a trait, so that tests can run it on a disk that loses power. Writes
//! bypass the page cache (`O_DIRECT`) where the file system supports it: the log is not read while the server runs, and
//! copying a group into the cache and flushing it costs more than the write itself.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::format::{END_PAGE, PAGE};
use crate::space::sync_dir;

const SUFFIX: &str = ".log";

/// A segment is named after its first sequence.
pub fn segment_name(first: u64) -> String {
    format!("{first:020}{SUFFIX}")
}

fn segment_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

/// The effect of each method is durable when it returns.
pub trait Disk {
    /// The first sequences of all segments, ascending.
    fn segments(&self) -> io::Result<Vec<u64>>;
    fn read(&self, segment: u64) -> io::Result<Vec<u8>>;
    fn write(&self, segment: u64, offset: usize, bytes: &[u8]) -> io::Result<()>;
    /// Ends the segment at this offset: drops everything after it, and leaves no room for more.
    fn end_at(&self, segment: u64, offset: usize) -> io::Result<()>;
    /// Keeps a copy of bytes that are about to be discarded.
    fn set_aside(&self, segment: u64, offset: usize, bytes: &[u8]) -> io::Result<()>;
    /// Removes a whole segment from the log and keeps it under another name.
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
        // The name lacks the suffix of a segment, so that the file is never read as one. An earlier file of the same
        // name is kept.
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

/// Opens the file with `O_DIRECT`, if that is supported.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let flag = i32::try_from(OFlags::DIRECT.bits()).unwrap_or_default();
    match options.clone().custom_flags(flag).open(path) {
        Err(error) if is_unsupported(&error) => options.open(path),
        opened => opened,
    }
}

/// Writes whole pages. If the file system requires another alignment, the file uses the page cache from then on.
pub fn write_all_at(file: &File, pages: &[u8], offset: u64) -> io::Result<()> {
    match file.write_all_at(pages, offset) {
        Err(error) if is_unsupported(&error) => {
            let flags = fcntl_getfl(file)?;
            if !flags.contains(OFlags::DIRECT) {
                return Err(error);
            }
            fcntl_setfl(file, flags.difference(OFlags::DIRECT))?;
            file.write_all_at(pages, offset)
        }
        written => written,
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

/// A page-aligned buffer, as direct writes require.
#[derive(Default)]
pub struct Aligned(Vec<u8>);

impl Aligned {
    /// A slice of this length, with its old content.
    pub fn room(&mut self, length: usize) -> &mut [u8] {
        if self.0.len() < length + PAGE {
            self.0.resize(length + PAGE, 0);
        }
        // If no aligned address can be found, the write goes through the page cache.
        let start = self.0.as_ptr().align_offset(PAGE).min(PAGE);
        &mut self.0[start..start + length]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn options() -> OpenOptions {
        OpenOptions::new().create(true).write(true).clone()
    }

    #[test]
    fn a_buffer_is_aligned_however_it_grows() {
        let mut buffer = Aligned::default();
        for pages in [1, 3, 2, 300] {
            let room = buffer.room(pages * PAGE);
            assert_eq!((room.len(), room.as_ptr().align_offset(PAGE)), (pages * PAGE, 0));
        }
    }

    #[test]
    fn pages_that_lie_askew_are_written_all_the_same() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("segment");
        let file = open(&options(), &path).unwrap();
        let mut buffer = Aligned::default();
        buffer.room(2 * PAGE).fill(7);
        write_all_at(&file, buffer.room(PAGE), 0).unwrap();
        // The address is misaligned: a device refuses the write, and the page cache accepts it.
        write_all_at(&file, &buffer.room(2 * PAGE)[1..=PAGE], PAGE as u64).unwrap();
        write_all_at(&file, buffer.room(PAGE), 2 * PAGE as u64).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), [7; 3 * PAGE]);
    }

    #[test]
    fn a_file_that_cannot_be_written_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        std::fs::write(&path, [0]).unwrap();
        assert!(write_all_at(&File::open(&path).unwrap(), &[0; PAGE], 0).is_err());
        assert!(open(&options(), &dir.path().join("nowhere/segment")).is_err());
    }
}

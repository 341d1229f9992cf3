//! Space on the disk of the data directory: how much is free, what takes it, and blocks that are allocated in advance.

use std::fmt::Write;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

const MIB: u64 = 1024 * 1024;
/// The unit of `st_blocks`, whatever the file system's own is.
const BLOCK: u64 = 512;
/// A directory with more entries is measured only in part, so that measuring never takes long.
pub const MEASURED_ENTRIES_MAX: usize = 2_000_000;
/// How many of the largest things are named to an operator.
const NAMED: usize = 5;

/// What this user may still write on the file system of this path.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Whether the disk, or the quota of this user on it, is full.
pub fn is_lack_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The same of a message that only quotes the error, as sled's do.
pub fn tells_of_lack_of_space(text: &str) -> bool {
    [Errno::NOSPC, Errno::DQUOT].iter().any(|errno| text.contains(&format!("os error {}", errno.raw_os_error())))
}

/// Allocates blocks for a part of a file, also beyond its end, and leaves its length as it is. `false` where the file system
/// cannot do that.
pub fn allocate(file: &File, from: u64, bytes: u64) -> io::Result<bool> {
    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, from, bytes) {
            Ok(()) => return Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The blocks of a file or of everything in a directory. Links are not followed; what is gone meanwhile does not count.
/// `None` beyond [`MEASURED_ENTRIES_MAX`] entries.
pub fn used_bytes(path: &Path) -> Option<u64> {
    let mut left = MEASURED_ENTRIES_MAX;
    let mut bytes = 0;
    let mut open = vec![path.to_owned()];
    let taken = |metadata: Metadata| metadata.blocks().saturating_mul(BLOCK);
    while let Some(path) = open.pop() {
        left = left.checked_sub(1)?;
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if metadata.is_dir() {
            for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => open.push(entry.path()),
                    Ok(_) | Err(_) => {
                        left = left.checked_sub(1)?;
                        bytes += entry.metadata().map(taken).unwrap_or_default();
                    }
                }
            }
        }
        bytes += taken(metadata);
    }
    Some(bytes)
}

/// For an operator: how full the disk of a data directory is, and what of the directory takes most of it.
pub fn describe(data_dir: &Path) -> String {
    let mut text = String::new();
    if let Ok(found) = statvfs(data_dir) {
        let (free, all) = (found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize);
        let _ = write!(text, "{} of {} MiB are free", free / MIB, all / MIB);
    }
    let largest = largest(data_dir);
    for (index, (path, bytes)) in largest.iter().enumerate() {
        let begin = if index == 0 { "; largest in it: " } else { ", " };
        let _ = write!(text, "{begin}{} {} MiB", path.display(), bytes.div_ceil(MIB));
    }
    text.push_str("; the rest of the disk is used by others");
    text
}

/// The largest parts of a data directory: its entries, and the directories of single deployments.
fn largest(data_dir: &Path) -> Vec<(PathBuf, u64)> {
    let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_split = |path: &Path| path.ends_with("work");
    let parts = entries(data_dir).flat_map(|path| match is_split(&path) {
        true => entries(&path).collect::<Vec<_>>(),
        false => vec![path],
    });
    let mut sizes: Vec<_> = parts.filter_map(|path| used_bytes(&path).map(|bytes| (path, bytes))).collect();
    sizes.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    sizes.truncate(NAMED);
    sizes.retain(|(_, bytes)| *bytes >= MIB);
    sizes
}

/// A file that only holds blocks. It is removed before something must be written on a full disk.
pub struct HeldFile {
    path: PathBuf,
}

impl HeldFile {
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Holds at least so much. Where the file system cannot allocate in advance, nothing is held.
    pub fn hold(&self, bytes: u64) -> io::Result<()> {
        if self.path.metadata().is_ok_and(|found| found.blocks().saturating_mul(BLOCK) >= bytes) {
            return Ok(());
        }
        let file = File::options().create(true).truncate(false).write(true).open(&self.path)?;
        allocate(&file, 0, bytes).map(|_| ())
    }

    pub fn give_up(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn allocated_blocks_are_held_and_measured_and_the_length_stays() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("held");
        let held = HeldFile::new(path.clone());
        held.hold(3 * MIB).unwrap();
        held.hold(2 * MIB).unwrap();
        assert_eq!(path.metadata().unwrap().len(), 0);
        // A file system that cannot allocate in advance holds nothing.
        if allocate(&File::options().write(true).open(&path).unwrap(), 0, MIB).unwrap() {
            assert!((3 * MIB..4 * MIB).contains(&used_bytes(dir.path()).unwrap()));
            assert!(describe(dir.path()).contains("held 3 MiB"), "{}", describe(dir.path()));
        }
        held.give_up().unwrap();
        held.give_up().unwrap();
        assert!(used_bytes(dir.path()).unwrap() < MIB);
        assert_eq!(used_bytes(&path), Some(0));
    }

    #[test]
    fn links_are_measured_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let large = dir.path().join("large");
        std::fs::write(&large, vec![7; MIB as usize]).unwrap();
        let work = dir.path().join("work");
        std::fs::create_dir_all(work.join("deep/er")).unwrap();
        std::os::unix::fs::symlink(&large, work.join("deep/er/link")).unwrap();
        std::os::unix::fs::symlink(dir.path(), work.join("circle")).unwrap();
        assert!(used_bytes(&work).unwrap() < MIB);
        assert!(used_bytes(dir.path()).unwrap() >= MIB);
    }

    #[test]
    fn a_lack_of_space_is_known_by_kind_and_by_text() {
        for (errno, lack) in [(Errno::NOSPC, true), (Errno::DQUOT, true), (Errno::IO, false), (Errno::ACCESS, false)] {
            let error = io::Error::from(errno);
            assert_eq!((is_lack_of_space(&error), tells_of_lack_of_space(&format!("{error:?} {error}"))), (lack, lack));
        }
    }
}

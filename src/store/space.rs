//! The disk of the data directory: free space, usage, preallocated blocks, shortages of file descriptors, and durable
//! names.

use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Dir, FallocateFlags, FileType, Mode, OFlags, Stat, fallocate, openat, statat, statvfs};
use rustix::io::Errno;

use ambient::backoff::{Backoff, Retries};

const MIB: u64 = 1024 * 1024;
/// The unit of `st_blocks` on every file system.
const BLOCK: u64 = 512;
/// A tree with more entries or levels is only measured in part, which bounds the time and the descriptors needed. Large
/// repositories with all their dependencies have about 300,000 entries and 40 levels.
pub const MEASURED_ENTRIES_MAX: u64 = 500_000;
pub const MEASURED_DEPTH_MAX: usize = 200;
/// Entries between two calls of `goes_on`: a few milliseconds.
const ASKED_EVERY: u64 = 4_096;
/// At most this fraction of all files and directories is required to be free, for file systems that have few.
const ENTRIES_PART: u64 = 8;
/// Number of the largest items to list for an operator.
const NAMED: usize = 5;
/// Items with at least this many files are listed with their number of files, however small they are.
const NAMED_ENTRIES: u64 = 10_000;

/// Space and files available to this user on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Free {
    pub bytes: u64,
    /// The number of free files and directories (inodes).
    pub entries: u64,
    /// The total number; 0 if the file system has no fixed number.
    pub all_entries: u64,
}

impl Free {
    /// The free space of an unknown file system.
    pub const UNKNOWN: Free = Free { bytes: u64::MAX, entries: u64::MAX, all_entries: 0 };

    /// Free space on the file system of this path.
    pub fn at(path: &Path) -> io::Result<Self> {
        let found = statvfs(path)?;
        let bytes = found.f_bavail.saturating_mul(found.f_frsize);
        Ok(Free { bytes, entries: found.f_favail, all_entries: found.f_files })
    }

    pub fn lacks_entries(&self, least: u64) -> bool {
        self.entries < least.min(self.all_entries / ENTRIES_PART)
    }
}

/// Size of the whole file system of this path.
pub fn all_bytes(path: &Path) -> io::Result<u64> {
    let found = statvfs(path)?;
    Ok(found.f_blocks.saturating_mul(found.f_frsize))
}

pub fn free_bytes(path: &Path) -> io::Result<u64> {
    Ok(Free::at(path)?.bytes)
}

/// Whether the disk, or this user's quota on it, is full.
pub fn is_lack_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Like [`is_lack_of_space`], for a message that quotes the error, such as sled's.
pub fn tells_of_lack_of_space(text: &str) -> bool {
    [Errno::NOSPC, Errno::DQUOT].iter().any(|errno| text.contains(&format!("os error {}", errno.raw_os_error())))
}

/// Allocates blocks for a range of a file, even beyond its end, without changing its length. `false` if the file system
/// cannot do this.
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

/// Disk usage of a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usage {
    pub bytes: u64,
    /// Files and directories in it.
    pub entries: u64,
}

/// Why a tree was measured only in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmeasured {
    TooManyEntries,
    TooDeep,
    /// This user may not read it.
    Unreadable(Errno),
    /// This process currently lacks descriptors or memory.
    Shortage,
    Stopped,
}

impl Usage {
    fn add(&mut self, found: &Stat) {
        self.bytes =
            self.bytes.saturating_add(u64::try_from(found.st_blocks).unwrap_or_default().saturating_mul(BLOCK));
    }
}

/// Adds the blocks of a file, or of everything in a directory. Links are not followed; an entry that is removed
/// meanwhile does not count. Uses descriptors instead of paths, which may become too long for the kernel. `goes_on` is
/// called every [`ASKED_EVERY`] entries.
pub fn measure(path: &Path, usage: &mut Usage, mut goes_on: impl FnMut(&Usage) -> bool) -> Result<(), Unmeasured> {
    let Some(found) = unless_gone(statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW))? else { return Ok(()) };
    usage.add(&found);
    let mut open: Vec<Dir> = Vec::new();
    if FileType::from_raw_mode(found.st_mode).is_dir() {
        open.extend(unless_gone(open_dir(CWD, path))?);
    }
    let mut left = MEASURED_ENTRIES_MAX;
    while let Some(dir) = open.last_mut() {
        let Some(Some(entry)) = dir.read().map(unless_gone).transpose()? else {
            open.pop();
            continue;
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        left = left.checked_sub(1).ok_or(Unmeasured::TooManyEntries)?;
        usage.entries += 1;
        if left.is_multiple_of(ASKED_EVERY) && !goes_on(usage) {
            return Err(Unmeasured::Stopped);
        }
        let dir = dir.fd().map_err(Unmeasured::of)?;
        let Some(found) = unless_gone(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW))? else { continue };
        usage.add(&found);
        if FileType::from_raw_mode(found.st_mode).is_dir() {
            let below = unless_gone(open_dir(dir, name))?;
            if open.len() == MEASURED_DEPTH_MAX {
                return Err(Unmeasured::TooDeep);
            }
            open.extend(below);
        }
    }
    Ok(())
}

fn open_dir<P: rustix::path::Arg>(parent: impl AsFd, name: P) -> rustix::io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Dir::new(openat(parent, name, flags, Mode::empty())?)
}

/// `None` if the entry was removed or replaced meanwhile.
fn unless_gone<T>(result: rustix::io::Result<T>) -> Result<Option<T>, Unmeasured> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(Unmeasured::of(error)),
    }
}

impl Unmeasured {
    fn of(error: Errno) -> Self {
        match error {
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR => Unmeasured::Shortage,
            _ => Unmeasured::Unreadable(error),
        }
    }
}

/// Describes for an operator how full the disk of a data directory is, and the largest items in the directory.
pub fn describe(data_dir: &Path) -> String {
    let mut text = String::new();
    if let Ok(found) = statvfs(data_dir) {
        let (free, all) = (found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize);
        let _ = write!(text, "{} of {} MiB are free", free / MIB, all / MIB);
        if found.f_files > 0 {
            let _ = write!(text, ", and {} of {} files", found.f_favail, found.f_files);
        }
    }
    let largest = largest(data_dir);
    for (index, (path, usage)) in largest.iter().enumerate() {
        let begin = if index == 0 { "; largest in it: " } else { ", " };
        let _ = write!(text, "{begin}{} {} MiB", path.display(), usage.bytes.div_ceil(MIB));
        if usage.entries >= NAMED_ENTRIES {
            let _ = write!(text, " in {} files", usage.entries);
        }
    }
    text.push_str("; the rest of the disk is used by others");
    text
}

/// The largest parts of a data directory: its entries, and the working directories of deployments.
fn largest(data_dir: &Path) -> Vec<(PathBuf, Usage)> {
    let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_split = |path: &Path| path.ends_with("work");
    let parts = entries(data_dir).flat_map(|path| match is_split(&path) {
        true => entries(&path).collect::<Vec<_>>(),
        false => vec![path],
    });
    let mut sizes: Vec<_> = parts
        .map(|path| {
            let mut usage = Usage::default();
            // A partial measurement is good enough.
            let _ = measure(&path, &mut usage, |_| true);
            (path, usage)
        })
        .collect();
    sizes.retain(|(_, usage)| usage.bytes >= MIB || usage.entries >= NAMED_ENTRIES);
    sizes.sort_by_key(|(_, usage)| std::cmp::Reverse(*usage));
    sizes.truncate(NAMED);
    sizes
}

/// A file that only reserves blocks. Removed before something must be written to a full disk.
pub struct HeldFile {
    path: PathBuf,
}

impl HeldFile {
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Reserves at least this much. Reserves nothing if the file system cannot preallocate.
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

/// The pauses start short, because most shortages are, and grow, so that a long shortage costs little.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
pub const SHORTAGE: &str = "no file descriptors left: raise the limit (ulimit -n) or lower http.max_connections";

/// Whether the process or the system has run out of file descriptors. This is not a disk failure: some will be freed.
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Repeats the attempt while it fails for lack of descriptors.
pub fn retrying<T>(attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    pausing(attempt, std::thread::sleep)
}

fn pausing<T>(mut attempt: impl FnMut() -> io::Result<T>, mut pause: impl FnMut(Duration)) -> io::Result<T> {
    let mut retries = Retries::new(BACKOFF);
    loop {
        match attempt() {
            Err(error) if is_shortage(&error) => {
                let next = retries.failed();
                if retries.is_first() {
                    tracing::warn!(%error, "{SHORTAGE}; the database retries");
                }
                pause(next);
            }
            other => return other,
        }
    }
}

/// Makes the names in a directory durable: creating, renaming or removing a file survives a power cut only after its
/// directory was synced.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rustix::fs::{mkdirat, open};

    use super::*;

    fn measured(path: &Path) -> Result<Usage, Unmeasured> {
        let mut usage = Usage::default();
        measure(path, &mut usage, |_| true).map(|()| usage)
    }

    fn used_bytes(path: &Path) -> u64 {
        measured(path).unwrap().bytes
    }

    #[test]
    fn allocated_blocks_are_held_and_measured_and_the_length_stays() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("held");
        let held = HeldFile::new(path.clone());
        held.hold(3 * MIB).unwrap();
        held.hold(2 * MIB).unwrap();
        assert_eq!(path.metadata().unwrap().len(), 0);
        // A file system that cannot preallocate reserves nothing.
        if allocate(&File::options().write(true).open(&path).unwrap(), 0, MIB).unwrap() {
            assert!((3 * MIB..4 * MIB).contains(&used_bytes(dir.path())));
            assert!(describe(dir.path()).contains("held 3 MiB"), "{}", describe(dir.path()));
        }
        held.give_up().unwrap();
        held.give_up().unwrap();
        assert!(used_bytes(dir.path()) < MIB);
        assert_eq!(used_bytes(&path), 0);
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
        assert!(used_bytes(&work) < MIB);
        assert!(used_bytes(dir.path()) >= MIB);
    }

    /// A chain of directories, each with a name of maximum length.
    fn deep(dir: &Path, levels: usize) {
        let name = "d".repeat(255);
        let mut parent = open(dir, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..levels {
            mkdirat(&parent, &*name, Mode::RWXU).unwrap();
            parent = openat(&parent, &*name, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        let file = openat(parent, "large", OFlags::WRONLY | OFlags::CREATE, Mode::RWXU).unwrap();
        io::Write::write_all(&mut File::from(file), &[7; MIB as usize]).unwrap();
    }

    #[test]
    fn a_file_below_a_path_that_is_too_long_is_measured_and_too_many_levels_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        deep(dir.path(), 100);
        assert!(used_bytes(dir.path()) >= MIB);
        let dir = tempfile::tempdir().unwrap();
        deep(dir.path(), MEASURED_DEPTH_MAX);
        assert_eq!(measured(dir.path()), Err(Unmeasured::TooDeep));
    }

    #[test]
    fn a_tree_with_many_entries_is_left_when_there_is_something_else_to_do() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..2 * ASKED_EVERY {
            File::create(dir.path().join(number.to_string())).unwrap();
        }
        assert_eq!(measured(dir.path()).unwrap().entries, 2 * ASKED_EVERY);
        let mut usage = Usage::default();
        assert_eq!(measure(dir.path(), &mut usage, |_| false), Err(Unmeasured::Stopped));
        assert!((1..=ASKED_EVERY).contains(&usage.entries));
    }

    #[test]
    fn few_free_entries_are_a_lack_unless_the_file_system_has_no_number_of_them() {
        let free = |entries, all_entries| Free { bytes: 0, entries, all_entries };
        assert!(free(99, 8_000).lacks_entries(100) && !free(100, 8_000).lacks_entries(100));
        assert!(free(9, 80).lacks_entries(100) && !free(10, 80).lacks_entries(100));
        assert!(!free(0, 0).lacks_entries(100) && !Free::UNKNOWN.lacks_entries(100));
    }

    #[test]
    fn a_lack_of_space_is_known_by_kind_and_by_text() {
        for (errno, lack) in [(Errno::NOSPC, true), (Errno::DQUOT, true), (Errno::IO, false), (Errno::ACCESS, false)] {
            let error = io::Error::from(errno);
            assert_eq!((is_lack_of_space(&error), tells_of_lack_of_space(&format!("{error:?} {error}"))), (lack, lack));
        }
    }

    #[test]
    fn a_shortage_is_waited_out_in_pauses_that_stay_short() {
        let mut left = 20;
        let mut pauses = Vec::new();
        let attempt = || {
            left -= 1;
            if left == 0 { Ok("done") } else { Err([Errno::MFILE, Errno::NFILE][left % 2].into()) }
        };
        assert_eq!(pausing(attempt, |pause| pauses.push(pause)).unwrap(), "done");
        assert_eq!(pauses.len(), 19);
        assert!(
            pauses[0] <= Duration::from_millis(10) && *pauses.last().unwrap() <= Duration::from_secs(1),
            "{pauses:?}"
        );
    }

    #[test]
    fn another_failure_is_told_at_once() {
        let failed = pausing(|| Err::<(), _>(Errno::IO.into()), |_| panic!("it waits"));
        assert_eq!(Errno::from_io_error(&failed.unwrap_err()), Some(Errno::IO));
    }
}

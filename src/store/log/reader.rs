//! Reads the log while it is being written: only groups known to be durable. A [`Pin`] keeps segments that the database
//! no longer needs, for a reader that copies them. Pins are bounded: a reader that is too slow loses its pin, so that
//! the log does not grow without limit.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;

use super::format::{self, Examined, Group, MAX_GROUP_BYTES, PAGE};

/// Bytes per read: several of the largest groups.
const WINDOW: usize = 4 * 1024 * 1024;

/// Why a group that must exist could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{0}")]
    Damaged(String),
}

/// A segment, read from the beginning.
pub struct SegmentReader {
    file: File,
    /// The offset of the end page.
    room: u64,
    /// The offset of the first byte in `window`.
    offset: u64,
    window: Vec<u8>,
    /// Number of bytes of `window` already consumed.
    read: usize,
}

impl SegmentReader {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let room = file.metadata()?.len().saturating_sub(PAGE as u64);
        Ok(Self { file, room, offset: 0, window: Vec::new(), read: 0 })
    }

    /// The next group; `None` at the end of the segment, or where nothing has been written yet.
    pub fn next(&mut self) -> Result<Option<Group>, ReadError> {
        self.refill()?;
        let rest = &self.window[self.read..];
        if rest.is_empty() {
            return Ok(None);
        }
        match format::examine(rest) {
            Examined::Group(group) => {
                self.read += group.extent;
                Ok(Some(group))
            }
            // A group that is being written may be partially there.
            Examined::Blank | Examined::Unfinished { .. } => Ok(None),
            Examined::Damaged(what) => Err(ReadError::Damaged(what.to_owned())),
        }
    }

    /// Fills the window with at least the largest group, or everything that is left.
    fn refill(&mut self) -> io::Result<()> {
        let at = self.offset + self.read as u64;
        let left = usize::try_from(self.room.saturating_sub(at)).unwrap_or(usize::MAX);
        if self.window.len() - self.read >= format::extent(MAX_GROUP_BYTES).min(left) {
            return Ok(());
        }
        self.window.resize(WINDOW.min(left), 0);
        self.file.read_exact_at(&mut self.window, at)?;
        (self.offset, self.read) = (at, 0);
        Ok(())
    }
}

/// Why pinned segments were deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpinned {
    TooMuch,
    DiskFull,
}

pub struct Pins {
    bytes_max: u64,
    pins: Mutex<Vec<Arc<Held>>>,
}

struct Held {
    /// The last sequence that may be deleted.
    after: u64,
    state: AtomicU8,
}

const HELD: u8 = 0;
const TOO_MUCH: u8 = 1;
const DISK_FULL: u8 = 2;

/// Keeps the batches after a sequence in the log until dropped, unless the log grows too long.
pub struct Pin {
    held: Arc<Held>,
    pins: Arc<Pins>,
}

impl Pins {
    /// Keeps at most this much of the log.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max, pins: Mutex::default() })
    }

    pub fn add(self: &Arc<Self>, after: u64) -> Pin {
        let held = Arc::new(Held { after, state: AtomicU8::new(HELD) });
        self.pins.lock().push(held.clone());
        Pin { held, pins: self.clone() }
    }

    /// The sequence, at most `applied`, up to which segments may be deleted. Breaks pins that keep too much of the log:
    /// `bytes_after` returns the log's length after a sequence.
    pub fn bound(&self, applied: u64, disk_is_low: bool, bytes_after: impl Fn(u64) -> u64) -> u64 {
        let mut pins = self.pins.lock();
        pins.retain(|pin| {
            let broken = match () {
                () if disk_is_low && pin.after < applied => DISK_FULL,
                () if bytes_after(pin.after) > self.bytes_max => TOO_MUCH,
                () => return true,
            };
            pin.state.store(broken, Ordering::Release);
            false
        });
        pins.iter().map(|pin| pin.after).fold(applied, u64::min)
    }
}

impl Pin {
    pub fn bytes_max(&self) -> u64 {
        self.pins.bytes_max
    }

    /// Why the log is no longer kept; `None` while it is. Data read before that is complete.
    pub fn broken(&self) -> Option<Unpinned> {
        match self.held.state.load(Ordering::Acquire) {
            TOO_MUCH => Some(Unpinned::TooMuch),
            DISK_FULL => Some(Unpinned::DiskFull),
            _ => None,
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.pins.pins.lock().retain(|held| !Arc::ptr_eq(held, &self.held));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn sealed(first: u64, payload: &[u8]) -> Vec<u8> {
        let mut pages = vec![0; format::extent(payload.len())];
        format::seal(first, 1, payload, &mut pages);
        pages
    }

    #[test]
    fn all_groups_of_a_segment_are_read_whatever_their_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        let sizes = [1, 5_000, MAX_GROUP_BYTES, 3, MAX_GROUP_BYTES, MAX_GROUP_BYTES, 70_000];
        let groups: Vec<Vec<u8>> = sizes.iter().map(|size| vec![7; *size]).collect();
        let mut bytes: Vec<u8> = groups.iter().zip(1..).flat_map(|(payload, first)| sealed(first, payload)).collect();
        // Read with and without room left in the segment.
        for blank in [0, 3 * PAGE] {
            bytes.resize(bytes.len() + blank, 0);
            std::fs::write(&path, [bytes.as_slice(), &format::END_PAGE].concat()).unwrap();
            let mut reader = SegmentReader::open(&path).unwrap();
            for (payload, first) in groups.iter().zip(1..) {
                let group = reader.next().unwrap().unwrap();
                assert_eq!((group.first, group.payload == *payload), (first, true));
            }
            assert!(reader.next().unwrap().is_none());
        }
    }

    #[test]
    fn a_group_that_is_being_written_is_not_there_yet_and_a_damaged_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        let mut second = sealed(2, &[7; 5_000]);
        let read = |second: &[u8]| {
            std::fs::write(&path, [&sealed(1, b"a"), second, &format::END_PAGE].concat()).unwrap();
            let mut reader = SegmentReader::open(&path).unwrap();
            assert_eq!(reader.next().unwrap().unwrap().first, 1);
            reader.next()
        };
        assert!(read(&second).unwrap().is_some());
        second[700] ^= 1;
        assert!(matches!(read(&second), Err(ReadError::Damaged(_))));
        let end = second.len() - 1;
        second[end] = 0;
        assert!(read(&second).unwrap().is_none());
    }

    #[test]
    fn a_pin_bounds_what_is_deleted_until_it_is_dropped() {
        let pins = Pins::new(100);
        let (first, second) = (pins.add(7), pins.add(5));
        let bound = || pins.bound(9, false, |_| 0);
        assert_eq!(bound(), 5);
        drop(second);
        assert_eq!(bound(), 7);
        assert_eq!(first.broken(), None);
        drop(first);
        assert_eq!(bound(), 9);
    }

    #[test]
    fn a_log_that_grows_too_long_or_a_full_disk_breaks_the_pin() {
        let pins = Pins::new(100);
        let (old, new) = (pins.add(5), pins.add(7));
        assert_eq!(pins.bound(9, false, |after| if after == 5 { 101 } else { 100 }), 7);
        assert_eq!((old.broken(), new.broken()), (Some(Unpinned::TooMuch), None));
        assert_eq!(pins.bound(9, true, |_| 0), 9);
        assert_eq!(new.broken(), Some(Unpinned::DiskFull));
    }
}

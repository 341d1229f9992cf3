//! The log's files: a spare is prepared ahead of need, and segments that the database covers are deleted.
//!
//! A segment is filled with zeros before it is used, so that a later `fdatasync` has no metadata to flush. The thread that
//! does this also watches the free space, since it would be the first to run out of it.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::direct::{self, Aligned};
use super::disk::segment_name;
use super::format::{END_PAGE, PAGE};
use super::pins::{Pin, Pins};
use crate::store::contract::StoreError;
use crate::store::descriptors::{self, is_shortage};

/// Several times the largest group, or the log would do little else than change segments.
pub const MIN_SEGMENT_BYTES: usize = 4 * 1024 * 1024;
/// Zeros are synced in steps of this size, so that a group's own sync never waits behind a whole segment of them.
const ZERO_STEP: usize = 1024 * 1024;
/// How often the free space is checked; a disk does not fill 128 MiB much faster.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const SPARE: &str = "spare.new";
const MIB: u64 = 1024 * 1024;

pub struct Segments {
    dir: PathBuf,
    /// Kept open, so that syncing a name never needs a descriptor at a time when clients hold all of them.
    opened_dir: File,
    segment_bytes: usize,
    min_free: u64,
    spare: Mutex<Spare>,
    /// The committer waits here for a spare, the preparer for work.
    changed: Condvar,
    full: AtomicBool,
    /// The committer has no segment to continue with, for another reason than a full disk.
    starved: AtomicBool,
    refusing: metrics::Gauge,
    /// The first sequences of all segments that exist, ascending; the last is the one being written.
    existing: Mutex<Vec<u64>>,
    pins: Arc<Pins>,
}

#[derive(Default)]
struct Spare {
    ready: Option<File>,
    /// The committer waits for one.
    wanted: bool,
    /// Why the last attempt to make one failed, if it did.
    failed: Option<Cause>,
    stopping: bool,
    /// The store is closing: the committer no longer waits for a spare that cannot be made.
    giving_up: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Work {
    LookAgain,
    Stop,
}

/// Why there is no spare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    DiskFull,
    NoDescriptors,
    Other,
}

impl Cause {
    fn of(error: &io::Error) -> Cause {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Cause::DiskFull,
            _ if is_shortage(error) => Cause::NoDescriptors,
            _ => Cause::Other,
        }
    }
}

impl Segments {
    pub fn new(
        dir: &Path,
        segment_bytes: usize,
        min_free: u64,
        existing: Vec<u64>,
        pins: Arc<Pins>,
    ) -> io::Result<Segments> {
        // A spare of an earlier run may be incomplete.
        match std::fs::remove_file(dir.join(SPARE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let segments = Segments {
            dir: dir.to_owned(),
            opened_dir: File::open(dir)?,
            segment_bytes: segment_bytes.max(MIN_SEGMENT_BYTES).next_multiple_of(PAGE),
            min_free,
            spare: Mutex::default(),
            changed: Condvar::new(),
            full: AtomicBool::new(false),
            starved: AtomicBool::new(false),
            refusing: metrics::gauge!("lockkeeper_storage_refusing_writes"),
            existing: Mutex::new(existing),
            pins,
        };
        segments.refusing.set(0.0);
        segments.set_full(segments.is_low());
        Ok(segments)
    }

    pub fn path(&self, segment: u64) -> PathBuf {
        self.dir.join(segment_name(segment))
    }

    /// Where the end page of a new segment begins.
    pub fn room(&self) -> usize {
        self.segment_bytes - PAGE
    }

    /// Why new batches are refused, if they are.
    pub fn refusing(&self) -> Option<StoreError> {
        if self.full.load(Ordering::Relaxed) {
            let path = self.dir.display().to_string();
            return Some(StoreError::Full { path, min_free_mb: self.min_free / MIB });
        }
        self.starved.load(Ordering::Relaxed).then_some(StoreError::Overloaded)
    }

    /// Makes a segment on the caller's thread: the first one of a log.
    pub fn create(&self, first: u64) -> io::Result<File> {
        let file = self.make_spare()?;
        self.promote(first)?;
        Ok(file)
    }

    /// The next segment under its final name; waits for a spare. `None` if the store closes and there will be none.
    pub fn next(&self, first: u64) -> io::Result<Option<File>> {
        let mut spare = self.spare.lock();
        loop {
            spare.wanted = spare.ready.is_none();
            self.note_starved(&spare);
            if let Some(file) = spare.ready.take() {
                // Under the lock, so that the preparer does not begin another file of the same name.
                let promoted = self.promote(first);
                self.changed.notify_all();
                return promoted.map(|()| Some(file));
            }
            if spare.giving_up && spare.failed.is_some() || spare.stopping {
                return Ok(None);
            }
            self.changed.wait(&mut spare);
        }
    }

    /// The committer stops waiting for a spare that cannot be made.
    pub fn give_up_waiting(&self) {
        self.spare.lock().giving_up = true;
        self.changed.notify_all();
    }

    pub fn stop(&self) {
        self.spare.lock().stopping = true;
        self.changed.notify_all();
    }

    /// The preparer's thread: keeps one spare ready and checks the free space, until stopped.
    pub fn prepare(&self) {
        loop {
            let low = self.is_low();
            let missing = self.spare.lock().ready.is_none();
            // Also below the reserve: batches handed in before must still find a segment.
            let made = missing.then(|| self.make_spare()).transpose();
            self.note_spare(&mut self.spare.lock(), made, low);
            if self.wait_for_work() == Work::Stop {
                return;
            }
        }
    }

    fn wait_for_work(&self) -> Work {
        let mut spare = self.spare.lock();
        let look_again = Instant::now() + LOOK_EVERY;
        while !spare.stopping && (spare.failed.is_some() || spare.ready.is_some()) {
            if self.changed.wait_until(&mut spare, look_again).timed_out() {
                break;
            }
        }
        if spare.stopping { Work::Stop } else { Work::LookAgain }
    }

    fn note_spare(&self, spare: &mut Spare, made: io::Result<Option<File>>, low: bool) {
        let before = spare.failed.take();
        match made {
            Ok(file) => spare.ready = file.or(spare.ready.take()),
            Err(error) => {
                spare.failed = Some(Cause::of(&error));
                if before != spare.failed {
                    self.log_failure(Cause::of(&error), &error);
                }
            }
        }
        if before.is_some() && spare.failed.is_none() {
            tracing::info!(dir = %self.dir.display(), "new log segments can be made again");
        }
        self.set_full(low || spare.failed == Some(Cause::DiskFull));
        self.note_starved(spare);
        self.changed.notify_all();
    }

    /// Keeps the batches after this sequence, which must be durable and not yet deleted.
    pub fn pin(&self, after: u64) -> Pin {
        self.pins.add(after)
    }

    /// The segments with batches after this sequence, ascending: the first sequence of each.
    pub fn after(&self, sequence: u64) -> Vec<u64> {
        let existing = self.existing.lock();
        let covered = existing.windows(2).take_while(|pair| pair[1] <= sequence + 1).count();
        existing[covered..].to_vec()
    }

    /// Deletes the segments that hold nothing beyond `applied`; never the one being written, nor one that is pinned.
    pub fn delete_covered(&self, applied: u64) -> io::Result<()> {
        let bytes_after = |sequence| self.after(sequence).len() as u64 * self.segment_bytes as u64;
        let applied = self.pins.bound(applied, self.full.load(Ordering::Relaxed), bytes_after);
        // Oldest first and not synced: segments that a power cut brings back are deleted by the next checkpoint.
        while let Some(segment) = self.oldest_covered(applied) {
            match std::fs::remove_file(self.path(segment)) {
                // If somebody else has removed it, there is no reason to try for ever.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => self.existing.lock().retain(|existing| *existing != segment),
            }
        }
        Ok(())
    }

    fn oldest_covered(&self, applied: u64) -> Option<u64> {
        match self.existing.lock()[..] {
            [oldest, next, ..] if next <= applied + 1 => Some(oldest),
            _ => None,
        }
    }

    fn make_spare(&self) -> io::Result<File> {
        let path = self.dir.join(SPARE);
        let made = self.write_zeros(&path);
        if made.is_err() {
            // Frees its space. If that fails too, the next attempt truncates it.
            let _ = std::fs::remove_file(&path);
        }
        made
    }

    fn write_zeros(&self, path: &Path) -> io::Result<File> {
        let file = direct::open(OpenOptions::new().create(true).truncate(true).write(true), path)?;
        let mut pages = Aligned::default();
        let zeros = pages.room(ZERO_STEP);
        for from in (0..self.room()).step_by(ZERO_STEP) {
            let step = ZERO_STEP.min(self.room() - from);
            direct::write_all_at(&file, &zeros[..step], from as u64)?;
            file.sync_data()?;
        }
        let end = pages.room(PAGE);
        end.copy_from_slice(&END_PAGE);
        direct::write_all_at(&file, end, self.room() as u64)?;
        file.sync_all()?;
        Ok(file)
    }

    /// Renames the spare, durably, before anything is written to it.
    fn promote(&self, first: u64) -> io::Result<()> {
        std::fs::rename(self.dir.join(SPARE), self.path(first))?;
        self.opened_dir.sync_all()?;
        self.existing.lock().push(first);
        Ok(())
    }

    fn is_low(&self) -> bool {
        match rustix::fs::statvfs(&self.dir) {
            Ok(found) => found.f_bavail.saturating_mul(found.f_frsize) < self.min_free,
            Err(error) => {
                tracing::warn!(dir = %self.dir.display(), %error, "cannot read the free space");
                false
            }
        }
    }

    fn log_failure(&self, cause: Cause, error: &io::Error) {
        let dir = self.dir.display();
        match cause {
            // Logged by `set_full`.
            Cause::DiskFull => {}
            Cause::NoDescriptors => {
                tracing::error!(%dir, %error, "{}; retrying every second", descriptors::SHORTAGE);
            }
            Cause::Other => {
                tracing::error!(%dir, %error, "cannot make a new log segment; retrying every second");
            }
        }
    }

    /// Called whenever one of the conditions has changed.
    fn note_starved(&self, spare: &Spare) {
        // A full disk refuses writes by itself.
        let failed = spare.failed.is_some_and(|cause| cause != Cause::DiskFull);
        let starved = failed && spare.wanted && spare.ready.is_none();
        if self.starved.swap(starved, Ordering::Relaxed) == starved {
            return;
        }
        self.show_refusing();
        if starved {
            let dir = self.dir.display();
            tracing::error!(%dir, "the log has no segment to continue with: new writes are refused until there is one");
        }
    }

    fn show_refusing(&self) {
        self.refusing.set(if self.refusing().is_some() { 1.0 } else { 0.0 });
    }

    fn set_full(&self, full: bool) {
        if self.full.swap(full, Ordering::Relaxed) == full {
            return;
        }
        self.show_refusing();
        let dir = self.dir.display();
        let min_free_mb = self.min_free / MIB;
        if full {
            tracing::error!(%dir, min_free_mb, "the disk is full: new writes are refused until space is freed");
        } else {
            tracing::info!(%dir, "the disk has room again: writes are accepted");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rustix::io::Errno;

    fn segments(dir: &Path, existing: Vec<u64>) -> Segments {
        Segments::new(dir, MIN_SEGMENT_BYTES, 0, existing, Pins::new(0)).unwrap()
    }

    fn note(segments: &Segments, made: io::Result<Option<File>>) {
        segments.note_spare(&mut segments.spare.lock(), made, false);
    }

    #[test]
    fn a_shortage_of_descriptors_refuses_writes_only_when_the_log_cannot_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let segments = segments(dir.path(), vec![1]);
        for shortage in [Errno::MFILE, Errno::NFILE] {
            note(&segments, Err(shortage.into()));
            assert!(segments.refusing().is_none(), "the segment that is being written has room");
        }
        std::thread::scope(|threads| {
            let next = threads.spawn(|| segments.next(7).unwrap());
            while segments.refusing().is_none() {
                std::thread::yield_now();
            }
            assert!(matches!(segments.refusing(), Some(StoreError::Overloaded)));
            note(&segments, segments.make_spare().map(Some));
            assert!(segments.refusing().is_none());
            assert!(next.join().unwrap().is_some());
        });
        assert!(segments.path(7).exists() && segments.refusing().is_none());
    }

    #[test]
    fn only_a_full_disk_is_called_one() {
        let dir = tempfile::tempdir().unwrap();
        let segments = segments(dir.path(), vec![1]);
        for (error, full) in [(Errno::NOSPC, true), (Errno::MFILE, false), (Errno::DQUOT, true), (Errno::IO, false)] {
            note(&segments, Err(error.into()));
            assert_eq!(matches!(segments.refusing(), Some(StoreError::Full { .. })), full, "{error}");
        }
    }

    #[test]
    fn a_segment_that_could_not_be_deleted_is_tried_again_with_those_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let segments = segments(dir.path(), vec![1, 5, 9]);
        for segment in [5, 9] {
            std::fs::write(segments.path(segment), "").unwrap();
        }
        // A directory in its place cannot be removed as a file.
        std::fs::create_dir(segments.path(1)).unwrap();
        assert!(segments.delete_covered(20).is_err());
        assert!(segments.path(5).exists(), "oldest first, so that the log never has a gap");
        std::fs::remove_dir(segments.path(1)).unwrap();
        std::fs::write(segments.path(1), "").unwrap();
        segments.delete_covered(20).unwrap();
        assert_eq!([1, 5, 9].map(|segment| segments.path(segment).exists()), [false, false, true]);
    }
}

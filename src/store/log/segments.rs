//! The log's files: a spare is prepared in advance, and segments that the database covers are deleted.
//!
//! A segment is filled with zeros before use, so that a later `fdatasync` has no metadata to flush. The thread that
//! does this also monitors the free space, because it would be the first to run out of space.
//!
//! A few more segments are held as a reserve. Their blocks are allocated, so that the log continues when the disk is
//! full, although it then accepts only ends and deletions. Segments that the database covers refill the reserve.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::disk::{self, Aligned, segment_name};
use super::format::{END_PAGE, MAX_GROUP_BYTES, PAGE};
use super::queue::MAX_QUEUED_BYTES;
use super::reader::{Pin, Pins};
use crate::contract::StoreError;
use crate::space::{self, Free, allocate, free_bytes, is_lack_of_space, is_shortage};
use ambient::backoff::{Backoff, Retries};

/// Several times the largest group; otherwise the log would constantly change segments.
pub const MIN_SEGMENT_BYTES: usize = 4 * 1024 * 1024;
/// Zeros are synced in steps of this size, so that a group's sync never waits for a whole segment of them.
const ZERO_STEP: usize = 1024 * 1024;
/// The interval for checking the free space; a disk does not fill 128 MiB much faster.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The pauses after a spare could not be created. Short, because writes are refused meanwhile.
const BACKOFF: Backoff = Backoff::new(LOOK_EVERY, Duration::from_secs(10));
const SPARE: &str = "spare.new";
/// A reserve segment being made, from a new file or a covered segment.
const HELD_BEING_MADE: &str = "reserve.new";
/// Followed by a number.
const HELD: &str = "reserve-";
/// Size of the reserve: several times what the queue may hold when the disk becomes full, and at least two segments. A
/// release takes a page, so the reserve is enough for thousands, besides the segments that the database frees.
const HELD_MIN_BYTES: usize = 2 * MAX_QUEUED_BYTES;
const HELD_MIN_SEGMENTS: usize = 2;
/// Room for batches that are already queued: the log must never stop before them.
const KEPT_FOR_QUEUED: usize = MAX_QUEUED_BYTES + MAX_GROUP_BYTES;
/// Fewer free files (inodes) count as a full disk too: the database needs some.
const MIN_FREE_ENTRIES: u64 = 64;
const MIB: u64 = 1024 * 1024;

pub struct Segments {
    dir: PathBuf,
    /// Kept open, so that syncing a name needs no descriptor, even when clients have used up all of them.
    opened_dir: File,
    segment_bytes: usize,
    min_free: u64,
    spare: Mutex<Spare>,
    /// The committer waits here for a spare, the preparer for work.
    changed: Condvar,
    full: AtomicBool,
    /// Room left in the segment that is being written.
    left: AtomicUsize,
    /// Held while a reserve segment is made: by the preparer, or by the applier from a segment no longer needed.
    making: Mutex<()>,
    /// Whether the committer has no segment to continue with, for a reason other than a full disk.
    starved: AtomicBool,
    refusing: metrics::Gauge,
    /// The first sequences of all existing segments, ascending; the last is the one being written.
    existing: Mutex<Vec<u64>>,
    pins: Arc<Pins>,
}

#[derive(Default)]
struct Spare {
    ready: Option<File>,
    /// The reserve.
    held: Vec<HeldSegment>,
    /// Whether the committer waits for a spare.
    wanted: bool,
    /// Why the last attempt to create a spare failed, if it did.
    failed: Option<Cause>,
    stopping: bool,
    /// Whether the store is closing: the committer then does not wait for a spare that cannot be created.
    giving_up: bool,
}

/// A segment of the reserve. Kept open, so that it can be used when there are no descriptors left.
struct HeldSegment {
    path: PathBuf,
    file: File,
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
        match () {
            () if is_lack_of_space(error) => Cause::DiskFull,
            () if is_shortage(error) => Cause::NoDescriptors,
            () => Cause::Other,
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
        Segments::remove_spare(dir)?;
        let segments = Segments {
            dir: dir.to_owned(),
            opened_dir: File::open(dir)?,
            segment_bytes: segment_bytes.max(MIN_SEGMENT_BYTES).next_multiple_of(PAGE),
            min_free,
            spare: Mutex::default(),
            changed: Condvar::new(),
            full: AtomicBool::new(false),
            left: AtomicUsize::new(0),
            making: Mutex::default(),
            starved: AtomicBool::new(false),
            refusing: metrics::gauge!("lockkeeper_storage_refusing_writes"),
            existing: Mutex::new(existing),
            pins,
        };
        segments.find_held()?;
        segments.refusing.set(0.0);
        segments.set_full(segments.is_low());
        Ok(segments)
    }

    /// Removes the spare of an earlier run, which may be incomplete.
    pub fn remove_spare(dir: &Path) -> io::Result<()> {
        match std::fs::remove_file(dir.join(SPARE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub fn path(&self, segment: u64) -> PathBuf {
        self.dir.join(segment_name(segment))
    }

    /// The offset of the end page in a new segment.
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

    /// Whether a batch that may use the reserve is accepted on a full disk.
    pub fn takes_ends(&self) -> bool {
        let spare = self.spare.lock();
        let segments = spare.held.len() + usize::from(spare.ready.is_some());
        self.is_full() && self.left.load(Ordering::Relaxed) + segments * self.room() >= KEPT_FOR_QUEUED
    }

    fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Records the room left in the committer's segment.
    pub fn note_left(&self, bytes: usize) {
        self.left.store(bytes, Ordering::Relaxed);
    }

    /// Creates the first segment of a log, on the caller's thread.
    pub fn create(&self, first: u64) -> io::Result<File> {
        match self.make_spare() {
            Ok(file) => {
                self.promote(&self.dir.join(SPARE), first)?;
                Ok(file)
            }
            Err(error) => self.take_held(&mut self.spare.lock(), first)?.ok_or(error),
        }
    }

    fn take_held(&self, spare: &mut Spare, first: u64) -> io::Result<Option<File>> {
        let Some(HeldSegment { path, file }) = spare.held.pop() else { return Ok(None) };
        self.promote(&path, first).map(|()| Some(file))
    }

    /// The next segment under its final name; waits for a spare. `None` if the store closes and no spare can be
    /// created.
    pub fn next(&self, first: u64) -> io::Result<Option<File>> {
        let mut spare = self.spare.lock();
        loop {
            spare.wanted = spare.ready.is_none();
            self.note_starved(&spare);
            if let Some(file) = spare.ready.take() {
                // Renamed under the lock, so that the preparer does not create another file with the same name.
                let promoted = self.promote(&self.dir.join(SPARE), first);
                self.changed.notify_all();
                return promoted.map(|()| Some(file));
            }
            if spare.failed == Some(Cause::DiskFull)
                && let Some(file) = self.take_held(&mut spare, first)?
            {
                spare.wanted = false;
                return Ok(Some(file));
            }
            if spare.giving_up && spare.failed.is_some() || spare.stopping {
                return Ok(None);
            }
            self.changed.wait(&mut spare);
        }
    }

    /// Makes the committer stop waiting for a spare that cannot be created.
    pub fn give_up_waiting(&self) {
        self.spare.lock().giving_up = true;
        self.changed.notify_all();
    }

    pub fn stop(&self) {
        self.spare.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Runs on the preparer's thread: keeps one spare and the reserve ready and checks the free space, until stopped.
    /// `hold` keeps other reserves ready.
    pub fn prepare(&self, hold: impl Fn() -> io::Result<()>) {
        let mut retries = Retries::new(BACKOFF);
        loop {
            // After a full disk, the reserve is filled first.
            let held = hold().and_then(|()| self.hold_segments());
            let lacks_reserve = held.is_err_and(|error| is_lack_of_space(&error));
            let missing = self.spare.lock().ready.is_none();
            // Attempted even on a nearly full disk: queued batches must still find a segment.
            let made = missing.then(|| self.make_spare()).transpose();
            let low = self.is_low();
            let has_failed = made.is_err();
            self.note_spare(&mut self.spare.lock(), made, low || lacks_reserve);
            let pause = if has_failed {
                retries.failed()
            } else {
                retries.worked();
                LOOK_EVERY
            };
            if self.wait_for_work(pause) == Work::Stop {
                return;
            }
        }
    }

    fn wait_for_work(&self, pause: Duration) -> Work {
        let mut spare = self.spare.lock();
        let look_again = Instant::now() + pause;
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

    /// The segments with batches after this sequence, ascending, by their first sequences.
    pub fn after(&self, sequence: u64) -> Vec<u64> {
        let existing = self.existing.lock();
        let covered = existing.windows(2).take_while(|pair| pair[1] <= sequence + 1).count();
        existing[covered..].to_vec()
    }

    /// Deletes the segments without batches after `applied`; never a pinned segment, or the one being written.
    pub fn delete_covered(&self, applied: u64) -> io::Result<()> {
        let bytes_after = |sequence| self.after(sequence).len() as u64 * self.segment_bytes as u64;
        let applied = self.pins.bound(applied, self.full.load(Ordering::Relaxed), bytes_after);
        // Oldest first and without a sync: a power cut may restore segments, which the next checkpoint deletes.
        while let Some(segment) = self.oldest_covered(applied) {
            match self.remove(segment) {
                // A segment that is already gone must not be retried forever.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => self.existing.lock().retain(|existing| *existing != segment),
            }
        }
        Ok(())
    }

    /// Removes a segment. Moves its blocks to the reserve, if that is incomplete.
    fn remove(&self, segment: u64) -> io::Result<()> {
        let path = self.path(segment);
        let wanted = self.is_full() && self.spare.lock().held.len() < self.held_wanted();
        if !wanted || path.metadata()?.len() != self.segment_bytes as u64 {
            return std::fs::remove_file(path);
        }
        let making = self.making.lock();
        std::fs::rename(path, self.dir.join(HELD_BEING_MADE))?;
        // Without this sync, a power cut might restore the segment with zeros in it.
        self.opened_dir.sync_all()?;
        let held = self.make_held()?;
        drop(making);
        self.spare.lock().held.push(held);
        Ok(())
    }

    fn oldest_covered(&self, applied: u64) -> Option<u64> {
        match self.existing.lock()[..] {
            [oldest, next, ..] if next <= applied + 1 => Some(oldest),
            _ => None,
        }
    }

    fn held_wanted(&self) -> usize {
        (HELD_MIN_BYTES / self.segment_bytes).max(HELD_MIN_SEGMENTS)
    }

    fn hold_segments(&self) -> io::Result<()> {
        while self.spare.lock().held.len() < self.held_wanted() {
            let making = self.making.lock();
            let held = self.make_held()?;
            drop(making);
            self.spare.lock().held.push(held);
        }
        Ok(())
    }

    /// Makes a reserve segment from a new file, or from one left by a killed server or by [`Self::remove`]. The old
    /// content must not be readable.
    fn make_held(&self) -> io::Result<HeldSegment> {
        let path = self.dir.join(HELD_BEING_MADE);
        let used = path.exists();
        if !used {
            self.check_space()?;
        }
        let file = disk::open(OpenOptions::new().create(true).truncate(false).write(true), &path)?;
        let made = self.fill_held(&file, used).and_then(|()| self.name_held(&path));
        if made.is_err() && !used {
            let _ = std::fs::remove_file(&path);
        }
        Ok(HeldSegment { path: made?, file })
    }

    fn fill_held(&self, file: &File, used: bool) -> io::Result<()> {
        // Allocated but unwritten blocks read as zeros, and cost no write until they are needed.
        if used || !allocate(file, 0, self.segment_bytes as u64)? {
            self.write_zeros(file)?;
        }
        self.write_end(file)
    }

    fn write_end(&self, file: &File) -> io::Result<()> {
        let mut pages = Aligned::default();
        let end = pages.room(PAGE);
        end.copy_from_slice(&END_PAGE);
        disk::write_all_at(file, end, self.room() as u64)?;
        file.sync_all()
    }

    fn name_held(&self, made: &Path) -> io::Result<PathBuf> {
        let names = (0..).map(|number| self.dir.join(format!("{HELD}{number}")));
        let path = names.take(self.held_wanted() + 1).find(|path| !path.exists());
        let path = path.ok_or_else(|| io::Error::other("more of the reserve than was made"))?;
        std::fs::rename(made, &path)?;
        self.opened_dir.sync_all()?;
        Ok(path)
    }

    /// Finds the reserve of an earlier run. Segments that are too small are recreated. Larger ones are usable, and must
    /// survive a command with smaller segments that opens the directory in between.
    fn find_held(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            if !entry.file_name().to_str().is_some_and(|name| name.starts_with(HELD)) {
                continue;
            }
            let path = entry.path();
            let mut spare = self.spare.lock();
            if entry.metadata()?.len() < self.segment_bytes as u64 || spare.held.len() >= self.held_wanted() {
                std::fs::remove_file(path)?;
                continue;
            }
            let file = disk::open(OpenOptions::new().write(true), &path)?;
            spare.held.push(HeldSegment { path, file });
        }
        Ok(())
    }

    /// Assumes a full disk until the first check of the free space.
    pub fn lacks_reserve(&self) {
        self.set_full(true);
    }

    /// Frees the blocks of one reserve segment, which a start needs more urgently.
    pub fn remove_one_held(dir: &Path) -> io::Result<()> {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(HELD)) {
                return std::fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    /// Fails early if the disk has no room for a segment, instead of taking blocks and giving them back.
    fn check_space(&self) -> io::Result<()> {
        let missing = free_bytes(&self.dir).is_ok_and(|free| free < self.segment_bytes as u64);
        if missing { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn make_spare(&self) -> io::Result<File> {
        self.check_space()?;
        let path = self.dir.join(SPARE);
        let made = self.write_spare(&path);
        if made.is_err() {
            // Frees the file's space. If that fails too, the next attempt truncates the file.
            let _ = std::fs::remove_file(&path);
        }
        made
    }

    fn write_spare(&self, path: &Path) -> io::Result<File> {
        let file = disk::open(OpenOptions::new().create(true).truncate(true).write(true), path)?;
        self.write_zeros(&file)?;
        self.write_end(&file)?;
        Ok(file)
    }

    fn write_zeros(&self, file: &File) -> io::Result<()> {
        let mut pages = Aligned::default();
        let zeros = pages.room(ZERO_STEP);
        for from in (0..self.room()).step_by(ZERO_STEP) {
            let step = ZERO_STEP.min(self.room() - from);
            disk::write_all_at(file, &zeros[..step], from as u64)?;
            file.sync_data()?;
        }
        Ok(())
    }

    /// Renames a blank segment, durably, before anything is written to it.
    fn promote(&self, blank: &Path, first: u64) -> io::Result<()> {
        std::fs::rename(blank, self.path(first))?;
        self.opened_dir.sync_all()?;
        self.existing.lock().push(first);
        Ok(())
    }

    fn is_low(&self) -> bool {
        match Free::at(&self.dir) {
            Ok(free) => free.bytes < self.min_free || free.lacks_entries(MIN_FREE_ENTRIES),
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
                tracing::error!(%dir, %error, "{}; retrying every second", space::SHORTAGE);
            }
            Cause::Other => {
                tracing::error!(%dir, %error, "cannot make a new log segment; retrying every second");
            }
        }
    }

    /// Called whenever a condition for starvation has changed.
    fn note_starved(&self, spare: &Spare) {
        // A full disk refuses writes separately.
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
            tracing::error!(
                %dir, min_free_mb,
                "the disk is full: until space is freed, only ends, cancellations and deletions are written, to the reserve"
            );
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
    fn on_a_full_disk_the_log_goes_on_in_the_reserve_and_fills_it_with_what_is_covered() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let first = segments(dir.path(), Vec::new());
        first.create(1).unwrap();
        first.hold_segments().unwrap();
        // A start finds the reserve, and removes files of another size.
        std::fs::write(dir.path().join("reserve-9"), "short").unwrap();
        drop(first);
        let segments = segments(dir.path(), vec![1]);
        let held = || segments.spare.lock().held.len();
        let wanted = segments.held_wanted();
        assert_eq!((held(), dir.path().join("reserve-9").exists()), (wanted, false));
        assert!(!segments.takes_ends(), "the disk is not full");
        note(&segments, Err(Errno::NOSPC.into()));
        for number in 0..wanted {
            assert!(segments.takes_ends() || number + 2 >= wanted, "{number}");
            let file = segments.next(10 * (number as u64 + 1)).unwrap().unwrap();
            assert_eq!(file.metadata().unwrap().len(), MIN_SEGMENT_BYTES as u64);
        }
        assert!(held() == 0 && !segments.takes_ends(), "what was handed in before still fits");
        std::fs::write(segments.path(10), vec![7; MIN_SEGMENT_BYTES]).unwrap();
        segments.delete_covered(25).unwrap();
        assert_eq!((held(), segments.after(0)), (2, vec![20, 30, 40]));
        for first in [50, 60] {
            segments.next(first).unwrap().unwrap();
            let blank = std::fs::read(segments.path(first)).unwrap();
            assert!(blank[..segments.room()].iter().all(|byte| *byte == 0) && blank.ends_with(&END_PAGE));
        }
    }

    #[test]
    fn a_segment_that_could_not_be_deleted_is_tried_again_with_those_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let segments = segments(dir.path(), vec![1, 5, 9]);
        for segment in [5, 9] {
            std::fs::write(segments.path(segment), "").unwrap();
        }
        // A directory in place of the segment cannot be removed as a file.
        std::fs::create_dir(segments.path(1)).unwrap();
        assert!(segments.delete_covered(20).is_err());
        assert!(segments.path(5).exists(), "oldest first, so that the log never has a gap");
        std::fs::remove_dir(segments.path(1)).unwrap();
        std::fs::write(segments.path(1), "").unwrap();
        segments.delete_covered(20).unwrap();
        assert_eq!([1, 5, 9].map(|segment| segments.path(segment).exists()), [false, false, true]);
    }
}

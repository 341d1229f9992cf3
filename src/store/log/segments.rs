//! The log's files: the next one is made ready ahead of need, and one the database covers is deleted.
//!
//! A segment is really written with zeros before it is used, so that a later `fdatasync` has no metadata to flush. The
//! thread that does this also watches the free space, since it is the one that would run out of it first.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::disk::segment_name;
use super::format::{END_PAGE, PAGE};
use crate::store::StoreError;
use crate::store::sync_dir::sync_dir;

/// Must hold the largest group several times over, or rolling would be all the log does.
pub const MIN_SEGMENT_BYTES: usize = 4 * 1024 * 1024;
/// Zeros are synced in steps of this size, so that a group's own sync never waits behind a whole segment of them.
const ZERO_STEP: usize = 1024 * 1024;
/// How often the free space is looked at; a disk does not fill 128 MiB much faster.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const SPARE: &str = "spare.new";
const MIB: u64 = 1024 * 1024;

pub struct Segments {
    dir: PathBuf,
    segment_bytes: usize,
    min_free: u64,
    spare: Mutex<Spare>,
    /// The committer waits here for a spare, the preparer for work.
    changed: Condvar,
    full: AtomicBool,
    refusing: metrics::Gauge,
    /// The first sequences of all segments that exist, ascending; the last is the one being written.
    existing: Mutex<Vec<u64>>,
}

#[derive(Default)]
struct Spare {
    ready: Option<File>,
    /// Making one failed, and was not tried again since.
    failed: bool,
    stopping: bool,
    /// The committer wants no more than what is ready, even if that is nothing.
    giving_up: bool,
}

impl Segments {
    pub fn new(dir: &Path, segment_bytes: usize, min_free: u64, existing: Vec<u64>) -> io::Result<Segments> {
        // What is there was cut short by a crash; its size cannot be trusted.
        match std::fs::remove_file(dir.join(SPARE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let segments = Segments {
            dir: dir.to_owned(),
            segment_bytes: segment_bytes.max(MIN_SEGMENT_BYTES).next_multiple_of(PAGE),
            min_free,
            spare: Mutex::default(),
            changed: Condvar::new(),
            full: AtomicBool::new(false),
            refusing: metrics::gauge!("lockkeeper_storage_refusing_writes"),
            existing: Mutex::new(existing),
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

    /// Why no new batches are taken, if the disk is full.
    pub fn refusing(&self) -> Option<StoreError> {
        self.full
            .load(Ordering::Relaxed)
            .then(|| StoreError::Full { path: self.dir.display().to_string(), min_free_mb: self.min_free / MIB })
    }

    /// Makes a segment on the caller's thread: for the first one of a log.
    pub fn create(&self, first: u64) -> io::Result<File> {
        let file = self.make_spare()?;
        self.promote(first)?;
        Ok(file)
    }

    /// The next segment, under its name; waits for a spare. `None` if the store closes and there will be none.
    pub fn next(&self, first: u64) -> io::Result<Option<File>> {
        let mut spare = self.spare.lock();
        loop {
            if let Some(file) = spare.ready.take() {
                // Under the lock, so that the preparer does not begin another file of the same name.
                let promoted = self.promote(first);
                self.changed.notify_all();
                return promoted.map(|()| Some(file));
            }
            if spare.giving_up && spare.failed || spare.stopping {
                return Ok(None);
            }
            self.changed.wait(&mut spare);
        }
    }

    /// From now on a batch that finds no segment is not waited for.
    pub fn give_up_waiting(&self) {
        self.spare.lock().giving_up = true;
        self.changed.notify_all();
    }

    pub fn stop(&self) {
        self.spare.lock().stopping = true;
        self.changed.notify_all();
    }

    /// The preparer's thread: keeps one spare ready and looks at the free space, until stopped.
    pub fn prepare(&self) {
        loop {
            let low = self.is_low();
            let missing = self.spare.lock().ready.is_none();
            // Also below the reserve: what was handed in before it was reached must still find a segment.
            let made = if missing { Some(self.make_spare()) } else { None };
            let mut spare = self.spare.lock();
            let failed = match made {
                Some(Ok(file)) => {
                    spare.ready = Some(file);
                    false
                }
                Some(Err(error)) => {
                    self.note_failed_spare(&error);
                    true
                }
                None => false,
            };
            spare.failed = failed;
            self.changed.notify_all();
            self.set_full(low || failed);
            let look_again = Instant::now() + LOOK_EVERY;
            while !spare.stopping && (failed || spare.ready.is_some()) {
                if self.changed.wait_until(&mut spare, look_again).timed_out() {
                    break;
                }
            }
            if spare.stopping {
                return;
            }
        }
    }

    /// Deletes the segments that hold nothing beyond `applied`; never the one being written.
    pub fn delete_covered(&self, applied: u64) -> io::Result<()> {
        let covered: Vec<u64> = {
            let mut existing = self.existing.lock();
            let count = existing.windows(2).take_while(|pair| pair[1] <= applied + 1).count();
            existing.drain(..count).collect()
        };
        // Oldest first and not synced: what a power cut brings back is deleted by the next checkpoint after the start.
        covered.into_iter().try_for_each(|segment| std::fs::remove_file(self.path(segment)))
    }

    fn make_spare(&self) -> io::Result<File> {
        let path = self.dir.join(SPARE);
        let made = self.write_zeros(&path);
        if made.is_err() {
            // Gives back the space it took. If that fails too, the next attempt truncates it.
            let _ = std::fs::remove_file(&path);
        }
        made
    }

    fn write_zeros(&self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
        let zeros = vec![0; ZERO_STEP];
        for from in (0..self.room()).step_by(ZERO_STEP) {
            let step = ZERO_STEP.min(self.room() - from);
            file.write_all_at(&zeros[..step], from as u64)?;
            file.sync_data()?;
        }
        file.write_all_at(&END_PAGE, self.room() as u64)?;
        file.sync_all()?;
        Ok(file)
    }

    /// Gives the spare its name, durably, before anything is written to it.
    fn promote(&self, first: u64) -> io::Result<()> {
        std::fs::rename(self.dir.join(SPARE), self.path(first))?;
        sync_dir(&self.dir)?;
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

    fn note_failed_spare(&self, error: &io::Error) {
        // A full disk is told of by `set_full`.
        let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        if !is_full && !self.full.load(Ordering::Relaxed) {
            tracing::error!(dir = %self.dir.display(), %error, "cannot make a new log segment; trying again every second");
        }
    }

    fn set_full(&self, full: bool) {
        if self.full.swap(full, Ordering::Relaxed) == full {
            return;
        }
        self.refusing.set(if full { 1.0 } else { 0.0 });
        let dir = self.dir.display();
        let min_free_mb = self.min_free / MIB;
        if full {
            tracing::error!(%dir, min_free_mb, "the disk is full: new writes are refused until space is freed");
        } else {
            tracing::info!(%dir, "the disk has room again: writes are taken");
        }
    }
}

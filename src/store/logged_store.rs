//! The store on disk: connects the redo log, the overlay and the database, and owns their threads.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::batch::{Batch, BatchRef, Pair, Sequence};
use super::contract::{Store, StoreError};
use super::data_dir::{DataDir, OpenError, create_for_owner};
use super::database::{self, ApplyError, Database};
use super::fatal::{Fatal, contained, exit_on_fatal};
use super::journal::{Appended, Journals};
use super::log::committer::{Committer, Current};
use super::log::disk;
use super::log::disk::{LogDir, segment_name};
use super::log::queue::Queue;
use super::log::reader::Pins;
use super::log::recovery::{self, Fault, OnDamage, Recovered};
use super::log::segments::{MIN_SEGMENT_BYTES, Segments};
use super::overlay::{Generation, Overlay};
use super::space::{Free, HeldFile, sync_dir};
use ambient::backoff::{Backoff, Retries};

/// A scan that finds the database changed this often blocks the applier while it reads.
const OPTIMISTIC_SCANS: usize = 2;
/// The pauses before the applier retries on a full disk. Short, because the log grows meanwhile.
const NO_ROOM: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
/// A file in the log's directory that reserves the blocks for the database's writes when it opens.
const HELD_FOR_START: &str = "start.reserve";
/// The number of new files that a start needs, mainly for the database's snapshot.
const ENTRIES_TO_OPEN: u64 = 8;

#[derive(Clone)]
pub struct Options {
    /// The size of a segment of the log, at least 4 MiB.
    pub segment_bytes: usize,
    /// sled's page cache.
    pub cache_bytes: u64,
    /// Writes are refused when the disk has less free space than this, so that queued batches always fit.
    pub min_free_bytes: u64,
    /// Until [`LoggedStore::started`], all batches may use the reserve of a full disk.
    pub starting: bool,
    /// Starts even if the log is damaged, and moves the damaged and all later records aside.
    pub discard_damaged_log: bool,
    /// How much of the log is kept for a copy in progress: half a minute of the heaviest load, or a day of a typical
    /// one.
    pub pinned_log_bytes: u64,
    pub appended: Option<Appended>,
    /// Called when the disk fails; should not return.
    pub fatal: Fatal,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 32 * 1024 * 1024,
            cache_bytes: 64 * 1024 * 1024,
            min_free_bytes: 128 * 1024 * 1024,
            starting: false,
            discard_damaged_log: false,
            pinned_log_bytes: 2 * 1024 * 1024 * 1024,
            appended: None,
            fatal: exit_on_fatal(),
        }
    }
}

pub struct LoggedStore {
    queue: Arc<Queue>,
    pub(super) segments: Arc<Segments>,
    overlay: Arc<Overlay>,
    durable: watch::Receiver<Sequence>,
    applied: Arc<AtomicU64>,
    threads: Mutex<Option<Threads>>,
    database: Arc<Database>,
    starting: AtomicBool,
    /// Declared last, so that it is dropped last.
    _dir: DataDir,
}

struct Threads {
    committer: JoinHandle<()>,
    preparer: JoinHandle<()>,
    applier: JoinHandle<()>,
}

impl LoggedStore {
    pub fn open(data_dir: &Path, options: Options) -> Result<LoggedStore, OpenError> {
        let dir = DataDir::open(data_dir)?;
        let log = dir.log();
        create_for_owner(&log).map_err(OpenError::io("create", &log))?;
        let held_for_start = HeldFile::new(log.join(HELD_FOR_START));
        let gave_up = make_room_to_open(&dir, &held_for_start).map_err(OpenError::io("free the reserve in", &log))?;
        let database = Arc::new(Database::open(&dir.database(), options.cache_bytes)?);
        let (held_by, held_in) = (database.clone(), dir.database());
        let hold = move || {
            held_for_start.hold(database::bytes_to_open(&held_in))?;
            held_by.hold_room()
        };
        if gave_up {
            // Reserves the blocks again before another process takes them. A failure is retried regularly.
            let _ = hold();
        }
        let applied = database.applied()?;
        // After a kill between a rename and its sync, names are only in the page cache.
        for named_in in [dir.path(), &log] {
            sync_dir(named_in).map_err(OpenError::io("sync", named_in))?;
        }
        let overlay = Arc::new(Overlay::starting_after(applied));
        let scan = |from: &[u8], to: &[u8], limit| database.range(from, to).take(limit).collect();
        let (journals, surplus) = Journals::load(applied, scan)
            .map_err(|error| OpenError::Database { path: dir.database(), reason: error.to_string() })?;
        overlay.fold(applied, std::iter::once(surplus.as_ref()));
        let (recovered, mut journals) = recover(&dir, applied, &options, &overlay, journals)?;
        journals.on_append(options.appended.clone());
        let last = recovered.last;

        let pins = Pins::new(options.pinned_log_bytes);
        let segments =
            Segments::new(&log, options.segment_bytes, options.min_free_bytes, recovered.segments.clone(), pins);
        let segments = Arc::new(segments.map_err(OpenError::io("clean up", &log))?);
        if gave_up {
            segments.lacks_reserve();
        }
        let current = current_segment(&segments, &recovered)?;
        let queue = Arc::new(Queue::starting_after(last));
        let (sender, durable) = watch::channel(Sequence(last));
        let committer = Committer {
            queue: queue.clone(),
            segments: segments.clone(),
            overlay: overlay.clone(),
            journals,
            durable: sender,
            fatal: options.fatal.clone(),
            current,
            metrics: Default::default(),
        };
        let applied = Arc::new(AtomicU64::new(applied));
        let applier = Applier {
            overlay: overlay.clone(),
            database: database.clone(),
            segments: segments.clone(),
            queue: queue.clone(),
            fatal: options.fatal.clone(),
            applied: applied.clone(),
            checkpoints: metrics::counter!("lockkeeper_checkpoints_total"),
        };
        let preparing = segments.clone();
        let threads = Threads {
            committer: spawn("log-committer", &log, &options.fatal, move || committer.run())?,
            preparer: spawn("log-preparer", &log, &options.fatal, move || preparing.prepare(hold))?,
            applier: spawn("log-applier", &log, &options.fatal, move || applier.run())?,
        };
        Ok(LoggedStore {
            queue,
            segments,
            overlay,
            durable,
            applied,
            threads: Mutex::new(Some(threads)),
            database,
            starting: AtomicBool::new(options.starting),
            _dir: dir,
        })
    }

    /// Ends the start: from now on only ends and deletions may use the reserve of a full disk.
    pub fn started(&self) {
        self.starting.store(false, Ordering::Relaxed);
    }

    /// Whether the reserve of a full disk accepts this batch.
    fn reserve_takes(&self, batch: &Batch) -> bool {
        let may = self.starting.load(Ordering::Relaxed) || batch.may_use_reserve();
        may && self.segments.takes_ends() && !self.overlay.is_full_of_ends()
    }

    /// Accepts no more batches, and returns when all queued ones are durable and in the database. Reads still work.
    /// Idempotent.
    pub fn close(&self) {
        self.queue.close();
        self.segments.give_up_waiting();
        self.join();
    }

    /// Stops like a crash: non-durable batches are lost, and nothing more is applied.
    pub fn abandon(self) {
        self.queue.abandon();
        self.overlay.abandon();
        self.segments.give_up_waiting();
        self.join();
    }

    /// Ends the threads in the order of their dependencies.
    fn join(&self) {
        // Held until the end, so that a second caller also returns only when everything has ended.
        let mut threads = self.threads.lock();
        let Some(Threads { committer, preparer, applier }) = threads.take() else {
            return;
        };
        wait_for(committer);
        self.segments.stop();
        wait_for(preparer);
        self.overlay.close();
        wait_for(applier);
    }
}

/// A panic in a thread has already been reported as fatal.
fn wait_for(thread: JoinHandle<()>) {
    let _ = thread.join();
}

impl Drop for LoggedStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for LoggedStore {
    fn commit(&self, batch: Batch) -> Result<Sequence, StoreError> {
        if let Some(refusal) = self.refusing_writes()
            && !self.reserve_takes(&batch)
        {
            return Err(refusal);
        }
        self.queue.push(batch)
    }

    fn durable(&self) -> watch::Receiver<Sequence> {
        self.durable.clone()
    }

    fn handed_in(&self) -> Sequence {
        self.queue.last()
    }

    fn applied(&self) -> Sequence {
        Sequence(self.applied.load(Ordering::Acquire))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.overlay.get(key) {
            Some(found) => Ok(found),
            None => self.database.get(key),
        }
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError> {
        if from >= to {
            return Ok(Vec::new());
        }
        // While the slice is current, the database can only have gained changes of the slice, so both together are the
        // state at one moment.
        for _ in 0..OPTIMISTIC_SCANS {
            let slice = self.overlay.slice(from, to, limit);
            let pairs = slice.over(self.database.range(from, to), limit)?;
            if self.overlay.is_current(&slice) {
                return Ok(pairs);
            }
        }
        self.overlay.slice_held(from, to, limit, |slice| slice.over(self.database.range(from, to), limit))
    }

    fn refusing_writes(&self) -> Option<StoreError> {
        let full = self.segments.refusing();
        full.or_else(|| self.overlay.is_full().then_some(StoreError::Overloaded))
    }
}

/// Frees room for the database's writes when it opens. On a full disk these use the blocks held for them or, if another
/// process has taken those, the reserve of the log. Returns whether any blocks were released.
fn make_room_to_open(dir: &DataDir, held: &HeldFile) -> io::Result<bool> {
    let needed = database::bytes_to_open(&dir.database());
    let is_short = || Free::at(dir.path()).map(|free| free.bytes < needed || free.lacks_entries(ENTRIES_TO_OPEN));
    if !is_short()? {
        return Ok(false);
    }
    Segments::remove_spare(&dir.log())?;
    held.give_up()?;
    if is_short()? {
        Segments::remove_one_held(&dir.log())?;
    }
    Ok(true)
}

/// Adds the log's batches that the database lacks to the overlay.
fn recover(
    dir: &DataDir,
    applied: u64,
    options: &Options,
    overlay: &Overlay,
    mut journals: Journals,
) -> Result<(Recovered, Journals), OpenError> {
    let (log, database) = (&*dir.log(), &*dir.database());
    let on_damage = if options.discard_damaged_log { OnDamage::Discard } else { OnDamage::Refuse };
    let replay = |sequence, batch: BatchRef<'_>| {
        let pages = journals.extend(sequence, std::iter::once(batch));
        overlay.fold(sequence, [batch, pages].into_iter());
    };
    let recovered = recovery::recover(&LogDir::new(log), applied, on_damage, replay).map_err(|fault| match fault {
        Fault::Io { segment, source } => {
            let path = segment.map_or(log.to_owned(), |segment| log.join(segment_name(segment)));
            OpenError::io("read the log", &path)(source)
        }
        Fault::Gap { applied, first } => OpenError::Database {
            path: database.to_owned(),
            reason: format!("it ends at batch {applied}, and the log begins at batch {first}"),
        },
        Fault::Damage(damage) => OpenError::DamagedLog {
            file: log.join(segment_name(damage.segment)),
            offset: damage.offset as u64,
            what: damage.what,
            dir: log.to_owned(),
        },
    })?;
    if let Some(damage) = &recovered.discarded {
        let file = segment_name(damage.segment);
        tracing::error!(file, offset = damage.offset, what = damage.what, "damaged log records were moved aside");
    }
    if recovered.cut > 0 {
        tracing::info!(bytes = recovered.cut, "cut an unfinished record off the log; it was never acknowledged");
    }
    Ok((recovered, journals))
}

fn current_segment(segments: &Segments, recovered: &Recovered) -> Result<Current, OpenError> {
    let Some(tail) = recovered.tail else {
        let first = recovered.last + 1;
        let path = segments.path(first);
        let file = segments.create(first).map_err(OpenError::io("create the log segment", &path))?;
        return Ok(Current { file, path, offset: 0, room: segments.room() });
    };
    let path = segments.path(tail.segment);
    let file = disk::open(File::options().write(true), &path).map_err(OpenError::io("open", &path))?;
    Ok(Current { file, path, offset: tail.offset, room: tail.room })
}

/// Starts a thread whose panic ends the process.
fn spawn(
    name: &str,
    log: &Path,
    fatal: &Fatal,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, OpenError> {
    Builder::new()
        .name(name.to_owned())
        .spawn(contained(name, fatal, run))
        .map_err(OpenError::io("start a thread for", log))
}

/// Moves durable changes from the overlay to the database, then deletes the log segments that held them.
struct Applier {
    overlay: Arc<Overlay>,
    database: Arc<Database>,
    segments: Arc<Segments>,
    queue: Arc<Queue>,
    fatal: Fatal,
    applied: Arc<AtomicU64>,
    checkpoints: metrics::Counter,
}

impl Applier {
    fn run(self) {
        while let Some(generation) = self.overlay.next_generation() {
            let mut retries = Retries::new(NO_ROOM);
            loop {
                match self.checkpoint(&generation) {
                    Ok(()) => break,
                    // The log has the whole generation. If the store closes meanwhile, the next start replays it.
                    Err(ApplyError::NoRoom) if self.overlay.pause(retries.failed()) => {}
                    Err(ApplyError::NoRoom) => return,
                    Err(ApplyError::Failed(reason)) => {
                        self.queue.abandon();
                        return (self.fatal)(&format!(
                            "writing the database failed: {reason}; nothing acknowledged is lost: free space or check \
                             the disk, then start the server again"
                        ));
                    }
                }
            }
        }
    }

    fn checkpoint(&self, generation: &Generation) -> Result<(), ApplyError> {
        let last = generation.last;
        self.database.apply(generation.changes.iter(), last)?;
        self.overlay.applied(generation);
        self.applied.store(last, Ordering::Release);
        self.checkpoints.increment(1);
        if let Err(error) = self.segments.delete_covered(last) {
            tracing::warn!(%error, "cannot delete a log segment that is no longer needed");
        }
        Ok(())
    }
}

const _: () = assert!(MIN_SEGMENT_BYTES > 2 * super::log::format::MAX_GROUP_BYTES);

//! A copy of a whole store while it is written, equal to its state at one moment, without holding anybody up; and a
//! store that is made from such a copy.
//!
//! The pairs are read piece by piece while they change, so the copy may have any part of the batches that became
//! durable meanwhile. Those batches are in the log, which is pinned from before the first pair on; whoever replays them
//! over the pairs has every change up to the last of them. It is what a start does after a crash.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::batch::{Batch, Change, Changes, Sequence};
use super::contract::{Store, StoreError, end_of_prefix};
use super::data_dir::{DataDir, OpenError, create_for_owner};
use super::database::Database;
use super::journal::PageView;
use super::keys::JOURNAL_PAGES;
use super::log::format;
use super::log::reader::{Pin, Pins, ReadError, SegmentReader, Unpinned};
use super::log::segments::Segments;
use super::logged_store::{LoggedStore, Options};

/// Pairs read at once: some hundred kilobytes, and rarely more than a megabyte.
const PAIRS_AT_ONCE: usize = 256;

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "it took too long: more than {} MiB of log were kept for it meanwhile; take it where it can be written faster, or \
         at a quieter time", .bytes_max / (1024 * 1024)
    )]
    TooSlow { bytes_max: u64 },
    #[error("the disk of the data directory became full meanwhile, and the log could not be kept for it")]
    DiskFull,
    #[error("the log cannot be read: {0}")]
    Log(String),
    /// Whoever takes it.
    #[error("it cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// A copy that is being made.
pub struct Copying<'a> {
    store: &'a LoggedStore,
    pin: Pin,
    /// The pairs have every batch up to this one.
    pub from: Sequence,
}

/// Consecutive batches, in the form that the log has them.
pub struct LoggedBatches {
    pub first: Sequence,
    pub count: u32,
    pub payload: Vec<u8>,
}

impl LoggedStore {
    pub fn begin_copy(&self) -> Copying<'_> {
        let pin = self.segments.pin(self.durable().borrow().0);
        // Read again after the pin: what was deleted until then was durable, so nothing after this sequence is gone.
        let from = *self.durable().borrow();
        Copying { store: self, pin, from }
    }
}

impl Copying<'_> {
    /// All pairs; first of the two. A key may come twice, and then the second counts.
    pub fn pairs(&self, mut visit: impl FnMut(&[u8], &[u8]) -> io::Result<()>) -> Result<(), CopyError> {
        self.ends_of_journals(&mut visit)?;
        let (mut from, end) = (Vec::new(), end_of_prefix(&[]));
        loop {
            self.check()?;
            let pairs = self.store.scan(&from, &end, PAIRS_AT_ONCE)?;
            for (key, value) in &pairs {
                visit(key, value)?;
            }
            match pairs.last() {
                Some((last, _)) if pairs.len() == PAIRS_AT_ONCE => from = [last.as_slice(), &[0]].concat(),
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// The page with the last entry of each journal as of `from`, and those after it. They are read before all else: a page
    /// that is dropped during a long copy would otherwise leave the journal without a beginning for the replay.
    fn ends_of_journals(&self, visit: &mut impl FnMut(&[u8], &[u8]) -> io::Result<()>) -> Result<(), CopyError> {
        let (mut from, end) = (JOURNAL_PAGES.to_vec(), end_of_prefix(JOURNAL_PAGES));
        while let Some((key, value)) = self.store.scan(&from, &end, 1)?.pop() {
            visit(&key, &value)?;
            let page = PageView::decode(&value);
            let reaches_back = page.is_none_or(|page| page.entries.iter().any(|entry| entry.sequence <= self.from.0));
            // The rest of the key is the number of the page.
            let journal = &key[..key.len().saturating_sub(8)];
            from = if reaches_back { end_of_prefix(journal) } else { [key.as_slice(), &[0]].concat() };
        }
        Ok(())
    }

    /// The batches after `from`, up to those that are durable at the time of the call. Returns the last.
    pub fn batches(self, mut visit: impl FnMut(LoggedBatches) -> io::Result<()>) -> Result<Sequence, CopyError> {
        let end = *self.store.durable().borrow();
        let mut next = self.from.0 + 1;
        for segment in self.store.segments.after(self.from.0) {
            if next > end.0 {
                break;
            }
            let path = self.store.segments.path(segment);
            // A pin that was broken is the reason for whatever is missing.
            let failed = |error: ReadError| {
                let log = || CopyError::Log(format!("{}: {error}", path.display()));
                self.check().err().unwrap_or_else(log)
            };
            let mut reader = SegmentReader::open(&path).map_err(|error| failed(error.into()))?;
            while next <= end.0 {
                self.check()?;
                let Some(group) = reader.next().map_err(failed)? else { break };
                let after = group.first + u64::from(group.count);
                if after <= next {
                    continue;
                }
                if group.first != next {
                    return Err(failed(ReadError::Damaged(format!("batch {next} is missing"))));
                }
                visit(LoggedBatches { first: Sequence(next), count: group.count, payload: group.payload })?;
                next = after;
            }
        }
        self.check()?;
        if next <= end.0 {
            return Err(CopyError::Log(format!("it ends before batch {next}, and batch {} is durable", end.0)));
        }
        Ok(end)
    }

    fn check(&self) -> Result<(), CopyError> {
        match self.pin.broken() {
            None => Ok(()),
            Some(Unpinned::TooMuch) => Err(CopyError::TooSlow { bytes_max: self.pin.bytes_max() }),
            Some(Unpinned::DiskFull) => Err(CopyError::DiskFull),
        }
    }
}

/// Pairs are written in pieces of this size.
const PIECE_BYTES: usize = 4 * 1024 * 1024;
/// How often a full queue is looked at: a group takes a few milliseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A new store that is being filled with the pairs of a copy. They go straight into the database, and the batches are
/// committed over them, as a start replays the log.
pub struct Filling {
    dir: DataDir,
    database: Database,
    from: Sequence,
    changes: Changes,
    bytes: usize,
    options: Options,
}

/// Why batches could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("batch {found} comes where batch {expected} must")]
    OutOfOrder { found: u64, expected: u64 },
    #[error("its batches cannot be read")]
    Form,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Filling {
    /// In a directory that is new or empty. The pairs to come have every batch up to `from`.
    pub fn begin(path: &Path, from: Sequence, options: Options) -> Result<Self, OpenError> {
        let dir = DataDir::open(path)?;
        let database = Database::open(&dir.database(), options.cache_bytes)?;
        Ok(Self { dir, database, from, changes: Changes::new(), bytes: 0, options })
    }

    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), OpenError> {
        self.bytes += key.len() + value.len();
        self.changes.insert(key, Some(value));
        if self.bytes >= PIECE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), OpenError> {
        let changes = self.changes.iter().map(|(key, value)| Change { key, value: value.as_deref() });
        let applied = self.database.apply(changes, self.from.0).map_err(io::Error::other);
        applied.map_err(OpenError::io("write the database in", self.dir.path()))?;
        (self.changes, self.bytes) = (Changes::new(), 0);
        Ok(())
    }

    /// The pairs to come have every batch up to this one, if it is a later one.
    pub fn raise(&mut self, from: Sequence) {
        self.from = self.from.max(from);
    }

    /// Whether there is a pair with this key.
    pub fn has(&self, key: &[u8]) -> Result<bool, StoreError> {
        Ok(self.changes.contains_key(key) || self.database.get(key)?.is_some())
    }

    /// Opens the store, which continues after `from`.
    pub fn finish(mut self) -> Result<LoggedStore, OpenError> {
        self.write()?;
        let Self { dir, database, from, options, .. } = self;
        let log = dir.log();
        create_for_owner(&log).map_err(OpenError::io("create", &log))?;
        // A database without a log would count as damaged.
        let segments = Segments::new(&log, options.segment_bytes, 0, Vec::new(), Pins::new(0));
        let made = segments.and_then(|segments| segments.create(from.0 + 1));
        made.map_err(OpenError::io("create a log segment in", &log))?;
        let path = dir.path().to_owned();
        drop((database, dir));
        LoggedStore::open(&path, options)
    }
}

impl LoggedStore {
    /// Commits the batches of a copy, in their order and under their sequences.
    pub fn replay(&self, batches: &LoggedBatches) -> Result<(), ReplayError> {
        let decoded = format::decode(&batches.payload, batches.count).ok_or(ReplayError::Form)?;
        for (batch, sequence) in decoded.into_iter().zip(batches.first.0..) {
            let expected = self.handed_in().0 + 1;
            if sequence != expected {
                return Err(ReplayError::OutOfOrder { found: sequence, expected });
            }
            self.commit_patiently(batch.to_owned())?;
        }
        Ok(())
    }

    /// Commits when there is room, for a thread that may wait.
    pub fn commit_patiently(&self, batch: Batch) -> Result<(), StoreError> {
        loop {
            match self.commit(batch.clone()) {
                Err(StoreError::Overloaded) => std::thread::sleep(LOOK_AGAIN),
                committed => return committed.map(|_| ()),
            }
        }
    }
}

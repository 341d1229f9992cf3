//! Copies a whole store in its state at one moment, without blocking writers; and creates a store from such a copy.
//!
//! The pairs are read in pieces while they change, so the copy may contain any part of the batches that became durable
//! meanwhile. The log has those batches, and is pinned before the first pair is read. Replaying them over the pairs
//! gives the state after the last of them. Recovery after a crash does the same.

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

/// Pairs per read: a few hundred kilobytes, rarely more than a megabyte.
const PAIRS_AT_ONCE: usize = 256;

/// Why a copy failed.
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
    /// Returned by the receiver of the copy.
    #[error("it cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// A copy in progress.
pub struct Copying<'a> {
    store: &'a LoggedStore,
    pin: Pin,
    /// The pairs include every batch up to this one.
    pub from: Sequence,
}

/// Consecutive batches in the log's encoding.
pub struct LoggedBatches {
    pub first: Sequence,
    pub count: u32,
    pub payload: Vec<u8>,
}

impl LoggedStore {
    pub fn begin_copy(&self) -> Copying<'_> {
        let pin = self.segments.pin(self.durable().borrow().0);
        // Read again after the pin: everything deleted before the pin was durable, so every batch after this sequence
        // is still there.
        let from = *self.durable().borrow();
        Copying { store: self, pin, from }
    }
}

impl Copying<'_> {
    /// Visits all pairs; must be called before `batches`. A key may occur twice; then the second value counts.
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

    /// Visits the page with the last entry of each journal as of `from`, and the pages after it. They are read first:
    /// if a page were dropped during a long copy, the replay would lack the journal's beginning.
    fn ends_of_journals(&self, visit: &mut impl FnMut(&[u8], &[u8]) -> io::Result<()>) -> Result<(), CopyError> {
        let (mut from, end) = (JOURNAL_PAGES.to_vec(), end_of_prefix(JOURNAL_PAGES));
        while let Some((key, value)) = self.store.scan(&from, &end, 1)?.pop() {
            visit(&key, &value)?;
            let page = PageView::decode(&value);
            let reaches_back = page.is_none_or(|page| page.entries.iter().any(|entry| entry.sequence <= self.from.0));
            // The rest of the key is the page number.
            let journal = &key[..key.len().saturating_sub(8)];
            from = if reaches_back { end_of_prefix(journal) } else { [key.as_slice(), &[0]].concat() };
        }
        Ok(())
    }

    /// Visits the batches after `from` that are durable at the time of the call. Returns the sequence of the last.
    pub fn batches(self, mut visit: impl FnMut(LoggedBatches) -> io::Result<()>) -> Result<Sequence, CopyError> {
        let end = *self.store.durable().borrow();
        let mut next = self.from.0 + 1;
        for segment in self.store.segments.after(self.from.0) {
            if next > end.0 {
                break;
            }
            let path = self.store.segments.path(segment);
            // A missing segment is explained by a broken pin.
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

/// Size of the pieces in which pairs are written.
const PIECE_BYTES: usize = 4 * 1024 * 1024;
/// Retry interval while the queue is full: a group takes a few milliseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A new store that is being filled from a copy. The pairs are written directly into the database. The batches are then
/// committed over them, as recovery replays the log.
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
    /// Begins in a new or empty directory. The pairs that follow include every batch up to `from`.
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

    /// Declares that the pairs that follow include every batch up to this one, if it is later.
    pub fn raise(&mut self, from: Sequence) {
        self.from = self.from.max(from);
    }

    /// Whether the key exists.
    pub fn has(&self, key: &[u8]) -> Result<bool, StoreError> {
        Ok(self.changes.contains_key(key) || self.database.get(key)?.is_some())
    }

    /// Opens the store, which continues after `from`.
    pub fn finish(mut self) -> Result<LoggedStore, OpenError> {
        self.write()?;
        let Self { dir, database, from, options, .. } = self;
        let log = dir.log();
        create_for_owner(&log).map_err(OpenError::io("create", &log))?;
        // A database without a log would be considered damaged.
        let segments = Segments::new(&log, options.segment_bytes, 0, Vec::new(), Pins::new(0));
        let made = segments.and_then(|segments| segments.create(from.0 + 1));
        made.map_err(OpenError::io("create a log segment in", &log))?;
        let path = dir.path().to_owned();
        drop((database, dir));
        LoggedStore::open(&path, options)
    }
}

impl LoggedStore {
    /// Commits the batches of a copy in order, with their original sequences.
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

    /// Commits, waiting for room in the queue. For threads that may block.
    pub fn commit_patiently(&self, batch: Batch) -> Result<(), StoreError> {
        loop {
            match self.commit(batch.clone()) {
                Err(StoreError::Overloaded) => std::thread::sleep(LOOK_AGAIN),
                committed => return committed.map(|_| ()),
            }
        }
    }
}

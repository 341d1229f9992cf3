//! Makes a store of a copy: the pairs go straight into the database, and the batches are committed over them, as a start
//! replays the log.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::batch::{Batch, Change, Changes, Sequence};
use super::contract::{Store, StoreError};
use super::copying::LoggedBatches;
use super::data_dir::{DataDir, OpenError, create_for_owner};
use super::database::Database;
use super::log::format;
use super::log::pins::Pins;
use super::log::segments::Segments;
use super::logged::{LoggedStore, Options};

/// Pairs are written in pieces of this size.
const PIECE_BYTES: usize = 4 * 1024 * 1024;
/// How often a full queue is looked at: a group takes a few milliseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A new store that is being filled with pairs.
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

//! Where bytes become durable: batches of puts and deletes under keys, committed atomically and in order.
//!
//! The store knows keys and bytes, and nothing of locks. [`LoggedStore`] is the real one: a redo log that
//! makes a group of batches durable with one `fdatasync`, an overlay of what the log has and sled does not yet have,
//! and sled. [`MemoryStore`] keeps the same contract without a disk and can be told to fail. Both pass `conformance`.

mod blobs;
mod data_dir;
mod database;
mod descriptors;
pub mod journal;
mod log;
mod logged;
mod memory;
mod ordered;
mod overlay;
mod published;
mod sync_dir;

#[cfg(test)]
mod conformance;
#[cfg(test)]
pub mod fixtures;
#[cfg(test)]
mod logged_tests;
#[cfg(test)]
mod published_tests;

pub use data_dir::{DataDir, Holder, OpenError};
pub use log::{Fatal, exit_on_fatal};
pub use logged::{LoggedStore, Options};
pub use memory::MemoryStore;
pub use ordered::{Committer, Ordered};
pub use published::{Newest, Published, RecordChange, Records};
pub use sync_dir::sync_dir;

use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::sync::watch;

/// The place of a batch in the one order that all commits have. The first is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

/// Puts, deletes and entries of journals that take effect together or not at all. A later change of a key wins over an earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    changes: Vec<Change>,
    appends: Vec<journal::Append>,
}

/// One key with its new value, or `None` where it is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}

impl Batch {
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.changes.push(Change { key, value: Some(value) });
    }

    pub fn delete(&mut self, key: Vec<u8>) {
        self.changes.push(Change { key, value: None });
    }

    /// Appends to a journal, in the order of all batches. The name of a journal has no slash.
    pub fn append(&mut self, journal: Arc<str>, body: Vec<u8>) {
        self.appends.push(journal::Append { journal, body });
    }

    pub fn appends(&self) -> &[journal::Append] {
        &self.appends
    }

    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.appends.is_empty()
    }

    pub fn into_changes(self) -> Vec<Change> {
        self.changes
    }
}

/// A key and its value, as a scan finds them.
pub type Pair = (Vec<u8>, Vec<u8>);

pub trait Store: Send + Sync + 'static {
    /// Hands a batch in and answers at once with its place in the order; it is durable when [`Store::durable`] has
    /// reached that place. Whoever calls later is later. An error means that nothing was handed in.
    fn commit(&self, batch: Batch) -> Result<Sequence, StoreError>;

    /// The place up to which every batch survives a power cut. What it covers, `get` and `scan` already show.
    fn durable(&self) -> watch::Receiver<Sequence>;

    /// The place of the batch handed in last, durable or not.
    fn handed_in(&self) -> Sequence;

    /// The place up to which the log is not needed any more. After a crash, what is later is made again from it, over what
    /// may be there of it in part.
    fn applied(&self) -> Sequence;

    /// Reads see durable batches only, and all of them.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// The first `limit` pairs with `from <= key < to`, ascending.
    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError>;

    /// Why writes are refused at the moment, if they are; for readiness.
    fn refusing_writes(&self) -> Option<StoreError>;
}

/// Why the store did not do it. The caller's data is as it was.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error("the disk that holds {path} has less than {min_free_mb} MiB free")]
    Full { path: String, min_free_mb: u64 },
    #[error("more writes are waiting for the disk than the store keeps in memory")]
    Overloaded,
    #[error("a batch of {bytes} bytes is over the limit of {limit}")]
    BatchTooLarge { bytes: usize, limit: usize },
    #[error("the store is closed")]
    Closed,
    #[error("the database cannot be read: {0}")]
    Read(String),
}

/// The smallest key that is greater than every key with this prefix: the end of a prefix's range.
pub fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![u8::MAX; 256]
}

/// How many pairs a walk takes from the store at once.
const WALKED_AT_ONCE: usize = 512;

/// Shows `visit` every pair with `from <= key < to`, ascending, as far as it wants to go; however many they are, only a few
/// are in memory at once.
pub fn walk(
    store: &dyn Store,
    from: &[u8],
    to: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    let mut from = from.to_vec();
    loop {
        let pairs = store.scan(&from, to, WALKED_AT_ONCE)?;
        for (key, value) in &pairs {
            if visit(key, value)?.is_break() {
                return Ok(());
            }
        }
        match pairs.last() {
            Some((last, _)) => from = [last.as_slice(), &[0]].concat(),
            None => return Ok(()),
        }
    }
}

/// Waits until everything up to `sequence` is durable. A store that is gone will never say so, and neither do we.
pub async fn durable_up_to(store: &dyn Store, sequence: Sequence) {
    let mut durable = store.durable();
    if durable.wait_for(|reached| *reached >= sequence).await.is_err() {
        std::future::pending::<()>().await;
    }
}

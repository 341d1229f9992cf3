//! Where bytes become durable: batches of puts and deletes under keys, committed atomically and in order.
//!
//! The store knows keys and bytes, and nothing of locks. From the bottom up: `batch` and `contract` (the types and the trait),
//! `record` (versions of records), `journal` (append-only lists), `layer`, `overlay` and `log` (the redo log, which makes a group of
//! batches durable with one `fdatasync`), `space` (of the disk), `data_dir` and `database` (sled), `engine` (a database of several machines), and the
//! stores: [`LoggedStore`] has a data directory, [`EngineStore`] a shard of an engine, [`MemoryStore`] keeps the same contract
//! without either and can be told to fail. All pass `conformance`. On top, `copying` reads a whole store while it is written,
//! `restored` makes one of such a copy, in the directory of `new_dir`; `snapshot` is a shard at one moment, for readers.

mod batch;
mod blobs;
mod contained;
mod contract;
mod copying;
mod data_dir;
mod database;
mod descriptors;
pub mod engine;
mod engine_store;
pub mod journal;
mod layer;
mod log;
mod logged;
mod memory;
mod new_dir;
mod ordered;
mod overlay;
mod published;
pub mod record;
mod restored;
mod snapshot;
pub mod space;
mod sync_dir;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod logged_tests;
#[cfg(test)]
mod published_tests;

pub use batch::{Batch, Changes, Key, Pair, Sequence, key_of};
pub use contract::{
    Store, StoreError, commit_durably, durable_up_to, end_of_prefix, for_each, in_pieces, next_piece, walk,
};
pub use copying::{CopyError, LoggedBatches};
pub use data_dir::{DataDir, FORMAT_NUMBER, Holder, Inspection, OpenError, inspect};
pub use engine_store::{EngineOptions, EngineStore};
pub use log::segments::MIN_SEGMENT_BYTES;
pub use log::{Fatal, exit_with};
pub use logged::{LoggedStore, Options};
pub use memory::MemoryStore;
pub use new_dir::NewDataDir;
pub use ordered::{Committer, Ordered};
pub use published::{Newest, Published, RecordChange, Records};
pub use restored::{Filling, ReplayError};
pub use snapshot::Snapshot;
pub use sync_dir::sync_dir;

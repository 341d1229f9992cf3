//! The durable key-value store: batches of puts and deletes, committed atomically and in order.
//!
//! It knows keys and bytes, but not locks. From the bottom up: `batch` and `contract` (the types and the trait),
//! `record` (versioned records), `journal` (append-only lists), `space` (the disk), `fatal` (ending the process),
//! `overlay` and `log` (the redo log, which makes a group of batches durable with one `fdatasync`), `data_dir` and
//! `database` (sled), `engine` (a database on several machines), and the stores: [`LoggedStore`] uses a data directory,
//! [`EngineStore`] a shard of an engine; [`MemoryStore`] fulfils the same contract in memory, with configurable
//! failures. All pass `conformance`. On top, `copy` reads a whole store while it is being written, and creates one from
//! such a copy, in the directory of `new_dir`; `ordered` and `published` keep records in memory.

mod batch;
mod contract;
mod copy;
mod data_dir;
mod database;
pub mod engine;
mod engine_store;
mod fatal;
pub mod journal;
mod log;
mod logged_store;
mod memory;
mod new_dir;
mod ordered;
mod overlay;
mod published;
pub mod record;
pub mod space;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod logged_store_tests;
#[cfg(test)]
mod published_tests;

pub use batch::{Batch, Changes, Key, Pair, Sequence, key_of};
pub use contract::{
    Store, StoreError, commit_durably, durable_up_to, end_of_prefix, for_each, in_pieces, next_piece, walk,
};
pub use copy::{CopyError, Filling, LoggedBatches, ReplayError};
pub use data_dir::{DataDir, FORMAT_NUMBER, Holder, Inspection, OpenError, inspect};
pub use engine_store::{EngineOptions, EngineStore, Snapshot};
pub use fatal::{Fatal, exit_with};
pub use log::segments::MIN_SEGMENT_BYTES;
pub use logged_store::{LoggedStore, Options};
pub use memory::MemoryStore;
pub use new_dir::NewDataDir;
pub use ordered::{Committer, Ordered};
pub use published::{Newest, Published, RecordChange, Records};
pub use space::sync_dir;

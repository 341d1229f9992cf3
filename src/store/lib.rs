//! The durable key-value store: batches of puts and deletes, committed atomically and in order.
//!
//! The store handles keys and bytes, independent of locks. From the bottom up:
//!
//! - `batch`, `contract`: the types and the trait; `keys`: the table of the key space; `record`: versions of records
//! - `journal`: append-only lists; `space`: the disk; `fatal`: ending the process
//! - `overlay`, `log`: the redo log, which makes a group of batches durable with one `fdatasync`
//! - `data_dir`, `database`: sled; `engine`: a database on several machines
//! - the stores: [`LoggedStore`] has a data directory, [`EngineStore`] a shard of an engine; [`MemoryStore`] has
//!   neither and can be made to fail. All pass `conformance`.
//! - `copy`: reads a whole store while it is written, and creates a store from such a copy; `new_dir`: its directory
//! - `ordered`, `published`: records in memory

mod batch;
mod contract;
mod copy;
mod data_dir;
mod database;
pub mod engine;
mod engine_store;
mod fatal;
pub mod journal;
pub mod keys;
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

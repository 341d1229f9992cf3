//! Moves all data between a data directory and the shards of a cluster.
//!
//! Each file may use those above it in this list:
//!
//! - `record_owner`: which organization a record belongs to, pure
//! - `engine`: whether a cluster is whole; taking its shards, and filling them
//! - `import`: from a data directory into an empty cluster
//! - `export`: from a cluster into a new data directory, while nodes serve the cluster

mod engine;
mod export;
mod import;
mod record_owner;
#[cfg(test)]
mod tests;

pub use engine::{NotReady, TakenShard, answered, check, ready, take};
pub use export::{ExportError, Exported, export};
pub use import::{ImportError, Target, Totals, give_up, import};

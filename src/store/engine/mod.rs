//! The engine: a database of several machines, which agrees and remembers. What lies in it is divided into shards; a shard
//! is what a data directory is on one machine, and has one owner at a time.
//!
//! It knows keys and bytes, versions and owners, and nothing of nodes that talk to each other. Each line may use those
//! above it, and none below:
//!
//! - `shard`: a shard's record and who owns it, pure; `outcome`: what became of a transaction whose answer was lost, pure
//! - `contract`: the trait, its errors and its limits
//! - `etcd`: the engine over etcd; `memory`: one for tests, which fails as it is told to

mod contract;
pub mod etcd;
#[cfg(test)]
pub mod memory;
mod outcome;
mod shard;

pub use contract::{CHANGE_BYTES, Engine, EngineError, Limits, Pairs, Room, Transaction};
pub use shard::{Owner, Shard, Tenure, Version};

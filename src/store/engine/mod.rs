//! The engine: a database of several machines, which agrees and remembers. What lies in it is divided into shards; a shard
//! is what a data directory is on one machine, and has one owner at a time.
//!
//! It knows keys and bytes, versions and owners, and nothing of nodes that talk to each other. Each line may use those
//! above it, and none below:
//!
//! - `shard`: a shard's record, who owns it and how long an owner may act, pure; `membership`: the records of the
//!   cluster and of its nodes, pure
//! - `contract`: the trait, its errors and its limits
//! - `connection`: the thread and the certificates of connections
//! - `etcd`, `postgres`: the engines over those; `memory`: one for tests, which fails as it is told to

mod connection;
mod contract;
pub mod etcd;
mod membership;
pub mod memory;
#[cfg(test)]
mod ports;
pub mod postgres;
mod shard;

pub use connection::EngineTls;
pub use contract::{CHANGE_BYTES, Engine, EngineError, Limits, Pairs, Room, Transaction};
pub use membership::{ClusterRecord, ClusterState, NodeRecord};
pub use shard::{Lease, Moment, Owner, Shard, Tenure, Timing, Version};

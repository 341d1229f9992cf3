//! The engine: a database on several machines with consensus. Its data is divided into shards; a shard corresponds to
//! the data directory of a single server, and has one owner at a time.
//!
//! It handles keys and bytes, versions and owners, but not the communication between nodes. Each line uses only those
//! above it:
//!
//! - `shard`: a shard's record, its owner, and how long an owner may act, pure; `membership`: the records of the
//!   cluster and of its nodes, pure
//! - `contract`: the trait, its errors and its limits
//! - `connection`: the thread and the certificates of connections
//! - `etcd`, `postgres`: the engines over those databases; `memory`: one for tests, with configurable faults

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

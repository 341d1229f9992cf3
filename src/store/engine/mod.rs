//! The engine: a database of several machines, which agrees and remembers. What lies in it is divided into shards; a shard
//! is what a data directory is on one machine, and has one owner at a time.
//!
//! It knows keys and bytes, versions and owners, and nothing of nodes that talk to each other. Each line may use those
//! above it, and none below:
//!
//! - `shard`: a shard's record and who owns it, pure; `outcome`: what became of a transaction whose answer was lost, pure;
//!   `membership`: the records of the cluster and of its nodes, pure; `timing`, `lease`: how long an owner may act,
//!   pure
//! - `contract`: the trait, its errors and its limits; `tls`: the certificates of a connection
//! - `driver`: a thread that serves connections
//! - `etcd`, `postgres`: the engines over those; `memory`: one for tests, which fails as it is told to

mod contract;
mod driver;
pub mod etcd;
mod lease;
mod membership;
pub mod memory;
mod outcome;
#[cfg(test)]
mod ports;
pub mod postgres;
mod shard;
mod timing;
mod tls;

pub use contract::{CHANGE_BYTES, Engine, EngineError, Limits, Pairs, Room, Transaction};
pub use lease::{Lease, Moment};
pub use membership::{ClusterRecord, ClusterState, NodeRecord};
pub use shard::{Owner, Shard, Tenure, Version};
pub use timing::Timing;
pub use tls::EngineTls;

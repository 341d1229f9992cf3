//! Owns the making of load: threads, clients, the two loops, what is counted and recorded while it runs. Knows the API,
//! but no scenario.

pub mod arrivals;
pub mod audit;
pub mod bench;
pub mod client;
pub mod crew;
pub mod handoffs;
pub mod phase;
pub mod progress;
pub mod recorder;
pub mod requests;
mod sampler;
pub mod share;
pub mod stage;
pub mod stint;
pub mod tally;
pub mod timeline;

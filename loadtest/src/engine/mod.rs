//! Owns the making of load: threads, clients, the two loops, what is counted and recorded while it runs. Knows the API,
//! but no scenario.

pub mod arrivals;
pub mod audit;
pub mod client;
pub mod client_thread;
pub mod handoffs;
pub mod load_test;
pub mod phase;
pub mod progress;
pub mod recorder;
pub mod requests;
mod sampler;
pub mod segment;
pub mod share;
pub mod tally;
pub mod threads;
pub mod timeline;

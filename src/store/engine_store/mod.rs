//! The store over an engine: a shard whole in memory, and every group of batches one transaction of the engine.
//!
//! What is read is what the engine has confirmed. Each line may use those above it, and none below:
//!
//! - `clock`: the clock of leases
//! - `gathered`: batches that become one transaction, and what fits into one, pure
//! - `confirmed`: what readers see, and why the store refuses
//! - `committer`: the thread that sends transactions, one at a time, until each is confirmed
//! - `store`: the store itself

mod clock;
mod committer;
mod confirmed;
mod gathered;
mod store;
#[cfg(test)]
mod tests;

pub use store::{EngineOptions, EngineStore};

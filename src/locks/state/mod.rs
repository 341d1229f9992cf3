//! The state of environments, without actors: their records in the store, what an actor holds in memory, and the batch
//! that makes a decision durable.

pub mod change;
pub mod memory;
pub mod records;

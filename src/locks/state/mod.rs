//! The state of environments, without actors: their records in the store, the state in an actor's memory, and the batch
//! of a decision.

pub mod change;
pub mod memory;
pub mod records;

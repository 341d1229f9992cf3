//! Generates the load: threads, clients, open and closed loops, and the counts and records of a run. Knows the API, but
//! no scenario.
//!
//! From top to bottom: `segment`, `load_test`, `client`, `threads`, `phase`, `recorder`, `schedule`, `tally`, `progress`.

pub mod client;
pub mod load_test;
pub mod phase;
pub mod progress;
pub mod recorder;
pub mod schedule;
pub mod segment;
pub mod tally;
pub mod threads;

pub use client::{Client, Failure, clients};
pub use load_test::{Fault, LoadTest, PREPARATION_LIMIT};
pub use progress::Progress;
pub use schedule::{Share, share_of};
pub use segment::{Observation, Segment};
pub use tally::{Operation, Precise};
pub use threads::{ClientThread, Work, work};

//! Owns a lock service that keeps every promise, with clients that use it over a slow line: what they record is a
//! history in which no rule may find anything.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod clients;
pub mod planted;
mod server;
mod tape;
mod world;

pub use tape::Tape;

use crate::history::History;

/// A history of its own for each tape.
pub fn history(values: Vec<u16>) -> History {
    world::World::new(Tape::new(values)).run()
}

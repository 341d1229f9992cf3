//! Order and durability: one actor for each environment serialises its commands, decides them by the domain's rules,
//! and answers when the outcome is durable.
//!
//! It adds no rules. Nothing outside this folder sees an `Addr` or a message: [`Environments`] is the whole surface.

mod batching;
mod claiming;
mod committing;
mod crowd;
mod deadlines;
mod declared;
mod directory;
mod environment;
mod environments;
mod history;
mod keys;
mod notes;
mod pool;
mod reading;
mod restart;
mod settlement;
mod stored;
#[cfg(test)]
mod tests;
mod watchers;

pub use claiming::{ClaimOutcome, Patience};
pub use crowd::Keyed;
pub use environments::{Environments, Failure, Options};
pub use reading::{EnvironmentPage, History, ListFilter, Queued, SessionFound, Waiting};
pub use watchers::Watch;

use std::sync::Arc;

use crate::domain::{EnvironmentKey, Event, Now};

/// Reads the time off both clocks. A function, so that tests can move it.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// Is told what has happened, once it is durable, in the order of each environment. Must be quick: it runs where the
/// answers are sent.
pub trait Observer: Send + Sync + 'static {
    fn happened(&self, environment: &EnvironmentKey, events: &[Event]);
}

//! Order and durability: one actor per environment serialises its commands, decides them by the domain's rules, and
//! answers when the outcome is durable. It adds no rules.
//!
//! Layers, from the bottom; each uses only those before it:
//!
//! 1. `keys`: the keys of environments in the store. `ports`: the crate's dependencies, and why a command can fail.
//!    `transfer`: moving and restoring records. `time_limit`: a limit for waits that rarely take that long.
//! 2. `state`: the records in the store, the state in an actor's memory, and the batch of a decision.
//! 3. `services`: shared by all actors: answers waiting for the disk, waiters, watchers, deadlines, signals.
//! 4. `pool`: waiters for any environment of a pipeline.
//! 5. `actor`: messages, deciding, committing, settling.
//! 6. `directory` (key to actor), `timer` (deadlines that pass), `restart` (state left by the last run).
//! 7. `environments`: [`Environments`], the interface for other code. Nothing outside sees an `Addr` or a message.

mod actor;
mod directory;
mod environments;
pub mod idempotency;
mod keys;
pub mod pipelines;
mod pool;
mod ports;
mod restart;
mod services;
mod state;
#[cfg(test)]
mod tests;
mod time_limit;
mod timer;
mod transfer;

pub use environments::claim::WaitPolicy;
pub use environments::deployments::{ApprovalFilter, ApprovalFound, DeploymentFilter, DeploymentFound, DroppedEntry};
pub use environments::reads::{Census, ListFilter, Listed, Queued, SessionFound, UtilisationFound, Waiting};
pub use environments::session_list::{ListedSession, SessionFilter, SessionList};
pub use environments::{Environments, environment_differences, is_disabled_because};
pub use ports::{Clock, Definitions, Executor, Failure, LogKeeper, Options, TicketLane};
pub use restart::has_unfinished;
pub use services::waiters::{ClaimOutcome, Keyed};
pub use services::watchers::Watch;
pub use transfer::{more_skipped, organization_of_left, organization_of_pointer, skip_fencing_tokens};

//! The locks themselves: rules, store, actors, and all that a claim goes through below HTTP.

pub mod actors;
pub mod auth;
pub mod backoff;
pub mod domain;
pub mod entropy;
pub mod events;
pub mod idempotency;
pub mod nearest;
pub mod pipelines;
pub mod shares;
pub mod steady_clock;
pub mod store;
pub mod stored;

#[cfg(test)]
#[path = "../../tests/support/authority.rs"]
#[allow(clippy::unwrap_used)]
mod authority;
#[cfg(test)]
#[path = "../../tests/support/format_4.rs"]
mod format_4;
#[cfg(test)]
#[path = "../../tests/support/fuzz.rs"]
mod fuzz;

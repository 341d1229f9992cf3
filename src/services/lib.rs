//! The continuous delivery around the locks, and what operators need: no claim and no release goes through here.

pub mod analysis;
pub mod archive;
pub mod backup;
pub mod cluster;
pub mod fixes;
pub mod git;
pub mod identities;
pub mod logs;
pub mod moving;
pub mod outbound;
pub mod peers;
pub mod registries;
pub mod runner;
pub mod secrets;
pub mod sso;
pub mod tls;
pub mod webhooks;

use lockkeeper_core::{
    actors, auth, backoff, domain, entropy, events, idempotency, nearest, pipelines, shares, store, stored,
};
use lockkeeper_processes as processes;

#[cfg(test)]
#[path = "../../tests/support/format_4.rs"]
mod format_4;
#[cfg(test)]
#[path = "../../tests/support/fuzz.rs"]
mod fuzz;

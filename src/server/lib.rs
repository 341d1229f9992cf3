//! The server as a whole: its settings, its command line, and the parts put together.

mod app;
mod cli;
mod config;
mod doctor;
mod telemetry;

use lockkeeper_client as client;
use lockkeeper_core::{
    actors, auth, backoff, domain, entropy, events, idempotency, nearest, pipelines, shares, steady_clock, store,
    stored,
};
use lockkeeper_front::{forms, http};
use lockkeeper_services::{
    analysis, archive, backup, cluster, fixes, git, identities, logs, moving, outbound, peers, registries, runner,
    secrets, sso, tls, webhooks,
};

pub use cli::run;

#[cfg(test)]
#[path = "../../tests/support/fuzz.rs"]
mod fuzz;

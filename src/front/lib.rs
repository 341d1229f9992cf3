//! The HTTP front: requests are read, routed to the right part, and answered.

pub mod dashboard;
pub mod forms;
pub mod http;

use lockkeeper_core::{actors, auth, backoff, domain, entropy, events, idempotency, nearest, pipelines, shares, store};
use lockkeeper_services::{
    analysis, archive, backup, fixes, git, identities, logs, peers, registries, secrets, sso, tls, webhooks,
};

#[cfg(test)]
#[path = "../../tests/support/fuzz.rs"]
mod fuzz;

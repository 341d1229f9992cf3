//! Fixes of failed deployments as branches and pull requests: against real repositories, and for GitHub against a recorded
//! contract of its API. Without git on this machine there is nothing to test.

#![allow(clippy::unwrap_used)]

#[path = "fixes/bench.rs"]
mod bench;
#[path = "fixes/contract.rs"]
mod contract;
#[path = "fixes/events.rs"]
mod events;
#[path = "fixes/github.rs"]
mod github;
#[path = "fixes/killed.rs"]
mod killed;
#[path = "fixes/pushing.rs"]
mod pushing;
#[path = "fixes/refusing.rs"]
mod refusing;
#[path = "deployments/site.rs"]
mod site;
mod support;

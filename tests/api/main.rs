//! The API, one module per resource or subject, driven over real sockets.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod access;
mod bad_input;
mod dashboard;
mod environments;
mod events;
mod guide;
mod hints;
mod identities;
mod interventions;
mod lists;
mod members;
mod operating;
mod packages;
mod pipelines;
mod registries;
mod removal;
mod secrets;
mod sessions;
mod shares;
mod sign_in;
mod single_sign_on;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod webhooks;

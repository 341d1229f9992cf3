//! The command line as a client: the real program against a real server, in both output forms, with every exit code.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod connecting;
mod deploying;
mod evaluating;
mod identities;
mod people;
mod program;
mod run;
mod sessions;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod views;

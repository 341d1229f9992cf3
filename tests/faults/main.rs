//! Properties that must survive crowds, kills, broken connections, full disks and damaged files.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod backup;
mod cluster;
mod crowds;
mod durability;
mod older_data;
mod scenarios;
#[path = "../support/mod.rs"]
mod support;

//! Real deployments: processes, logs, approvals, interventions and interruptions, and the analysis and fix of failed
//! ones.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod analyses;
mod analysis_answers;
mod analysis_catalogue;
mod approving;
mod cancelling;
mod fixes;
mod isolation;
mod killed;
mod logs;
mod many;
mod outgoing;
mod restarting;
mod retrying;
mod runner;
mod running;
mod secrets;
mod shares;
mod shop;
mod site;
mod stopping;
#[path = "../support/mod.rs"]
mod support;

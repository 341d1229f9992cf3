//! Deployments that really run: processes, logs, approvals, and what becomes of them when somebody or something steps in.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "deployments/approving.rs"]
mod approving;
#[path = "deployments/cancelling.rs"]
mod cancelling;
#[path = "deployments/killed.rs"]
mod killed;
#[path = "deployments/logs.rs"]
mod logs;
#[path = "deployments/many.rs"]
mod many;
#[path = "deployments/restarting.rs"]
mod restarting;
#[path = "deployments/retrying.rs"]
mod retrying;
#[path = "deployments/running.rs"]
mod running;
#[path = "deployments/secrets.rs"]
mod secrets;
#[path = "deployments/shop.rs"]
mod shop;
#[path = "deployments/site.rs"]
mod site;
#[path = "deployments/stopping.rs"]
mod stopping;
mod support;

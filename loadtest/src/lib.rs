//! Drives a Lockkeeper over HTTP as a black box, checks what it saw, draws it, and sets it beside the peers.

mod checks;
mod cli;
mod compare;
mod engine;
mod history;
mod interruption;
mod linearizability;
mod random;
mod report;
mod scenario;
mod server;
mod settings;
#[cfg(test)]
mod simulation;
mod sync;
mod wire;
mod workloads;

pub use cli::run_with;
/// Also used by the tests of clusters.
pub use server::proxy;
pub use wire::etcd as etcd_client;

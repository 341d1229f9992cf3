//! Registries of steps that pipelines use by name and version: some hold what a request said, some what a git repository
//! has under `steps/`, pinned to a commit until the next sync. Knows nothing of HTTP.
//!
//! What pipelines use of a registry is not taken from them: a change that would is refused, and so is a pipeline that names
//! what is not there. Both are decided under one gate, on what was handed in last.

//!
//! Each file uses only those before it: registry, stored, service (all registries, for readers), fetch and usage,
//! changing, syncing.

mod changing;
mod fetch;
mod registry;
mod service;
mod stored;
mod syncing;
#[cfg(test)]
mod tests;
mod usage;

pub use changing::Refusal;
pub use registry::{
    FileFault, GitSource, NewRegistry, NewSource, REGISTRIES_MAX, REGISTRY_BYTES_MAX, Registry, STEPS_MAX, Source,
    Status, StepKey, Steps, SyncFailure, steps_of,
};
pub use service::{ReadStep, Registries, Using};
pub use syncing::Synced;

//! Registries of steps that pipelines use by name and version: inline steps from a request, or the `steps/` of a git
//! repository, pinned to a commit until the next sync. Knows nothing of HTTP.
//!
//! A change that would break a pipeline is refused, and so is a pipeline that uses a missing step. Both are decided
//! under one gate, on the newest state, durable or not. Changes follow [`Published`](store::Published).
//!
//! Each file uses only those before it: registry, service (all registries, for readers), fetch, change, sync.

mod change;
mod fetch;
mod registry;
mod service;
mod sync;
#[cfg(test)]
mod tests;

pub use change::RegistryError;
pub use registry::{
    FileError, GitSource, NewRegistry, NewSource, Registry, STEPS_MAX, Source, Status, StepKey, Steps, SyncError,
    steps_of,
};
#[cfg(test)]
pub use registry::{REGISTRIES_MAX, REGISTRY_BYTES_MAX};
#[cfg(test)]
pub use service::ReadStep;
pub use service::{Registries, Using};
pub use sync::Synced;

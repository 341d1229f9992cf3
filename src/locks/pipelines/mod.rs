//! The pipelines of every organization: declared by files, changed and stopped through the API. All are in memory and in
//! the store. Knows nothing of environments, nor of how a deployment runs.
//!
//! Changes follow [`Published`](store::Published): writers decide on the newest state, readers see what is durable.
//! Each file uses only those before it: pipeline, stored, change, declared, service.

mod change;
mod declared;
mod pipeline;
mod service;
mod stored;

#[cfg(test)]
mod tests;

pub use declared::{Declared, pipeline_differences};
#[cfg(test)]
pub use pipeline::Stopped;
pub use pipeline::{
    API_URL_PATTERN, Definition, EXPECTED_STATUSES_MAX, Pipeline, Provider, REPOSITORY_URL_PATTERN, Repository,
    STATUSES, check_api_url, check_repository_url, default_branch, default_method, step_name,
};
#[cfg(test)]
pub use service::Put;
pub use service::{PIPELINES_MAX, Pipelines, PipelinesError};

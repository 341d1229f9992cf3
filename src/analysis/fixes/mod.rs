//! Fixes as branches and pull requests: pushes the suggestion of an analysis to a branch of the pipeline's repository,
//! never the default one, and opens a pull request there.
//!
//! The work may be interrupted at any point. The intended push is durable before it begins, so a retry recognises its
//! own branch and continues from there; it also finds an existing pull request.
//!
//! From top to bottom: `proposal` → `document`, `repositories` → `error` → `github`.

mod document;
mod error;
mod github;
mod proposal;
mod repositories;

pub use error::FixError;
pub use github::GitHubError;
pub use proposal::{FixDependencies, FixRequest, Fixes, Proposed, Title};
pub use repositories::Repositories;

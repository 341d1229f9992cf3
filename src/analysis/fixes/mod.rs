//! Fixes as branches and pull requests: puts the suggestion of an analysis on a branch of the pipeline's repository, never
//! the default one, and proposes it there.
//!
//! The work may be interrupted at any point. What is about to be pushed is durable before the push, so a retry recognises
//! its own branch and continues from there; an existing pull request is found.
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

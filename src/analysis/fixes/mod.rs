//! Fixes as branches and pull requests: pushes the suggestion of an analysis to a branch of the pipeline's repository,
//! never the default one, and opens a pull request there.
//!
//! The work may be interrupted at any point. The intended push is durable before it begins, so a retry recognises its
//! own branch and continues from there; it also finds an existing pull request.
//!
//! From top to bottom: `proposal` → `document`, `repositories` → `mod` → `github`. The service checks and writes patches
//! with `repositories`.

mod document;
mod github;
mod proposal;
mod repositories;

use super::record::{AnalysisError, Status};
use delivery::git::GitError;
use domain::VariableName;
use shares::ShareError;

pub use github::GitHubError;
pub use proposal::{FixDependencies, FixRequest, Fixes, Proposed, Title};
pub use repositories::Repositories;

/// Why there is no patch or no pull request for an analysis.
#[derive(Debug, thiserror::Error)]
pub enum FixError {
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
    #[error("the analysis is {}", .0.as_str())]
    NotCompleted(Status),
    #[error("the pipeline has no repository")]
    NoRepository,
    #[error("the pipeline's repository cannot be used: {0}")]
    UnusableRepository(String),
    #[error("the repository names no credential")]
    NoCredential,
    #[error("the secret {0}, which the repository names as its credential, does not exist")]
    CredentialNotFound(VariableName),
    #[error("the pipeline's secrets cannot be opened: {0}")]
    Secrets(String),
    #[error("{0} is the default branch, which is never pushed to")]
    DefaultBranch(String),
    #[error("the branch {0} already exists in the repository and is not one of ours")]
    BranchExists(String),
    #[error("too many fixes are in progress: {0}")]
    Crowded(ShareError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    GitHub(#[from] GitHubError),
}

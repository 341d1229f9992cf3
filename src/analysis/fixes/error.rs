//! Why there is no pull request for an analysis.

use super::github::GitHubError;
use crate::service::{AnalysisError, Status};
use delivery::git::GitError;
use domain::VariableName;
use shares::ShareError;
use store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum FixError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the analysis does not exist, or no longer exists")]
    NotFound,
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
    #[error("too many fixes are in progress")]
    Overloaded,
    #[error("too many fixes are in progress: {0}")]
    Crowded(ShareError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    GitHub(#[from] GitHubError),
}

impl From<AnalysisError> for FixError {
    fn from(error: AnalysisError) -> Self {
        match error {
            AnalysisError::Store(error) => error.into(),
            AnalysisError::Overloaded => FixError::Overloaded,
            AnalysisError::NotFound => FixError::NotFound,
        }
    }
}

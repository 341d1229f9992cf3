//! Failures of analyses and of the pull requests created from them.

use crate::http::codes::Code;
use crate::http::problem::Problem;
use analysis::fixes::{FixError, GitHubError};
use analysis::service::{AnalysisError, Status};
use delivery::git::GitError;

/// Long enough for a remote server to recover.
const REMOTE_RETRY_SECONDS: u64 = 30;

impl From<AnalysisError> for Problem {
    fn from(error: AnalysisError) -> Self {
        match error {
            AnalysisError::Store(error) => error.into(),
            AnalysisError::Overloaded => Problem::overloaded("the limit of running analyses is reached"),
            AnalysisError::NotFound => Code::AnalysisNotFound.into(),
        }
    }
}

impl From<FixError> for Problem {
    fn from(error: FixError) -> Self {
        let to_put =
            "a maintainer sets it with PUT /pipelines/{pipelineId}: `repository: {provider, url, defaultBranch}`";
        match error {
            FixError::Analysis(error) => error.into(),
            FixError::NotCompleted(status) => analysis_not_completed(status),
            FixError::NoRepository => {
                Problem::new(Code::RepositoryMissing, format!("the pipeline has no repository; {to_put}"))
            }
            FixError::UnusableRepository(_) => Problem::new(
                Code::RepositoryUnusable,
                format!("{error}; a maintainer changes it with PUT /pipelines/{{pipelineId}}"),
            ),
            FixError::NoCredential => Problem::new(
                Code::CredentialMissing,
                "a pull request needs a token; a maintainer stores it in a secret and names that secret as the `credential` \
                 of the pipeline's `repository`",
            ),
            FixError::CredentialNotFound(_) => Problem::new(
                Code::CredentialMissing,
                format!("{error}; a maintainer creates it with POST /secrets, for the pipeline or the organization"),
            ),
            FixError::Secrets(reason) => Problem::internal(reason),
            FixError::DefaultBranch(branch) => {
                Problem::invalid_field("branch", format!("must not be `{branch}`, the repository's default branch"))
            }
            FixError::BranchExists(_) => {
                Problem::new(Code::BranchExists, format!("{error}; choose another with `branch`, or delete it"))
            }
            FixError::Crowded(_) => Problem::overloaded(&error.to_string()),
            FixError::Git(error) => error.into(),
            FixError::GitHub(error) => error.into(),
        }
    }
}

impl From<GitError> for Problem {
    fn from(error: GitError) -> Self {
        let reason = match &error {
            GitError::NoGit { .. } | GitError::Io(_) => {
                let detail = format!("{error}; an operator must fix it");
                return Problem::new(Code::GitUnavailable, detail).retry_after(REMOTE_RETRY_SECONDS).because(error);
            }
            GitError::PathTaken(_) => {
                let detail = format!("{error}; move it in the repository, and try again");
                return Problem::new(Code::RepositoryUnusable, detail);
            }
            GitError::Busy { .. } | GitError::Crowded(_) => return Problem::overloaded(&error.to_string()),
            GitError::Unreachable(_) => "unreachable",
            GitError::TimedOut { .. } => "timed_out",
            GitError::NotFound(_) => "not_found",
            GitError::Authentication(_) => "authentication",
            GitError::Rejected(_) | GitError::DefaultBranch(_) => "refused",
            GitError::Patch(_) | GitError::NothingChanged | GitError::TooLarge(_) | GitError::Failed(_) => "failed",
        };
        remote_failed(reason, &error)
    }
}

impl From<GitHubError> for Problem {
    fn from(error: GitHubError) -> Self {
        let reason = match &error {
            GitHubError::Unreachable(_) => "unreachable",
            GitHubError::NotFound | GitHubError::Moved(_) => "not_found",
            GitHubError::Authentication | GitHubError::Credential => "authentication",
            GitHubError::Forbidden(_) => "forbidden",
            GitHubError::Refused { .. } => "refused",
            GitHubError::RateLimited { retry_after_seconds } => {
                let seconds = retry_after_seconds.unwrap_or(REMOTE_RETRY_SECONDS);
                return remote_failed("rate_limited", &error).retry_after(seconds);
            }
            GitHubError::Failed(_) | GitHubError::Response(_) => "failed",
        };
        remote_failed(reason, &error)
    }
}

fn remote_failed(reason: &str, error: &dyn std::error::Error) -> Problem {
    let detail = format!("the repository's server failed: {error}; a retry continues where this attempt stopped");
    Problem::new(Code::RemoteFailed, detail).with("reason", reason).because(error)
}

fn analysis_not_completed(status: Status) -> Problem {
    let detail = match status {
        Status::Running => {
            "the analysis is still running; wait for it, preferably with `waitSeconds` and `If-None-Match`"
        }
        Status::Failed => "the analysis failed, so there is nothing to propose; request another one for the deployment",
        Status::Completed => "the analysis has completed in the meantime; try again",
    };
    Problem::new(Code::AnalysisNotCompleted, detail).with("analysisStatus", status.as_str())
}

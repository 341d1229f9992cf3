//! What can stand in the way of an analysis, and of the pull request made of one.

use crate::analysis::service::{AnalysisError, Status};
use crate::fixes::{FixError, GitHubError};
use crate::git::GitError;
use crate::http::codes::Code;
use crate::http::problem::{FieldError, Problem};

/// Long enough for a server elsewhere to have come round.
const REMOTE_RETRY_SECONDS: u64 = 30;

impl From<AnalysisError> for Problem {
    fn from(error: AnalysisError) -> Self {
        match error {
            AnalysisError::Store(error) => error.into(),
            AnalysisError::Overloaded => Problem::overloaded("as many analyses are under way as may be"),
            AnalysisError::NotFound => analysis_not_found(),
        }
    }
}

impl From<FixError> for Problem {
    fn from(error: FixError) -> Self {
        let to_put =
            "a maintainer names it with PUT /pipelines/{pipelineId}: `repository: {provider, url, defaultBranch}`";
        match error {
            FixError::Store(error) => error.into(),
            FixError::NotFound => analysis_not_found(),
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
                "a pull request takes a token; a maintainer puts it into a secret, and names that as the `credential` of \
                 the pipeline's `repository`",
            ),
            FixError::CredentialNotFound(_) => Problem::new(
                Code::CredentialMissing,
                format!("{error}; a maintainer makes it with POST /secrets, for the pipeline or the organization"),
            ),
            FixError::Secrets(reason) => Problem::internal(reason),
            FixError::DefaultBranch(branch) => Problem::invalid_request(vec![FieldError {
                field: "branch".to_owned(),
                message: format!("is `{branch}`, the repository's default branch, which is never pushed to"),
            }]),
            FixError::BranchExists(_) => {
                Problem::new(Code::BranchExists, format!("{error}; choose another with `branch`, or delete that one"))
            }
            FixError::Overloaded => Problem::overloaded("too many fixes are being made"),
            FixError::Git(error) => error.into(),
            FixError::GitHub(error) => error.into(),
        }
    }
}

impl From<GitError> for Problem {
    fn from(error: GitError) -> Self {
        let reason = match &error {
            GitError::NoGit { .. } | GitError::Io(_) => {
                let detail = format!("{error}; an operator has to see to it");
                return Problem::new(Code::GitUnavailable, detail).retry_after(REMOTE_RETRY_SECONDS).because(error);
            }
            GitError::PathTaken(_) => {
                let detail = format!("{error}; move that in the repository, and ask again");
                return Problem::new(Code::RepositoryUnusable, detail);
            }
            GitError::Busy { .. } => return Problem::overloaded("git is busy with other repositories"),
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
            GitHubError::TimedOut => "timed_out",
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
    let detail = format!("the repository's server did not do it: {error}; asked again, the fix goes on where it was");
    Problem::new(Code::RemoteFailed, detail).with("reason", reason).because(error)
}

pub fn analysis_not_found() -> Problem {
    Problem::new(
        Code::AnalysisNotFound,
        "the organization has no such analysis, or no longer remembers it; list them to see those it does",
    )
}

fn analysis_not_completed(status: Status) -> Problem {
    let detail = match status {
        Status::Running => "the analysis still runs; wait for it, best with `waitSeconds` and `If-None-Match`",
        Status::Failed => "the analysis failed, and there is nothing to propose; ask for another of its deployment",
        Status::Completed => "the analysis has been completed meanwhile; try again",
    };
    Problem::new(Code::AnalysisNotCompleted, detail).with("analysisStatus", status.as_str())
}

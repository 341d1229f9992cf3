//! The one place where a refusal or a failure becomes a status and a code.

use super::codes::Code;
use super::dto::{EndedByView, LockView, Text, Time, UserView};
use super::problem::Problem;
use crate::actors::Failure;
use crate::auth::AccountsError;
use crate::domain::{Rejection, Session, SessionStatus};
use crate::store::StoreError;

/// When somebody who found an environment locked may ask again: soon, but not in a tight loop.
const LOCKED_RETRY_SECONDS: u64 = 5;
/// Long enough for a burst to pass.
const OVERLOADED_RETRY_SECONDS: u64 = 1;
/// Freeing a disk takes a person.
const STORAGE_FULL_RETRY_SECONDS: u64 = 30;

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Rejected(rejection) => rejection.into(),
            Failure::Store(error) => error.into(),
            Failure::Overloaded => overloaded("too many requests wait for this environment"),
            Failure::Unavailable | Failure::TimedOut => {
                tracing::error!(%failure, "a command was not answered");
                let detail = format!("{failure}; look at the environment before you try again");
                Problem::new(Code::OutcomeUnknown, detail).retry_after(OVERLOADED_RETRY_SECONDS)
            }
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Overloaded => overloaded("more writes wait for the disk than the server holds"),
            StoreError::Full { .. } => {
                let detail = "the server's disk is full: nothing was done; reads go on, and writes will once an \
                              operator has freed space";
                Problem::new(Code::StorageFull, detail).retry_after(STORAGE_FULL_RETRY_SECONDS)
            }
            StoreError::Closed => Problem::new(Code::ShuttingDown, Code::ShuttingDown.meaning()).retry_after(1),
            StoreError::BatchTooLarge { .. } | StoreError::Read(_) => {
                tracing::error!(%error, "the store failed");
                Problem::internal()
            }
        }
    }
}

impl From<AccountsError> for Problem {
    fn from(error: AccountsError) -> Self {
        match error {
            AccountsError::Store(error) => error.into(),
            AccountsError::TooManyTokens => {
                Problem::new(Code::TokenLimitReached, format!("{error}; revoke some that are no longer used"))
            }
        }
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::EnvironmentNotFound => environment_not_found(),
            Rejection::EnvironmentLocked { holder } => locked(&holder),
            Rejection::EnvironmentDisabled => Problem::new(
                Code::EnvironmentDisabled,
                "the environment is disabled; ask a maintainer to enable it, or claim another one",
            ),
            Rejection::DeploymentRunning { deployment } => Problem::new(
                Code::DeploymentRunning,
                "a deployment of a session that has ended has not stopped yet; try again when it has",
            )
            .with("deploymentId", Text(deployment)),
            Rejection::SessionNotFound => session_not_found(),
            Rejection::SessionEnded { session } => session_ended(&session),
            Rejection::NotSessionHolder { holder } => Problem::new(
                Code::NotSessionHolder,
                format!(
                    "the session belongs to {}; only they deploy in it, and they or a maintainer release it",
                    holder.name
                ),
            )
            .with("holder", serde_json::json!({ "user": UserView::from(&holder) })),
            Rejection::RoleTooLow { required } => Problem::new(
                Code::PermissionDenied,
                format!("this environment lets {required}s and above force-claim it; ask one of them, or wait"),
            )
            .with("requiredRole", required.as_str()),
            Rejection::DeploymentQueueFull { limit } => Problem::new(
                Code::QueueFull,
                format!("{limit} deployments of this session wait already; try again when some have finished"),
            )
            .retry_after(LOCKED_RETRY_SECONDS),
            Rejection::DeploymentNotRunning => {
                Problem::new(Code::DeploymentNotRunning, Code::DeploymentNotRunning.meaning())
            }
            Rejection::ConfigurationChanged { revision } => Problem::new(
                Code::PreconditionFailed,
                "the environment is not, or no longer, as `If-Match` says; read it again and send its `ETag`",
            )
            .with("configurationRevision", revision),
        }
    }
}

pub fn environment_not_found() -> Problem {
    Problem::new(
        Code::EnvironmentNotFound,
        "the pipeline has no environment of this name; list them, or ask a maintainer to make it with PUT",
    )
}

pub fn session_not_found() -> Problem {
    Problem::new(
        Code::SessionNotFound,
        "the environment has no such session, or no longer remembers it; its history lists those it does",
    )
}

pub fn overloaded(why: &str) -> Problem {
    Problem::new(Code::Overloaded, format!("{why}; nothing was done, try again in a moment"))
        .retry_after(OVERLOADED_RETRY_SECONDS)
}

fn locked(holder: &Session) -> Problem {
    let detail = format!(
        "{} holds the environment since {}; try again later, or take it with force-claim",
        holder.user.name,
        Time(holder.claimed_at)
    );
    Problem::new(Code::EnvironmentLocked, detail)
        .with("holder", LockView::from(holder))
        .with("queueLength", 0)
        .retry_after(LOCKED_RETRY_SECONDS)
}

fn session_ended(session: &Session) -> Problem {
    let by = session.ended.as_ref().map_or("somebody", |ended| &*ended.by.name);
    let (code, detail) = match session.status() {
        SessionStatus::Overridden => {
            (Code::SessionOverridden, format!("{by} took the lock by force; claim again to deploy"))
        }
        SessionStatus::Released | SessionStatus::Active => {
            (Code::SessionReleased, format!("{by} released the session; claim again to deploy"))
        }
    };
    Problem::new(code, detail)
        .with("sessionId", Text(session.id))
        .with("endedAt", session.ended.as_ref().map(|ended| Time(ended.at)))
        .with("endedBy", EndedByView::of(session))
}

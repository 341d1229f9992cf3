//! The one place where a refusal or a failure becomes a status and a code.

mod fixes;
mod missing;
mod registries;

pub use fixes::analysis_not_found;
pub use missing::*;

use crate::actors::Failure;
use crate::auth::{AccountsError, Caller, Permission};
use crate::domain::{ApprovalRecord, DeploymentRecord, Identifier, Rejection, Session, SessionStatus, StageStatus};
use crate::http::codes::Code;
use crate::http::dto::{EndedByView, LockView, Text, Time, UserView, approval_status_name, end_reason};
use crate::http::problem::{FieldError, OVERLOADED_RETRY_SECONDS, Problem};
use crate::pipelines::PipelinesError;
use crate::secrets::SecretError;
use crate::store::StoreError;
use crate::webhooks::WebhookError;

/// When somebody who found an environment locked may ask again: soon, but not in a tight loop.
const LOCKED_RETRY_SECONDS: u64 = 5;
/// Freeing a disk takes a person.
const STORAGE_FULL_RETRY_SECONDS: u64 = 30;

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Rejected(rejection) => rejection.into(),
            Failure::Store(error) => error.into(),
            Failure::Overloaded => Problem::overloaded("too many requests wait for this environment"),
            Failure::ComeAgain => Problem::new(
                Code::ShuttingDown,
                "the server stops, and nobody can wait any longer; come again after `Retry-After`. A request with an \
                 `Idempotency-Key` keeps its place for whoever comes again with it",
            )
            .retry_after(OVERLOADED_RETRY_SECONDS),
            Failure::KeyReused => Problem::new(Code::IdempotencyKeyReused, Code::IdempotencyKeyReused.meaning()),
            Failure::Unavailable | Failure::TimedOut => {
                let detail = format!("{failure}; look at the environment before you try again");
                Problem::new(Code::OutcomeUnknown, detail).retry_after(OVERLOADED_RETRY_SECONDS).because(failure)
            }
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Overloaded => Problem::overloaded("more writes wait for the disk than the server holds"),
            StoreError::Full { .. } => {
                let detail = "the server's disk is full: nothing was done; reads go on, and writes will once an \
                              operator has freed space";
                Problem::new(Code::StorageFull, detail).retry_after(STORAGE_FULL_RETRY_SECONDS)
            }
            StoreError::Closed => Problem::new(Code::ShuttingDown, Code::ShuttingDown.meaning()).retry_after(1),
            StoreError::BatchTooLarge { .. } | StoreError::Read(_) => Problem::internal(error),
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
            AccountsError::TokenNotFound => Problem::new(Code::TokenNotFound, Code::TokenNotFound.meaning()),
            AccountsError::TooManyMembers => {
                Problem::new(Code::MemberLimitReached, format!("{error}; remove some who are no longer there"))
            }
            AccountsError::MemberExists => Problem::new(
                Code::MemberExists,
                "the organization has a member of this name; change their role with PATCH, or choose another name",
            ),
            AccountsError::MemberNotFound => member_not_found(),
            AccountsError::LastAdmin => Problem::new(
                Code::LastAdmin,
                "this is the organization's last admin; make somebody else an admin first",
            ),
            AccountsError::NoLongerAdmin => {
                let required = Permission::ManageMembers.required_role();
                let detail = format!("this takes the role {required}, which you no longer have; ask an admin");
                Problem::new(Code::PermissionDenied, detail).with("requiredRole", required.as_str())
            }
        }
    }
}

impl From<PipelinesError> for Problem {
    fn from(error: PipelinesError) -> Self {
        match error {
            PipelinesError::Store(error) => error.into(),
            PipelinesError::NotFound => pipeline_not_found(),
            PipelinesError::Changed => Problem::new(
                Code::PreconditionFailed,
                "the pipeline is not, or no longer, as `If-Match` or `If-None-Match` says; read it again and send its \
                 `ETag`",
            ),
            PipelinesError::TooMany => {
                Problem::new(Code::PipelineLimitReached, format!("{error}; delete some that are no longer used"))
            }
        }
    }
}

impl From<SecretError> for Problem {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::Store(error) => error.into(),
            SecretError::Exists => Problem::new(
                Code::SecretExists,
                "there is a secret of this name in this scope; change that one with PUT, or choose another name",
            ),
            SecretError::TooMany => Problem::new(Code::SecretLimitReached, error.to_string()),
            SecretError::NotFound => secret_not_found(),
            SecretError::VersionMismatch { current } => Problem::new(
                Code::PreconditionFailed,
                "the secret is not, or no longer, as `If-Match` says; read it again and send its `ETag`",
            )
            .with("version", current),
            SecretError::DoesNotOpen { .. } => {
                let detail = "the secret's record is damaged and does not open; set its value anew, or delete it";
                Problem::internal(error).with_detail(detail)
            }
        }
    }
}

impl From<WebhookError> for Problem {
    fn from(error: WebhookError) -> Self {
        match error {
            WebhookError::Store(error) => error.into(),
            WebhookError::Secret(error) => error.into(),
            WebhookError::TooMany => Problem::new(Code::WebhookLimitReached, error.to_string()),
            WebhookError::NotFound => webhook_not_found(),
            WebhookError::DeliveryNotFound => delivery_not_found(),
            WebhookError::Disabled => Problem::new(
                Code::WebhookDisabled,
                "the webhook is disabled, and nothing is delivered to it; enable it with PATCH first",
            ),
            WebhookError::NotPublic(refused) => Problem::invalid_request(vec![FieldError {
                field: "url".to_owned(),
                message: format!("must lead to a public address: {refused}"),
            }]),
            WebhookError::Busy => Problem::overloaded("too many webhooks are being tried out"),
        }
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::EnvironmentNotFound => environment_not_found(),
            Rejection::EnvironmentLocked { holder, queue_length } => locked(&holder, queue_length),
            Rejection::EnvironmentResetting { queue_length } => Problem::new(
                Code::EnvironmentResetting,
                "the environment is being put back in order after a release; wait for it with `waitSeconds` or `queue`, \
                 or try again later",
            )
            .with("queueLength", queue_length)
            .retry_after(LOCKED_RETRY_SECONDS),
            Rejection::AllLocked { queue_length } => Problem::new(
                Code::EnvironmentLocked,
                "all environments with these labels are taken; wait for one with `waitSeconds` or `queue`, or try again \
                 later",
            )
            .with("holder", serde_json::Value::Null)
            .with("queueLength", queue_length)
            .retry_after(LOCKED_RETRY_SECONDS),
            Rejection::NoneMatches => Problem::new(
                Code::EnvironmentNotFound,
                "no environment of the pipeline has all these labels; list the environments to see theirs",
            ),
            Rejection::QueueFull { limit } => {
                let detail = format!("{limit} wait already, and no more may; try again after `Retry-After`");
                Problem::new(Code::QueueFull, detail).with("queueLength", limit).retry_after(LOCKED_RETRY_SECONDS)
            }
            Rejection::QueueNotEmpty { length } => Problem::new(
                Code::EnvironmentInUse,
                format!("{length} wait for the environment; delete it when they have left or had their turn"),
            )
            .with("queueLength", length),
            Rejection::TtlTooLong { max_seconds } => Problem::invalid_request(vec![FieldError {
                field: "ttlSeconds".to_owned(),
                message: format!("is at most {max_seconds} in this environment"),
            }]),
            Rejection::EnvironmentDisabled { reason } => {
                let why = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                let detail =
                    format!("the environment is disabled{why}; ask a maintainer to enable it, or claim another one");
                Problem::new(Code::EnvironmentDisabled, detail).with("reason", reason.as_deref())
            }
            Rejection::SessionQueued { position } => Problem::new(
                Code::SessionQueued,
                format!("the session is still queued, at position {position}; ask about it until it is active"),
            )
            .with("queuePosition", position),
            Rejection::StaleFencingToken { current } => Problem::new(
                Code::StaleFencingToken,
                format!("the session's fencing token is {current}; whoever sent another one does not hold this lock"),
            )
            .with("fencingToken", current),
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
                    "the session belongs to {}; only they use it, and they or a maintainer release it, or cancel and retry what it \
                     deploys",
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
            Rejection::DeploymentNotFound => deployment_not_found(),
            Rejection::StageNotFound => stage_not_found(),
            Rejection::StageNotRunning { status } => stage_not_running(status),
            Rejection::StageNotRetryable { status } => stage_not_retryable(status),
            Rejection::DeploymentOfNoSession => {
                let required = Permission::ManageDeployments.required_role();
                let detail = format!(
                    "the deployment puts the environment back in order and is nobody's own; this takes the role {required}"
                );
                Problem::new(Code::PermissionDenied, detail).with("requiredRole", required.as_str())
            }
            Rejection::ApprovalNotFound => approval_not_found(),
            Rejection::ApprovalNotPending { status } => {
                Problem::new(Code::ApprovalNotPending, Code::ApprovalNotPending.meaning())
                    .with("approvalStatus", approval_status_name(status))
            }
            Rejection::SelfApproval => {
                Problem::new(Code::SelfApprovalDenied, "you triggered this deployment, and in this pipeline nobody approves \
                 what they triggered; ask another maintainer, or reject it")
            }
            Rejection::ConfigurationChanged { revision } => Problem::new(
                Code::PreconditionFailed,
                "the environment is not, or no longer, as `If-Match` says; read it again and send its `ETag`",
            )
            .with("configurationRevision", revision),
        }
    }
}

/// Why a pipeline was not deleted.
pub fn pipeline_in_use(environments: u64) -> Problem {
    let are = if environments == 1 { "1 environment".to_owned() } else { format!("{environments} environments") };
    let detail = format!("the pipeline has {are}; delete them first, then the pipeline");
    Problem::new(Code::PipelineInUse, detail).with("environmentCount", environments)
}

fn stage_not_running(status: StageStatus) -> Problem {
    let detail = match status {
        StageStatus::Pending => "its turn has not come; cancel the stage that the deployment is at",
        StageStatus::Succeeded | StageStatus::Failed | StageStatus::Cancelled | StageStatus::Skipped => {
            "the stage has ended; there is nothing to cancel"
        }
        StageStatus::AwaitingApproval | StageStatus::Queued | StageStatus::Running | StageStatus::Cancelling => {
            "the stage is not at a point where it can be cancelled; look at the deployment and try again"
        }
    };
    Problem::new(Code::StageNotRunning, detail).with("stageStatus", status.as_str())
}

fn stage_not_retryable(status: StageStatus) -> Problem {
    let detail = match status {
        StageStatus::Succeeded => "the stage has succeeded; to run it again, deploy anew",
        StageStatus::Skipped => "the stage was skipped; retry the one before it that failed or was cancelled",
        StageStatus::Failed | StageStatus::Cancelled => "the deployment goes on; retry when it has finished",
        StageStatus::Pending
        | StageStatus::AwaitingApproval
        | StageStatus::Queued
        | StageStatus::Running
        | StageStatus::Cancelling => "the stage has not ended; wait for it, or cancel it first",
    };
    Problem::new(Code::StageNotRetryable, detail).with("stageStatus", status.as_str())
}

/// What puts an environment back in order is run in no session, so there is none that could have the lock.
pub fn reset_not_retryable(record: &DeploymentRecord, stage: &Identifier) -> Problem {
    let Some(stage) = record.stages.iter().find(|known| known.name == *stage) else { return stage_not_found() };
    stage_not_retryable(stage.status).with_detail(
        "the deployment put the environment back in order after a release, in no session, and cannot be run again; a \
         maintainer enables the environment with PUT, and the next release deploys it anew",
    )
}

/// Somebody came too late with their decision.
pub fn approval_not_pending(record: &ApprovalRecord) -> Problem {
    let approval = &record.approval;
    let status = approval_status_name(approval.status);
    let at = approval.decided_at.map(|at| format!(" at {}", Time(at))).unwrap_or_default();
    let detail = match &approval.decided_by {
        Some(by) => {
            format!("{} {status} it{at}, and that stands; look at the deployment to see what became of it", by.name)
        }
        None => format!("what it was for has ended{at} before anybody decided; look at the deployment"),
    };
    Problem::new(Code::ApprovalNotPending, detail)
        .with("approvalStatus", status)
        .with("decidedAt", approval.decided_at.map(Time))
        .with("decidedBy", approval.decided_by.as_ref().map(UserView::from))
}

/// A claim that wants to go first may not.
pub fn priority_too_high(caller: &Caller) -> Problem {
    let required = Permission::RaisePriority.required_role();
    let detail = format!(
        "a `priority` above 0 takes the role {required}, and {} is {}; leave it out, or ask one of them",
        caller.person.name, caller.role
    );
    Problem::new(Code::PermissionDenied, detail).with("requiredRole", required.as_str())
}

/// Why an environment was not deleted.
pub fn not_deleted(failure: Failure) -> Problem {
    let advice = match &failure {
        Failure::Rejected(Rejection::EnvironmentLocked { holder, .. }) => {
            format!("{} holds the environment; delete it when the session has ended", holder.user.name)
        }
        Failure::Rejected(Rejection::EnvironmentResetting { .. }) => {
            "the environment is being put back in order after a release; delete it when that has ended".to_owned()
        }
        _ => return failure.into(),
    };
    Problem::from(failure).with_detail(advice)
}

fn locked(holder: &Session, queue_length: usize) -> Problem {
    let detail = format!(
        "{} holds the environment since {}; wait for it with `waitSeconds` or `queue`, try again later, or take it with \
         force-claim",
        holder.user.name,
        Time(holder.claimed.as_ref().map_or(holder.created_at, |claimed| claimed.at))
    );
    Problem::new(Code::EnvironmentLocked, detail)
        .with("holder", LockView::from(holder))
        .with("queueLength", queue_length)
        .retry_after(LOCKED_RETRY_SECONDS)
}

fn session_ended(session: &Session) -> Problem {
    let by = session.ended.as_ref().and_then(|ended| ended.by.as_ref()).map_or("somebody", |by| &*by.name);
    let (code, detail) = match session.status() {
        SessionStatus::Overridden => (Code::SessionOverridden, format!("{by} took the lock by force; claim again")),
        SessionStatus::Expired => {
            (Code::SessionExpired, "the session has expired, see `endReason`; claim again".to_owned())
        }
        SessionStatus::Released | SessionStatus::Active | SessionStatus::Queued => {
            (Code::SessionReleased, format!("{by} released the session; claim again"))
        }
    };
    Problem::new(code, detail)
        .with("sessionId", Text(session.id))
        .with("endedAt", session.ended.as_ref().map(|ended| Time(ended.at)))
        .with("endedBy", EndedByView::of(session))
        .with("endReason", session.ended.as_ref().and_then(|ended| end_reason(ended.how)))
}

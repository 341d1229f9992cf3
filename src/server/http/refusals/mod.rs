//! Maps every rejection and failure to a problem with its code, detail and members.

mod fixes;
mod missing;

pub use missing::{route_not_found, with_hint};

use std::sync::Arc;

use crate::http::codes::Code;
use crate::http::dto::{EndedByView, HolderView, LockView, Time, UserView, Written, end_reason};
use crate::http::problem::{FieldError, OVERLOADED_RETRY_SECONDS, Problem};
use accounts::auth::{AccountsError, Caller, Permission, TooSoon};
use accounts::secrets::SecretError;
use delivery::registries::{FileError, RegistryError, SyncError};
use domain::{ApprovalRecord, DeploymentRecord, Identifier, Rejection, Role, Session, SessionStatus, StageStatus};
use locks::Failure;
use locks::pipelines::PipelinesError;
use store::StoreError;
use webhooks::WebhookError;

/// The retry delay for a claim of a locked environment: short, but no tight loop.
const LOCKED_RETRY_SECONDS: u64 = 5;
/// Long enough for somebody to free disk space.
const STORAGE_FULL_RETRY_SECONDS: u64 = 30;

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Rejected(rejection) => rejection.into(),
            Failure::Store(error) => error.into(),
            Failure::PlaceGivenUp { session, error } if error.is_lack_of_room() => {
                let detail = format!(
                    "the claim was queued as session {session} while it waited, and the store has no room to keep its place \
                     any longer: it gets no lock and ends; claim again when an operator has freed space"
                );
                Problem::new(Code::StorageFull, detail)
                    .retry_after(STORAGE_FULL_RETRY_SECONDS)
                    .with("sessionId", session.to_string())
            }
            Failure::PlaceGivenUp { session, error } => {
                Problem::from(error).with("sessionId", session.to_string())
            }
            Failure::Crowded(_) => queue_full(format!(
                "{failure}; nothing was changed, claim without `waitSeconds` and `queue`, or try again later"
            )),
            Failure::TokenCrowded { .. } => queue_full(format!(
                "{failure} (`environments.max_waiting_per_token` of the server); nothing was changed, claim without \
                 `waitSeconds` and `queue`, use another token, or try again later"
            )),
            Failure::Overloaded => Problem::overloaded("too many requests are waiting for this environment"),
            Failure::ShuttingDown => Problem::new(
                Code::ShuttingDown,
                "the server is stopping; resend the request after `Retry-After`. With the same `Idempotency-Key` it keeps \
                 its place in the queue",
            )
            .retry_after(OVERLOADED_RETRY_SECONDS),
            Failure::KeyReused => Code::IdempotencyKeyReused.into(),
            Failure::Unavailable | Failure::TimedOut => {
                let detail = format!("{failure}; check the environment before you try again");
                Problem::new(Code::OutcomeUnknown, detail).retry_after(OVERLOADED_RETRY_SECONDS).because(failure)
            }
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Overloaded => Problem::overloaded("too many writes are waiting for the disk"),
            StoreError::EngineFull => {
                let detail = "the database of the cluster's engine is full: nothing was changed; reads still work, and releases, \
                              cancellations and removals as long as the engine takes any writes; an operator must make room \
                              in the engine, and then everything goes on again";
                Problem::new(Code::StorageFull, detail).retry_after(STORAGE_FULL_RETRY_SECONDS)
            }
            StoreError::Full { .. } => {
                let detail = "the server's disk is full: nothing was changed; reads, releases, cancellations and removals \
                              still work; an operator must free space on the disk of the data directory, and then \
                              everything goes on again";
                Problem::new(Code::StorageFull, detail).retry_after(STORAGE_FULL_RETRY_SECONDS)
            }
            StoreError::Closed | StoreError::Deposed => Problem::from(Code::ShuttingDown).retry_after(1),
            StoreError::BatchTooLarge { .. }
            | StoreError::TooManyChanges { .. }
            | StoreError::Engine(_)
            | StoreError::Read(_) => Problem::internal(error),
        }
    }
}

impl From<AccountsError> for Problem {
    fn from(error: AccountsError) -> Self {
        match error {
            AccountsError::Store(error) => error.into(),
            AccountsError::TooManyTokens(_) => Problem::new(
                Code::TokenLimitReached,
                format!("{error}; revoke unused ones, `GET /tokens?mine=true` lists your own"),
            ),
            AccountsError::TokenNotFound => Code::TokenNotFound.into(),
            AccountsError::TooManyMembers => Problem::new(Code::MemberLimitReached, format!("{error}; remove some")),
            AccountsError::MemberExists => Code::MemberExists.into(),
            AccountsError::MemberNotFound => Code::MemberNotFound.into(),
            AccountsError::LastAdmin => Code::LastAdmin.into(),
            AccountsError::InvalidCredentials | AccountsError::NoLongerTrusted => Code::InvalidCredentials.into(),
            AccountsError::InvitationNotFound => Code::InvitationNotFound.into(),
            AccountsError::MemberDisabled => Code::MemberDisabled.into(),
            AccountsError::MemberForJobs => Code::MemberForJobs.into(),
            AccountsError::InvitationDenied => Code::InvitationDenied.into(),
            AccountsError::NoPassword => Code::InvitationRequired.into(),
            AccountsError::AboveProvider => Code::SsoAboveProvider.into(),
            AccountsError::PasswordIsName => Problem::invalid_field("password", "must be more than the member's name"),
            AccountsError::Crowded => Problem::overloaded("too many passwords are being checked"),
            AccountsError::TooSoon(TooSoon(wait)) => {
                // Rounded up, since an earlier attempt would be refused again.
                let seconds = wait.as_secs() + 1;
                Problem::new(Code::RateLimited, format!("{error}; try again in {seconds} s")).retry_after(seconds)
            }
            // The token exchange describes these failures itself.
            AccountsError::ExchangedTooOften | AccountsError::NotForJobs | AccountsError::TooManyExchanged(_) => {
                Code::InvalidGrant.into()
            }
            AccountsError::SignInNotFound => Code::SignInNotFound.into(),
            AccountsError::NoLongerAdmin => {
                let required = Permission::ManageMembers.required_role();
                let detail = format!("this requires the role {required}, which you no longer have; ask an admin");
                permission_denied(required, detail)
            }
        }
    }
}

impl From<PipelinesError> for Problem {
    fn from(error: PipelinesError) -> Self {
        match error {
            PipelinesError::Store(error) => error.into(),
            PipelinesError::NotFound => Code::PipelineNotFound.into(),
            PipelinesError::Changed => Problem::new(
                Code::PreconditionFailed,
                "the pipeline does not match `If-Match` or `If-None-Match`; read it again and send its `ETag`",
            ),
            PipelinesError::TooMany => Problem::new(Code::PipelineLimitReached, format!("{error}; delete unused ones")),
        }
    }
}

impl From<SecretError> for Problem {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::Store(error) => error.into(),
            SecretError::Exists => Code::SecretExists.into(),
            SecretError::TooMany => Problem::new(Code::SecretLimitReached, error.to_string()),
            SecretError::NotFound => Code::SecretNotFound.into(),
            SecretError::VersionMismatch { current } => Problem::new(
                Code::PreconditionFailed,
                "the secret does not match `If-Match`; read it again and send its `ETag`",
            )
            .with("version", current),
            SecretError::DoesNotOpen { .. } => {
                let detail =
                    "the secret's record is damaged and cannot be decrypted; set its value again, or delete it";
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
            WebhookError::NotFound => Code::WebhookNotFound.into(),
            WebhookError::DeliveryNotFound => Code::DeliveryNotFound.into(),
            WebhookError::Disabled => Code::WebhookDisabled.into(),
            WebhookError::NotPublic(_) => Problem::invalid_field(
                "url",
                "must lead to a public address, or to one that an operator allows with outbound.allow or \
                 webhooks.allow_private",
            ),
            WebhookError::Busy => Problem::overloaded("too many webhooks are being tested"),
        }
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::EnvironmentNotFound => Code::EnvironmentNotFound.into(),
            Rejection::EnvironmentLocked { holder, queue_length } => locked(&holder, queue_length),
            Rejection::EnvironmentResetting { queue_length } => Problem::new(
                Code::EnvironmentResetting,
                "the environment is being reset after a release; wait for it with `waitSeconds` or `queue`, or try again \
                 later",
            )
            .with("queueLength", queue_length)
            .retry_after(LOCKED_RETRY_SECONDS),
            Rejection::AllLocked { queue_length } => all_locked(&[], queue_length),
            Rejection::NoneMatches => Problem::new(
                Code::EnvironmentNotFound,
                "no environment of the pipeline has all these labels; list the environments to see their labels",
            ),
            Rejection::QueueFull { limit } => {
                let detail = format!("the queue has reached its limit of {limit}; try again after `Retry-After`");
                Problem::new(Code::QueueFull, detail).with("queueLength", limit).retry_after(LOCKED_RETRY_SECONDS)
            }
            Rejection::QueueShare(refused) => queue_full(format!(
                "there are too many claims in the queue: {refused}; end queued sessions that are not needed any more, claim \
                 without `waitSeconds` and `queue`, or try again after `Retry-After`"
            )),
            Rejection::QueueNotEmpty { length } => Problem::new(
                Code::EnvironmentInUse,
                format!("{length} sessions are queued for the environment; delete it when the queue is empty"),
            )
            .with("queueLength", length),
            Rejection::TtlTooLong { max_seconds } => {
                Problem::invalid_field("ttlSeconds", format!("must be at most {max_seconds} in this environment"))
            }
            Rejection::EnvironmentDisabled { reason } => {
                let why = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                let detail =
                    format!("the environment is disabled{why}; ask a maintainer to enable it, or claim another one");
                Problem::new(Code::EnvironmentDisabled, detail).with("reason", reason.as_deref())
            }
            Rejection::SessionQueued { position } => Problem::new(
                Code::SessionQueued,
                format!("the session is still queued, at position {position}; poll it until it is active"),
            )
            .with("queuePosition", position),
            Rejection::StaleFencingToken { current } => Problem::new(
                Code::StaleFencingToken,
                format!("the session's fencing token is {current}; the sender of another one does not hold this lock"),
            )
            .with("fencingToken", current),
            Rejection::DeploymentRunning { deployment } => {
                Problem::from(Code::DeploymentRunning).with("deploymentId", Written(deployment))
            }
            Rejection::LockNotFound => Code::LockNotFound.into(),
            Rejection::SessionNotFound => Code::SessionNotFound.into(),
            Rejection::SessionEnded { session } => session_ended(&session),
            Rejection::NotSessionHolder { holder } => Problem::new(
                Code::NotSessionHolder,
                format!(
                    "the session belongs to {}; only they can use it, and only they or a maintainer can release it, or cancel \
                     and retry its deployments",
                    holder.name
                ),
            )
            .with("holder", serde_json::json!({ "user": UserView::new(&holder) })),
            Rejection::RoleTooLow { required } => permission_denied(
                required,
                format!("force-claiming this environment requires the role {required}; ask somebody with that role, or wait"),
            ),
            Rejection::DeploymentQueueFull { limit } => queue_full(format!(
                "{limit} deployments of this session are already queued; try again when some have finished"
            )),
            Rejection::DeploymentNotRunning => Code::DeploymentNotRunning.into(),
            Rejection::DeploymentNotFound => Code::DeploymentNotFound.into(),
            Rejection::StageNotFound => Code::StageNotFound.into(),
            Rejection::StageNotRunning { status } => stage_not_running(status),
            Rejection::StageNotRetryable { status } => stage_not_retryable(status),
            Rejection::DeploymentOfNoSession => {
                let required = Permission::ManageDeployments.required_role();
                let detail = format!(
                    "the deployment resets the environment and belongs to no session; this requires the role {required}"
                );
                permission_denied(required, detail)
            }
            Rejection::ApprovalNotFound => Code::ApprovalNotFound.into(),
            Rejection::ApprovalNotPending { status } => {
                Problem::from(Code::ApprovalNotPending).with("approvalStatus", status.as_str())
            }
            Rejection::SelfApproval => Code::SelfApprovalDenied.into(),
            Rejection::ConfigurationChanged { revision } => Problem::new(
                Code::PreconditionFailed,
                "the environment does not match `If-Match`; read it again and send its `ETag`",
            )
            .with("configurationRevision", revision),
        }
    }
}

fn queue_full(detail: String) -> Problem {
    Problem::new(Code::QueueFull, detail).retry_after(LOCKED_RETRY_SECONDS)
}

pub fn pipeline_in_use(environments: u64) -> Problem {
    let counted = if environments == 1 { "1 environment".to_owned() } else { format!("{environments} environments") };
    let detail = format!("the pipeline has {counted}; delete them first, then the pipeline");
    Problem::new(Code::PipelineInUse, detail).with("environmentCount", environments)
}

fn stage_not_running(status: StageStatus) -> Problem {
    let detail = match status {
        StageStatus::Pending => "the stage has not started; cancel the current stage of the deployment",
        StageStatus::Succeeded | StageStatus::Failed | StageStatus::Cancelled | StageStatus::Skipped => {
            "the stage has ended; there is nothing to cancel"
        }
        StageStatus::AwaitingApproval | StageStatus::Queued | StageStatus::Running | StageStatus::Cancelling => {
            "the stage cannot be cancelled at this moment; check the deployment and try again"
        }
    };
    Problem::new(Code::StageNotRunning, detail).with("stageStatus", status.as_str())
}

fn stage_not_retryable(status: StageStatus) -> Problem {
    let detail = match status {
        StageStatus::Succeeded => "the stage has succeeded; to run it again, start a new deployment",
        StageStatus::Skipped => "the stage was skipped; retry the one before it that failed or was cancelled",
        StageStatus::Failed | StageStatus::Cancelled => "the deployment is still running; retry when it has finished",
        StageStatus::Pending
        | StageStatus::AwaitingApproval
        | StageStatus::Queued
        | StageStatus::Running
        | StageStatus::Cancelling => "the stage has not ended; wait for it, or cancel it first",
    };
    Problem::new(Code::StageNotRetryable, detail).with("stageStatus", status.as_str())
}

/// The problem for a retry of a reset: it runs without a session, so nothing could get the lock for a retry.
pub fn reset_not_retryable(record: &DeploymentRecord, stage: &Identifier) -> Problem {
    let Some(stage) = record.stages.iter().find(|known| known.name == *stage) else {
        return Code::StageNotFound.into();
    };
    stage_not_retryable(stage.status).with_detail(
        "the deployment reset the environment after a release, in no session, and cannot be retried; a maintainer can \
         enable the environment with PUT, and the next release resets it again",
    )
}

/// The approval has already been decided or cancelled.
pub fn approval_not_pending(record: &ApprovalRecord) -> Problem {
    let approval = &record.approval;
    let status = approval.status.as_str();
    let at = approval.decided_at.map(|at| format!(" at {}", Time(at))).unwrap_or_default();
    let detail = match &approval.decided_by {
        Some(by) => {
            format!("{} {status} it{at}; check the deployment for its outcome", by.name)
        }
        None => format!("its deployment ended{at} before anybody decided; check the deployment"),
    };
    Problem::new(Code::ApprovalNotPending, detail)
        .with("approvalStatus", status)
        .with("decidedAt", approval.decided_at.map(Time))
        .with("decidedBy", approval.decided_by.as_ref().map(UserView::new))
}

/// The caller may not raise the priority of a claim.
pub fn priority_too_high(caller: &Caller) -> Problem {
    let required = Permission::RaisePriority.required_role();
    let detail = format!(
        "a `priority` above 0 requires the role {required}, and {} is {}; leave it out, or ask somebody with that role",
        caller.person.name, caller.role
    );
    permission_denied(required, detail)
}

pub fn permission_denied(required: Role, detail: impl Into<String>) -> Problem {
    Problem::new(Code::PermissionDenied, detail).with("requiredRole", required.as_str())
}

/// A failed deletion, with advice.
pub fn not_deleted(failure: Failure) -> Problem {
    let advice = match &failure {
        Failure::Rejected(Rejection::EnvironmentLocked { holder, .. }) => {
            format!("{} holds the environment; delete it when the session has ended", holder.user.name)
        }
        Failure::Rejected(Rejection::EnvironmentResetting { .. }) => {
            "the environment is being reset after a release; delete it when that has ended".to_owned()
        }
        _ => return failure.into(),
    };
    Problem::from(failure).with_detail(advice)
}

/// Refuses a claim of any environment because all matching ones are locked; `holders` lists some of the locks.
pub fn all_locked(holders: &[(Identifier, Arc<Session>)], queue_length: usize) -> Problem {
    let advice = if !holders.is_empty() && holders.iter().all(|(_, holder)| holder.never_expires()) {
        "none of the locks in `holders` has a TTL, so they never expire by themselves; ask a holder to release one, or wait \
         with `waitSeconds` or `queue`"
    } else {
        "wait for one with `waitSeconds` or `queue`, or try again later"
    };
    let holders: Vec<_> = holders.iter().map(|(name, holder)| HolderView::new(name.as_str(), holder)).collect();
    Problem::new(Code::EnvironmentLocked, format!("all environments with these labels are locked; {advice}"))
        .with("holder", serde_json::Value::Null)
        .with("holders", holders)
        .with("queueLength", queue_length)
        .retry_after(LOCKED_RETRY_SECONDS)
}

fn locked(holder: &Session, queue_length: usize) -> Problem {
    let name = &holder.user.name;
    let since = Time(holder.claimed.as_ref().map_or(holder.created_at, |claimed| claimed.at));
    let detail = if holder.never_expires() {
        format!(
            "{name} has held the environment since {since} without a TTL, so the lock never expires on its own; ask {name} to \
             release it, force-claim it, or wait with `waitSeconds` or `queue`"
        )
    } else {
        format!(
            "{name} has held the environment since {since}; wait for it with `waitSeconds` or `queue`, try again later, or \
             force-claim it"
        )
    };
    Problem::new(Code::EnvironmentLocked, detail)
        .with("holder", LockView::new(holder))
        .with("queueLength", queue_length)
        .retry_after(LOCKED_RETRY_SECONDS)
}

fn session_ended(session: &Session) -> Problem {
    let by = session.ended.as_ref().and_then(|ended| ended.by.as_ref()).map_or("somebody", |by| &*by.name);
    let (code, detail) = match session.status() {
        SessionStatus::Overridden => {
            (Code::SessionOverridden, format!("{by} force-claimed the environment; claim again"))
        }
        SessionStatus::Expired => {
            (Code::SessionExpired, "the session has expired, see `endReason`; claim again".to_owned())
        }
        SessionStatus::Released | SessionStatus::Active | SessionStatus::Queued => {
            (Code::SessionReleased, format!("{by} released the session; claim again"))
        }
    };
    Problem::new(code, detail)
        .with("sessionId", Written(session.id))
        .with("endedAt", session.ended.as_ref().map(|ended| Time(ended.at)))
        .with("endedBy", EndedByView::of(session))
        .with("endReason", session.ended.as_ref().and_then(|ended| end_reason(ended.how)))
}

/// Long enough to fetch most repositories.
const SYNCING_RETRY_SECONDS: u64 = 2;

impl From<RegistryError> for Problem {
    fn from(refusal: RegistryError) -> Self {
        match refusal {
            RegistryError::Store(error) => error.into(),
            RegistryError::NotFound => Code::RegistryNotFound.into(),
            RegistryError::Exists => Code::RegistryExists.into(),
            RegistryError::TooMany => {
                Problem::new(Code::RegistryLimitReached, format!("{refusal}; delete unused ones"))
            }
            RegistryError::Changed => Problem::new(
                Code::PreconditionFailed,
                "the step registry has changed since the request began, or does not match `If-Match`; read it again and send its `ETag`",
            ),
            RegistryError::InUse { used_by } => in_use(&used_by),
            RegistryError::SyncInProgress => Problem::from(Code::SyncInProgress).retry_after(SYNCING_RETRY_SECONDS),
            RegistryError::NoRepository => Code::RegistryHasNoRepository.into(),
            RegistryError::SyncFailed(failure) => sync_failed(&failure),
        }
    }
}

fn in_use(used_by: &[Identifier]) -> Problem {
    let names: Vec<_> = used_by.iter().map(Identifier::as_str).collect();
    let detail =
        format!("the change would break pipelines that use the registry: {}; change those first", names.join(", "));
    Problem::new(Code::RegistryInUse, detail).with("usedBy", names)
}

fn sync_failed(failure: &SyncError) -> Problem {
    let fault = |fault: &FileError| FieldError { field: fault.file.clone(), message: fault.message.clone() };
    let errors: Vec<_> = failure.faults.iter().map(fault).collect();
    let detail = format!("{}; the steps are unchanged", failure.message);
    Problem::new(Code::SyncFailed, detail).with("errors", errors)
}

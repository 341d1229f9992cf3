//! The catalogue of error codes: each one's status and meaning, once. `GET /problems/{code}` and the OpenAPI document
//! are made from it.

use actix_web::http::StatusCode;

macro_rules! codes {
    ($($name:ident = $code:literal, $status:ident, $title:literal, $meaning:literal;)*) => {
        /// A stable name for one kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code { $($name),* }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name),*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$name => $code),* }
            }

            pub const fn status(self) -> StatusCode {
                match self { $(Code::$name => StatusCode::$status),* }
            }

            pub const fn title(self) -> &'static str {
                match self { $(Code::$name => $title),* }
            }

            /// When it is answered, and what a client does then.
            pub const fn meaning(self) -> &'static str {
                match self { $(Code::$name => $meaning),* }
            }
        }
    };
}

codes! {
    BadRequest = "bad_request", BAD_REQUEST, "Bad request",
        "The request could not be understood as HTTP. Send it again as the OpenAPI document describes it.";
    MalformedJson = "malformed_json", BAD_REQUEST, "The body is not JSON",
        "The body is no JSON text, is nested too deeply, or has a key twice in one object. The detail says where. Mend it and send it again.";
    InvalidParameter = "invalid_parameter", BAD_REQUEST, "Invalid parameter",
        "A query parameter or header is unknown, given twice, or out of its bounds. `errors` names each one.";
    MissingToken = "missing_token", UNAUTHORIZED, "No token",
        "Send `Authorization: Bearer <API_TOKEN>`.";
    InvalidToken = "invalid_token", UNAUTHORIZED, "Invalid token",
        "The token is mistyped, unknown, expired or revoked. Use another one; an admin can make it with `POST /tokens`.";
    PermissionDenied = "permission_denied", FORBIDDEN, "Permission denied",
        "The caller's role is too low; `requiredRole` is the least that suffices.";
    NotSessionHolder = "not_session_holder", FORBIDDEN, "Not the session's holder",
        "Only the user who claimed a session deploys in it; that user or a maintainer releases it, and cancels or retries what it deploys.";
    SelfApprovalDenied = "self_approval_denied", FORBIDDEN, "Nobody approves what they triggered",
        "In this pipeline somebody else has to approve what the caller deployed or had run again. Ask another maintainer.";
    RouteNotFound = "route_not_found", NOT_FOUND, "No such route",
        "Nothing is served under this path. `/api/v1/openapi.json` lists what is.";
    OrganizationNotFound = "organization_not_found", NOT_FOUND, "No such organization",
        "The organization does not exist, or the token is not one of its own.";
    PipelineNotFound = "pipeline_not_found", NOT_FOUND, "No such pipeline",
        "The organization has no pipeline with this id. A maintainer can make it with `PUT`.";
    EnvironmentNotFound = "environment_not_found", NOT_FOUND, "No such environment",
        "The pipeline has no environment of this name. A maintainer can make it with `PUT`.";
    SessionNotFound = "session_not_found", NOT_FOUND, "No such session",
        "The environment never had this session, or no longer remembers it.";
    DeploymentNotFound = "deployment_not_found", NOT_FOUND, "No such deployment",
        "The organization never had this deployment, or no longer remembers it: it is forgotten with its session.";
    StageNotFound = "stage_not_found", NOT_FOUND, "No such stage",
        "The deployment has no stage of this name. Its `stages` list those it has, from when it starts.";
    ApprovalNotFound = "approval_not_found", NOT_FOUND, "No such approval",
        "The organization never had this approval, or no longer remembers it: it is forgotten with its deployment.";
    EventNotFound = "event_not_found", NOT_FOUND, "No such event",
        "The organization never had this event, or no longer keeps it.";
    AnalysisNotFound = "analysis_not_found", NOT_FOUND, "No such analysis",
        "The organization never had this analysis, or no longer remembers it: the newest 1000 are kept, and the newest 20 of a deployment.";
    RegistryNotFound = "registry_not_found", NOT_FOUND, "No such step registry",
        "The organization has no such step registry. List them to see their ids.";
    SecretNotFound = "secret_not_found", NOT_FOUND, "No such secret",
        "There is no secret of this name in this scope: `pipelineId` in the query chooses a pipeline's own, without it the organization's are meant.";
    WebhookNotFound = "webhook_not_found", NOT_FOUND, "No such webhook",
        "The organization has no webhook with this id, or it has been deleted.";
    DeliveryNotFound = "delivery_not_found", NOT_FOUND, "No such delivery",
        "The webhook never had this delivery, or no longer remembers it: of those that have ended it remembers the newest 1,000.";
    TokenNotFound = "token_not_found", NOT_FOUND, "No such token",
        "The organization has no token with this id, or it has been revoked already.";
    MemberNotFound = "member_not_found", NOT_FOUND, "No such member",
        "The organization has no member with this id, or no longer has.";
    ProblemNotFound = "problem_not_found", NOT_FOUND, "No such problem",
        "There is no error code of this name.";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "Method not allowed",
        "The path exists, but not with this method. `Allow` lists those it has.";
    ClientGone = "client_gone", REQUEST_TIMEOUT, "The client has gone",
        "The client closed its connection before its answer was there. What it waited for was given up, or can be had again with the same `Idempotency-Key`.";
    RequestTimeout = "request_timeout", REQUEST_TIMEOUT, "The request came too slowly",
        "The body did not arrive in time. Send it again.";
    EnvironmentLocked = "environment_locked", CONFLICT, "The environment is locked",
        "Somebody holds it: `holder` says who, why and since when. Wait for it with `waitSeconds` or `queue`, try again after `Retry-After`, or force-claim it.";
    EnvironmentResetting = "environment_resetting", CONFLICT, "The environment is being reset",
        "It is being put back in order after a release. Wait for it with `waitSeconds` or `queue`, or try again after `Retry-After`.";
    EnvironmentInUse = "environment_in_use", CONFLICT, "Somebody waits for the environment",
        "It cannot be deleted as long as `queueLength` clients wait for it.";
    EnvironmentDisabled = "environment_disabled", CONFLICT, "The environment is disabled",
        "It is not handed out until a maintainer enables it.";
    DeploymentRunning = "deployment_running", CONFLICT, "A deployment still runs",
        "A deployment of a session that has ended has not stopped yet. Try again when it has.";
    DeploymentNotRunning = "deployment_not_running", CONFLICT, "The deployment does not run",
        "It has ended already.";
    StageNotRunning = "stage_not_running", CONFLICT, "The stage does not run",
        "Only the stage that a deployment is at can be cancelled, or the first one while the deployment waits. `stageStatus` says how this one stands.";
    StageNotRetryable = "stage_not_retryable", CONFLICT, "The stage cannot be run again",
        "Only a stage that failed or was cancelled is run again, once its deployment has finished, while its session has the lock. `stageStatus` says how this one stands.";
    ApprovalNotPending = "approval_not_pending", CONFLICT, "The approval is not pending",
        "It was decided before, or what it was for has ended: `approvalStatus`, `decidedBy` and `decidedAt` say how, by whom and when.";
    DeploymentNotFailed = "deployment_not_failed", CONFLICT, "The deployment has not failed",
        "Only a deployment that failed is analysed. `deploymentStatus` says how this one stands.";
    AnalysisDisabled = "analysis_disabled", CONFLICT, "Analysis is off",
        "The operator has turned analysis off (`analysis.engine`).";
    AnalysisNotCompleted = "analysis_not_completed", CONFLICT, "The analysis is not completed",
        "A fix is proposed from an analysis that is completed. `analysisStatus` says how this one stands: wait for one that runs, ask for another where it failed.";
    RepositoryMissing = "repository_missing", CONFLICT, "The pipeline has no repository",
        "A fix is pushed to the pipeline's repository. A maintainer names it with `PUT /pipelines/{pipelineId}`.";
    RepositoryUnusable = "repository_unusable", CONFLICT, "The pipeline's repository cannot be used",
        "The detail says why: a form of URL that the operator does not allow, or that is not the provider's, which a maintainer changes with `PUT /pipelines/{pipelineId}`; or a file in the repository that is in the way.";
    CredentialMissing = "credential_missing", CONFLICT, "The repository has no credential",
        "A pull request takes a token: the secret that the repository of the pipeline names as its `credential`. A maintainer makes it with `POST /secrets`.";
    BranchExists = "branch_exists", CONFLICT, "There is such a branch",
        "The repository has a branch of this name that is not this fix. Choose another with `branch`.";
    SecretExists = "secret_exists", CONFLICT, "There is such a secret",
        "A name is unique in its scope. Change the secret with `PUT`, or choose another name.";
    SecretLimitReached = "secret_limit_reached", CONFLICT, "Too many secrets",
        "The organization has as many secrets as it can have. Delete some that are no longer used, then try again.";
    WebhookLimitReached = "webhook_limit_reached", CONFLICT, "Too many webhooks",
        "The organization has as many webhooks as it can have. Delete some that are no longer used, then try again.";
    WebhookDisabled = "webhook_disabled", CONFLICT, "The webhook is disabled",
        "Nothing is delivered to it. Enable it with `PATCH`, then try again.";
    SessionOverridden = "session_overridden", CONFLICT, "The session was overridden",
        "Somebody took the lock by force: `endedBy` and `endedAt` say who and when. Claim again.";
    SessionReleased = "session_released", CONFLICT, "The session was released",
        "The session has ended: `endedBy` and `endedAt` say who released it and when. Claim again.";
    SessionExpired = "session_expired", CONFLICT, "The session has expired",
        "It ended by itself: `endReason` says why, `endedAt` when. Claim again, and send heartbeats more often than its TTL.";
    SessionQueued = "session_queued", CONFLICT, "The session is queued",
        "It does not have the lock yet. Ask about it, best with `waitSeconds` and `If-None-Match`, until it is active.";
    StaleFencingToken = "stale_fencing_token", CONFLICT, "Another fencing token",
        "The fencing token sent is not the session's. Whoever sent it acts on a lock that is not, or no longer, theirs.";
    PipelineInUse = "pipeline_in_use", CONFLICT, "The pipeline has environments",
        "It cannot be deleted as long as it has environments: `environmentCount` says how many. Delete those first.";
    PipelineLimitReached = "pipeline_limit_reached", CONFLICT, "Too many pipelines",
        "The organization has as many pipelines as it can have. Delete some that are no longer used, then try again.";
    RegistryExists = "registry_exists", CONFLICT, "The name is taken",
        "The organization has a step registry of this name. Change that one with PUT, or choose another name.";
    RegistryLimitReached = "registry_limit_reached", CONFLICT, "Too many step registries",
        "The organization has as many step registries as it can have. Delete some that are no longer used, then try again.";
    RegistryInUse = "registry_in_use", CONFLICT, "Pipelines use the step registry",
        "The change would take away what pipelines use, or not let them use it as they do: `usedBy` names them. Nothing was changed; change those pipelines first.";
    RegistryHasNoRepository = "registry_has_no_repository", CONFLICT, "The step registry has no repository",
        "Its steps came with a request, so there is nothing to sync. Change them with PUT.";
    SyncInProgress = "sync_in_progress", CONFLICT, "A sync is under way",
        "The step registry is being synced. Look at it until its `status` is no longer `syncing`.";
    SyncFailed = "sync_failed", CONFLICT, "The repository cannot be taken over",
        "The steps stay as they were. `detail` says why, and `errors` what is wrong with which file. Mend the repository, then sync again.";
    TokenLimitReached = "token_limit_reached", CONFLICT, "Too many tokens",
        "Revoke tokens that are no longer used, then try again.";
    MemberExists = "member_exists", CONFLICT, "There is such a member",
        "A name is unique in its organization. Change the member's role with `PATCH`, or choose another name.";
    MemberLimitReached = "member_limit_reached", CONFLICT, "Too many members",
        "The organization has as many members as it can have. Remove some who are no longer there, then try again.";
    LastAdmin = "last_admin", CONFLICT, "The last admin",
        "An organization always has an admin: its last one can be neither removed nor demoted. Make somebody else an admin first.";
    IdempotencyKeyInFlight = "idempotency_key_in_flight", CONFLICT, "The first request is still being executed",
        "A request under this `Idempotency-Key` has not been answered yet. Try again after `Retry-After`, with the same key: you get its answer, or your turn if it was refused.";
    PreconditionFailed = "precondition_failed", PRECONDITION_FAILED, "The configuration has changed",
        "`If-Match` names another revision than the current one. Read it again, apply the change to that, and send its `ETag`.";
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "The body is too large",
        "A body has at most 64 KiB.";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "Unsupported media type",
        "Send the body as JSON in UTF-8, with `Content-Type: application/json` and without a content encoding.";
    InvalidRequest = "invalid_request", UNPROCESSABLE_ENTITY, "Invalid request",
        "Fields are missing, unknown, of the wrong type or out of their bounds: `errors` names every one of them.";
    IdempotencyKeyReused = "idempotency_key_reused", UNPROCESSABLE_ENTITY, "The idempotency key belongs to another request",
        "Another method, path or body was executed under this `Idempotency-Key` within the last 24 hours. Give every request a key of its own; a retry is sent exactly as the first time.";
    RateLimited = "rate_limited", TOO_MANY_REQUESTS, "Too many requests",
        "The token has used up its share. Try again after `Retry-After`; waiting in the server is cheaper than polling.";
    RemoteFailed = "remote_failed", BAD_GATEWAY, "The repository's server did not do it",
        "The fault is of the server that has the repository, or on the way to it: `reason` tells which (unreachable, timed_out, not_found, authentication, forbidden, refused, rate_limited, failed). Asked again, it goes on where it was.";
    GitUnavailable = "git_unavailable", SERVICE_UNAVAILABLE, "Git cannot be run",
        "The server cannot run git. An operator installs it, or frees space; the log says more.";
    Overloaded = "overloaded", SERVICE_UNAVAILABLE, "Overloaded",
        "More requests wait than the server holds. Nothing was done; try again after `Retry-After`.";
    QueueFull = "queue_full", SERVICE_UNAVAILABLE, "The queue is full",
        "As many wait already as may. Nothing was done; try again after `Retry-After`.";
    StorageFull = "storage_full", SERVICE_UNAVAILABLE, "The disk is full",
        "The server cannot store anything more and refuses writes; reads go on. Nothing was done; an operator must free space.";
    OutcomeUnknown = "outcome_unknown", SERVICE_UNAVAILABLE, "The outcome is not known",
        "The server lost sight of the command before it was durable. Look whether it took effect before trying again.";
    ShuttingDown = "shutting_down", SERVICE_UNAVAILABLE, "Shutting down",
        "The server is stopping. Try again after `Retry-After`.";
    InternalError = "internal_error", INTERNAL_SERVER_ERROR, "Internal error",
        "A fault of the server's own. Report it with the request id.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_snake_case_and_stands_once() {
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

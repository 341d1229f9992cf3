//! The catalogue of error codes with their status and meaning. `GET /problems/{code}` and the OpenAPI document are
//! generated from it.

use actix_web::http::StatusCode;

macro_rules! codes {
    ($($name:ident = $code:literal, $status:ident, $title:literal, $meaning:literal $(=> $detail:literal)?;)*) => {
        /// The stable name of a kind of error.
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

            /// When the code is used, and what the client should do.
            pub const fn meaning(self) -> &'static str {
                match self { $(Code::$name => $meaning),* }
            }

            /// The detail of a problem without a more specific one: the text after `=>`, or the meaning.
            pub fn detail(self) -> &'static str {
                let own: Option<&str> = match self { $(Code::$name => None$(.or(Some($detail)))?),* };
                own.unwrap_or(self.meaning())
            }
        }
    };
}

codes! {
    BadRequest = "bad_request", BAD_REQUEST, "Bad request",
        "The request could not be understood as HTTP. Resend it as the OpenAPI document describes.";
    MalformedJson = "malformed_json", BAD_REQUEST, "The body is not JSON",
        "The body is not valid JSON, is nested too deeply, or has a duplicate key in an object. The detail says where. Fix it and resend.";
    SsoNotUnderWay = "sso_not_under_way", BAD_REQUEST, "The sign-in is over",
        "The sign-in at the provider took longer than ten minutes, began in another browser or before the server started, or has been finished already. Begin again.";
    InvalidGrant = "invalid_grant", BAD_REQUEST, "The identity token was not accepted",
        "The identity token was not exchanged: it is malformed, has expired, was exchanged too often, is for another audience, or no rule of the organization trusts its job; or there is no such organization. Compare its issuer, audience and claims with `[[identities]]` of the organization's file; the server's log says why.";
    UnsupportedGrantType = "unsupported_grant_type", BAD_REQUEST, "Unsupported grant type",
        "Only identity tokens are exchanged: `grant_type` must be `urn:ietf:params:oauth:grant-type:token-exchange`.";
    InvalidParameter = "invalid_parameter", BAD_REQUEST, "Invalid parameter",
        "A query parameter or header is unknown, repeated, or out of bounds. `errors` names each one.";
    MissingToken = "missing_token", UNAUTHORIZED, "No token",
        "Send `Authorization: Bearer <API_TOKEN>`.";
    InvalidToken = "invalid_token", UNAUTHORIZED, "Invalid token",
        "The token is mistyped, unknown, expired or revoked, or belongs to a member who is disabled. Use another one; every member creates their own with `POST /tokens`.";
    InvalidCredentials = "invalid_credentials", UNAUTHORIZED, "The sign-in was refused",
        "There is no such member with this password, or no such token. Check the organization, the name and the password; an admin can send a new invitation."
        => "the organization, the name, the password or the token is wrong; try again, or ask an admin for an \
            invitation";
    CrossSiteRequest = "cross_site_request", FORBIDDEN, "Not from a page of this server",
        "The cookie of a sign-in counts only in requests that a page of this server makes. Programs send a token in `Authorization` instead."
        => "the browser does not say that a page of this server made the request (`Sec-Fetch-Site: same-origin`); \
            open the dashboard, or send a token in `Authorization`";
    InsecureSignIn = "insecure_sign_in", FORBIDDEN, "Signing in needs TLS",
        "Without TLS everybody on the way could read the password. An operator turns TLS on with `tls.certificate`, or sets `public_url` if a proxy has it."
        => "without TLS everybody on the way could read the password; turn it on with `tls.certificate` and \
            `tls.key`, or set `public_url` to the https address if a proxy in front has TLS. On the server itself, \
            use http://127.0.0.1";
    SignInRequired = "sign_in_required", FORBIDDEN, "Only for a browser that has signed in",
        "This concerns the sign-in of a browser, and the request came with a token. Use the dashboard.";
    InvitationRequired = "invitation_required", FORBIDDEN, "A first password comes from an invitation",
        "The member has no password yet. A first one is chosen by an invitation alone, not with a token or single sign-on; ask an admin for a link.";
    InvitationDenied = "invitation_denied", FORBIDDEN, "This credential cannot invite",
        "An invitation becomes a password, which would outlive the credential that made it. So nobody invites themselves with a sign-in or with a token that expires or was made from something else, and jobs of a CI invite nobody. Ask another admin, or use a token that the operator has given you.";
    MemberForJobs = "member_for_jobs", FORBIDDEN, "The member is for jobs",
        "Jobs of a CI act as this member. It cannot sign in, be invited or have a password; jobs exchange their identity tokens, and send what they get in `Authorization`.";
    PublicUrlRequired = "public_url_required", FORBIDDEN, "The server does not know its address",
        "The request was sent to a name that is not in the server's certificate, so a link to it may lead elsewhere. An operator sets `public_url` to the https address that browsers use, or gets a certificate for this name.";
    PermissionDenied = "permission_denied", FORBIDDEN, "Permission denied",
        "The caller's role is too low; `requiredRole` is the lowest role that suffices.";
    NotSessionHolder = "not_session_holder", FORBIDDEN, "Not the session's holder",
        "Only the user who claimed a session can deploy in it. That user or a maintainer can release it, and cancel or retry its deployments.";
    SelfApprovalDenied = "self_approval_denied", FORBIDDEN, "Own deployments cannot be approved",
        "In this pipeline, users cannot approve deployments that they started or retried themselves. Ask another maintainer."
        => "you started this deployment, and in this pipeline users cannot approve their own; ask another \
            maintainer, or reject it";
    SsoDenied = "sso_denied", FORBIDDEN, "The provider refused",
        "The provider of single sign-on refused the sign-in, or it was cancelled there. Try again; if it happens again, the server's log says why.";
    SsoNoRole = "sso_no_role", FORBIDDEN, "No role for any of your groups",
        "The provider knows you, but none of your groups there has a role in this organization. Ask an admin.";
    SsoNoName = "sso_no_name", FORBIDDEN, "No name from the provider",
        "The provider gave neither a name nor an e-mail address that can be the name of a member. Ask an admin.";
    SsoAboveProvider = "sso_above_provider", FORBIDDEN, "Your role is above what the provider may give",
        "You are a member with a higher role than this provider may give to anybody, so it cannot sign you in. Sign in with your password or with another provider; an admin can lower the role, or an operator can let the provider give it.";
    SeveralOrganizations = "several_organizations", FORBIDDEN, "The server has several organizations",
        "A backup has the data of all organizations, so an admin may take one only if there is no other. The operator takes it with `lockkeeper backup FILE --data-dir DIR`."
        => "this server has the data of several organizations, and no admin may read all of them; its operator takes \
            the backup, by the socket in the data directory: `lockkeeper backup FILE --data-dir DIR`";
    RouteNotFound = "route_not_found", NOT_FOUND, "No such route",
        "No route matches this path. `/api/v1/openapi.json` lists all routes.";
    ProviderNotFound = "provider_not_found", NOT_FOUND, "No such provider",
        "The organization has no provider of single sign-on with this id.";
    OrganizationNotFound = "organization_not_found", NOT_FOUND, "No such organization",
        "The organization does not exist, or the token belongs to another one.";
    PipelineNotFound = "pipeline_not_found", NOT_FOUND, "No such pipeline",
        "The organization has no pipeline with this id. A maintainer can create it with `PUT`."
        => "the organization has no such pipeline; list them to see their ids, or ask a maintainer to create it with \
            PUT";
    EnvironmentNotFound = "environment_not_found", NOT_FOUND, "No such environment",
        "The pipeline has no environment with this name. A maintainer can create it with `PUT`."
        => "the pipeline has no environment with this name; list them, or ask a maintainer to create it with PUT";
    SessionNotFound = "session_not_found", NOT_FOUND, "No such session",
        "The environment never had this session, or its record has been dropped."
        => "the environment has no such session, or has dropped it; its history lists the sessions it keeps";
    LockNotFound = "lock_not_found", NOT_FOUND, "Nobody holds the lock",
        "There was no lock to release: the environment is free, being reset or disabled, or the lock has been released already."
        => "nobody holds the lock of this environment, so there is nothing to release; a session that waits leaves \
            the queue with DELETE of the session";
    DeploymentNotFound = "deployment_not_found", NOT_FOUND, "No such deployment",
        "The organization never had this deployment, or its record has been dropped together with its session."
        => "the organization has no such deployment, or has dropped it; list them to see their ids";
    StageNotFound = "stage_not_found", NOT_FOUND, "No such stage",
        "The deployment has no stage with this name. `stages` lists them once the deployment has started."
        => "the deployment has no stage with this name; `stages` lists them";
    ApprovalNotFound = "approval_not_found", NOT_FOUND, "No such approval",
        "The organization never had this approval, or its record has been dropped together with its deployment."
        => "the organization has no such approval, or has dropped it; list them to see their ids";
    EventNotFound = "event_not_found", NOT_FOUND, "No such event",
        "The organization never had this event, or it has been dropped."
        => "the organization has no such event, or has dropped it; list them to see their ids";
    AnalysisNotFound = "analysis_not_found", NOT_FOUND, "No such analysis",
        "The organization never had this analysis, or it has been dropped: the newest 1,000 are kept, and the newest 20 per deployment."
        => "the organization has no such analysis, or has dropped it; list them to see their ids";
    RegistryNotFound = "registry_not_found", NOT_FOUND, "No such step registry",
        "The organization has no such step registry. List them to see their ids."
        => "the organization has no such step registry; list them to see their ids";
    SecretNotFound = "secret_not_found", NOT_FOUND, "No such secret",
        "No secret has this name in this scope. `pipelineId` in the query selects the secrets of a pipeline; without it, those of the organization are meant."
        => "no secret has this name in this scope; list them, and select those of a pipeline with `pipelineId`";
    WebhookNotFound = "webhook_not_found", NOT_FOUND, "No such webhook",
        "The organization has no webhook with this id, or it has been deleted."
        => "the organization has no such webhook; list them to see their ids";
    DeliveryNotFound = "delivery_not_found", NOT_FOUND, "No such delivery",
        "The webhook never had this delivery, or it has been dropped: the newest 1,000 finished deliveries are kept."
        => "the webhook has no such delivery, or has dropped it; list them to see their ids";
    TokenNotFound = "token_not_found", NOT_FOUND, "No such token",
        "The organization has no token with this id, or it has been revoked already.";
    InvitationNotFound = "invitation_not_found", NOT_FOUND, "No such invitation",
        "The invitation is unknown, has expired, was used, or was replaced by a newer one. Ask an admin for another.";
    SignInNotFound = "sign_in_not_found", NOT_FOUND, "No such sign-in",
        "The member has no sign-in with this id, or it has ended.";
    MemberNotFound = "member_not_found", NOT_FOUND, "No such member",
        "The organization has no member with this id."
        => "the organization has no member with this id; list them to see their ids";
    ProblemNotFound = "problem_not_found", NOT_FOUND, "No such problem",
        "No error code has this name.";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "Method not allowed",
        "The path exists, but not with this method. `Allow` lists its methods.";
    ClientGone = "client_gone", REQUEST_TIMEOUT, "The client disconnected",
        "The client closed its connection, or its sending half, before it was answered, so the request was given up: nobody could know whether it would still get the lock. Resend it and keep both directions open until the answer has arrived; with an `Idempotency-Key`, send the same.";
    RequestTimeout = "request_timeout", REQUEST_TIMEOUT, "The request was too slow",
        "The body did not arrive in time. Resend it.";
    BackupInProgress = "backup_in_progress", CONFLICT, "A backup is being taken",
        "There is one backup at a time. Wait for the end of the other one."
        => "another backup is being taken; wait for its end";
    BackupUnavailable = "backup_unavailable", CONFLICT, "The records lie in an engine",
        "The records of a cluster lie in its engine, and not on this machine. Its operator copies them with `lockkeeper cluster export`.";
    EnvironmentLocked = "environment_locked", CONFLICT, "The environment is locked",
        "Somebody holds it: `holder` says who, why and since when. Wait for it with `waitSeconds` or `queue`, try again after `Retry-After`, or force-claim it.";
    EnvironmentResetting = "environment_resetting", CONFLICT, "The environment is being reset",
        "It is being reset after a release. Wait for it with `waitSeconds` or `queue`, or try again after `Retry-After`.";
    EnvironmentInUse = "environment_in_use", CONFLICT, "Clients wait for the environment",
        "It cannot be deleted while clients wait for it; `queueLength` is their number.";
    EnvironmentDisabled = "environment_disabled", CONFLICT, "The environment is disabled",
        "It is not handed out until a maintainer enables it.";
    DeploymentRunning = "deployment_running", CONFLICT, "A deployment is still running",
        "A deployment of a session that has ended has not stopped yet. Try again when it has."
        => "a deployment of an ended session has not stopped yet; try again when it has";
    DeploymentNotRunning = "deployment_not_running", CONFLICT, "The deployment is not running",
        "It has already ended.";
    StageNotRunning = "stage_not_running", CONFLICT, "The stage is not running",
        "Only the current stage of a deployment can be cancelled, or the first stage while the deployment waits. `stageStatus` is the status of this stage.";
    StageNotRetryable = "stage_not_retryable", CONFLICT, "The stage cannot be retried",
        "Only a stage that failed or was cancelled can be retried, after its deployment has finished and while its session holds the lock. `stageStatus` is the status of this stage.";
    ApprovalNotPending = "approval_not_pending", CONFLICT, "The approval is not pending",
        "It has been decided, or its deployment has ended: `approvalStatus`, `decidedBy` and `decidedAt` say how, by whom and when.";
    DeploymentNotFailed = "deployment_not_failed", CONFLICT, "The deployment has not failed",
        "Only a failed deployment can be analysed. `deploymentStatus` is the status of this one.";
    AnalysisDisabled = "analysis_disabled", CONFLICT, "Analysis is off",
        "The operator has turned analysis off (`analysis.engine`)."
        => "analysis is off on this server (analysis.engine); ask its operator to turn it on";
    AnalysisNotCompleted = "analysis_not_completed", CONFLICT, "The analysis is not completed",
        "A fix can be proposed only from a completed analysis. `analysisStatus` is the status of this one: wait while it runs, request another if it failed.";
    RepositoryMissing = "repository_missing", CONFLICT, "The pipeline has no repository",
        "A fix is pushed to the pipeline's repository. A maintainer sets it with `PUT /pipelines/{pipelineId}`.";
    RepositoryUnusable = "repository_unusable", CONFLICT, "The pipeline's repository cannot be used",
        "The detail says why: the URL has a form that the operator does not allow or that does not fit the provider (a maintainer changes it with `PUT /pipelines/{pipelineId}`), or a file in the repository is in the way.";
    CredentialMissing = "credential_missing", CONFLICT, "The repository has no credential",
        "A pull request needs a token: the secret named by `credential` of the pipeline's repository. A maintainer creates it with `POST /secrets`.";
    BranchExists = "branch_exists", CONFLICT, "The branch already exists",
        "The repository has another branch with this name. Choose a different one with `branch`.";
    SecretExists = "secret_exists", CONFLICT, "The secret already exists",
        "A name is unique in its scope. Change the secret with `PUT`, or choose another name."
        => "the scope has a secret with this name; change it with PUT, or choose another name";
    SecretLimitReached = "secret_limit_reached", CONFLICT, "Too many secrets",
        "The organization has reached its limit of secrets. Delete unused ones, then try again.";
    WebhookLimitReached = "webhook_limit_reached", CONFLICT, "Too many webhooks",
        "The organization has reached its limit of webhooks. Delete unused ones, then try again.";
    WebhookDisabled = "webhook_disabled", CONFLICT, "The webhook is disabled",
        "Nothing is delivered to it. Enable it with `PATCH`, then try again."
        => "the webhook is disabled; enable it with PATCH first";
    SessionOverridden = "session_overridden", CONFLICT, "The session was overridden",
        "Another user force-claimed the environment: `endedBy` and `endedAt` say who and when. Claim again.";
    SessionReleased = "session_released", CONFLICT, "The session was released",
        "The session has ended: `endedBy` and `endedAt` say who released it and when. Claim again.";
    SessionExpired = "session_expired", CONFLICT, "The session has expired",
        "`endReason` says why, `endedAt` when. Claim again, and send heartbeats more often than its TTL.";
    SessionQueued = "session_queued", CONFLICT, "The session is queued",
        "It does not hold the lock yet. Poll it, preferably with `waitSeconds` and `If-None-Match`, until it is active.";
    StaleFencingToken = "stale_fencing_token", CONFLICT, "Stale fencing token",
        "The fencing token is not the session's: its sender does not hold this lock, or no longer does.";
    PipelineInUse = "pipeline_in_use", CONFLICT, "The pipeline has environments",
        "It cannot be deleted while it has environments; `environmentCount` is their number. Delete them first.";
    PipelineLimitReached = "pipeline_limit_reached", CONFLICT, "Too many pipelines",
        "The organization has reached its limit of pipelines. Delete unused ones, then try again.";
    RegistryExists = "registry_exists", CONFLICT, "The step registry already exists",
        "The organization has a step registry with this name. Change it with `PUT`, or choose another name."
        => "the organization has a step registry with this name; change it with PUT, or choose another name";
    RegistryLimitReached = "registry_limit_reached", CONFLICT, "Too many step registries",
        "The organization has reached its limit of step registries. Delete unused ones, then try again.";
    RegistryInUse = "registry_in_use", CONFLICT, "Pipelines use the step registry",
        "The change would remove steps that pipelines use, or make their use invalid: `usedBy` names the pipelines. Nothing was changed; change those pipelines first.";
    RegistryHasNoRepository = "registry_has_no_repository", CONFLICT, "The step registry has no repository",
        "Its steps were given in a request, so there is nothing to sync. Change them with `PUT`.";
    SyncInProgress = "sync_in_progress", CONFLICT, "A sync is in progress",
        "The step registry is being synced. Poll it until its `status` is no longer `syncing`."
        => "the step registry is being synced; poll it until its `status` is no longer `syncing`";
    SyncFailed = "sync_failed", CONFLICT, "The sync failed",
        "The steps are unchanged. `detail` says why, and `errors` lists the faults per file. Fix the repository, then sync again.";
    TokenLimitReached = "token_limit_reached", CONFLICT, "Too many tokens",
        "The organization has reached its limit of tokens. Revoke unused ones, then try again.";
    MemberExists = "member_exists", CONFLICT, "The member already exists",
        "A name is unique in its organization. Change the member with `PATCH`, or choose another name."
        => "the organization has a member with this name; change the role with PATCH, or choose another name";
    MemberLimitReached = "member_limit_reached", CONFLICT, "Too many members",
        "The organization has reached its limit of members. Remove some, then try again.";
    SsoNameTaken = "sso_name_taken", CONFLICT, "Another member has this name",
        "The organization has a member with your name at the provider, who is not connected with it. If that is you, ask an admin to enter your e-mail address for that member; then sign in again.";
    MemberDisabled = "member_disabled", CONFLICT, "The member is disabled",
        "A member who is disabled cannot sign in. Enable them with `PATCH` first.";
    LastAdmin = "last_admin", CONFLICT, "Last admin",
        "The last admin of an organization who is not disabled can be neither removed nor demoted nor disabled. Make another member an admin first."
        => "this is the organization's last admin; make somebody else an admin first";
    IdempotencyKeyInFlight = "idempotency_key_in_flight", CONFLICT, "The first request is still being executed",
        "A request under this `Idempotency-Key` has not been answered yet. Try again after `Retry-After`, with the same key: you get its answer, or the request is executed if the first one was refused."
        => "a request under this `Idempotency-Key` is still being executed; try again after `Retry-After` to get its \
            answer";
    PreconditionFailed = "precondition_failed", PRECONDITION_FAILED, "The configuration has changed",
        "`If-Match` does not name the current revision. Read it again, apply the change, and send the new `ETag`.";
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "The body is too large",
        "A body may have at most 64 KiB.";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "Unsupported media type",
        "Send the body as JSON in UTF-8, with `Content-Type: application/json` and without a content encoding.";
    InvalidRequest = "invalid_request", UNPROCESSABLE_ENTITY, "Invalid request",
        "Fields are missing, unknown, of the wrong type or out of bounds: `errors` names all of them.";
    IdempotencyKeyReused = "idempotency_key_reused", UNPROCESSABLE_ENTITY, "The idempotency key belongs to another request",
        "A request with another method, path or body was executed under this `Idempotency-Key` within the last 24 hours. Use a new key for every request, and send a retry exactly as the first time.";
    RateLimited = "rate_limited", TOO_MANY_REQUESTS, "Too many requests",
        "The token has exceeded its rate. Try again after `Retry-After`; waiting with `waitSeconds` is cheaper than polling.";
    RemoteFailed = "remote_failed", BAD_GATEWAY, "The repository's server failed",
        "The server of the repository failed or could not be reached: `reason` is one of unreachable, timed_out, not_found, authentication, forbidden, refused, rate_limited, failed. A retry continues where this attempt stopped.";
    SsoUnavailable = "sso_unavailable", BAD_GATEWAY, "The provider cannot be reached",
        "The server cannot reach the provider of single sign-on. Try again in a moment, or sign in with a password or a token; the server's log says more.";
    SsoInvalid = "sso_invalid", BAD_GATEWAY, "The provider's answer was not accepted",
        "What the provider of single sign-on sent does not prove who you are. Try again; if it happens again, the server's log says why.";
    GitUnavailable = "git_unavailable", SERVICE_UNAVAILABLE, "Git is unavailable",
        "The server cannot run git. An operator must install it or free disk space; the server's log says more.";
    IssuerUnavailable = "issuer_unavailable", SERVICE_UNAVAILABLE, "The issuer cannot be reached",
        "The server cannot read the keys with which the issuer signs identity tokens. Try again after `Retry-After`; the server's log says more.";
    Overloaded = "overloaded", SERVICE_UNAVAILABLE, "Overloaded",
        "Too many requests are waiting. Nothing was changed; try again after `Retry-After`.";
    QueueFull = "queue_full", SERVICE_UNAVAILABLE, "The queue is full",
        "The limit of waiting requests is reached. Nothing was changed; try again after `Retry-After`.";
    StorageFull = "storage_full", SERVICE_UNAVAILABLE, "The disk is full",
        "The server refuses writes; reads still work. Nothing was changed; an operator must free disk space.";
    OutcomeUnknown = "outcome_unknown", SERVICE_UNAVAILABLE, "Unknown outcome",
        "The server does not know whether the command took effect. Check before trying again.";
    ShuttingDown = "shutting_down", SERVICE_UNAVAILABLE, "Shutting down",
        "The server is stopping. Try again after `Retry-After`.";
    EngineUnavailable = "engine_unavailable", SERVICE_UNAVAILABLE, "The cluster cannot answer",
        "The nodes of the cluster cannot reach their engine, or the organization's shard is being taken over by another node. Try again after `Retry-After`, with the same `Idempotency-Key` if there was one.";
    LogUnavailable = "log_unavailable", SERVICE_UNAVAILABLE, "The log is on a node that is away",
        "In a cluster, the log of a deployment lies on the node that ran it, and with `cluster.logs` also in a store that all nodes reach. Neither could be reached, or there was no space to fetch it. It can be read when the node is back that the detail names.";
    NotTheOwner = "not_the_owner", MISDIRECTED_REQUEST, "Another node owns the shard",
        "The request was passed on to a node that does not own the organization's shard. Only nodes get this answer from each other; if you do, remove the header `Lockkeeper-Via`.";
    InternalError = "internal_error", INTERNAL_SERVER_ERROR, "Internal error",
        "The server failed. Report it with the request id.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_unique_and_snake_case() {
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

//! What each operation takes and answers, by part of the API.

use serde_json::json;

use super::operation::{Operation, reference};
use crate::domain::{LABELS_MAX, LockStatus};
use crate::http::codes::Code;
use crate::http::dto::lock_status_name;
use crate::http::paging::PLACE_MAX;

const ENVIRONMENTS: &str = "Ephemeral environments";

pub fn list_environments() -> Operation {
    let statuses = LockStatus::ALL.map(lock_status_name);
    Operation::api(
        ENVIRONMENTS,
        "listEnvironments",
        "List Environments",
        "Each with its lock status; all of them unless `limit` or `offset` is given.",
    )
    .query("lockStatus", "Only those that stand so", json!({ "enum": statuses }))
    .query(
        "label",
        "Only those with this label, `key:value`; may be repeated",
        json!({ "type": "array", "maxItems": LABELS_MAX, "items": {
            "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}:[!-~]{1,63}$" } }),
    )
    .slice()
    .answers_list("The environments", "EnvironmentListItem", "Pagination")
    .fails(&[Code::PipelineNotFound])
}

pub fn get_environment() -> Operation {
    Operation::api(ENVIRONMENTS, "getEnvironment", "Get Environment", "With its configuration and its lock.")
        .until_changed()
        .answers(200, "The environment", "Environment", &["ETag"])
        .answers_nothing(304, "It has not changed", &["ETag"])
        .fails(&[Code::PipelineNotFound, Code::EnvironmentNotFound])
}

pub fn put_environment() -> Operation {
    Operation::api(ENVIRONMENTS, "putEnvironment", "Put Environment", "Makes it, or replaces its configuration.")
        .header("If-Match", "The `ETag` it was read with: only if the configuration is still that")
        .header("If-None-Match", "`*`: only if there is no such environment yet")
        .body("ConfigurationRequest", false)
        .writes()
        .answers(200, "Changed", "Environment", &["ETag"])
        .answers(201, "Made", "Environment", &["ETag", "Location"])
        .fails(&[Code::PipelineNotFound, Code::PreconditionFailed])
}

pub fn delete_environment() -> Operation {
    Operation::api(
        ENVIRONMENTS,
        "deleteEnvironment",
        "Delete Environment",
        "A locked one is not deleted. Its fencing tokens are never given again, even under a new environment of its name.",
    )
    .header("If-Match", "The `ETag` it was read with: only if the configuration is still that")
    .writes()
    .answers_nothing(204, "Deleted", &[])
    .fails(&[
        Code::PipelineNotFound,
        Code::EnvironmentNotFound,
        Code::EnvironmentLocked,
        Code::EnvironmentResetting,
        Code::EnvironmentInUse,
        Code::DeploymentRunning,
        Code::PreconditionFailed,
    ])
}

pub fn get_history() -> Operation {
    Operation::api(ENVIRONMENTS, "getHistory", "Get History", "Its sessions, newest first, the present one included.")
        .query("page", "From 1", json!({ "type": "integer", "minimum": 1, "maximum": PLACE_MAX }))
        .query("limit", "How many a page, 50 if left out", json!({ "type": "integer", "minimum": 1, "maximum": 100 }))
        .answers_list("One page", "Session", "HistoryPagination")
        .fails(&[Code::PipelineNotFound, Code::EnvironmentNotFound])
}

pub fn get_queue() -> Operation {
    Operation::api(
        ENVIRONMENTS,
        "getQueue",
        "Queue",
        "Who waits for this environment, in order: by name, or for any environment with labels that it has (`any`). \
         `queueLength` of an environment counts the former.",
    )
    .slice()
    .answers_list("Who waits", "Waiter", "Pagination")
    .fails(&[Code::PipelineNotFound, Code::EnvironmentNotFound])
}

pub fn claim_session() -> Operation {
    Operation::api(
        ENVIRONMENTS,
        "claimSession",
        "Claim Session",
        "Takes the lock if it is free. If it is not: 409 at once; with `waitSeconds` it waits its turn that long; with \
         `queue` it is answered 202 with a queued session, whose place is kept while somebody asks about it at least every \
         60 seconds. A client that hangs up while it waits is granted nothing.",
    )
    .body("ClaimRequest", false)
    .writes()
    .answers(201, "The lock is yours", "Session", &["Location"])
    .answers(202, "Queued", "Session", &["Location"])
    .fails(&CLAIM_FAULTS)
}

const CLAIM_FAULTS: [Code; 7] = [
    Code::PipelineNotFound,
    Code::EnvironmentNotFound,
    Code::EnvironmentLocked,
    Code::EnvironmentResetting,
    Code::EnvironmentDisabled,
    Code::QueueFull,
    Code::ShuttingDown,
];

pub fn claim_any() -> Operation {
    Operation::api(
        ENVIRONMENTS,
        "claimAny",
        "Claim Any",
        "Claims whichever environment with all these labels is free, the least recently used first; waits and queues as \
         Claim Session does, in one line with those who wait for one of them by name. A TTL above what the environment \
         allows is shortened to that. A queued session has no `envName` \
         until it has an environment; ask about it where `Location` says.",
    )
    .body("ClaimAnyRequest", false)
    .writes()
    .answers(201, "The lock is yours", "Session", &["Location"])
    .answers(202, "Queued", "Session", &["Location"])
    .fails(&CLAIM_FAULTS)
}

pub fn get_any_session() -> Operation {
    Operation::api(
        ENVIRONMENTS,
        "getAnySessionStatus",
        "Get Session Status, wherever it is",
        "A session that was queued, by its id alone: while it waits for any environment, and after it has one.",
    )
    .until_changed()
    .answers(200, "The session", "Session", &["ETag"])
    .answers_nothing(304, "It has not changed", &["ETag"])
    .fails(&[Code::PipelineNotFound, Code::SessionNotFound])
}

pub fn release_any_session() -> Operation {
    Operation::api(
        ENVIRONMENTS,
        "releaseAnySession",
        "Release Session, wherever it is",
        "Leaves the queue for any environment, or gives the lock back if there is one by now.",
    )
    .writes()
    .answers(200, "The session as it ended", "Session", &[])
    .fails(&[Code::NotSessionHolder, Code::PipelineNotFound, Code::SessionNotFound])
}

pub fn heartbeat() -> Operation {
    Operation::api(
        ENVIRONMENTS,
        "heartbeat",
        "Heartbeat",
        "The holder is alive: the session's TTL begins anew. `expiresAt` says until when.",
    )
    .body("HeartbeatRequest", false)
    .writes()
    .answers(200, "The session", "Session", &[])
    .fails(&HOLDER_FAULTS)
}

const HOLDER_FAULTS: [Code; 9] = [
    Code::NotSessionHolder,
    Code::PipelineNotFound,
    Code::EnvironmentNotFound,
    Code::SessionNotFound,
    Code::SessionOverridden,
    Code::SessionReleased,
    Code::SessionExpired,
    Code::SessionQueued,
    Code::StaleFencingToken,
];

pub fn force_claim() -> Operation {
    Operation::api(
        ENVIRONMENTS,
        "forceClaim",
        "Force Claim",
        "Ends the holder's session, if there is one, and takes the lock in one step. The queue keeps waiting.",
    )
    .body("ForceClaimRequest", false)
    .writes()
    .answers(201, "The lock is yours", "ForceClaimedSession", &["Location"])
    .fails(&[Code::PipelineNotFound, Code::EnvironmentNotFound, Code::EnvironmentDisabled])
}

pub fn get_session() -> Operation {
    Operation::api(
        ENVIRONMENTS,
        "getSessionStatus",
        "Get Session Status",
        "Also long after it has ended; says whether it was overridden, by whom and when.",
    )
    .until_changed()
    .answers(200, "The session", "Session", &["ETag"])
    .answers_nothing(304, "It has not changed", &["ETag"])
    .fails(&[Code::PipelineNotFound, Code::EnvironmentNotFound, Code::SessionNotFound])
}

pub fn deploy_commit() -> Operation {
    Operation::api(
        ENVIRONMENTS,
        "deployCommit",
        "Deploy Commit",
        "Deploys in a session of the caller's own, when what the session deploys before has finished. `Location` is the \
         deployment. A retry with the same `Idempotency-Key` gets the answer of the moment in which it was accepted: 202, also \
         where the first was answered 200 later on.",
    )
    .body("DeployRequest", true)
    .writes()
    .answers(200, "The deployment, finished within `waitSeconds`", "Deployment", &["Location"])
    .answers(202, "The deployment", "Deployment", &["Location"])
    .fails(&HOLDER_FAULTS)
    .fails(&[Code::QueueFull])
}

pub fn release_session() -> Operation {
    Operation::api(
        ENVIRONMENTS,
        "releaseSession",
        "Release Session",
        "Gives the lock back and cancels what the session still deploys. Repeating it is no fault, nor is releasing a \
         session that was overridden: the answer says how it ended.",
    )
    .writes()
    .answers(200, "The session as it ended", "Session", &[])
    .fails(&[Code::NotSessionHolder, Code::PipelineNotFound, Code::EnvironmentNotFound, Code::SessionNotFound])
}

pub fn list_tokens() -> Operation {
    Operation::api(
        "Tokens",
        "listTokens",
        "List Tokens",
        "The organization's tokens, oldest first, without their text.",
    )
    .slice()
    .answers_list("The tokens", "Token", "Pagination")
}

pub fn create_token() -> Operation {
    Operation::api(
        "Tokens",
        "createToken",
        "Create Token",
        "A token has the permissions of the member it stands for, as they are when it is used. Its text is shown once: a \
         retry with the same `Idempotency-Key` gets the first answer again with `token` null. If that answer was lost, \
         revoke the token and make another under a new key.",
    )
    .body("TokenRequest", true)
    .writes()
    .answers_json(
        201,
        "The token, with its text unless this is a retry",
        json!({
            "type": "object",
            "required": ["data"],
            "properties": { "data": { "anyOf": [reference("NewToken"), reference("ReplayedToken")] } },
        }),
        &["Location"],
    )
    .fails(&[Code::TokenLimitReached])
}

pub fn revoke_token() -> Operation {
    Operation::api("Tokens", "revokeToken", "Revoke Token", "It stops working before this answers.")
        .writes()
        .answers_nothing(204, "Revoked", &[])
        .fails(&[Code::TokenNotFound])
}

pub fn healthz() -> Operation {
    Operation::public("healthz", "Alive", "The process answers.").answers_json(200, "Alive", reference("Status"), &[])
}

pub fn readyz() -> Operation {
    Operation::public("readyz", "Ready", "Writes are accepted, and the server is not on its way out.")
        .answers_json(200, "Ready", reference("Status"), &[])
        .fails(&[Code::ShuttingDown, Code::StorageFull, Code::Overloaded])
}

pub fn metrics() -> Operation {
    Operation::public("metrics", "Metrics", "In Prometheus' text format.").answers_text("The metrics")
}

pub fn description() -> Operation {
    Operation::public("openapi", "This document", "OpenAPI 3.1.").answers_json(
        200,
        "The document",
        json!({ "type": "object" }),
        &[],
    )
}

pub fn problem() -> Operation {
    Operation::public("problem", "What a code means", "What `type` of a problem points to.")
        .answers_text("When it is answered, and what to do then")
        .fails(&[Code::ProblemNotFound])
}

//! The operations on deployments, their logs and their approvals.

use serde_json::{Value, json};

use super::bodies::CONTEXT_PATTERN;
use super::operation::{Operation, reference};
use super::{APPROVAL_PATTERN, DEPLOYMENT_PATTERN, IDENTIFIER_PATTERN, SESSION_PATTERN};
use crate::http::codes::Code;
use crate::http::dto::{APPROVAL_STATUSES, DEPLOYMENT_STATUSES, approval_status_name, deployment_status_name};
use crate::http::paging::PLACE_MAX;
use crate::http::resources::logs::{LINES_MAX, NEXT_OFFSET};

const DEPLOYMENTS: &str = "Deployments";
const APPROVALS: &str = "Approvals";

pub fn request_bodies() -> [(&'static str, Value); 3] {
    let said = json!({ "type": ["string", "null"], "maxLength": 1024, "pattern": CONTEXT_PATTERN });
    let object = |properties| json!({ "type": "object", "additionalProperties": false, "properties": properties });
    [
        ("StageActionRequest", object(json!({}))),
        ("ApproveRequest", object(json!({ "comment": said }))),
        ("RejectRequest", object(json!({ "reason": said }))),
    ]
}

pub fn list_deployments() -> Operation {
    let statuses = DEPLOYMENT_STATUSES.map(deployment_status_name);
    Operation::api(
        DEPLOYMENTS,
        "listDeployments",
        "List Deployments",
        "Newest first. A deployment is remembered with its log as long as its session is, the newest 100 of each session; of \
         those that put an environment back in order, the last.",
    )
    .query("pipelineId", "Only those of this pipeline", identifier())
    .query("envName", "Only those in environments of this name", identifier())
    .query("sessionId", "Only those of this session", json!({ "type": "string", "pattern": SESSION_PATTERN }))
    .query("status", "Only those that stand so", json!({ "enum": statuses }))
    .slice()
    .answers_list("The deployments", "Deployment", "Pagination")
}

pub fn get_deployment() -> Operation {
    Operation::api(
        DEPLOYMENTS,
        "getDeployment",
        "Get Deployment",
        "With each of its stages and steps. With `waitSeconds` and `If-None-Match` it answers when something has changed.",
    )
    .until_changed()
    .answers(200, "The deployment", "Deployment", &["ETag"])
    .answers_nothing(304, "It has not changed", &["ETag"])
    .fails(&[Code::DeploymentNotFound])
}

pub fn get_logs() -> Operation {
    let content = json!({
        "text/plain": { "schema": { "type": "string" } },
        "application/x-ndjson": { "schema": reference("LogLine") },
    });
    Operation::api(
        DEPLOYMENTS,
        "getLogs",
        "Get Logs",
        "What its steps have written, secrets masked. As text it is the output as written; as JSON one object a line, each \
         followed by a line break. With `follow` what comes later follows, until the deployment has finished or the server \
         ends: look at the deployment to see which. A line that is very long, or written in pieces, counts as several.",
    )
    .query("format", "`text` if left out", json!({ "enum": ["text", "json"] }))
    .query("offset", "From which line on, 0 if left out", whole(0, PLACE_MAX))
    .query("limit", "How many lines, all if left out", whole(1, LINES_MAX))
    .query("follow", "Whether to wait for more", json!({ "enum": ["true", "false"] }))
    .query("stage", "Only lines of this stage", identifier())
    .query("step", "Only lines of steps of this name", identifier())
    .answers_content(200, "The log; empty if there is none", content, &["Link", NEXT_OFFSET])
    .fails(&[Code::DeploymentNotFound])
}

pub fn cancel_stage() -> Operation {
    Operation::api(
        DEPLOYMENTS,
        "cancelStage",
        "Cancel Stage",
        "Stops the stage that the deployment is at, with all its processes, and skips the rest; one that still waits is \
         cancelled by its first stage. Only the session's own user, or a maintainer. Repeating it is no fault.",
    )
    .body("StageActionRequest", false)
    .writes()
    .answers(200, "It has ended", "Deployment", &["Location"])
    .answers(202, "It is being stopped", "Deployment", &["Location"])
    .fails(&INTERVENTION_FAULTS)
    .fails(&[Code::StageNotRunning])
}

pub fn retry_stage() -> Operation {
    Operation::api(
        DEPLOYMENTS,
        "retryStage",
        "Retry Stage",
        "Runs a stage that failed or was cancelled again from its first step, with the same commit, and goes on from there; \
         only while the session still has the lock. Only the session's own user, or a maintainer.",
    )
    .body("StageActionRequest", false)
    .writes()
    .answers(200, "It has ended already", "Deployment", &["Location"])
    .answers(202, "It is run again, or waits for its turn", "Deployment", &["Location"])
    .fails(&INTERVENTION_FAULTS)
    .fails(&[
        Code::StageNotRetryable,
        Code::SessionNotFound,
        Code::SessionReleased,
        Code::SessionOverridden,
        Code::SessionExpired,
        Code::QueueFull,
    ])
}

const INTERVENTION_FAULTS: [Code; 4] =
    [Code::NotSessionHolder, Code::DeploymentNotFound, Code::StageNotFound, Code::EnvironmentNotFound];

pub fn list_approvals() -> Operation {
    let statuses = APPROVAL_STATUSES.map(approval_status_name);
    Operation::api(
        APPROVALS,
        "listApprovals",
        "List Approvals",
        "Newest first. `status=pending` are those that somebody has to decide.",
    )
    .query("status", "Only those that stand so", json!({ "enum": statuses }))
    .query("pipelineId", "Only those of this pipeline", identifier())
    .query("envName", "Only those in environments of this name", identifier())
    .query("deploymentId", "Only those of this deployment", json!({ "type": "string", "pattern": DEPLOYMENT_PATTERN }))
    .slice()
    .answers_list("The approvals", "Approval", "Pagination")
}

pub fn get_approval() -> Operation {
    Operation::api(APPROVALS, "getApproval", "Get Approval", "What is to be approved, and who decided how and when.")
        .answers(200, "The approval", "Approval", &[])
        .fails(&[Code::ApprovalNotFound])
}

pub fn approve() -> Operation {
    Operation::api(
        APPROVALS,
        "approve",
        "Approve",
        "The stage starts. Where the pipeline has `selfApproval` off, nobody approves what they deployed or had run again. \
         Approving twice is no fault.",
    )
    .body("ApproveRequest", false)
    .writes()
    .answers(200, "The approval", "Approval", &[])
    .fails(&DECISION_FAULTS)
    .fails(&[Code::SelfApprovalDenied])
}

pub fn reject() -> Operation {
    Operation::api(
        APPROVALS,
        "reject",
        "Reject",
        "The stage fails, and with it the deployment. Its stage can be retried, and is then asked for again.",
    )
    .body("RejectRequest", false)
    .writes()
    .answers(200, "The approval", "Approval", &[])
    .fails(&DECISION_FAULTS)
}

const DECISION_FAULTS: [Code; 3] = [Code::ApprovalNotFound, Code::ApprovalNotPending, Code::EnvironmentNotFound];

/// The parameters that paths of these operations name.
pub fn path_parameter(name: &str) -> Option<(&'static str, Value, &'static str)> {
    let id = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    match name {
        "deploymentId" => Some(("The deployment", id(DEPLOYMENT_PATTERN), "dep_0199f3c2a4b07f3e9d2c5a1b")),
        "approvalId" => Some(("The approval", id(APPROVAL_PATTERN), "apr_0199f3c2a4b07f3e9d2c5a1b")),
        "stage" => Some(("The stage, by its name", identifier(), "build")),
        _ => None,
    }
}

fn identifier() -> Value {
    json!({ "type": "string", "pattern": IDENTIFIER_PATTERN })
}

fn whole(least: u64, most: u64) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

//! What is not there, and how to find what is.

use crate::http::codes::Code;
use crate::http::problem::Problem;

pub fn route_not_found(path: &str) -> Problem {
    Problem::new(Code::RouteNotFound, format!("nothing is served under {path}; /api/v1/openapi.json lists what is"))
}

pub fn member_not_found() -> Problem {
    Problem::new(Code::MemberNotFound, "the organization has no member with this id; list them to see their ids")
}

pub fn pipeline_not_found() -> Problem {
    Problem::new(
        Code::PipelineNotFound,
        "the organization has no such pipeline; list them to see their ids, or ask a maintainer to make it with PUT",
    )
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

pub fn deployment_not_found() -> Problem {
    Problem::new(
        Code::DeploymentNotFound,
        "the organization has no such deployment, or no longer remembers it; list them to see those it does",
    )
}

pub fn stage_not_found() -> Problem {
    Problem::new(Code::StageNotFound, "the deployment has no stage of this name; its `stages` list those it has")
}

pub fn approval_not_found() -> Problem {
    Problem::new(
        Code::ApprovalNotFound,
        "the organization has no such approval, or no longer remembers it; list them to see those it does",
    )
}

pub fn event_not_found() -> Problem {
    Problem::new(
        Code::EventNotFound,
        "the organization has no such event, or no longer keeps it; list them to see those it does",
    )
}

pub fn secret_not_found() -> Problem {
    Problem::new(
        Code::SecretNotFound,
        "there is no secret of this name in this scope; list them, and choose a pipeline's own with `pipelineId`",
    )
}

pub fn webhook_not_found() -> Problem {
    Problem::new(Code::WebhookNotFound, "the organization has no such webhook; list them to see those it has")
}

pub fn delivery_not_found() -> Problem {
    Problem::new(
        Code::DeliveryNotFound,
        "the webhook has no such delivery, or no longer remembers it; list them to see those it does",
    )
}

pub fn queued_session_not_found() -> Problem {
    Problem::new(
        Code::SessionNotFound,
        "the pipeline has no such session that was queued, or no longer remembers it; others are found under their \
         environment",
    )
}

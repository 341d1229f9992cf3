//! The 404 problems, with suggestions for misspelled names in paths.
//!
//! Suggestions reveal nothing: only members of the organization in the path get this far, and every member may list its
//! pipelines and environments. The work is bounded, regardless of the number of names.

use crate::http::call::{App, PathParameters, segment};
use crate::http::codes::Code;
use crate::http::problem::Problem;
use domain::nearest::{Advice, COMPARED_MAX, advice};
use domain::{Identifier, PipelineKey};
use http1::Request;

pub fn route_not_found(path: &str) -> Problem {
    Problem::new(Code::RouteNotFound, format!("no route matches {path}; /api/v1/openapi.json lists all routes"))
}

pub fn member_not_found() -> Problem {
    Problem::new(Code::MemberNotFound, "the organization has no member with this id; list them to see their ids")
}

pub fn pipeline_not_found() -> Problem {
    Problem::new(
        Code::PipelineNotFound,
        "the organization has no such pipeline; list them to see their ids, or ask a maintainer to create it with PUT",
    )
}

pub fn environment_not_found() -> Problem {
    Problem::new(
        Code::EnvironmentNotFound,
        "the pipeline has no environment with this name; list them, or ask a maintainer to create it with PUT",
    )
}

pub fn lock_not_found() -> Problem {
    Problem::new(
        Code::LockNotFound,
        "nobody holds the lock of this environment, so there is nothing to release; a session that waits leaves the queue \
         with DELETE of the session",
    )
}

/// The 404 of a pipeline or an environment, with advice about its name.
pub fn with_advice(problem: Problem, advice: Advice) -> Problem {
    let (within, what) = match problem.code() {
        Code::PipelineNotFound => ("the organization", "pipeline"),
        _ => ("the pipeline", "environment"),
    };
    let advice = match advice {
        Advice::Unknown => return problem,
        Advice::Meant(name) => format!("{within} has no {what} with this name; did you mean `{name}`?"),
        Advice::All(names) => format!(
            "{within} has no {what} with this name; it has {}, and a maintainer creates others with PUT",
            names.join(", ")
        ),
        Advice::None => format!("{within} has no {what} yet; a maintainer creates one with PUT"),
    };
    problem.with_detail(advice)
}

pub fn session_not_found() -> Problem {
    Problem::new(
        Code::SessionNotFound,
        "the environment has no such session, or has dropped it; its history lists the sessions it keeps",
    )
}

pub fn deployment_not_found() -> Problem {
    Problem::new(
        Code::DeploymentNotFound,
        "the organization has no such deployment, or has dropped it; list them to see their ids",
    )
}

pub fn stage_not_found() -> Problem {
    Problem::new(Code::StageNotFound, "the deployment has no stage with this name; `stages` lists them")
}

pub fn approval_not_found() -> Problem {
    Problem::new(
        Code::ApprovalNotFound,
        "the organization has no such approval, or has dropped it; list them to see their ids",
    )
}

pub fn event_not_found() -> Problem {
    Problem::new(
        Code::EventNotFound,
        "the organization has no such event, or has dropped it; list them to see their ids",
    )
}

pub fn secret_not_found() -> Problem {
    Problem::new(
        Code::SecretNotFound,
        "no secret has this name in this scope; list them, and select those of a pipeline with `pipelineId`",
    )
}

pub fn webhook_not_found() -> Problem {
    Problem::new(Code::WebhookNotFound, "the organization has no such webhook; list them to see their ids")
}

pub fn delivery_not_found() -> Problem {
    Problem::new(
        Code::DeliveryNotFound,
        "the webhook has no such delivery, or has dropped it; list them to see their ids",
    )
}

pub fn queued_session_not_found() -> Problem {
    Problem::new(
        Code::SessionNotFound,
        "the pipeline has no such queued session, or has dropped it; sessions that were never queued are found under \
         their environment",
    )
}

/// Adds advice to the problem if there is some.
pub fn with_hint(problem: Problem, app: &App, request: &Request, parameters: &PathParameters) -> Problem {
    let advice = match problem.code() {
        Code::PipelineNotFound => pipeline_advice(app, request, parameters),
        Code::EnvironmentNotFound => environment_advice(app, request, parameters),
        _ => None,
    };
    match advice {
        Some(advice) => with_advice(problem, advice),
        None => problem,
    }
}

fn pipeline_advice(app: &App, request: &Request, parameters: &PathParameters) -> Option<Advice> {
    let organization = Identifier::parse(segment(request, parameters, "orgId")?).ok()?;
    let wanted = segment(request, parameters, "pipelineId")?;
    let all = app.realm.pipelines.list(&organization);
    let ids = all.iter().map(|pipeline| pipeline.key.pipeline.as_str());
    if all.len() <= COMPARED_MAX {
        return Some(advice(wanted, &ids.collect::<Vec<_>>(), true));
    }
    let first = wanted.chars().next();
    let similar: Vec<_> = ids.filter(|id| id.chars().next() == first).take(COMPARED_MAX).collect();
    Some(advice(wanted, &similar, false))
}

fn environment_advice(app: &App, request: &Request, parameters: &PathParameters) -> Option<Advice> {
    let [organization, pipeline] = ["orgId", "pipelineId"].map(|name| segment(request, parameters, name));
    let (organization, pipeline) = (Identifier::parse(organization?).ok()?, Identifier::parse(pipeline?).ok()?);
    // In the path of a claim of any environment, this segment is `sessions`; such a claim fails for its labels.
    let wanted = segment(request, parameters, "envName").filter(|name| *name != "sessions")?;
    let key = PipelineKey { organization, pipeline };
    // If the store fails, the problem is returned without advice.
    let (names, are_all) = app.realm.environments.names_near(&key, wanted, COMPARED_MAX).ok()?;
    let names: Vec<_> = names.iter().map(Identifier::as_str).collect();
    Some(advice(wanted, &names, are_all))
}

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

/// Adds advice about the name of a pipeline or an environment that was not found.
pub fn with_hint(problem: Problem, app: &App, request: &Request, parameters: &PathParameters) -> Problem {
    let (within, what, advice) = match problem.code() {
        Code::PipelineNotFound => ("the organization", "pipeline", pipeline_advice(app, request, parameters)),
        Code::EnvironmentNotFound => ("the pipeline", "environment", environment_advice(app, request, parameters)),
        _ => return problem,
    };
    let detail = match advice {
        None | Some(Advice::Unknown) => return problem,
        Some(Advice::Meant(name)) => format!("{within} has no {what} with this name; did you mean `{name}`?"),
        Some(Advice::All(names)) => format!(
            "{within} has no {what} with this name; it has {}, and a maintainer creates others with PUT",
            names.join(", ")
        ),
        Some(Advice::None) => format!("{within} has no {what} yet; a maintainer creates one with PUT"),
    };
    problem.with_detail(detail)
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

//! What was probably meant by a path that leads to nothing.
//!
//! Whoever gets one of these 404s is a member of the organization in the path, and every member may list its pipelines and
//! environments: all others were refused before. The work is bounded, however many names there are.

use super::call::{PathParameters, segment};
use super::codes::Code;
use super::front::App;
use super::problem::Problem;
use super::refusals;
use super::request::Request;
use domain::nearest::{Advice, COMPARED_MAX, advice};
use domain::{Identifier, PipelineKey};

/// The same problem, with advice if there is some.
pub fn with_hint(problem: Problem, app: &App, request: &Request, parameters: &PathParameters) -> Problem {
    let advice = match problem.code() {
        Code::PipelineNotFound => pipeline_advice(app, request, parameters),
        Code::EnvironmentNotFound => environment_advice(app, request, parameters),
        _ => None,
    };
    match advice {
        Some(advice) => refusals::with_advice(problem, advice),
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
    // Claims of any environment have this path; there, labels were not found.
    let wanted = segment(request, parameters, "envName").filter(|name| *name != "sessions")?;
    let key = PipelineKey { organization, pipeline };
    // Without an answer from the store there is no advice, and the problem is still the same.
    let (names, are_all) = app.realm.environments.names_near(&key, wanted, COMPARED_MAX).ok()?;
    let names: Vec<_> = names.iter().map(Identifier::as_str).collect();
    Some(advice(wanted, &names, are_all))
}

//! What a file says a pipeline does: its stages with their steps, and where its code is. The same rules as the API's.

use std::sync::Arc;

use crate::domain::pipeline::{
    ARGUMENT, ARGUMENTS_MAX, BLUEPRINT_BYTES_MAX, HEADER_NAME, HEADER_VALUE, HEADERS_MAX, HTTP_BODY, METHOD, PROGRAM,
    STAGES_MAX, STEPS_MAX, TIMEOUT_SECONDS_DEFAULT, TIMEOUT_SECONDS_MAX, check_url,
};
use crate::domain::{
    Action, ApprovalRule, Blueprint, HttpCall, INPUTS_MAX, Identifier, Stage, Step, StepReference, Use, VARIABLES_MAX,
    VariableName, VariableValue,
};
use crate::pipelines::{
    EXPECTED_STATUSES_MAX, Provider, Repository, STATUSES, check_api_url, check_branch, check_repository_url,
    default_branch, default_method, step_name,
};

use super::document::Section;
use super::fault::Fault;
use super::organization::{Seen, refuse_more_than};

pub(super) const STAGE_KEYS: [&str; 5] = ["name", "approval", "timeout_seconds", "idempotent", "steps"];
pub(super) const STEP_KEYS: [&str; 5] = ["name", "run", "http", "uses", "with"];
pub(super) const HTTP_KEYS: [&str; 5] = ["method", "url", "headers", "body", "expect_status"];
pub(super) const REPOSITORY_KEYS: [&str; 5] = ["provider", "url", "default_branch", "credential", "api_url"];

/// What the file leaves out is as the domain has it by default.
pub(super) fn read(pipeline: Section<'_>, faults: &mut Vec<Fault>) -> Blueprint {
    let default = Blueprint::default();
    let stages = read_stages(pipeline, faults);
    let variables = pipeline.entries("variables", VariableName::parse, VariableValue::parse, VARIABLES_MAX, faults);
    let self_approval = pipeline.boolean("self_approval", faults).unwrap_or(default.self_approval);
    let blueprint = Blueprint { stages, variables: variables.into_iter().collect(), self_approval };
    let bytes = blueprint.bytes();
    if bytes > BLUEPRINT_BYTES_MAX {
        let message = format!(
            "the texts of a pipeline's stages and variables have {BLUEPRINT_BYTES_MAX} bytes at most, not {bytes}"
        );
        faults.push(Fault::new(pipeline.place(), message));
    }
    blueprint
}

fn read_stages(pipeline: Section<'_>, faults: &mut Vec<Fault>) -> Vec<Stage> {
    let sections = pipeline.sections("stages", "pipelines.stages", faults);
    refuse_more_than(STAGES_MAX, "stages in this pipeline", &sections, faults);
    let mut seen = Seen::default();
    let mut stages = Vec::with_capacity(sections.len());
    for section in sections {
        section.refuse_keys_other_than(&STAGE_KEYS, faults);
        let name = section.required("name", Identifier::parse, faults);
        seen.refuse_again(&name, "pipelines.stages.name", section.place_of("name"), faults);
        let approval = section.optional("approval", ApprovalRule::parse, faults);
        let timeout_seconds = section.number("timeout_seconds", 1..=TIMEOUT_SECONDS_MAX, faults);
        let idempotent = section.boolean("idempotent", faults);
        let steps = read_steps(section, faults);
        stages.extend(name.map(|name| Stage {
            name,
            approval: approval.unwrap_or(ApprovalRule::Never),
            timeout_seconds: timeout_seconds.unwrap_or(TIMEOUT_SECONDS_DEFAULT),
            idempotent: idempotent.unwrap_or(false),
            steps,
        }));
    }
    stages
}

fn read_steps(stage: Section<'_>, faults: &mut Vec<Fault>) -> Vec<Step> {
    let found_before = faults.len();
    let sections = stage.sections("steps", "pipelines.stages.steps", faults);
    if sections.is_empty() && faults.len() == found_before {
        let message = "a stage needs one step at least: [[pipelines.stages.steps]]";
        faults.push(Fault::new(stage.place(), message.to_owned()));
    }
    refuse_more_than(STEPS_MAX, "steps in this stage", &sections, faults);
    let mut seen = Seen::default();
    let mut steps = Vec::with_capacity(sections.len());
    for (place, section) in sections.into_iter().enumerate() {
        section.refuse_keys_other_than(&STEP_KEYS, faults);
        let name = section.optional("name", Identifier::parse, faults).unwrap_or_else(|| step_name(place));
        seen.refuse_again(&Some(name.clone()), "pipelines.stages.steps.name", section.place_of("name"), faults);
        steps.extend(read_step_action(section, faults).map(|action| Step::own(name, action)));
    }
    steps
}

fn read_step_action(step: Section<'_>, faults: &mut Vec<Fault>) -> Option<Action> {
    let message = match ["run", "http", "uses"].iter().filter(|key| step.has(key)).count() {
        0 => Some(
            "a step needs run = [\"program\", \"argument\"], http = { url = \"…\" } or uses = \"registry/step@version\"",
        ),
        1 if step.has("with") && !step.has("uses") => {
            Some("with goes with uses: it is what a step of a registry is given")
        }
        1 => None,
        _ => Some("a step has either run or http or uses; make several steps of it"),
    };
    faults.extend(message.map(|message| Fault::new(step.place(), message.to_owned())));
    let reference = step.optional("uses", StepReference::parse, faults);
    let with = step.inputs("with", INPUTS_MAX, faults);
    let uses = reference.map(|reference| Action::Uses(Box::new(Use { reference, with })));
    read_action(step, "pipelines.stages.steps.http", faults).or(uses)
}

/// `run` or `http`, whichever there is. `http` is what the table of that is called in faults.
pub(super) fn read_action(step: Section<'_>, http: &'static str, faults: &mut Vec<Fault>) -> Option<Action> {
    let argument = |place: usize, text: &str| if place == 0 { PROGRAM.parse(text) } else { ARGUMENT.parse(text) };
    let run = step.strings("run", 1..=ARGUMENTS_MAX, argument, faults);
    let form = "{ url = \"…\" }";
    let http = step.optional_section("http", http, form, faults);
    let http = http.and_then(|http| read_http_call(http, faults));
    run.map(Action::Run).or_else(|| http.map(Action::Http))
}

fn read_http_call(call: Section<'_>, faults: &mut Vec<Fault>) -> Option<HttpCall> {
    call.refuse_keys_other_than(&HTTP_KEYS, faults);
    let method = call.optional("method", |text| METHOD.parse(text), faults);
    let url = call.required("url", |text| check_url(text).map(|()| Arc::from(text)), faults);
    let headers =
        call.entries("headers", |text| HEADER_NAME.parse(text), |text| HEADER_VALUE.parse(text), HEADERS_MAX, faults);
    let body = call.optional("body", |text| HTTP_BODY.parse(text), faults);
    let expected = call.numbers("expect_status", EXPECTED_STATUSES_MAX, STATUSES, faults).unwrap_or_default();
    Some(HttpCall {
        method: method.unwrap_or_else(|| default_method(body.is_some())),
        url: url?,
        headers,
        body,
        expect_status: expected.into_iter().filter_map(|status| u16::try_from(status).ok()).collect(),
    })
}

pub(super) fn read_repository(pipeline: Section<'_>, faults: &mut Vec<Fault>) -> Option<Repository> {
    let form = "{ provider = \"git\", url = \"…\" }";
    let repository = pipeline.optional_section("repository", "pipelines.repository", form, faults)?;
    repository.refuse_keys_other_than(&REPOSITORY_KEYS, faults);
    let provider = repository.required("provider", Provider::parse, faults);
    let url = repository.required("url", |text| check_repository_url(text).map(|()| Arc::from(text)), faults);
    let branch = repository.optional("default_branch", |text| check_branch(text).map(|()| Arc::from(text)), faults);
    let credential = repository.optional("credential", VariableName::parse, faults);
    let api_url = repository.optional("api_url", |text| check_api_url(text).map(|()| Arc::from(text)), faults);
    let default_branch = branch.unwrap_or_else(default_branch);
    Some(Repository { provider: provider?, url: url?, default_branch, credential, api_url })
}

//! The definition of a pipeline, as a body has it.

use std::collections::HashSet;
use std::sync::Arc;

use super::body::Fields;
use crate::domain::pipeline::{
    ARGUMENTS_MAX, BLUEPRINT_BYTES_MAX, HEADERS_MAX, STAGES_MAX, STEPS_MAX, TIMEOUT_SECONDS_DEFAULT,
    TIMEOUT_SECONDS_MAX, check_argument, check_header_name, check_header_value, check_http_body, check_method,
    check_url,
};
use crate::domain::{
    Action, ApprovalRule, Blueprint, HttpCall, Identifier, Malformed, Stage, Step, VARIABLES_MAX, VariableName,
    VariableValue,
};
use crate::pipelines::{
    Definition, EXPECTED_STATUSES_MAX, Provider, Repository, STATUSES, check_api_url, check_branch,
    check_repository_url, default_branch, default_method, parse_approval, parse_name, step_name,
};

/// All of it: what is left out has its default. The fields that are wrong are left in `fields`, and what is returned
/// then is not to be used.
pub fn read(fields: &mut Fields, id: Option<&Identifier>) -> Option<Definition> {
    let name = fields.text("name", parse_name);
    let slug = fields.text("slug", Identifier::parse);
    let blueprint = read_blueprint(fields);
    let repository = fields.nullable_object("repository", read_repository).flatten();
    let id = id?;
    Some(Definition {
        name: name.unwrap_or_else(|| id.to_string()),
        slug: slug.unwrap_or_else(|| id.clone()),
        blueprint: Arc::new(blueprint),
        repository,
    })
}

fn read_blueprint(fields: &mut Fields) -> Blueprint {
    let default = Blueprint::default();
    let mut stages_seen = HashSet::new();
    let stages = fields.objects("stages", 0..=STAGES_MAX, |stage, _| read_stage(stage, &mut stages_seen));
    let blueprint = Blueprint {
        stages: stages.unwrap_or_default().into_iter().flatten().collect(),
        variables: fields
            .texts("variables", VARIABLES_MAX, VariableName::parse, VariableValue::parse)
            .unwrap_or(default.variables),
        self_approval: fields.boolean("selfApproval").unwrap_or(default.self_approval),
    };
    if blueprint.bytes() > BLUEPRINT_BYTES_MAX {
        fields.wrong("stages", format!("has, with the variables, texts of at most {BLUEPRINT_BYTES_MAX} bytes"));
    }
    blueprint
}

fn read_stage(stage: &mut Fields, seen: &mut HashSet<Identifier>) -> Option<Stage> {
    let name = stage.required_text("name", Identifier::parse);
    if name.as_ref().is_some_and(|name| !seen.insert(name.clone())) {
        stage.wrong("name", "is there twice; each stage of a pipeline has a name of its own");
    }
    let approval = stage.text("approval", parse_approval).unwrap_or(ApprovalRule::Never);
    let timeout = stage.integer("timeoutSeconds", 1..=i64::from(TIMEOUT_SECONDS_MAX));
    let idempotent = stage.boolean("idempotent").unwrap_or(false);
    if !stage.has("steps") {
        stage.wrong("steps", "is required");
    }
    let mut steps_seen = HashSet::new();
    let steps = stage.objects("steps", 1..=STEPS_MAX, |step, place| read_step(step, place, &mut steps_seen));
    Some(Stage {
        name: name?,
        approval,
        timeout_seconds: timeout.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(TIMEOUT_SECONDS_DEFAULT),
        idempotent,
        steps: steps?.into_iter().flatten().collect(),
    })
}

fn read_step(step: &mut Fields, place: usize, seen: &mut HashSet<Identifier>) -> Option<Step> {
    let name = step.text("name", Identifier::parse).unwrap_or_else(|| step_name(place));
    if !seen.insert(name.clone()) {
        step.wrong("name", format!("is `{name}`, which is there twice; each step of a stage has a name of its own"));
    }
    match ["run", "http", "uses"].iter().filter(|action| step.has(action)).count() {
        0 => step.wrong("run", "is required, or `http` in its place"),
        1 => {}
        _ => step.wrong("run", "and `http` are not given together: a step does one thing"),
    }
    if step.text("uses", |text| Ok(text.to_owned())).is_some() {
        step.wrong("uses", "names no step that is known: there are no step registries; use `run` or `http`");
    }
    let run = step.list("run", 1..=ARGUMENTS_MAX, |place, argument| {
        check_argument(argument, place == 0).map(|()| Arc::from(argument))
    });
    let http = step.object("http", read_http_call).flatten();
    let action = run.map(Action::Run).or_else(|| http.map(Action::Http))?;
    Some(Step { name, action })
}

fn read_http_call(call: &mut Fields) -> Option<HttpCall> {
    fn checked(check: fn(&str) -> Result<(), Malformed>) -> impl Fn(&str) -> Result<Arc<str>, Malformed> {
        move |text| check(text).map(|()| Arc::from(text))
    }
    let method = call.text("method", checked(check_method));
    let url = call.required_text("url", checked(check_url));
    let headers = call.texts("headers", HEADERS_MAX, checked(check_header_name), checked(check_header_value));
    let body = call.nullable_text("body", checked(check_http_body));
    let statuses = i64::from(*STATUSES.start())..=i64::from(*STATUSES.end());
    let expected = call.integers("expectStatus", EXPECTED_STATUSES_MAX, statuses).unwrap_or_default();
    Some(HttpCall {
        method: method.unwrap_or_else(|| default_method(body.is_some())),
        url: url?,
        headers: headers.unwrap_or_default().into_iter().collect(),
        body,
        expect_status: expected.into_iter().filter_map(|status| u16::try_from(status).ok()).collect(),
    })
}

fn read_repository(repository: &mut Fields) -> Option<Repository> {
    let provider = repository.required_text("provider", Provider::parse);
    let url = repository.required_text("url", |text| check_repository_url(text).map(|()| Arc::from(text)));
    let branch = repository.text("defaultBranch", |text| check_branch(text).map(|()| Arc::from(text)));
    let credential = repository.nullable_text("credential", VariableName::parse);
    let api_url = repository.nullable_text("apiUrl", |text| check_api_url(text).map(|()| Arc::from(text)));
    let default_branch = branch.unwrap_or_else(default_branch);
    Some(Repository { provider: provider?, url: url?, default_branch, credential, api_url })
}

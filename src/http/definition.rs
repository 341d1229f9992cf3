//! The definition of a pipeline, as a body has it.

use std::collections::HashSet;
use std::sync::Arc;

use super::body::Fields;
use super::step_body::read_action;
use crate::domain::pipeline::{
    BLUEPRINT_BYTES_MAX, STAGES_MAX, STEPS_MAX, TIMEOUT_SECONDS_DEFAULT, TIMEOUT_SECONDS_MAX,
};
use crate::domain::{
    Action, ApprovalRule, Blueprint, INPUTS_MAX, Identifier, Stage, Step, StepReference, Use, VARIABLES_MAX,
    VariableName, VariableValue,
};
use crate::pipelines::{
    Definition, Provider, Repository, check_api_url, check_branch, check_repository_url, default_branch, parse_name,
    step_name,
};

/// What is wrong with the use of a registry's step: the field, and the end of a sentence.
pub type UseCheck<'a> = dyn Fn(&Use) -> Vec<(String, String)> + 'a;

/// All of it: what is left out has its default. The fields that are wrong are left in `fields`, and what is returned
/// then is not to be used.
pub fn read(fields: &mut Fields, id: Option<&Identifier>, check_use: &UseCheck<'_>) -> Option<Definition> {
    let name = fields.text("name", parse_name);
    let slug = fields.text("slug", Identifier::parse);
    let blueprint = read_blueprint(fields, check_use);
    let repository = fields.nullable_object("repository", read_repository).flatten();
    let id = id?;
    Some(Definition {
        name: name.unwrap_or_else(|| id.to_string()),
        slug: slug.unwrap_or_else(|| id.clone()),
        blueprint: Arc::new(blueprint),
        repository,
    })
}

fn read_blueprint(fields: &mut Fields, check_use: &UseCheck<'_>) -> Blueprint {
    let default = Blueprint::default();
    let mut stages_seen = HashSet::new();
    let stages = fields.objects("stages", 0..=STAGES_MAX, |stage, _| read_stage(stage, &mut stages_seen, check_use));
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

fn read_stage(stage: &mut Fields, seen: &mut HashSet<Identifier>, check_use: &UseCheck<'_>) -> Option<Stage> {
    let name = stage.required_text("name", Identifier::parse);
    if name.as_ref().is_some_and(|name| !seen.insert(name.clone())) {
        stage.wrong("name", "is there twice; each stage of a pipeline has a name of its own");
    }
    let approval = stage.text("approval", ApprovalRule::parse).unwrap_or(ApprovalRule::Never);
    let timeout = stage.integer("timeoutSeconds", 1..=i64::from(TIMEOUT_SECONDS_MAX));
    let idempotent = stage.boolean("idempotent").unwrap_or(false);
    if !stage.has("steps") {
        stage.wrong("steps", "is required");
    }
    let mut steps_seen = HashSet::new();
    let steps = stage.objects("steps", 1..=STEPS_MAX, |step, place| read_step(step, place, &mut steps_seen, check_use));
    Some(Stage {
        name: name?,
        approval,
        timeout_seconds: timeout.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(TIMEOUT_SECONDS_DEFAULT),
        idempotent,
        steps: steps?.into_iter().flatten().collect(),
    })
}

fn read_step(
    step: &mut Fields,
    place: usize,
    seen: &mut HashSet<Identifier>,
    check_use: &UseCheck<'_>,
) -> Option<Step> {
    let name = step.text("name", Identifier::parse).unwrap_or_else(|| step_name(place));
    if !seen.insert(name.clone()) {
        step.wrong("name", format!("is `{name}`, which is there twice; each step of a stage has a name of its own"));
    }
    match ["run", "http", "uses"].iter().filter(|action| step.has(action)).count() {
        0 => step.wrong("run", "is required, or `http` or `uses` in its place"),
        1 => {}
        _ => step.wrong("run", "and `http` and `uses` are not given together: a step does one thing"),
    }
    let uses = read_use(step, check_use);
    let action = read_action(step).or_else(|| uses.map(|used| Action::Uses(Box::new(used))))?;
    Some(Step::own(name, action))
}

fn read_use(step: &mut Fields, check_use: &UseCheck<'_>) -> Option<Use> {
    if step.has("with") && !step.has("uses") {
        step.wrong("with", "goes with `uses`: it is what a step of a registry is given");
    }
    let reference = step.text("uses", StepReference::parse);
    let with = step.inputs("with", INPUTS_MAX).unwrap_or_default();
    let used = Use { reference: reference?, with };
    for (field, message) in check_use(&used) {
        step.wrong(&field, message);
    }
    Some(used)
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

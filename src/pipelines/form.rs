//! The stored form of what a pipeline does: in its own record, and in a copy for each deployment, as it was then.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::{
    Action, ApprovalRule, Blueprint, HttpCall, Identifier, Malformed, Stage, Step, VariableName, VariableValue,
};

#[derive(Serialize, Deserialize)]
pub struct BlueprintV1<'a> {
    #[serde(borrow)]
    stages: Vec<StageV1<'a>>,
    #[serde(borrow)]
    variables: BTreeMap<&'a str, &'a str>,
    self_approval: bool,
}

#[derive(Serialize, Deserialize)]
struct StageV1<'a> {
    name: &'a str,
    approval: ApprovalRuleV1,
    timeout_seconds: u32,
    idempotent: bool,
    #[serde(borrow)]
    steps: Vec<StepV1<'a>>,
}

#[derive(Serialize, Deserialize)]
struct StepV1<'a> {
    name: &'a str,
    #[serde(borrow)]
    action: ActionV1<'a>,
}

#[derive(Serialize, Deserialize)]
enum ActionV1<'a> {
    #[serde(borrow)]
    Run(Vec<&'a str>),
    #[serde(borrow)]
    Http(HttpCallV1<'a>),
}

#[derive(Serialize, Deserialize)]
struct HttpCallV1<'a> {
    method: &'a str,
    url: &'a str,
    #[serde(borrow)]
    headers: Vec<(&'a str, &'a str)>,
    body: Option<&'a str>,
    expect_status: Vec<u16>,
}

#[derive(Serialize, Deserialize)]
enum ApprovalRuleV1 {
    Never,
    Always,
}

impl<'a> From<&'a Blueprint> for BlueprintV1<'a> {
    fn from(blueprint: &'a Blueprint) -> Self {
        Self {
            stages: blueprint.stages.iter().map(StageV1::from).collect(),
            variables: blueprint.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            self_approval: blueprint.self_approval,
        }
    }
}

impl TryFrom<BlueprintV1<'_>> for Blueprint {
    type Error = Malformed;

    fn try_from(form: BlueprintV1<'_>) -> Result<Self, Malformed> {
        let variable = |(name, value)| Ok((VariableName::parse(name)?, VariableValue::parse(value)?));
        Ok(Self {
            stages: form.stages.into_iter().map(Stage::try_from).collect::<Result<_, _>>()?,
            variables: form.variables.into_iter().map(variable).collect::<Result<_, Malformed>>()?,
            self_approval: form.self_approval,
        })
    }
}

impl<'a> From<&'a Stage> for StageV1<'a> {
    fn from(stage: &'a Stage) -> Self {
        let step = |step: &'a Step| StepV1 { name: step.name.as_str(), action: ActionV1::from(&step.action) };
        Self {
            name: stage.name.as_str(),
            approval: match stage.approval {
                ApprovalRule::Never => ApprovalRuleV1::Never,
                ApprovalRule::Always => ApprovalRuleV1::Always,
            },
            timeout_seconds: stage.timeout_seconds,
            idempotent: stage.idempotent,
            steps: stage.steps.iter().map(step).collect(),
        }
    }
}

impl TryFrom<StageV1<'_>> for Stage {
    type Error = Malformed;

    fn try_from(form: StageV1<'_>) -> Result<Self, Malformed> {
        let step =
            |form: StepV1<'_>| Ok(Step { name: Identifier::parse(form.name)?, action: Action::from(form.action) });
        Ok(Self {
            name: Identifier::parse(form.name)?,
            approval: match form.approval {
                ApprovalRuleV1::Never => ApprovalRule::Never,
                ApprovalRuleV1::Always => ApprovalRule::Always,
            },
            timeout_seconds: form.timeout_seconds,
            idempotent: form.idempotent,
            steps: form.steps.into_iter().map(step).collect::<Result<_, Malformed>>()?,
        })
    }
}

impl<'a> From<&'a Action> for ActionV1<'a> {
    fn from(action: &'a Action) -> Self {
        match action {
            Action::Run(arguments) => ActionV1::Run(arguments.iter().map(|argument| &**argument).collect()),
            Action::Http(call) => ActionV1::Http(HttpCallV1 {
                method: &call.method,
                url: &call.url,
                headers: call.headers.iter().map(|(name, value)| (&**name, &**value)).collect(),
                body: call.body.as_deref(),
                expect_status: call.expect_status.clone(),
            }),
        }
    }
}

impl From<ActionV1<'_>> for Action {
    fn from(form: ActionV1<'_>) -> Self {
        match form {
            ActionV1::Run(arguments) => Action::Run(arguments.into_iter().map(Arc::from).collect()),
            ActionV1::Http(call) => Action::Http(HttpCall {
                method: Arc::from(call.method),
                url: Arc::from(call.url),
                headers: call.headers.into_iter().map(|(name, value)| (Arc::from(name), Arc::from(value))).collect(),
                body: call.body.map(Arc::from),
                expect_status: call.expect_status,
            }),
        }
    }
}

//! The stored form of a blueprint: in the record of its pipeline, and as a copy per deployment.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::step_form::{ActionV1, StepSourceV1};
use crate::domain::{Action, ApprovalRule, Blueprint, Identifier, Malformed, Stage, Step, StepSource};
use crate::store::record::{records, stored_enum};
use crate::stored::{TextsV1, variables, variables_form};

records!(BlueprintV1<'a> = "blueprint");

#[derive(Serialize, Deserialize)]
pub struct BlueprintV1<'a> {
    #[serde(borrow)]
    stages: Vec<StageV1<'a>>,
    #[serde(borrow)]
    variables: TextsV1<'a>,
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
    #[serde(borrow)]
    inputs: TextsV1<'a>,
    #[serde(borrow)]
    source: Option<StepSourceV1<'a>>,
}

stored_enum!(ApprovalRuleV1, ApprovalRule { Never, Always });

impl<'a> From<&'a Blueprint> for BlueprintV1<'a> {
    fn from(blueprint: &'a Blueprint) -> Self {
        Self {
            stages: blueprint.stages.iter().map(StageV1::from).collect(),
            variables: variables_form(&blueprint.variables),
            self_approval: blueprint.self_approval,
        }
    }
}

impl TryFrom<BlueprintV1<'_>> for Blueprint {
    type Error = Malformed;

    fn try_from(form: BlueprintV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            stages: form.stages.into_iter().map(Stage::try_from).collect::<Result<_, _>>()?,
            variables: variables(form.variables)?,
            self_approval: form.self_approval,
        })
    }
}

impl<'a> From<&'a Stage> for StageV1<'a> {
    fn from(stage: &'a Stage) -> Self {
        Self {
            name: stage.name.as_str(),
            approval: stage.approval.into(),
            timeout_seconds: stage.timeout_seconds,
            idempotent: stage.idempotent,
            steps: stage.steps.iter().map(StepV1::from).collect(),
        }
    }
}

impl TryFrom<StageV1<'_>> for Stage {
    type Error = Malformed;

    fn try_from(form: StageV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            name: Identifier::parse(form.name)?,
            approval: form.approval.into(),
            timeout_seconds: form.timeout_seconds,
            idempotent: form.idempotent,
            steps: form.steps.into_iter().map(Step::try_from).collect::<Result<_, _>>()?,
        })
    }
}

impl<'a> From<&'a Step> for StepV1<'a> {
    fn from(step: &'a Step) -> Self {
        Self {
            name: step.name.as_str(),
            action: ActionV1::from(&step.action),
            inputs: variables_form(&step.inputs),
            source: step.source.as_deref().map(StepSourceV1::from),
        }
    }
}

impl TryFrom<StepV1<'_>> for Step {
    type Error = Malformed;

    fn try_from(form: StepV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            name: Identifier::parse(form.name)?,
            action: Action::try_from(form.action)?,
            inputs: variables(form.inputs)?,
            source: form.source.map(StepSource::try_from).transpose()?.map(Arc::new),
        })
    }
}

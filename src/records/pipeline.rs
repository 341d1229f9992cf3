//! The stored forms of blueprints and their steps, used in the record of a pipeline, in the copy of each deployment,
//! and in a registry.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::stored::{Stored, stored, stored_enum};
use domain::{
    Action, ApprovalRule, Blueprint, Description, HttpCall, Identifier, Input, InputKind, InputValue, Malformed,
    RegistryStep, Stage, Step, StepReference, StepSource, Use, VariableName, VariableValue,
};
use store::record::records;

records!(BlueprintV1<'a> = "blueprint");

stored! {
    struct BlueprintV1 of Blueprint {
        stages: Vec<Stage>,
        variables: BTreeMap<VariableName, VariableValue>,
        self_approval: bool,
    }
}

stored! {
    struct StageV1 of Stage {
        name: Identifier,
        approval: ApprovalRule,
        timeout_seconds: u32,
        idempotent: bool,
        steps: Vec<Step>,
    }
}

stored! {
    struct StepV1 of Step {
        name: Identifier,
        action: Action,
        inputs: BTreeMap<VariableName, VariableValue>,
        source: Option<Arc<StepSource>>,
    }
}

stored_enum!(ApprovalRuleV1 of ApprovalRule { Never, Always });

stored_enum!(ActionV1<'a> of Action { Run(arguments: Vec<Arc<str>>), Http(call: HttpCall), Uses(used: Box<Use>) });

stored! {
    struct HttpCallV1 of HttpCall {
        method: Arc<str>,
        url: Arc<str>,
        headers: Vec<(Arc<str>, Arc<str>)>,
        body: Option<Arc<str>>,
        expect_status: Vec<u16>,
    }
}

stored! { struct UseV1 of Use { reference: StepReference, with: BTreeMap<VariableName, InputValue> } }
stored! { struct ReferenceV1 of StepReference { registry: Identifier, step: Identifier, version: Identifier } }

#[derive(Serialize, Deserialize)]
pub enum InputValueV1<'a> {
    String(&'a str),
    Number(&'a str),
    Boolean(bool),
}

impl Stored for InputValue {
    type Form<'a> = InputValueV1<'a>;

    fn to_form(&self) -> InputValueV1<'_> {
        let text = self.text().as_str();
        match self.kind() {
            InputKind::String => InputValueV1::String(text),
            InputKind::Number => InputValueV1::Number(text),
            InputKind::Boolean => InputValueV1::Boolean(text == "true"),
        }
    }

    fn from_form(form: InputValueV1<'_>) -> Result<Self, Malformed> {
        match form {
            InputValueV1::String(text) => VariableValue::parse(text).map(InputValue::string),
            InputValueV1::Number(text) => InputValue::number(text),
            InputValueV1::Boolean(value) => Ok(InputValue::boolean(value)),
        }
    }
}

stored! {
    /// Where a step of a deployment was defined.
    struct StepSourceV1 of StepSource { reference: StepReference, commit: Option<Arc<str>> }
}

stored! {
    /// A step as a registry has it.
    struct RegistryStepV1 of RegistryStep {
        name: Identifier,
        version: Identifier,
        description: Description,
        inputs: BTreeMap<VariableName, Input>,
        action: Action,
    }
}

stored! { struct InputV1 of Input { kind: InputKind, required: bool, default: Option<InputValue> } }
stored_enum!(InputKindV1 of InputKind { String, Number, Boolean });

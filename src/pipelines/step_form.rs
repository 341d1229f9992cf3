//! The stored form of a step: in a pipeline, in a deployment, and in a registry.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::{
    Action, Description, HttpCall, Identifier, Input, InputKind, InputValue, Malformed, RegistryStep, StepReference,
    StepSource, Use, VariableName, VariableValue,
};
use crate::store::record::stored_enum;

#[derive(Serialize, Deserialize)]
pub(super) enum ActionV1<'a> {
    #[serde(borrow)]
    Run(Vec<&'a str>),
    #[serde(borrow)]
    Http(HttpCallV1<'a>),
    #[serde(borrow)]
    Uses(UseV1<'a>),
}

#[derive(Serialize, Deserialize)]
pub(super) struct HttpCallV1<'a> {
    method: &'a str,
    url: &'a str,
    #[serde(borrow)]
    headers: Vec<(&'a str, &'a str)>,
    body: Option<&'a str>,
    expect_status: Vec<u16>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct UseV1<'a> {
    #[serde(borrow)]
    reference: ReferenceV1<'a>,
    #[serde(borrow)]
    with: BTreeMap<&'a str, InputValueV1<'a>>,
}

#[derive(Serialize, Deserialize)]
struct ReferenceV1<'a> {
    registry: &'a str,
    step: &'a str,
    version: &'a str,
}

#[derive(Serialize, Deserialize)]
enum InputValueV1<'a> {
    String(&'a str),
    Number(&'a str),
    Boolean(bool),
}

/// Where a step of a deployment was defined.
#[derive(Serialize, Deserialize)]
pub struct StepSourceV1<'a> {
    #[serde(borrow)]
    reference: ReferenceV1<'a>,
    commit: Option<&'a str>,
}

/// A step as a registry has it.
#[derive(Serialize, Deserialize)]
pub struct RegistryStepV1<'a> {
    name: &'a str,
    version: &'a str,
    description: &'a str,
    #[serde(borrow)]
    inputs: BTreeMap<&'a str, InputV1<'a>>,
    #[serde(borrow)]
    action: ActionV1<'a>,
}

#[derive(Serialize, Deserialize)]
struct InputV1<'a> {
    kind: InputKindV1,
    required: bool,
    #[serde(borrow)]
    default: Option<InputValueV1<'a>>,
}

stored_enum!(InputKindV1, InputKind { String, Number, Boolean });

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
            Action::Uses(used) => ActionV1::Uses(UseV1 {
                reference: ReferenceV1::from(&used.reference),
                with: used.with.iter().map(|(name, value)| (name.as_str(), InputValueV1::from(value))).collect(),
            }),
        }
    }
}

impl TryFrom<ActionV1<'_>> for Action {
    type Error = Malformed;

    fn try_from(form: ActionV1<'_>) -> Result<Self, Malformed> {
        Ok(match form {
            ActionV1::Run(arguments) => Action::Run(arguments.into_iter().map(Arc::from).collect()),
            ActionV1::Http(call) => Action::Http(HttpCall {
                method: Arc::from(call.method),
                url: Arc::from(call.url),
                headers: call.headers.into_iter().map(|(name, value)| (Arc::from(name), Arc::from(value))).collect(),
                body: call.body.map(Arc::from),
                expect_status: call.expect_status,
            }),
            ActionV1::Uses(used) => {
                let value = |(name, value)| Ok((VariableName::parse(name)?, InputValue::try_from(value)?));
                let with = used.with.into_iter().map(value).collect::<Result<_, Malformed>>()?;
                Action::Uses(Box::new(Use { reference: used.reference.try_into()?, with }))
            }
        })
    }
}

impl<'a> From<&'a StepReference> for ReferenceV1<'a> {
    fn from(reference: &'a StepReference) -> Self {
        let StepReference { registry, step, version } = reference;
        Self { registry: registry.as_str(), step: step.as_str(), version: version.as_str() }
    }
}

impl TryFrom<ReferenceV1<'_>> for StepReference {
    type Error = Malformed;

    fn try_from(form: ReferenceV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            registry: Identifier::parse(form.registry)?,
            step: Identifier::parse(form.step)?,
            version: Identifier::parse(form.version)?,
        })
    }
}

impl<'a> From<&'a InputValue> for InputValueV1<'a> {
    fn from(value: &'a InputValue) -> Self {
        let text = value.text().as_str();
        match value.kind() {
            InputKind::String => InputValueV1::String(text),
            InputKind::Number => InputValueV1::Number(text),
            InputKind::Boolean => InputValueV1::Boolean(text == "true"),
        }
    }
}

impl TryFrom<InputValueV1<'_>> for InputValue {
    type Error = Malformed;

    fn try_from(form: InputValueV1<'_>) -> Result<Self, Malformed> {
        match form {
            InputValueV1::String(text) => VariableValue::parse(text).map(InputValue::string),
            InputValueV1::Number(text) => InputValue::number(text),
            InputValueV1::Boolean(value) => Ok(InputValue::boolean(value)),
        }
    }
}

impl<'a> From<&'a StepSource> for StepSourceV1<'a> {
    fn from(source: &'a StepSource) -> Self {
        Self { reference: ReferenceV1::from(&source.reference), commit: source.commit.as_deref() }
    }
}

impl TryFrom<StepSourceV1<'_>> for StepSource {
    type Error = Malformed;

    fn try_from(form: StepSourceV1<'_>) -> Result<Self, Malformed> {
        Ok(Self { reference: form.reference.try_into()?, commit: form.commit.map(Arc::from) })
    }
}

impl<'a> From<&'a RegistryStep> for RegistryStepV1<'a> {
    fn from(step: &'a RegistryStep) -> Self {
        Self {
            name: step.name.as_str(),
            version: step.version.as_str(),
            description: step.description.as_str(),
            inputs: step.inputs.iter().map(|(name, input)| (name.as_str(), InputV1::from(input))).collect(),
            action: ActionV1::from(&step.action),
        }
    }
}

impl TryFrom<RegistryStepV1<'_>> for RegistryStep {
    type Error = Malformed;

    fn try_from(form: RegistryStepV1<'_>) -> Result<Self, Malformed> {
        let input = |(name, input)| Ok((VariableName::parse(name)?, Input::try_from(input)?));
        Ok(Self {
            name: Identifier::parse(form.name)?,
            version: Identifier::parse(form.version)?,
            description: Description::parse(form.description)?,
            inputs: form.inputs.into_iter().map(input).collect::<Result<_, Malformed>>()?,
            action: form.action.try_into()?,
        })
    }
}

impl<'a> From<&'a Input> for InputV1<'a> {
    fn from(input: &'a Input) -> Self {
        Self {
            kind: input.kind.into(),
            required: input.required,
            default: input.default.as_ref().map(InputValueV1::from),
        }
    }
}

impl TryFrom<InputV1<'_>> for Input {
    type Error = Malformed;

    fn try_from(form: InputV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            kind: form.kind.into(),
            required: form.required,
            default: form.default.map(InputValue::try_from).transpose()?,
        })
    }
}

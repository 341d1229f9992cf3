//! A step of a registry, in a request or in a file of the registry's repository.

use super::element::Object;
use super::form;
use super::pipeline::{Command, HttpForm, action};
use super::reader::Reader;
use super::types::Map;
use domain::{Description, INPUTS_MAX, Identifier, Input, InputKind, InputValue, RegistryStep, VariableName};

form! {
    /// A step that pipelines can use.
    pub struct RegistryStepForm as "RegistryStepRequest" {
        /// With its version unique in the registry.
        #[schema("examples": ["build"])]
        required name: Identifier,
        /// Any name that tells it from the others.
        #[schema("examples": ["1.2.0"])]
        required version: Identifier,
        /// For people.
        nullable description: Description,
        /// The step finds them in variables of their names, over those of its pipeline.
        #[schema("examples": [{ "WHOM": { "type": "string", "default": "world" } }])]
        optional inputs: Map<VariableName, InputForm, INPUTS_MAX>,
        /// A program and its arguments; no shell, unless it is one. An argument has at most 32768 bytes.
        optional run: Command,
        /// A request to make.
        optional http: HttpForm,
    }
    one_of [run] [http];
}

form! {
    /// An input of a step.
    pub struct InputForm as "StepInputRequest" {
        /// What its values are.
        required r#type: InputKind,
        /// Whether a pipeline has to give it.
        optional(false) required: bool,
        /// Of its type. Not for one that is required.
        #[schema("examples": ["world"])]
        nullable default: InputValue,
    }
    check check_input;
}

fn check_input(object: &Object<'_>, form: Option<&InputForm>, reader: &mut Reader) {
    let Some(InputForm { r#type: kind, required, default: Some(default) }) = form else { return };
    if *kind != default.kind() {
        let message = format!("must be a {}, got a {}", kind.as_str(), default.kind().as_str());
        reader.field_fault(object, "default", message);
    }
    if *required {
        reader.field_fault(object, "default", "is never used for an input that is required; leave one of them out");
    }
}

impl RegistryStepForm {
    /// `None` for one that does nothing, which is refused.
    pub fn step(&self) -> Option<RegistryStep> {
        let inputs = self.inputs.iter().flat_map(|inputs| &inputs.0);
        let input =
            |input: &InputForm| Input { kind: input.r#type, required: input.required, default: input.default.clone() };
        Some(RegistryStep {
            name: self.name.clone(),
            version: self.version.clone(),
            description: self.description.clone().unwrap_or_default(),
            inputs: inputs.map(|(name, form)| (name.clone(), input(form))).collect(),
            action: action(self.run.as_ref(), self.http.as_ref())?,
        })
    }
}

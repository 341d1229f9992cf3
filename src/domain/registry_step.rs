//! Steps from a registry: their inputs, and how a deployment resolves them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::pipeline::BLUEPRINT_BYTES_MAX;
use super::{
    Action, Blueprint, Description, Identifier, InputKind, InputValue, Step, StepReference, StepSource, Use,
    VariableName, VariableValue,
};

/// The maximum number of inputs per step; more than an understandable step has.
pub const INPUTS_MAX: usize = 64;

/// A step of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryStep {
    pub name: Identifier,
    pub version: Identifier,
    pub description: Description,
    pub inputs: BTreeMap<VariableName, Input>,
    /// Never `Uses`.
    pub action: Action,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    pub kind: InputKind,
    pub required: bool,
    /// A value of the input's kind. Without a default, a missing input sets no variable.
    pub default: Option<InputValue>,
}

/// The step that a reference resolves to.
#[derive(Debug, Clone)]
pub struct ResolvedStep {
    pub step: Arc<RegistryStep>,
    pub commit: Option<Arc<str>>,
}

/// Finds the step of a reference, or returns why it cannot be used, as the end of a sentence that begins with the
/// reference.
pub type Lookup<'a> = dyn Fn(&StepReference) -> Result<ResolvedStep, String> + 'a;

/// A reference that cannot be resolved, or an invalid input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UseError {
    /// Indexes of the stage and the step.
    pub stage: usize,
    pub step: usize,
    /// `uses`, or `with.NAME`.
    pub field: String,
    /// As the end of a sentence that begins with the field.
    pub message: String,
}

impl Use {
    /// The faults of the inputs, as `with.NAME` and the end of a sentence.
    pub fn faults(&self, step: &RegistryStep) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        for (name, value) in &self.with {
            let message = match step.inputs.get(name) {
                None => format!("is not an input of {}", self.reference),
                Some(input) if input.kind != value.kind() => {
                    format!("must be a {}, got a {}", input.kind, value.kind())
                }
                Some(_) => continue,
            };
            faults.push((format!("with.{name}"), message));
        }
        let missing = step.inputs.iter().filter(|(name, input)| input.required && !self.with.contains_key(*name));
        faults.extend(missing.map(|(name, _)| (format!("with.{name}"), format!("is required by {}", self.reference))));
        faults
    }

    /// The step's variables.
    fn variables(&self, step: &RegistryStep) -> BTreeMap<VariableName, VariableValue> {
        let given = |name: &VariableName, input: &Input| {
            let value = self.with.get(name).or(input.default.as_ref())?;
            Some((name.clone(), value.text().clone()))
        };
        step.inputs.iter().filter_map(|(name, input)| given(name, input)).collect()
    }
}

impl RegistryStep {
    /// The length of all texts together.
    pub fn bytes(&self) -> usize {
        let value = |value: &InputValue| value.text().as_str().len();
        let inputs =
            self.inputs.iter().map(|(name, input)| name.as_str().len() + input.default.as_ref().map_or(0, value));
        let names = self.name.as_str().len() + self.version.as_str().len() + self.description.as_str().len();
        names + inputs.sum::<usize>() + self.action.bytes()
    }
}

impl Blueprint {
    /// Resolves the steps of registries, as a deployment stores them. Returns all faults otherwise.
    pub fn resolved(&self, lookup: &Lookup<'_>) -> Result<Blueprint, Vec<UseError>> {
        let mut faults = Vec::new();
        let mut resolved = self.clone();
        for (stage_place, stage) in resolved.stages.iter_mut().enumerate() {
            for (step_place, step) in stage.steps.iter_mut().enumerate() {
                let Err(found) = resolve(step, lookup) else { continue };
                let fault = |(field, message)| UseError { stage: stage_place, step: step_place, field, message };
                faults.extend(found.into_iter().map(fault));
            }
        }
        if faults.is_empty() && resolved.bytes() > BLUEPRINT_BYTES_MAX {
            let message = format!(
                "makes the pipeline larger than {BLUEPRINT_BYTES_MAX} bytes, with the steps that it uses filled in"
            );
            faults.push(UseError { stage: 0, step: 0, field: "uses".to_owned(), message });
        }
        if faults.is_empty() { Ok(resolved) } else { Err(faults) }
    }

    /// The error of a deployment that cannot start because of these faults.
    pub fn why_unresolved(&self, faults: &[UseError]) -> Arc<str> {
        let Some(fault) = faults.first() else {
            return Arc::from("a step from a registry cannot be resolved; deploy again");
        };
        let stage = self.stages.get(fault.stage);
        let step = stage.and_then(|stage| stage.steps.get(fault.step));
        let name = |name: Option<&Identifier>| name.map_or("", Identifier::as_str).to_owned();
        let more = match faults.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        let (stage, step) = (name(stage.map(|stage| &stage.name)), name(step.map(|step| &step.name)));
        Arc::from(format!("stage `{stage}`: step `{step}`: {} {}{more}", fault.field, fault.message))
    }
}

fn resolve(step: &mut Step, lookup: &Lookup<'_>) -> Result<(), Vec<(String, String)>> {
    let Action::Uses(used) = &step.action else { return Ok(()) };
    let no = |why: String| vec![("uses".to_owned(), format!("names {}, {why}", used.reference))];
    let ResolvedStep { step: found, commit } = lookup(&used.reference).map_err(no)?;
    let faults = used.faults(&found);
    if !faults.is_empty() {
        return Err(faults);
    }
    let inputs = used.variables(&found);
    let source = StepSource { reference: used.reference.clone(), commit };
    let action = match &found.action {
        action @ (Action::Run(_) | Action::Http(_)) => action.clone(),
        Action::Uses(_) => return Err(no("which uses another step itself".to_owned())),
    };
    *step = Step { name: step.name.clone(), action, inputs, source: Some(Arc::new(source)) };
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::samples::identifier;
    use crate::{ApprovalRule, Stage};
    use testkit::patterns::assert_pattern_fits;

    fn variable(text: &str) -> VariableName {
        VariableName::parse(text).unwrap()
    }

    fn string(text: &str) -> InputValue {
        InputValue::string(VariableValue::parse(text).unwrap())
    }

    fn input(kind: InputKind, required: bool, default: Option<InputValue>) -> Input {
        Input { kind, required, default }
    }

    /// `tools/build@1`, with a required string, a number with a default, and a boolean with none.
    fn build() -> RegistryStep {
        RegistryStep {
            name: identifier("build"),
            version: identifier("1"),
            description: Description::parse("").unwrap(),
            inputs: [
                (variable("TARGET"), input(InputKind::String, true, None)),
                (variable("JOBS"), input(InputKind::Number, false, Some(InputValue::number("4").unwrap()))),
                (variable("QUICK"), input(InputKind::Boolean, false, None)),
            ]
            .into(),
            action: Action::Run(vec![Arc::from("make")]),
        }
    }

    fn lookup(reference: &StepReference) -> Result<ResolvedStep, String> {
        let step = build();
        let known =
            (reference.registry.as_str(), &reference.step, &reference.version) == ("tools", &step.name, &step.version);
        known
            .then(|| ResolvedStep { step: Arc::new(step), commit: Some(Arc::from("c0ffee")) })
            .ok_or_else(|| "which does not exist".to_owned())
    }

    fn blueprint(uses: &str, with: &[(&str, InputValue)]) -> Blueprint {
        let with = with.iter().map(|(name, value)| (variable(name), value.clone())).collect();
        let used = Use { reference: StepReference::parse(uses).unwrap(), with };
        let own = Step::own(identifier("own"), Action::Run(vec![Arc::from("true")]));
        let stage = Stage {
            name: identifier("stage"),
            approval: ApprovalRule::Never,
            timeout_seconds: 60,
            idempotent: false,
            steps: vec![own, Step::own(identifier("used"), Action::Uses(Box::new(used)))],
        };
        Blueprint { stages: vec![stage], ..Blueprint::default() }
    }

    fn faults(blueprint: &Blueprint) -> Vec<(String, String)> {
        let faults = blueprint.resolved(&lookup).unwrap_err();
        assert!(faults.iter().all(|fault| (fault.stage, fault.step) == (0, 1)));
        faults.into_iter().map(|fault| (fault.field, fault.message)).collect()
    }

    #[test]
    fn a_reference_has_three_parts() {
        let good = ["tools/build@1", "a/b@1.2.3-rc.1", "A.b/c_d@main"];
        for text in good {
            assert_eq!(StepReference::parse(text).unwrap().to_string(), text);
        }
        let bad = ["", "build", "build@1", "tools/build", "tools/build@", "/build@1", "a/b/c@1", "a/b@1@2", "a/b@ 1"];
        let parses = |text: &str| StepReference::parse(text).is_ok();
        assert_pattern_fits(&StepReference::pattern(), parses, &good, &bad);
    }

    #[test]
    fn what_a_step_is_given_wins_over_its_defaults_and_becomes_its_variables() {
        let with = [("TARGET", string("${HOME}")), ("QUICK", InputValue::boolean(true))];
        let resolved = blueprint("tools/build@1", &with).resolved(&lookup).unwrap();
        let [own, used] = &resolved.stages[0].steps[..] else { panic!("two steps") };
        assert!(own.source.is_none() && own.inputs.is_empty());
        assert_eq!(used.action, Action::Run(vec![Arc::from("make")]));
        let inputs: Vec<_> = used.inputs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(inputs, [("JOBS", "4"), ("QUICK", "true"), ("TARGET", "${HOME}")]);
        let source = used.source.as_ref().unwrap();
        assert_eq!(
            (source.reference.to_string(), source.commit.as_deref()),
            ("tools/build@1".to_owned(), Some("c0ffee"))
        );
        assert_eq!(resolved.uses().count(), 0);
        let without = blueprint("tools/build@1", &[("TARGET", string("x"))]).resolved(&lookup).unwrap();
        assert!(!without.stages[0].steps[1].inputs.contains_key("QUICK"), "neither given nor a default");
    }

    #[test]
    fn all_that_is_wrong_with_a_use_is_said_at_once() {
        let with = [("JOBS", string("4")), ("COLOUR", string("red"))];
        let told = faults(&blueprint("tools/build@1", &with));
        let expected = [
            ("with.COLOUR", "is not an input of tools/build@1"),
            ("with.JOBS", "must be a number, got a string"),
            ("with.TARGET", "is required by tools/build@1"),
        ];
        assert_eq!(told, expected.map(|(field, message)| (field.to_owned(), message.to_owned())));
        for unknown in ["tools/build@2", "tools/test@1", "other/build@1"] {
            let told = faults(&blueprint(unknown, &[("TARGET", string("x"))]));
            assert_eq!(told, [("uses".to_owned(), format!("names {unknown}, which does not exist"))]);
        }
    }

    #[test]
    fn a_pipeline_is_no_larger_with_its_steps_filled_in() {
        let large = |reference: &StepReference| {
            let mut found = lookup(reference)?;
            let step =
                RegistryStep { action: Action::Run(vec![Arc::from("x".repeat(BLUEPRINT_BYTES_MAX))]), ..build() };
            found.step = Arc::new(step);
            Ok(found)
        };
        let told = blueprint("tools/build@1", &[("TARGET", string("x"))]).resolved(&large).unwrap_err();
        assert!(told[0].message.contains("larger than"), "{told:?}");
    }

    #[test]
    fn numbers_are_what_json_writes() {
        for good in ["0", "-1.5", "1e10", "18446744073709551615"] {
            assert_eq!(InputValue::number(good).unwrap().text().as_str(), good);
        }
        for bad in ["", "inf", "nan", "1e999", "0x10", "one", " 1"] {
            assert!(InputValue::number(bad).is_err(), "{bad}");
        }
    }
}

//! A step of a registry as a file of its repository has it: the keys of the API but for the underscores.

use std::path::Path;

use crate::domain::{Description, INPUTS_MAX, Identifier, Input, InputKind, RegistryStep, VariableName};

use super::blueprint::read_action;
use super::document::{Document, Section};
use super::fault::Fault;

const KEYS: [&str; 6] = ["name", "version", "description", "inputs", "run", "http"];
const INPUT_KEYS: [&str; 3] = ["type", "required", "default"];

/// The step, or all that is wrong with it, each with its line.
pub fn read_step(text: &str) -> Result<RegistryStep, Vec<String>> {
    let document = Document::new(Path::new(""), text.to_owned());
    let mut faults = Vec::new();
    let step = match document.parse() {
        Ok(table) => read(Section::root(&document, &table), &mut faults),
        Err(syntax) => {
            faults = syntax;
            None
        }
    };
    match step {
        Some(step) if faults.is_empty() => Ok(step),
        Some(_) | None => {
            faults.sort_by_key(|fault| fault.place.line());
            Err(faults.iter().map(Fault::within_file).collect())
        }
    }
}

fn read(root: Section<'_>, faults: &mut Vec<Fault>) -> Option<RegistryStep> {
    root.refuse_keys_other_than(&KEYS, faults);
    let name = root.required("name", Identifier::parse, faults);
    let version = root.required("version", Identifier::parse, faults);
    let description = root.optional("description", Description::parse, faults);
    let sections = root.named_sections("inputs", "inputs", INPUTS_MAX, faults);
    let inputs = sections.into_iter().filter_map(|(name, input)| read_input(name, input, faults)).collect();
    if root.has("run") == root.has("http") {
        let message = if root.has("run") {
            "a step has either run or http, not both; make two steps of it"
        } else {
            "a step needs run = [\"program\", \"argument\"] or http = { url = \"…\" }"
        };
        faults.push(Fault::new(root.place(), message.to_owned()));
    }
    let action = read_action(root, "http", faults);
    let description = description.or_else(|| Description::parse("").ok());
    Some(RegistryStep { name: name?, version: version?, description: description?, inputs, action: action? })
}

fn read_input(
    name: Option<VariableName>,
    input: Section<'_>,
    faults: &mut Vec<Fault>,
) -> Option<(VariableName, Input)> {
    input.refuse_keys_other_than(&INPUT_KEYS, faults);
    let kind = input.required("type", InputKind::parse, faults);
    let required = input.boolean("required", faults).unwrap_or(false);
    let default = input.input("default", faults);
    if let (Some(kind), Some(default)) = (kind, &default)
        && kind != default.kind()
    {
        let message = format!("inputs.default must be a {}, not a {}", kind.as_str(), default.kind().as_str());
        faults.push(Fault::new(input.place_of("default"), message));
    }
    if required && default.is_some() {
        let message = "inputs.default is never used where the input is required; leave one of them out".to_owned();
        faults.push(Fault::new(input.place_of("default"), message));
    }
    Some((name?, Input { kind: kind?, required, default }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::domain::Action;

    #[test]
    fn a_file_is_a_step_with_its_inputs() {
        let step = read_step(
            r#"
            name = "build"
            version = "1.2.0"
            description = "Builds it"
            run = ["make", "all"]
            [inputs]
            TARGET = { type = "string", required = true }
            JOBS = { type = "number", default = 4 }
            RATIO = { type = "number", default = 0.5 }
            [inputs.QUICK]
            type = "boolean"
            default = false
            "#,
        )
        .unwrap();
        assert_eq!(
            (step.name.as_str(), step.version.as_str(), step.description.as_str()),
            ("build", "1.2.0", "Builds it")
        );
        assert!(matches!(&step.action, Action::Run(arguments) if arguments.len() == 2));
        let inputs: Vec<_> = step
            .inputs
            .iter()
            .map(|(name, input)| {
                (name.as_str(), input.kind, input.required, input.default.as_ref().map(|d| d.text().as_str()))
            })
            .collect();
        let expected = [
            ("JOBS", InputKind::Number, false, Some("4")),
            ("QUICK", InputKind::Boolean, false, Some("false")),
            ("RATIO", InputKind::Number, false, Some("0.5")),
            ("TARGET", InputKind::String, true, None),
        ];
        assert_eq!(inputs, expected);
    }

    #[test]
    fn a_request_is_a_step_too() {
        let step =
            read_step("name = \"call\"\nversion = \"1\"\nhttp = { url = \"https://x.example\", expect_status = 204 }");
        assert!(matches!(step.unwrap().action, Action::Http(call) if call.expect_status == [204]));
    }

    #[test]
    fn all_that_is_wrong_is_said_with_its_line() {
        let faults = read_step(
            "name = \"a b\"\nrun = []\nhttp = { url = \"ftp://x\" }\ncolour = 1\n[inputs]\n1A = { type = \"text\" }\n\
             B = { type = \"number\", default = \"4\" }\nC = { type = \"string\", required = true, default = \"x\" }\nD = 7\n",
        )
        .unwrap_err();
        let said = faults.join("\n");
        for part in [
            "version is missing",
            "line 1: name must be 1 to 63",
            "line 2: run must be",
            "line 3: http.url must be",
            "line 4: unknown key `colour`",
            "line 6: inputs.1A: the name must be",
            "line 6: inputs.type must be one of string, number, boolean",
            "line 7: inputs.default must be a number, not a string",
            "line 8: inputs.default is never used",
            "line 9: inputs.D must be a table",
            "either run or http",
        ] {
            assert!(said.contains(part), "{part} is not in:\n{said}");
        }
        assert!(read_step("name = ").unwrap_err()[0].starts_with("line 1: not TOML"));
    }
}

//! A step of a registry as a file of its repository: the fields of the API in snake_case.

use std::path::Path;

use super::document::{Document, element};
use super::fault::Fault;
use crate::forms::{Form, Reader, RegistryStepForm, Spelling};
use domain::RegistryStep;

/// The step, or all its faults, each with its line.
pub fn read_step(text: &str) -> Result<RegistryStep, Vec<String>> {
    let document = Document::new(Path::new(""), text.to_owned());
    let told = |faults: Vec<Fault>| faults.iter().map(Fault::within_file).collect::<Vec<_>>();
    let table = document.parse().map_err(told)?;
    let mut reader = Reader::new(Spelling::Snake);
    let step = RegistryStepForm::read(&element(&table), &mut reader).and_then(|form| form.step());
    match step {
        Some(step) if !reader.has_faults() => Ok(step),
        Some(_) | None => Err(told(document.faults(reader))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::{Action, InputKind};

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
            "version is required",
            "line 1: name must be 1 to 63",
            "line 2: run must have",
            "line 3: http.url must be",
            "line 4: colour is not a known key",
            "line 6: inputs.1A is not a valid name: must be",
            "line 6: inputs.1A.type must be one of string, number, boolean",
            "line 7: inputs.B.default must be a number, got a string",
            "line 8: inputs.C.default is never used",
            "line 9: inputs.D must be a table",
            "run must not be combined with `http`",
        ] {
            assert!(said.contains(part), "{part} is not in:\n{said}");
        }
        assert!(read_step("name = ").unwrap_err()[0].starts_with("line 1: not TOML"));
    }
}

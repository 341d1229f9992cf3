//! For any file content, the operator gets its faults, each with an existing line of the file.

use std::path::Path;

use super::organizations::sample_with_its_examples;
use crate::config::document::Document;
use crate::config::fault::Fault;
use crate::config::layers::{Flags, Purpose, Variables};
use crate::config::{DEFAULT_TOML, SAMPLE_TOML, organization, read_step, settings};
use testkit::fuzz::fuzz;

/// TOML syntax, and values at the limits of what it accepts.
const WORDS: &[&str] = &[
    "[[",
    "]]",
    "[organization]\n",
    "[[members]]\n",
    "[[pipelines]]\n",
    "[[pipelines.stages]]\n",
    "\"\"\"",
    "'''",
    " = ",
    "{",
    "}",
    "\\u0000",
    "\\ud800",
    "1979-05-27T07:32:00Z",
    "nan",
    "-inf",
    "0xffffffffffffffff",
    "99999999999999999999",
    "1e400",
    "\r\n",
    "\u{feff}",
    "a.b.c",
    "\"\" = 1\n",
    "#",
    "id = ",
    "steps = ",
    "run = [",
    "uses = ",
    "with = { A = 1 }\n",
    "labels = { size = \"l\" }\n",
];
const STEP: &str =
    "name = \"build\"\nversion = \"1.2.0\"\nrun = [\"make\"]\n[inputs]\nJOBS = { type = \"number\", default = 4 }\n";

fn document(text: &[u8]) -> Document {
    Document::new(Path::new("fuzzed.toml"), String::from_utf8_lossy(text).into_owned())
}

/// The messages, without text quoted from the file.
fn check(text: &[u8], faults: &[Fault]) -> Vec<String> {
    let lines = 1 + text.iter().filter(|byte| **byte == b'\n').count();
    let mut kinds: Vec<String> = Vec::new();
    for fault in faults {
        let line = fault.location.line();
        assert!(line.is_none_or(|line| (1..=lines).contains(&line)), "{fault} in a file of {lines} lines");
        let told = fault.to_string();
        assert!(!told.contains(['\n', '\r', '\u{1b}']), "not one line: {told:?}");
        kinds.push(told.split(['`', ';', ',']).next().unwrap_or_default().replace(|c: char| c.is_ascii_digit(), ""));
    }
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[test]
fn fuzzed_organization_files_are_taken_or_their_faults_are_told() {
    let samples = [SAMPLE_TOML.to_owned(), sample_with_its_examples().join("\n")];
    fuzz(samples, WORDS, |text| {
        let mut faults = Vec::new();
        let read = organization::read(&document(text), &mut faults);
        assert_eq!(read.is_none(), !faults.is_empty(), "{faults:?}");
        check(text, &faults)
    });
}

#[test]
fn fuzzed_settings_are_taken_or_their_faults_are_told() {
    fuzz([DEFAULT_TOML], WORDS, |text| {
        let (flags, variables) = (Flags::default(), Variables::new());
        let (_, _, findings) = settings::read(Purpose::Command, Some(&document(text)), &variables, &flags);
        check(text, &findings.faults)
    });
}

#[test]
fn fuzzed_steps_are_taken_or_their_faults_are_told() {
    fuzz([STEP], WORDS, |text| match read_step(&String::from_utf8_lossy(text)) {
        Ok(step) => vec![step.inputs.len().to_string()],
        Err(faults) => {
            assert!(!faults.is_empty());
            let kind = |fault: &String| fault.split(['`', ';']).next().unwrap_or_default().to_owned();
            faults.iter().map(kind).collect()
        }
    });
}

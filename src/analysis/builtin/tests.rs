//! The catalogue against itself; its results on whole logs are in `tests/deployments/analysis_catalogue.rs`.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::{CaseLine, CaseStage, CaseStep, Category};
use domain::{DeploymentId, IdSeed, Identifier, StageStatus, StepStatus};

fn case_of(lines: &[&str]) -> Case {
    let name = |text: &str| Identifier::parse(text).unwrap();
    let line = |(index, text): (usize, &&str)| CaseLine {
        stage: name("deploy"),
        step: name("run"),
        number: u32::try_from(index + 1).unwrap(),
        text: (*text).to_owned(),
    };
    Case {
        deployment: DeploymentId(IdSeed([1; 12])),
        organization: name("acme"),
        pipeline: name("web"),
        environment: name("review-1"),
        commit: domain::CommitId::parse("c0ffee1").unwrap(),
        error: Some("stage `deploy`: step `run` exited with code 1".into()),
        stages: vec![CaseStage {
            name: name("deploy"),
            status: StageStatus::Failed,
            attempt: 1,
            timeout_seconds: Some(60),
            steps: vec![CaseStep {
                name: name("run"),
                status: StepStatus::Failed,
                exit_code: Some(1),
                action: "sh -c ./deploy".to_owned(),
            }],
        }],
        lines: lines.iter().enumerate().map(line).collect(),
        last_success: None,
    }
}

#[test]
fn every_signature_is_found_in_its_examples() {
    let mut faults = Vec::new();
    for signature in signatures::all() {
        for line in &signature.like {
            let found = Builtin.find(&case_of(&[line]));
            let known = scan::hit_of(line).is_some();
            if !known || (found.category != signature.category && found.category != Category::Unknown) {
                faults.push(format!("{:?} got {:?}: {line}", signature.category, found.category));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_signature_of_a_tool_counts_in_its_lines_only() {
    let of = |lines: &[&str]| Builtin.find(&case_of(lines)).category;
    assert_eq!(of(&["+ npm publish", "npm error code E401"]), Category::Authentication);
    assert_eq!(of(&["+ flake8 app", "app/cart.py:1:10: E401 multiple imports on one line"]), Category::Lint);
    let unknown = Builtin.find(&case_of(&["code E401"]));
    let known = Builtin.find(&case_of(&["+ npm publish", "code E401"]));
    assert!(unknown.category == known.category && unknown.confidence < known.confidence);
}

#[test]
fn a_cause_in_a_very_long_line_is_found_and_shown() {
    let filler = "{\"module\":\"a\",\"size\":412},".repeat(80_000);
    let line = format!("[{filler}\"FATAL ERROR: Reached heap limit - JavaScript heap out of memory\",{filler}]");
    assert!(line.len() > 4_000_000);
    let found = Builtin.find(&case_of(&["bundling", &line, "failed"]));
    assert_eq!((found.category, found.evidence[0].line), (Category::OutOfMemory, 2));
    assert!(found.evidence[0].text.contains("heap out of memory"), "{}", found.evidence[0].text);
}

#[test]
fn evidence_has_no_escapes_and_the_number_of_its_line() {
    let found =
        Builtin.find(&case_of(&["a", "\u{1b}[32m 10%\r\u{1b}[31mwrite: No space left on device\u{1b}[0m\r done", "b"]));
    assert_eq!((found.category, found.evidence[0].line), (Category::DiskFull, 2));
    assert_eq!(found.evidence[0].text, "write: No space left on device");
}

#[test]
fn a_wrapped_message_is_read_as_one() {
    let wrapped =
        ["ERROR: Could not install packages due to an OSError: [Errno 28] No space left on", "device: '/srv/cache/x'"];
    let found = Builtin.find(&case_of(&wrapped));
    assert_eq!(found.category, Category::DiskFull, "{found:?}");
    assert_eq!(found.evidence.iter().map(|line| line.line).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn the_cause_comes_before_its_consequences_which_are_alternatives() {
    let found = Builtin.find(&case_of(&[
        "$ npm install || true",
        "npm error code ERESOLVE",
        "npm error ERESOLVE unable to resolve dependency tree",
        "$ npm run lint",
        "sh: 1: eslint: not found",
    ]));
    assert_eq!(found.category, Category::DependencyResolution, "{found:?}");
    let other = &found.alternatives[0];
    assert_eq!((other.category, other.evidence[0].line), (Category::MissingCommand, 5));
    assert!(other.confidence < found.confidence);
}

#[test]
fn an_unsure_answer_names_the_two_best_causes() {
    let found = Builtin.find(&case_of(&["sync: connection lost", "sync: ledger review-7 not found"]));
    assert!(found.confidence < 0.5 && found.summary.contains("; or else "), "{found:?}");
    assert_eq!(found.alternatives.len(), 1);
}

#[test]
fn what_several_successes_survived_weighs_less_and_what_repeats_does_not() {
    let lines = |texts: &[&str]| case_of(texts).lines;
    let mut case = case_of(&["cache: permission denied", "upload: No space left on device", "a", "b", "c", "d", "e"]);
    case.last_success = Some(crate::Success {
        deployment: DeploymentId(IdSeed([3; 12])),
        commit: domain::CommitId::parse("decade2").unwrap(),
        lines: lines(&["upload: No space left on device", "done"]),
        earlier: vec![lines(&["upload: No space left on device"]), lines(&["upload: No space left on device"])],
        actions_differ: Vec::new(),
    });
    assert_eq!(Builtin.find(&case).category, Category::PermissionDenied);
    let full = case.lines[1].clone();
    case.lines.splice(1..1, std::iter::repeat_n(full, 12));
    assert_eq!(Builtin.find(&case).category, Category::DiskFull);
}

#[test]
fn nobody_is_told_to_edit_what_is_not_theirs() {
    let advice = |line: &str| Builtin.find(&case_of(&[line])).fix.unwrap().summary;
    let outside = advice("/usr/include/fmt/core.h:44:10: error: expected a declaration");
    assert!(outside.contains("do not edit it"), "{outside}");
    assert!(!advice("src/parser.cpp:44:10: error: expected a declaration").contains("do not edit it"));
}

#[test]
fn a_classifier_is_asked_only_where_no_signature_fires() {
    let guess: Classifier = |block, _, _| {
        assert!(block.contains("ledger"));
        vec![(Category::MigrationFailed, 0.6), (Category::Timeout, 0.3)]
    };
    let find = |lines: &[&str]| {
        let case = case_of(lines);
        let view = CaseView::of(&case);
        let mut scan = Scan::new(Parts::ALL, view.action());
        scan.add(view.lines);
        report::finding(&view, &scan, &Baseline::default(), Parts::ALL, guess)
    };
    let guessed = find(&["ledger 4 differs"]);
    assert_eq!((guessed.category, guessed.confidence), (Category::MigrationFailed, 0.48));
    assert_eq!(guessed.alternatives[0].category, Category::Timeout);
    assert_eq!(find(&["ledger", "sh: 1: jq: not found"]).category, Category::MissingCommand);
}

//! The catalogue against itself; what it makes of whole logs is in `tests/deployments/analysis_catalogue.rs`.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::analysis::{CaseLine, CaseStage, CaseStep, Category};
use crate::domain::{DeploymentId, IdSeed, Identifier, StageStatus, StepStatus};

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
        commit: crate::domain::CommitId::parse("c0ffee1").unwrap(),
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
fn every_signature_matches_its_examples() {
    let mut faults = Vec::new();
    for signature in catalogue::all() {
        for line in signature.like {
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
fn no_signature_needs_more_than_its_hints() {
    for signature in catalogue::all() {
        assert!(!signature.hints.is_empty() && signature.weight <= 100);
        assert!(signature.hints.iter().all(|hint| hint.to_ascii_lowercase() == **hint && hint.len() >= 2));
        for line in signature.like {
            let lower = line.to_ascii_lowercase();
            assert!(signature.hints.iter().any(|hint| lower.contains(hint)), "{line}");
        }
    }
}

#[test]
fn every_name_in_a_sentence_is_a_capture_of_its_pattern() {
    for signature in catalogue::all() {
        let pattern = regex::bytes::RegexBuilder::new(signature.pattern).unicode(false).build().unwrap();
        for sentence in [signature.cause, signature.fix] {
            let names = sentence.split('{').skip(1).filter_map(|rest| rest.split(['}', '|']).next());
            for name in names.flat_map(|names| names.split('/')) {
                assert!(pattern.capture_names().flatten().any(|known| known == name), "{name}: {sentence}");
            }
        }
    }
}

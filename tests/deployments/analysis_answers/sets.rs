//! Reads the labelled logs and the answers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use analysis::{Case, CaseLine, CaseStage, CaseStep, Category, Evidence};
use domain::{CommitId, DeploymentId, IdSeed, Identifier, StageStatus, StepStatus};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::recorded::Response;

pub const SETS: [&str; 2] = ["runs", "reports"];
/// The step that wrote the log.
pub const STEP: &str = "run";
const STAGE: &str = "deploy";

/// A labelled log.
pub struct Sample {
    /// `SET/NAME`
    pub name: String,
    pub right: Vec<Category>,
    pub decisive: String,
    pub case: Case,
}

#[derive(Deserialize)]
struct Labels {
    log: Vec<Label>,
}

#[derive(Deserialize)]
struct Label {
    name: String,
    category: String,
    also: Option<String>,
    decisive: String,
    exit: Option<i32>,
}

#[derive(Deserialize)]
struct Answers {
    answer: Vec<Answer>,
}

/// An entry of `answers.toml`, whose fields the README of the sets describes.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    log: String,
    #[serde(rename = "kind")]
    _kind: String,
    status: Option<u16>,
    content: Option<String>,
    body: Option<String>,
    #[serde(default)]
    padding: usize,
    #[serde(default)]
    missing: usize,
    #[serde(default)]
    pub never: bool,
    pub refused: Option<String>,
}

impl Answer {
    pub fn response(&self) -> Response {
        let said = |content: &String| {
            let message = json!({ "role": "assistant", "content": content });
            json!({ "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] }).to_string()
        };
        let body = self.body.clone().or(self.content.as_ref().map(said)).unwrap_or_default();
        let mut response = Response::json(self.status.unwrap_or(200), &Value::Null);
        response.body = body + &" ".repeat(self.padding);
        response.missing_bytes = self.missing;
        response
    }

    /// The object in a usable answer.
    pub fn said(&self) -> Value {
        let content = self.content.clone().unwrap_or_else(|| {
            let body: Value = serde_json::from_str(self.body.as_ref().unwrap()).unwrap();
            body["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
        });
        serde_json::from_str(&content).unwrap()
    }
}

/// By name.
pub fn answers(samples: &BTreeMap<String, Sample>) -> BTreeMap<String, Answer> {
    let Answers { answer } = toml::from_str(&read(&folder().join("answers.toml"))).unwrap();
    let count = answer.len();
    let answers: BTreeMap<String, Answer> = answer.into_iter().map(|answer| (answer.log.clone(), answer)).collect();
    assert_eq!(answers.len(), count, "a log has two answers");
    answers.keys().for_each(|name| assert!(samples.contains_key(name), "there is no log {name}"));
    answers
}

/// By name.
pub fn samples() -> BTreeMap<String, Sample> {
    let of_set = |set: &'static str| {
        let Labels { log } = toml::from_str(&read(&folder().join(set).join("labels.toml"))).unwrap();
        log.into_iter().map(move |label| sample(set, label)).map(|sample| (sample.name.clone(), sample))
    };
    SETS.into_iter().flat_map(of_set).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/analysis_sets")
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn sample(set: &str, label: Label) -> Sample {
    let name = format!("{set}/{}", label.name);
    let log = std::fs::read(folder().join(format!("{name}.log"))).unwrap_or_else(|error| panic!("{name}: {error}"));
    let category = |text: &str| Category::parse(text).unwrap_or_else(|_| panic!("{name}: no category {text}"));
    let right = [Some(&label.category), label.also.as_ref()].into_iter().flatten().map(|text| category(text)).collect();
    let case = case(&String::from_utf8_lossy(&log), label.exit);
    Sample { name, right, decisive: label.decisive, case }
}

/// A deployment whose only step wrote this log and ended with this code.
fn case(log: &str, exit_code: Option<i32>) -> Case {
    let step = CaseStep { name: identifier(STEP), status: StepStatus::Failed, exit_code, action: String::new() };
    let stage = CaseStage {
        name: identifier(STAGE),
        status: StageStatus::Failed,
        attempt: 1,
        timeout_seconds: None,
        steps: vec![step],
    };
    Case {
        deployment: DeploymentId(IdSeed([2; 12])),
        organization: identifier("acme"),
        pipeline: identifier("shop"),
        environment: identifier("review-7"),
        commit: CommitId::parse("c0ffee1").unwrap(),
        error: exit_code.map(|code| format!("stage `{STAGE}`: step `{STEP}` exited with code {code}").into()),
        stages: vec![stage],
        lines: log.split_terminator('\n').zip(1..).map(|(text, number)| line(STEP, number, text)).collect(),
        last_success: None,
    }
}

pub fn line(step: &str, number: u32, text: &str) -> CaseLine {
    CaseLine { stage: identifier(STAGE), step: identifier(step), number, text: text.to_owned() }
}

pub fn identifier(text: &str) -> Identifier {
    Identifier::parse(text).unwrap()
}

pub fn is_decisive(sample: &Sample, case: &Case, evidence: &Evidence) -> bool {
    let is_meant = |line: &&CaseLine| line.number == evidence.line && line.step == evidence.step;
    let line = case.lines.iter().find(is_meant);
    evidence.step.as_str() == STEP && line.is_some_and(|line| shown(&line.text).contains(&shown(&sample.decisive)))
}

/// Without escape sequences and control characters, and with single spaces.
pub fn shown(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |end| end + 1);
        kept.push_str(&part[end..]);
    }
    let kept: String = kept.chars().filter(|c| c.is_whitespace() || !c.is_control()).collect();
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

//! The engine that asks a model, on every log of both sets of `tests/analysis_sets`, with a server on this machine that
//! replays `answers.toml`: invented answers, in the forms that models use, good and bad. For a log without an answer
//! there, one is composed from its label, if the prompt contains the decisive line.

mod planted;
mod sets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use analysis::builtin::Builtin;
use analysis::llm::{ApiKey, BESIDES_LOG_BYTES_MAX, Llm, LlmSettings};
use analysis::{Case, Category, EngineName, Evidence, Finding};
use delivery::runner::Mask;
use futures_util::StreamExt;
use serde_json::{Value, json};

use self::planted::{assert_hidden, planted_in};
use self::sets::{Answer, Sample, answers, is_decisive, samples, shown};
use crate::support::recorded::{Recorded, Request, Response};

const KEY: &str = "sk-of-the-operator-0123456789";
/// The default, for all logs; and a small limit, for logs that exceed it.
const LIMIT_KIB: usize = 64;
const SMALL_LIMIT_KIB: usize = 4;
/// Long enough for a busy machine; an answer that never comes has the smallest permitted timeout.
const PATIENT: Duration = Duration::from_secs(600);
const IMPATIENT: Duration = Duration::from_secs(1);
const AT_ONCE: usize = 16;

#[tokio::test]
async fn every_log_goes_to_the_model_within_its_size_without_secrets_and_bad_answers_fall_back() {
    let samples: Arc<BTreeMap<String, Sample>> = Arc::new(samples());
    let answers = Arc::new(answers(&samples));
    let (known, given) = (samples.clone(), answers.clone());
    let model = Recorded::start(move |request: Request| {
        let name = request.path.trim_start_matches('/').trim_end_matches("/v1/chat/completions").to_owned();
        let answer = given.get(&name).cloned();
        let response = match &answer {
            Some(answer) => answer.response(),
            None => composed(&known[&name], &request),
        };
        async move {
            if answer.is_some_and(|answer| answer.never) {
                std::future::pending::<()>().await;
            }
            response
        }
    });
    let model = model.await;
    let mask = Mask::new(planted::SECRETS).unwrap();
    let setting = Setting { address: &model.address, answers: &answers, mask };
    let all = samples.values().enumerate().map(|(turn, sample)| setting.judged(turn, sample, LIMIT_KIB));
    let found: Vec<Judged> = futures_util::stream::iter(all).buffer_unordered(AT_ONCE).collect().await;
    report(&answers, &found);
    let asked = model.asked();
    for name in samples.keys() {
        let path = format!("/{name}/v1/chat/completions");
        let (times, answer) = (asked.iter().filter(|request| request.path == path).count(), answers.get(name));
        // A refused request is sent twice.
        let expected = 1 + usize::from(answer.is_some_and(|answer| answer.refused.is_some()));
        // On a busy machine the timeout of an answer that never comes may end before its request is read.
        let never = answer.is_some_and(|answer| answer.never);
        assert!(times == expected || (never && times < expected), "{name} was asked for {times} times");
    }
    asked.iter().for_each(|request| assert_is_fit(request, LIMIT_KIB));
    let is_large =
        |sample: &&Sample| sample.case.lines.iter().map(|line| line.text.len()).sum::<usize>() > SMALL_LIMIT_KIB * 1024;
    let large: Vec<&Sample> = samples.values().filter(is_large).collect();
    assert!(!large.is_empty());
    let all = large.into_iter().enumerate().map(|(turn, sample)| setting.judged(turn, sample, SMALL_LIMIT_KIB));
    futures_util::stream::iter(all).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    model.asked()[asked.len()..].iter().for_each(|request| assert_is_fit(request, SMALL_LIMIT_KIB));
}

/// Checks that it is within its size limit, and contains no secrets.
fn assert_is_fit(request: &Request, limit_kib: usize) {
    let (most, length) = (limit_kib * 1024 + BESIDES_LOG_BYTES_MAX, request.body.len());
    assert!(length <= most, "{}: {length} bytes, at most {most} are allowed", request.path);
    let log = &prompt(request)["log"];
    let log_as_sent = Value::String(log.to_string()).to_string().len() - "\"\"".len();
    assert!(log_as_sent <= limit_kib * 1024, "{}: {log_as_sent} bytes of the log", request.path);
    assert!(!request.body.contains(KEY) && request.header("authorization") == format!("Bearer {KEY}"));
    assert_hidden(request);
}

struct Setting<'a> {
    address: &'a str,
    answers: &'a BTreeMap<String, Answer>,
    mask: Mask,
}

struct Judged {
    name: String,
    by: EngineName,
    right: bool,
    shown: bool,
}

impl Setting<'_> {
    /// Asks, and checks the finding: that of the model with the lines it named, or, if its answer is refused, that of
    /// the builtin engine.
    async fn judged(&self, turn: usize, sample: &Sample, limit_kib: usize) -> Judged {
        let (case, name) = (planted_in(&sample.case, turn), &sample.name);
        let answer = self.answers.get(name);
        let engine = || self.engine(name, answer.is_some_and(|answer| answer.never), limit_kib);
        let refused = answer.and_then(|answer| answer.refused.as_deref());
        if let Some(reason) = refused {
            let error = engine().analyse(&case).await.expect_err(name).to_string();
            assert!(error.contains(reason), "{name}: {error}, not {reason}");
            assert!(!error.contains(KEY), "{name}: {error}");
        }
        let found = engine().analyse_or_fall_back(&case).await;
        if refused.is_some() {
            assert_eq!(found, Builtin.find(&case), "{name}");
            assert_eq!(found.engine, EngineName::Builtin, "{name}");
        } else {
            assert_eq!(found.engine, EngineName::Llm, "{name}");
            assert!(!found.evidence.is_empty(), "{name}");
            answer.into_iter().for_each(|answer| assert_says(&found, &answer.said()));
        }
        found.evidence.iter().for_each(|evidence| assert_is_of_case(name, evidence, &case));
        let shown = found.evidence.iter().any(|evidence| is_decisive(sample, &case, evidence));
        Judged { name: name.clone(), by: found.engine, right: sample.right.contains(&found.category), shown }
    }

    fn engine(&self, name: &str, never_answers: bool, limit_kib: usize) -> Llm {
        let settings = LlmSettings {
            url: format!("{}/{name}/v1", self.address),
            model: "small".to_owned(),
            key: Some(ApiKey::new(KEY)),
            timeout: if never_answers { IMPATIENT } else { PATIENT },
            max_log_bytes: limit_kib * 1024,
        };
        let mask = self.mask.clone();
        Llm::new(settings, move |text| mask.apply(text)).unwrap()
    }
}

fn assert_is_of_case(name: &str, evidence: &Evidence, case: &Case) {
    let is_meant = |line: &&analysis::CaseLine| {
        line.number == evidence.line && line.stage == evidence.stage && line.step == evidence.step
    };
    let line = case.lines.iter().find(is_meant).unwrap_or_else(|| panic!("{name}: no line {evidence:?}"));
    let text = evidence.text.trim_end_matches('…');
    assert!(shown(&line.text).contains(&shown(text)), "{name}: {evidence:?} is not {line:?}");
    assert_eq!(text.trim().is_empty(), line.text.trim().is_empty(), "{name}: {evidence:?} is not {line:?}");
}

/// Checks that the finding is exactly the answer.
fn assert_says(found: &Finding, said: &Value) {
    assert_eq!(found.category.as_str(), said["category"], "{said}");
    assert_eq!(Some(found.confidence), said["confidence"].as_f64(), "{said}");
    let summary = said["summary"].as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(found.summary, summary);
    let mut named: Vec<u64> =
        said["evidence"].as_array().unwrap().iter().map(|one| one["line"].as_u64().unwrap()).collect();
    named.dedup();
    assert_eq!(found.evidence.iter().map(|one| u64::from(one.line)).collect::<Vec<_>>(), named, "{said}");
    let patch = found.fix.as_ref().and_then(|fix| fix.patch.as_deref());
    assert_eq!(patch, said["fix"]["patch"].as_str(), "{said}");
    assert_eq!(found.fix.is_some(), said["fix"].is_object(), "{said}");
    assert!(found.alternatives.is_empty());
}

/// The answer of a model that agrees with the label, if the prompt contains the decisive line.
fn composed(sample: &Sample, request: &Request) -> Response {
    let prompt = prompt(request);
    let lines = prompt["log"].as_array().unwrap().iter().flat_map(|section| {
        let place = |line: &Value| json!({ "stage": section["stage"], "step": section["step"], "line": line[0] });
        section["lines"].as_array().unwrap().iter().map(move |line| (place(line), line[1].as_str().unwrap()))
    });
    let lines: Vec<(Value, &str)> = lines.collect();
    let (line, category, confidence) =
        match lines.iter().find(|(_, text)| shown(text).contains(&shown(&sample.decisive))) {
            Some((line, _)) => (line, sample.right[0], 0.9),
            None => (&lines.last().expect("the last line is always sent").0, Category::Unknown, 0.1),
        };
    let summary = format!("composed from the label of {}", sample.name);
    crate::support::model::says(&json!({
        "category": category.as_str(), "summary": summary, "evidence": [line], "confidence": confidence, "fix": null,
    }))
}

/// The user's message, which is JSON.
fn prompt(request: &Request) -> Value {
    serde_json::from_str(request.json()["messages"][1]["content"].as_str().unwrap()).unwrap()
}

/// Prints the table of `docs/testing.md`.
fn report(answers: &BTreeMap<String, Answer>, judged: &[Judged]) {
    println!("{:<40}{:>5}{:>10}{:>18}{:>16}", "", "logs", "by llm", "right category", "decisive line");
    let row = |title: &str, holds: &dyn Fn(&Judged) -> bool| {
        let of: Vec<&Judged> = judged.iter().filter(|one| holds(one)).collect();
        let count = |holds: &dyn Fn(&Judged) -> bool| of.iter().filter(|one| holds(one)).count();
        let (by_llm, right, shown) =
            (count(&|one| one.by == EngineName::Llm), count(&|one| one.right), count(&|one| one.shown));
        println!("{title:<40}{:>5}{by_llm:>10}{right:>18}{shown:>16}", of.len());
        (of.len(), right, shown)
    };
    let is_refused = |one: &Judged| answers.get(&one.name).is_some_and(|answer| answer.refused.is_some());
    let is_recorded = |one: &Judged| answers.contains_key(&one.name);
    for set in sets::SETS {
        let is_of_set = |one: &Judged| one.name.starts_with(set);
        let (logs, right, shown) =
            row(&format!("{set}: composed from the label"), &|one| is_of_set(one) && !is_recorded(one));
        // Otherwise a decisive line was not sent, or was changed.
        assert_eq!((right, shown), (logs, logs), "{set}");
        row(&format!("{set}: recorded, usable"), &|one| is_of_set(one) && is_recorded(one) && !is_refused(one));
        row(&format!("{set}: recorded, refused"), &|one| is_of_set(one) && is_refused(one));
    }
}

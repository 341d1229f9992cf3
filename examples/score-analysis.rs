//! Scores the builtin analysis on a set of labelled logs:
//! `cargo run --release --example score-analysis -- DIR [--ablations]`.
//!
//! `DIR/labels.toml` has a table per log, under any name of list: `name` (its file is `DIR/NAME.log`), `category`, `also`
//! (a further category that counts as right, or a list of them), `decisive` (the line that shows the cause: its number, its text or a part of
//! it, or a list of these), `exit`, and optionally `action`. A directory without labels is read as a corpus of
//! `tests/analysis_corpus`. Without a directory, only the speed is measured.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use analysis::builtin::{Builtin, Parts};
use analysis::{Case, CaseLine, CaseStage, CaseStep, Category, Finding, Success};
use domain::{CommitId, DeploymentId, IdSeed, Identifier, StageStatus, StepStatus};

/// From this confidence on, a wrong category misleads.
const CONFIDENT: f64 = 0.8;
const BINS: [f64; 8] = [0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95];
/// The log whose analysis is timed.
const TIMED_BYTES: usize = 10_000_000;

struct Sample {
    name: String,
    right: Vec<Category>,
    decisive: Vec<Decisive>,
    case: Case,
}

enum Decisive {
    Line(u32),
    Text(String),
}

fn main() -> ExitCode {
    let (mut folder, mut ablations) = (None, false);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--ablations" => ablations = true,
            _ => folder = Some(PathBuf::from(argument)),
        }
    }
    let scored = folder.map_or(Ok(()), |folder| score(&folder, ablations));
    if let Err(fault) = scored {
        println!("{fault}");
        return ExitCode::FAILURE;
    }
    time();
    ExitCode::SUCCESS
}

fn score(folder: &Path, ablations: bool) -> Result<(), String> {
    let samples = if folder.join("labels.toml").exists() { labelled(folder)? } else { corpus(folder)? };
    if samples.is_empty() {
        return Err(format!("{} has no logs", folder.display()));
    }
    let found: Vec<Finding> = samples.iter().map(|sample| Builtin.find(&sample.case)).collect();
    println!("{} logs", samples.len());
    println!("{}", Score::of(&samples, &found));
    reliability(&samples, &found);
    if ablations {
        println!("\n{:<24}{:>10}{:>10}{:>18}", "without", "category", "decisive", "confidently wrong");
        for (name, parts) in without_each() {
            let found: Vec<Finding> = samples.iter().map(|sample| Builtin.find_with(&sample.case, parts)).collect();
            let Score { category, decisive, wrong, .. } = Score::of(&samples, &found);
            println!("{name:<24}{category:>9.1}%{decisive:>9.1}%{wrong:>17.1}%");
        }
    }
    println!("\nmisses:");
    for (sample, found) in samples.iter().zip(&found) {
        let (right, shown) = (sample.is_right(found), sample.is_shown(found));
        if !right || !shown {
            let kind = if right { "evidence" } else { "category" };
            let wanted: Vec<&str> = sample.right.iter().map(|category| category.as_str()).collect();
            let lines: Vec<u32> = found.evidence.iter().map(|evidence| evidence.line).collect();
            let others: Vec<&str> = found.alternatives.iter().map(|other| other.category.as_str()).collect();
            println!(
                "  {kind}: {}: {} ({:.2}) at {lines:?}, or {others:?}; wanted {wanted:?}: {}",
                sample.name, found.category, found.confidence, found.summary
            );
        }
    }
    Ok(())
}

/// Shares in percent.
struct Score {
    category: f64,
    second: f64,
    decisive: f64,
    wrong: f64,
}

impl Score {
    fn of(samples: &[Sample], found: &[Finding]) -> Self {
        let share = |holds: &dyn Fn(&Sample, &Finding) -> bool| {
            let count = samples.iter().zip(found).filter(|(sample, found)| holds(sample, found)).count();
            100.0 * count as f64 / samples.len() as f64
        };
        Self {
            category: share(&|sample, found| sample.is_right(found)),
            second: share(&|sample, found| {
                sample.is_right(found) || found.alternatives.iter().any(|other| sample.right.contains(&other.category))
            }),
            decisive: share(&|sample, found| sample.is_shown(found)),
            wrong: share(&|sample, found| !sample.is_right(found) && found.confidence >= CONFIDENT),
        }
    }
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "right category:                 {:.1}%", self.category)?;
        writeln!(f, "right, or among alternatives:   {:.1}%", self.second)?;
        writeln!(f, "decisive line in the evidence:  {:.1}%", self.decisive)?;
        write!(f, "confidently wrong (>= {CONFIDENT}):     {:.1}%", self.wrong)
    }
}

fn reliability(samples: &[Sample], found: &[Finding]) {
    println!("\n{:<14}{:>6}{:>14}{:>10}", "confidence", "logs", "on average", "right");
    for (index, from) in BINS.iter().enumerate() {
        let to = BINS.get(index + 1).copied().unwrap_or(f64::INFINITY);
        let within: Vec<(&Sample, &Finding)> =
            samples.iter().zip(found).filter(|(_, found)| (*from..to).contains(&found.confidence)).collect();
        if within.is_empty() {
            continue;
        }
        let count = within.len() as f64;
        let right = within.iter().filter(|(sample, found)| sample.is_right(found)).count() as f64;
        let average: f64 = within.iter().map(|(_, found)| found.confidence).sum::<f64>() / count;
        println!("from {from:<9}{:>6}{:>13.0}%{:>9.0}%", within.len(), 100.0 * average, 100.0 * right / count);
    }
}

fn without_each() -> Vec<(&'static str, Parts)> {
    let none = Parts { segments: false, scoping: false, weighing: false, causes: false, classifier: false };
    vec![
        ("nothing", Parts::ALL),
        ("segments", Parts { segments: false, ..Parts::ALL }),
        ("scoping", Parts { scoping: false, ..Parts::ALL }),
        ("weighing", Parts { weighing: false, ..Parts::ALL }),
        ("causes", Parts { causes: false, ..Parts::ALL }),
        ("classifier", Parts { classifier: false, ..Parts::ALL }),
        ("all of them", none),
    ]
}

impl Sample {
    fn is_right(&self, found: &Finding) -> bool {
        self.right.contains(&found.category)
    }

    /// Whether a line of evidence is decisive; true if none is named.
    fn is_shown(&self, found: &Finding) -> bool {
        let is_decisive = |number: u32, decisive: &Decisive| match decisive {
            Decisive::Line(line) => *line == number,
            Decisive::Text(text) => {
                let line = self.case.lines.iter().find(|line| line.number == number);
                line.is_some_and(|line| line.text.contains(text) || spaced(&line.text).contains(&spaced(text)))
            }
        };
        self.decisive.is_empty()
            || found.evidence.iter().any(|evidence| self.decisive.iter().any(|one| is_decisive(evidence.line, one)))
    }
}

/// Without escapes and with single blanks.
fn spaced(text: &str) -> String {
    let mut kept = String::new();
    let mut parts = text.split('\u{1b}');
    kept.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |end| end + 1);
        kept.push_str(&part[end..]);
    }
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn labelled(folder: &Path) -> Result<Vec<Sample>, String> {
    let labels = read(&folder.join("labels.toml"))?;
    let labels: toml::Table = labels.parse().map_err(|fault| format!("labels.toml: {fault}"))?;
    let entries = labels.values().filter_map(toml::Value::as_array).flatten().filter_map(toml::Value::as_table);
    // Or a table per log, with its name as the key.
    let named = labels.iter().filter_map(|(name, value)| {
        let mut entry = value.as_table()?.clone();
        entry.entry("name").or_insert(toml::Value::String(name.clone()));
        Some(entry)
    });
    entries.cloned().chain(named).map(|entry| sample_of(folder, &entry)).collect()
}

fn sample_of(folder: &Path, entry: &toml::Table) -> Result<Sample, String> {
    let text = |key: &str| entry.get(key).and_then(toml::Value::as_str);
    let name = text("name").ok_or("an entry has no name")?.to_owned();
    let also: Vec<&str> = match entry.get("also") {
        Some(toml::Value::Array(several)) => several.iter().filter_map(toml::Value::as_str).collect(),
        Some(one) => one.as_str().into_iter().collect(),
        None => Vec::new(),
    };
    let category = |name: &str| Category::parse(name).map_err(|_| format!("there is no category {name}"));
    let mut right = vec![category(text("category").ok_or_else(|| format!("{name} has no category"))?)?];
    for other in also {
        right.push(category(other)?);
    }
    let decisive = match entry.get("decisive") {
        Some(toml::Value::Array(several)) => several.iter().filter_map(decisive_of).collect(),
        Some(one) => decisive_of(one).into_iter().collect(),
        None => Vec::new(),
    };
    let code = entry.get("exit").and_then(toml::Value::as_integer).and_then(|code| i32::try_from(code).ok());
    let bytes = std::fs::read(folder.join(format!("{name}.log"))).map_err(|fault| format!("{name}.log: {fault}"))?;
    let action = text("action").unwrap_or_default();
    let case = case(&String::from_utf8_lossy(&bytes), code, action, None);
    Ok(Sample { name, right, decisive, case })
}

fn decisive_of(value: &toml::Value) -> Option<Decisive> {
    match value {
        toml::Value::Integer(line) => u32::try_from(*line).ok().map(Decisive::Line),
        toml::Value::String(text) => Some(Decisive::Text(text.trim().to_owned())),
        _ => None,
    }
}

/// The files of `tests/analysis_corpus` that end with an exit code.
fn corpus(folder: &Path) -> Result<Vec<Sample>, String> {
    let entries = std::fs::read_dir(folder).map_err(|fault| format!("{}: {fault}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let mut samples = Vec::new();
    for file in files {
        let (name, text) = (file.file_stem().unwrap_or_default().to_string_lossy().into_owned(), read(&file)?);
        let Some((head, log)) = text.split_once("--- log\n") else { continue };
        let (head, success) = head.split_once("--- success\n").map_or((head, None), |(head, log)| (head, Some(log)));
        let head: BTreeMap<&str, &str> = head.lines().filter_map(|line| line.split_once(": ")).collect();
        let field = |key: &str| head.get(key).copied().unwrap_or_default();
        let Some(code) = field("end").strip_prefix("code ").and_then(|code| code.parse().ok()) else { continue };
        let category = Category::parse(field("category")).map_err(|_| format!("{name} has no category"))?;
        let lines = field("evidence").split(' ').filter_map(|line| line.parse().ok());
        let decisive = lines.map(Decisive::Line).collect();
        let case = case(log, Some(code), field("action"), success);
        samples.push(Sample { name, right: vec![category], decisive, case });
    }
    Ok(samples)
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|fault| format!("{}: {fault}", file.display()))
}

/// A deployment whose only step wrote this log and ended with this code.
fn case(log: &str, code: Option<i32>, action: &str, success: Option<&str>) -> Case {
    let step =
        CaseStep { name: identifier("run"), status: StepStatus::Failed, exit_code: code, action: action.to_owned() };
    let stage = CaseStage {
        name: identifier("deploy"),
        status: StageStatus::Failed,
        attempt: 1,
        timeout_seconds: None,
        steps: vec![step],
    };
    let error = code.map(|code| format!("stage `deploy`: step `run` exited with code {code}").into());
    Case {
        deployment: DeploymentId(IdSeed([2; 12])),
        organization: identifier("acme"),
        pipeline: identifier("shop"),
        environment: identifier("review-7"),
        commit: commit("c0ffee1"),
        error,
        stages: vec![stage],
        lines: lines(log),
        last_success: success.map(|log| Success {
            deployment: DeploymentId(IdSeed([1; 12])),
            commit: commit("decade2"),
            lines: lines(log),
            earlier: Vec::new(),
            actions_differ: Vec::new(),
        }),
    }
}

fn lines(log: &str) -> Vec<CaseLine> {
    let line = |(text, number): (&str, u32)| CaseLine {
        stage: identifier("deploy"),
        step: identifier("run"),
        number,
        text: text.to_owned(),
    };
    log.split_terminator('\n').zip(1..).map(line).collect()
}

fn identifier(text: &str) -> Identifier {
    Identifier::parse(text).expect("a constant")
}

fn commit(text: &str) -> CommitId {
    CommitId::parse(text).expect("a constant")
}

/// How long an analysis of a large log takes, on one processor.
fn time() {
    let noise = [
        "2026-03-02T08:11:09.1142345Z Downloading https://repo.example.com/org/acme/core/1.4.{n}/core-1.4.{n}.jar (412 kB at 9.1 MB/s)",
        "#12 41.{n} added 1210 packages in 41s, found 0 vulnerabilities",
        "[INFO] Tests run: {n}, Failures: 0, Errors: 0, Skipped: 1, Time elapsed: 0.{n} s - in com.acme.web.Test{n}",
        "  \u{1b}[32m✓\u{1b}[39m answers 401 without a token \u{1b}[90m({n} ms)\u{1b}[39m",
        "web-1  | time=\"2026-03-02T08:11:09Z\" level=info msg=\"GET /healthz 200 in {n} ms\"",
        "warning: unused variable `failed{n}` in src/errors/not_found_{n}.rs:41:9",
        "redis.review-{n}.svc:6379: connection refused, retrying in 1s (attempt {n}/10)",
    ];
    let mut log = String::with_capacity(TIMED_BYTES + 200);
    for number in 0.. {
        if log.len() >= TIMED_BYTES {
            break;
        }
        log.push_str(&noise[number % noise.len()].replace("{n}", &number.to_string()));
        log.push('\n');
    }
    log.push_str("npm error code E401\n");
    let case = case(&log, Some(1), "npm ci", None);
    Builtin.find(&case);
    let (began, used) = (Instant::now(), processor_ms());
    let found = Builtin.find(&case);
    let (took, used) = (began.elapsed().as_secs_f64() * 1e3, processor_ms() - used);
    let size = log.len() as f64 / 1e6;
    println!("\na log of {size:.1} MB: {used:.0} ms of the processor, {took:.0} ms in all: {}", found.category);
}

/// The milliseconds that this thread has run for; 0 where the system does not tell.
fn processor_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or_default() / 1e6
}

//! The builtin analysis on whole logs: a corpus of failed deployments as in CI fleets, with the other output of such
//! logs. Each file of `tests/analysis_corpus` has a header (the expected finding, and the end of the step), the log of
//! the last success, if there is one to compare with, and the log of the failed step.

use std::collections::BTreeMap;
use std::path::Path;

use analysis::builtin::Builtin;
use analysis::{
    ALTERNATIVES_MAX, Case, CaseLine, CaseStage, CaseStep, Category, EVIDENCE_CHARACTERS_MAX, EVIDENCE_MAX, Finding,
    SUMMARY_CHARACTERS_MAX, Success,
};
use domain::{CommitId, DeploymentId, IdSeed, Identifier, StageStatus, StepStatus};
use proptest::prelude::*;

const STAGE: &str = "deploy";
const STEP: &str = "run";
const FILES_MIN: usize = 72;

/// One file of the corpus.
struct Sample {
    name: String,
    category: Category,
    /// The lines of which one must be named first.
    evidence: Vec<u32>,
    case: Case,
}

#[test]
fn the_corpus_is_understood() {
    let samples = corpus();
    let mut table: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut missed = Vec::new();
    for sample in &samples {
        let found = Builtin.find(&sample.case);
        let right = found.category == sample.category;
        let shown = found.evidence.first().is_some_and(|first| sample.evidence.contains(&first.line))
            || (sample.evidence.is_empty() && found.evidence.is_empty());
        let row = table.entry(sample.category.as_str()).or_default();
        *row = [row[0] + 1, row[1] + usize::from(right), row[2] + usize::from(shown)];
        if !right || !shown {
            missed.push(described(sample, &found));
        }
    }
    println!("{:<24}{:>10}{:>10}", "category", "right", "evidence");
    let mut sum = [0; 3];
    for (category, row) in &table {
        println!("{category:<24}{:>10}{:>10}", format!("{}/{}", row[1], row[0]), format!("{}/{}", row[2], row[0]));
        sum = [sum[0] + row[0], sum[1] + row[1], sum[2] + row[2]];
    }
    let share = |part: usize| 100.0 * part as f64 / sum[0] as f64;
    println!("{} logs: {:.1}% right category, {:.1}% evidence named", sum[0], share(sum[1]), share(sum[2]));
    missed.iter().for_each(|line| println!("missed: {line}"));
    assert!(samples.len() >= FILES_MIN && share(sum[1]) >= 90.0 && share(sum[2]) >= 90.0);
}

/// Ordinary output of steps before and after the failure: full of error words that mean nothing.
const BEFORE: &str = "\
Installing error-chain 0.12.4
level=info msg=\"last failure: connection refused, 3 days ago\"
warning: unused variable `failed`
npm warn deprecated abab@2.0.6: Use your platform's native atob() and btoa() methods instead
db: not ready yet, still waiting
db: FATAL: the database system is starting up, retrying
db: accepting connections
test a_killed_worker_is_restarted ... ok
PASS src/errors/timeout.test.ts
Compiled 41 modules with 0 errors and 2 warnings
copying templates/404-not-found.html
+ grep -q 'permission denied' audit.log
[INFO] 0 vulnerabilities found, no issues
mirror 1: timed out, trying the next one
lock acquired after 2 attempts";
const AFTER: &str = "\
cleaning up
removing network review-7_default
uploading 3 log files (errors.log, failed.log, core.txt)
upload finished, no errors
took 41 s";

#[test]
fn the_corpus_is_understood_with_more_noise_around_it() {
    let (mut total, mut right, mut shown) = (0, 0, 0);
    let shift = u32::try_from(BEFORE.lines().count()).unwrap();
    for mut sample in corpus() {
        // Remarks of the server stay last, and for an unknown failure the last lines are shown, whatever they are.
        let remark = sample.case.lines.pop_if(|line| line.text.starts_with("lockkeeper: "));
        if sample.category == Category::Unknown || sample.case.lines.is_empty() || sample.evidence.is_empty() {
            continue;
        }
        let at_end = remark.as_ref().is_some_and(|remark| sample.evidence == [remark.number]);
        let within = sample.case.lines.drain(..).map(|line| line.text).collect::<Vec<_>>();
        let texts = BEFORE.lines().chain(within.iter().map(String::as_str)).chain(AFTER.lines());
        sample.case.lines = texts.zip(1..).map(|(text, number)| line(number, text)).collect();
        let last = u32::try_from(sample.case.lines.len() + 1).unwrap();
        sample.case.lines.extend(remark.map(|remark| line(last, &remark.text)));
        let found = Builtin.find(&sample.case);
        let first = found.evidence.first().map_or(0, |evidence| evidence.line);
        total += 1;
        right += usize::from(found.category == sample.category);
        shown +=
            usize::from(if at_end { first == last } else { sample.evidence.iter().any(|line| line + shift == first) });
        if found.category != sample.category {
            println!("missed with noise: {} is {}: {}", sample.name, found.category, found.summary);
        }
    }
    println!("{total} logs with noise around them: {right} right, {shown} with the evidence named");
    assert!(right * 100 >= total * 90 && shown * 100 >= total * 90);
}

#[test]
fn every_summary_says_something_and_every_cause_comes_with_advice() {
    for sample in corpus() {
        let found = Builtin.find(&sample.case);
        assert!(!found.summary.contains(['{', '}']) && !found.summary.contains("``"), "{}: {found:?}", sample.name);
        let advised =
            found.fix.as_ref().is_some_and(|fix| !fix.summary.is_empty() && !fix.summary.contains(['{', '}']));
        assert!(advised || found.category == Category::Unknown, "{}: {found:?}", sample.name);
    }
}

#[test]
fn confidence_is_worth_having() {
    let judged: Vec<(bool, f64)> = corpus()
        .iter()
        .map(|sample| (Builtin.find(&sample.case), sample.category))
        .map(|(found, category)| (found.category == category, found.confidence))
        .collect();
    let sure: Vec<_> = judged.iter().filter(|(_, confidence)| *confidence >= 0.8).collect();
    let right = sure.iter().filter(|(right, _)| *right).count();
    println!("{} of {} logs with a confidence of 0.8 or more, {right} of them right", sure.len(), judged.len());
    assert!(sure.len() * 3 >= judged.len() && right * 100 >= sure.len() * 97);
}

#[test]
fn a_log_that_tells_of_no_failure_is_unknown_with_its_last_lines() {
    let quiet = [
        "+ ./deploy.sh --on-error=stop",
        "12:00:01 INFO  starting error reporter",
        "WARNING: deprecated option `--fail-fast`",
        "redis: connection refused, retrying in 1s",
        "redis: connected after 2 attempts",
        "compiled src/errors/not_found.ts",
        "test connection_refused_is_reported ... ok",
        "✓ answers 401 without a token",
        "41 passed, 0 failed, 0 errors",
        "PASS src/permission-denied.test.ts",
        "deployed c0ffee1 without errors",
    ];
    let found = Builtin.find(&case(&quiet.join("\n"), "code 3", "sh deploy.sh", None));
    assert_eq!(found.category, Category::Unknown, "{found:?}");
    assert!(found.confidence <= 0.2);
    assert_eq!(found.evidence[0].text, "deployed c0ffee1 without errors");
}

#[test]
fn what_was_said_when_all_went_well_is_not_the_cause() {
    let log = "cache: permission denied\nupload: No space left on device\ncache: permission denied";
    let alone = Builtin.find(&case("cache: permission denied", "code 1", "sh x", None));
    let compared = Builtin.find(&case(log, "code 1", "sh x", Some("cache: permission denied\ndone")));
    assert_eq!((alone.category, compared.category), (Category::PermissionDenied, Category::DiskFull));
    let known = Builtin.find(&case("cache: permission denied", "code 1", "sh x", Some("cache: permission denied")));
    // It is at the end of the log, so nothing else can be the cause, even if it was survived before.
    assert_eq!(known.category, Category::PermissionDenied);
    assert!(known.confidence < alone.confidence, "{known:?}");
}

#[test]
fn a_step_that_has_changed_since_is_said_to_have() {
    let mut changed = case("sh: 1: jq: not found", "code 127", "sh x", Some("fine"));
    let before = Builtin.find(&changed);
    changed.last_success.as_mut().unwrap().actions_differ = vec![format!("{STAGE}/{STEP}")];
    let after = Builtin.find(&changed);
    assert!(after.summary.contains("has changed since 0ldc0de succeeded") && !before.summary.contains("0ldc0de"));
    assert!(after.confidence > before.confidence || after.confidence >= 0.97);
}

#[test]
fn an_exit_code_that_agrees_makes_surer() {
    let at = |end: &str| Builtin.find(&case("deploy.sh: line 3: jq: command not found", end, "sh x", None)).confidence;
    assert!(at("code 127") > at("code 1") && at("code 1") > at("code 137"));
}

#[test]
fn what_an_earlier_step_survived_is_not_why_a_later_one_failed() {
    let mut both = case("deploy.sh: line 3: jq: command not found", "code 127", "sh x", None);
    let mut earlier = both.stages[0].steps[0].clone();
    (earlier.name, earlier.status, earlier.exit_code) = (identifier("prepare"), StepStatus::Succeeded, Some(0));
    both.stages[0].steps.insert(0, earlier);
    let text = "FATAL:  password authentication failed for user \"app\"".to_owned();
    both.lines.insert(0, CaseLine { stage: identifier(STAGE), step: identifier("prepare"), number: 1, text });
    let found = Builtin.find(&both);
    assert_eq!((found.category, found.evidence[0].step.as_str()), (Category::MissingCommand, STEP));
    both.lines.retain(|line| line.step.as_str() == "prepare");
    let found = Builtin.find(&both);
    assert!(found.category == Category::MissingCommand && found.evidence.is_empty(), "{found:?}");
}

#[test]
fn what_kept_a_stage_from_beginning_is_found_in_the_error_of_the_deployment() {
    let mut before = case("", "code 1", "sh x", None);
    before.lines.clear();
    before.stages[0].steps[0].status = StepStatus::Skipped;
    before.stages[0].steps[0].exit_code = None;
    before.error = Some("stage `deploy`: its working directory could not be made: No space left on device".into());
    let found = Builtin.find(&before);
    assert_eq!((found.category, found.evidence.len()), (Category::DiskFull, 0), "{found:?}");
    assert!(found.confidence < 0.5);
    before.stages.clear();
    before.error = None;
    assert_eq!(Builtin.find(&before).category, Category::Unknown);
}

#[tokio::test]
async fn taking_turns_changes_nothing() {
    let many: String = (0..2000).map(|number| format!("line {number}\n")).collect();
    let case = case(&format!("{many}sh: 1: jq: not found\n"), "code 127", "sh x", None);
    assert_eq!(Builtin.analyse(&case).await, Builtin.find(&case));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_in_a_log_the_finding_is_sound_and_the_same(
        lines in prop::collection::vec(hostile_line(), 0..60),
        before in prop::option::of(prop::collection::vec(hostile_line(), 0..20)),
        end in prop::sample::select(vec!["code 1", "code 127", "code 137", "signal 9", "timeout 5", "cancelled", "interrupted"]),
        action in "[ -~]{0,40}",
    ) {
        let before = before.map(|lines| lines.join("\n"));
        let case = case(&lines.join("\n"), end, &action, before.as_deref());
        let found = Builtin.find(&case);
        prop_assert_eq!(&found, &Builtin.find(&case));
        prop_assert!((0.0..=1.0).contains(&found.confidence));
        prop_assert!(found.summary.chars().count() <= SUMMARY_CHARACTERS_MAX && !found.summary.is_empty());
        prop_assert!(found.evidence.len() <= EVIDENCE_MAX);
        for evidence in &found.evidence {
            let line = case.lines.iter().find(|line| line.stage == evidence.stage && line.number == evidence.line).unwrap();
            prop_assert!(evidence.text.chars().count() <= EVIDENCE_CHARACTERS_MAX);
            prop_assert!(!evidence.text.contains(|c: char| c.is_control() && c != '\t'), "{:?}", evidence.text);
            // Only escapes and non-text characters are missing.
            let mut written = line.text.chars();
            let kept = evidence.text.trim_start_matches('…').trim_end_matches('…');
            prop_assert!(kept.chars().all(|c| written.any(|other| other == c)), "{:?} of {:?}", kept, line.text);
        }
        prop_assert!(found.alternatives.len() <= ALTERNATIVES_MAX);
        for other in &found.alternatives {
            prop_assert!(other.category != found.category && other.confidence <= found.confidence.max(0.05));
            prop_assert!(!other.summary.is_empty() && other.summary.chars().count() <= SUMMARY_CHARACTERS_MAX);
        }
    }
}

/// Words of the catalogue, escapes, very long lines and anything else.
fn hostile_line() -> impl Strategy<Value = String> {
    let telling = prop::sample::select(vec![
        "error: ",
        "command not found",
        ": Permission denied",
        "No such file or directory",
        "\u{1b}[31m",
        "\r",
        "{",
        "}",
        "`",
        "CONFLICT (",
        "FAILED ",
        "E0308",
        "Killed",
        "timed out",
        "0 errors",
        "retrying",
        "ä",
        "\u{0}",
        "/",
        ":",
        "\t",
        "'",
        "\"",
    ]);
    prop_oneof![
        4 => prop::collection::vec(telling, 0..8).prop_map(|parts| parts.concat()),
        3 => ".{0,80}",
        1 => (1000usize..9000, "[a-z:' ]{1,8}").prop_map(|(times, part)| part.repeat(times)),
    ]
    .prop_map(|line| line.replace('\n', " "))
}

fn described(sample: &Sample, found: &Finding) -> String {
    let lines: Vec<u32> = found.evidence.iter().map(|evidence| evidence.line).collect();
    format!(
        "{}: {} at {lines:?}, wanted {} at {:?}: {}",
        sample.name, found.category, sample.category, sample.evidence, found.summary
    )
}

fn corpus() -> Vec<Sample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/analysis_corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| sample(file)).collect()
}

fn sample(file: &Path) -> Sample {
    let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
    let text = std::fs::read_to_string(file).unwrap();
    let (head, log) = text.split_once("--- log\n").unwrap_or_else(|| panic!("{name} has no log"));
    let (head, success) = match head.split_once("--- success\n") {
        Some((head, success)) => (head, Some(success)),
        None => (head, None),
    };
    let head: BTreeMap<&str, &str> = head.lines().map(|line| line.split_once(": ").unwrap()).collect();
    let case = case(log, head["end"], head["action"], success);
    let evidence = match head["evidence"] {
        "none" => Vec::new(),
        // The server's remark about the end, which follows the log.
        "end" => vec![case.lines.last().unwrap().number],
        numbers => numbers.split(' ').map(|number| number.parse().unwrap()).collect(),
    };
    let category = Category::parse(head["category"]).unwrap_or_else(|_| panic!("{name}: {}", head["category"]));
    Sample { name, category, evidence, case }
}

/// A deployment whose only step wrote this log and ended as the runner reports here.
fn case(log: &str, end: &str, action: &str, success: Option<&str>) -> Case {
    let (kind, rest) = end.split_once(' ').unwrap_or((end, ""));
    let failed =
        |reason: String| (Some(format!("the step {reason}")), format!("stage `{STAGE}`: step `{STEP}` {reason}"));
    let (remark, error) = match kind {
        "code" => failed(format!("exited with code {rest}")),
        "signal" => failed(format!("was killed by signal {rest}")),
        "timeout" => (
            Some(format!("terminated: the stage took longer than its {rest} s")),
            format!("stage `{STAGE}`: the stage took longer than its {rest} s"),
        ),
        "cancelled" => (Some("terminated: it was cancelled".to_owned()), String::new()),
        "interrupted" => {
            (None, format!("interrupted: the server ended while stage `{STAGE}` ran; retry it or deploy again"))
        }
        "rejected" => (None, format!("stage `{STAGE}` was rejected {rest}")),
        _ => failed(end.to_owned()),
    };
    let mut lines = lines_of(log);
    let number = u32::try_from(lines.len() + 1).unwrap();
    lines.extend(remark.map(|text| line(number, &format!("lockkeeper: {text}"))));
    let (stage_status, step_status) = match kind {
        "cancelled" => (StageStatus::Cancelled, StepStatus::Cancelled),
        _ => (StageStatus::Failed, StepStatus::Failed),
    };
    let step = CaseStep {
        name: identifier(STEP),
        status: step_status,
        exit_code: (kind == "code").then(|| rest.parse().unwrap()),
        action: action.to_owned(),
    };
    Case {
        deployment: DeploymentId(IdSeed([2; 12])),
        organization: identifier("acme"),
        pipeline: identifier("shop"),
        environment: identifier("review-7"),
        commit: CommitId::parse("c0ffee1").unwrap(),
        error: (!error.is_empty()).then(|| error.into()),
        stages: vec![CaseStage {
            name: identifier(STAGE),
            status: stage_status,
            attempt: 1,
            timeout_seconds: (kind == "timeout").then(|| rest.parse().unwrap()),
            steps: vec![step],
        }],
        lines,
        last_success: success.map(|log| Success {
            deployment: DeploymentId(IdSeed([1; 12])),
            commit: CommitId::parse("0ldc0de").unwrap(),
            lines: lines_of(log),
            earlier: Vec::new(),
            actions_differ: Vec::new(),
        }),
    }
}

fn lines_of(log: &str) -> Vec<CaseLine> {
    log.split_terminator('\n').zip(1..).map(|(text, number)| line(number, text)).collect()
}

fn line(number: u32, text: &str) -> CaseLine {
    CaseLine { stage: identifier(STAGE), step: identifier(STEP), number, text: text.to_owned() }
}

fn identifier(text: &str) -> Identifier {
    Identifier::parse(text).unwrap()
}

//! Turns the chosen cause into a finding: summary, evidence, confidence and suggested fix.

use super::baseline::Baseline;
use super::case_view::{CaseView, is_remark};
use super::ends::{self, ExitMeaning, Verdict};
use super::noise;
use super::rank::{self, Choice};
use super::scan::{self, Hit, Scan};
use super::text::{cleaned, filled};
use crate::analysis::{
    CaseLine, Category, EVIDENCE_MAX, EngineName, Evidence, Finding, SUMMARY_CHARACTERS_MAX, SuggestedFix, clipped,
};

/// For a cause that follows from the end of the step alone.
const CERTAIN: f64 = 0.95;
const CONFIDENCE_MAX: f64 = 0.97;
const CONFIDENCE_MIN: f64 = 0.05;
/// For an unknown cause.
const UNKNOWN: f64 = 0.1;
/// The last error message is searched for in this many last lines.
const ERROR_WITHIN: usize = 60;
/// For a cause found in another step, or only in the deployment's error.
const INDIRECT_MAX: f64 = 0.45;

pub(super) fn finding(view: &CaseView<'_>, scan: &Scan, baseline: &Baseline) -> Finding {
    let exit = ends::exit_meaning(view);
    let choice = rank::choose(view, scan, baseline, exit);
    if let Some(verdict) = ends::verdict(view) {
        return by_verdict(view, &verdict, choice.as_ref());
    }
    let weight_of_exit = exit.map_or(0.0, |exit| f64::from(exit.weight));
    match (choice, exit) {
        (Some(choice), exit) if choice.cause.score >= weight_of_exit => by_line(view, &choice, exit),
        (_, Some(exit)) => by_exit(view, exit),
        (_, None) => by_error(view).unwrap_or_else(|| unknown(view)),
    }
}

fn by_line(view: &CaseView<'_>, choice: &Choice, exit: Option<&ExitMeaning>) -> Finding {
    let line = cleaned(&view.lines[choice.cause.hit.at].text);
    let (cause, fix) = sentences(choice.cause.hit, &line);
    let evidence = std::iter::once(choice.cause.hit).chain(choice.others.iter().copied());
    finding_of(view, choice.category, &cause, Some(fix), evidence.map(|hit| hit.at), confidence(view, choice, exit))
}

fn sentences(hit: Hit, line: &str) -> (String, String) {
    let captures = hit.captures(line);
    (filled(hit.signature().cause, captures.as_ref()), filled(hit.signature().fix, captures.as_ref()))
}

/// High only for a specific signature in the failed step, near its end, that fits the exit code.
fn confidence(view: &CaseView<'_>, choice: &Choice, exit: Option<&ExitMeaning>) -> f64 {
    let specific: f64 = match choice.cause.hit.signature().weight {
        90.. => 0.85,
        80.. => 0.75,
        65.. => 0.6,
        _ => 0.4,
    };
    let mut confidence = specific * choice.cause.credibility;
    confidence += match exit {
        Some(exit) if exit.categories.contains(&choice.category) => 0.1,
        Some(_) => -0.2,
        None => 0.0,
    };
    confidence -= (1.0 - choice.nearness) * 0.5;
    if choice.is_close {
        confidence -= 0.1;
    }
    if choice.is_new {
        confidence += 0.05;
    }
    if view.action_changed() {
        confidence += 0.03;
    }
    if choice.cause.in_focus { confidence } else { confidence.min(INDIRECT_MAX) }
}

fn by_exit(view: &CaseView<'_>, exit: &ExitMeaning) -> Finding {
    let category = exit.categories.first().copied().unwrap_or(Category::Unknown);
    let evidence = view.last_remark().into_iter().chain(last_lines(view));
    finding_of(view, category, exit.cause, Some(exit.fix.to_owned()), evidence, f64::from(exit.weight) / 100.0 - 0.1)
}

/// A reason that prevented the step from starting is in no log.
fn by_error(view: &CaseView<'_>) -> Option<Finding> {
    let error = cleaned(view.error());
    let hit = scan::hit_of(&error)?;
    let (cause, fix) = sentences(hit, &error);
    let confidence = INDIRECT_MAX;
    Some(finding_of(view, hit.signature().category, &cause, Some(fix), last_lines(view), confidence))
}

fn by_verdict(view: &CaseView<'_>, verdict: &Verdict, choice: Option<&Choice>) -> Finding {
    let stage = view.stage.map(|stage| format!("stage `{}`", stage.name)).unwrap_or_default();
    let ended = view.last_remark().into_iter().chain(last_lines(view));
    match verdict {
        Verdict::Interrupted => {
            let cause = format!("the server ended while {stage} was running");
            let fix = format!(
                "retry {stage}; if running it twice is harmless, mark the stage as `idempotent`, and the server retries it by itself"
            );
            finding_of(view, Category::Interrupted, &cause, Some(fix), ended, CERTAIN)
        }
        Verdict::Rejected => {
            let fix = "agree with the person who rejected it on the necessary changes, then deploy again".to_owned();
            finding_of(view, Category::Rejected, view.error(), Some(fix), ended, CERTAIN)
        }
        Verdict::Cancelled => {
            let cause = format!("{stage} was cancelled");
            let fix = "nothing is broken: retry the stage or deploy again if it is still wanted".to_owned();
            finding_of(view, Category::Cancelled, &cause, Some(fix), ended, CERTAIN)
        }
        Verdict::TimedOut { seconds } => {
            let limit = seconds.map(|seconds| format!(" of {seconds} s")).unwrap_or_default();
            let mut cause = format!("{stage} did not end within its time limit{limit}");
            let mut evidence: Vec<usize> = view.last_remark().into_iter().collect();
            if let Some(choice) = choice {
                let line = cleaned(&view.lines[choice.cause.hit.at].text);
                cause.push_str(&format!("; before that: {}", sentences(choice.cause.hit, &line).0));
                evidence.push(choice.cause.hit.at);
            }
            evidence.extend(last_lines(view));
            let fix = "check what the last lines are waiting for; raise `timeoutSeconds` of the stage only if it really needs longer";
            finding_of(view, Category::Timeout, &cause, Some(fix.to_owned()), evidence.into_iter(), CERTAIN)
        }
    }
}

fn unknown(view: &CaseView<'_>) -> Finding {
    let cause = "the log matches no known failure; its last lines are the best lead";
    let is_error = |at: &usize| has_error_word(&view.lines[*at].text);
    let error = view.focus().rev().take(ERROR_WITHIN).find(is_error);
    finding_of(view, Category::Unknown, cause, None, error.into_iter().chain(last_lines(view)), UNKNOWN)
}

/// Whether a line has a word of failure and means it.
fn has_error_word(text: &str) -> bool {
    let text = cleaned(text).to_ascii_lowercase();
    let is_word = |word: &str| ["error", "fatal", "failed", "failure", "cannot", "exception", "abort"].contains(&word);
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(is_word) && noise::credibility(&text) >= 1.0
}

/// The last meaningful lines of the step, the last one first.
fn last_lines<'a>(view: &CaseView<'a>) -> impl Iterator<Item = usize> + use<'a> {
    let is_meaningful = |line: &CaseLine| !is_remark(line) && !line.text.trim().is_empty();
    let lines = view.lines;
    let indexes: Vec<usize> = view.focus().rev().filter(|at| is_meaningful(&lines[*at])).take(EVIDENCE_MAX).collect();
    indexes.into_iter()
}

fn finding_of(
    view: &CaseView<'_>,
    category: Category,
    cause: &str,
    fix: Option<String>,
    evidence: impl Iterator<Item = usize>,
    confidence: f64,
) -> Finding {
    let mut indexes: Vec<usize> = Vec::new();
    for at in evidence {
        let is_same = |other: &usize| view.lines[*other].text == view.lines[at].text;
        if indexes.len() < EVIDENCE_MAX && !indexes.iter().any(is_same) {
            indexes.push(at);
        }
    }
    let confidence = (confidence.clamp(CONFIDENCE_MIN, CONFIDENCE_MAX) * 100.0).round() / 100.0;
    Finding {
        engine: EngineName::Builtin,
        category,
        summary: clipped(&format!("{cause}{}", circumstances(view)), SUMMARY_CHARACTERS_MAX),
        evidence: indexes.into_iter().map(|at| Evidence::from(&view.lines[at])).collect(),
        confidence,
        fix: fix.map(|fix| SuggestedFix { summary: clipped(&fix, SUMMARY_CHARACTERS_MAX), patch: None }),
    }
}

/// The location, and what has changed since the last success.
fn circumstances(view: &CaseView<'_>) -> String {
    let mut text = String::new();
    if let (Some(stage), Some(step)) = (view.stage, view.step) {
        text.push_str(&format!(" (step `{}` of stage `{}`", step.name, stage.name));
        if let Some(code) = step.exit_code {
            text.push_str(&format!(", exit code {code}"));
        }
        text.push(')');
    }
    if let Some(success) = view.case.last_success.as_ref().filter(|_| view.action_changed()) {
        text.push_str(&format!("; the step has changed since {} succeeded", success.commit));
    }
    text
}

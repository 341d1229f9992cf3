//! Puts what was found into words: summary, evidence, confidence and what to do.

use super::NAME;
use super::ends::{self, ExitWord, Verdict};
use super::known::Known;
use super::noise;
use super::rank::{self, Choice};
use super::scan::{self, Hit, Scan};
use super::scene::{Scene, is_remark};
use super::text::{cleaned, filled};
use crate::analysis::{Category, EVIDENCE_MAX, Evidence, Finding, SUMMARY_CHARACTERS_MAX, SuggestedFix, clipped};

/// What the way it ended leaves no doubt about.
const CERTAIN: f64 = 0.95;
const NEVER_SURER: f64 = 0.97;
const NEVER_LESS_SURE: f64 = 0.05;
/// Nothing is known but where to look.
const UNKNOWN: f64 = 0.1;
/// The last lines among which the last complaint is looked for when nothing is known.
const COMPLAINT_WITHIN: usize = 60;
/// Found where nothing failed, or only in the error that the deployment has.
const INDIRECT_AT_MOST: f64 = 0.45;

pub(super) fn finding(scene: &Scene<'_>, scan: &Scan, known: &Known) -> Finding {
    let exit = ends::exit_word(scene);
    let choice = rank::choose(scene, scan, known, exit);
    if let Some(verdict) = ends::verdict(scene) {
        return by_verdict(scene, &verdict, choice.as_ref());
    }
    let worth_of_exit = exit.map_or(0.0, |exit| f64::from(exit.weight));
    match (choice, exit) {
        (Some(choice), exit) if choice.cause.score >= worth_of_exit => by_line(scene, &choice, exit),
        (_, Some(exit)) => by_exit(scene, exit),
        (_, None) => by_error(scene).unwrap_or_else(|| unknown(scene)),
    }
}

fn by_line(scene: &Scene<'_>, choice: &Choice, exit: Option<&ExitWord>) -> Finding {
    let line = cleaned(&scene.lines[choice.cause.hit.at].text);
    let (cause, fix) = words(choice.cause.hit, &line);
    let evidence = std::iter::once(choice.cause.hit).chain(choice.others.iter().copied());
    finished(scene, choice.category, &cause, Some(fix), evidence.map(|hit| hit.at), confidence(scene, choice, exit))
}

fn words(hit: Hit, line: &str) -> (String, String) {
    let caught = hit.captures(line);
    (filled(hit.signature().cause, caught.as_ref()), filled(hit.signature().fix, caught.as_ref()))
}

/// High only for a specific signature in the step that failed, near its end, which its exit code does not contradict.
fn confidence(scene: &Scene<'_>, choice: &Choice, exit: Option<&ExitWord>) -> f64 {
    let specific: f64 = match choice.cause.hit.signature().weight {
        90.. => 0.85,
        80.. => 0.75,
        65.. => 0.6,
        _ => 0.4,
    };
    let mut confidence = specific * choice.cause.worth;
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
    if scene.action_changed() {
        confidence += 0.03;
    }
    if choice.cause.in_focus { confidence } else { confidence.min(INDIRECT_AT_MOST) }
}

fn by_exit(scene: &Scene<'_>, exit: &ExitWord) -> Finding {
    let category = exit.categories.first().copied().unwrap_or(Category::Unknown);
    let evidence = scene.last_remark().into_iter().chain(last_lines(scene));
    finished(scene, category, exit.cause, Some(exit.fix.to_owned()), evidence, f64::from(exit.weight) / 100.0 - 0.1)
}

/// What kept the step from beginning is in no log.
fn by_error(scene: &Scene<'_>) -> Option<Finding> {
    let error = cleaned(scene.error());
    let hit = scan::hit_of(&error)?;
    let (cause, fix) = words(hit, &error);
    let confidence = INDIRECT_AT_MOST;
    Some(finished(scene, hit.signature().category, &cause, Some(fix), last_lines(scene), confidence))
}

fn by_verdict(scene: &Scene<'_>, verdict: &Verdict, choice: Option<&Choice>) -> Finding {
    let place = scene.stage.map(|stage| format!("stage `{}`", stage.name)).unwrap_or_default();
    let ended = scene.last_remark().into_iter().chain(last_lines(scene));
    match verdict {
        Verdict::Interrupted => {
            let cause = format!("the server ended while {place} ran");
            let fix = format!(
                "run {place} again; if that does no harm, mark the stage as `idempotent`, and it is done by itself"
            );
            finished(scene, Category::Interrupted, &cause, Some(fix), ended, CERTAIN)
        }
        Verdict::Rejected => {
            let fix = "settle with whoever rejected it what is to change, then deploy again".to_owned();
            finished(scene, Category::Rejected, scene.error(), Some(fix), ended, CERTAIN)
        }
        Verdict::Cancelled => {
            let cause = format!("{place} was cancelled");
            let fix = "nothing is broken by that: retry the stage, or deploy again, if it is still wanted".to_owned();
            finished(scene, Category::Cancelled, &cause, Some(fix), ended, CERTAIN)
        }
        Verdict::TimedOut { seconds } => {
            let limit = seconds.map(|seconds| format!(" of {seconds} s")).unwrap_or_default();
            let mut cause = format!("{place} did not end within its time{limit}");
            let mut evidence: Vec<usize> = scene.last_remark().into_iter().collect();
            if let Some(choice) = choice {
                let line = cleaned(&scene.lines[choice.cause.hit.at].text);
                cause.push_str(&format!("; before that: {}", words(choice.cause.hit, &line).0));
                evidence.push(choice.cause.hit.at);
            }
            evidence.extend(last_lines(scene));
            let fix =
                "see what the last lines wait for; raise `timeoutSeconds` of the stage only if it really needs longer";
            finished(scene, Category::Timeout, &cause, Some(fix.to_owned()), evidence.into_iter(), CERTAIN)
        }
    }
}

fn unknown(scene: &Scene<'_>) -> Finding {
    let cause = "nothing in the log is like a known failure; its last lines are the best lead";
    let complains = |at: &usize| complains(&scene.lines[*at].text);
    let complaint = scene.focus().rev().take(COMPLAINT_WITHIN).find(complains);
    finished(scene, Category::Unknown, cause, None, complaint.into_iter().chain(last_lines(scene)), UNKNOWN)
}

/// Whether a line has a word of failure that is to be taken at its word.
fn complains(text: &str) -> bool {
    let text = cleaned(text).to_ascii_lowercase();
    let is_word = |word: &str| ["error", "fatal", "failed", "failure", "cannot", "exception", "abort"].contains(&word);
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(is_word) && noise::worth(&text) >= 1.0
}

/// The last lines of the step that have something to say, the last one first.
fn last_lines<'a>(scene: &Scene<'a>) -> impl Iterator<Item = usize> + use<'a> {
    let telling = |line: &crate::analysis::Line| !is_remark(line) && !line.text.trim().is_empty();
    let lines = scene.lines;
    let places: Vec<usize> = scene.focus().rev().filter(|at| telling(&lines[*at])).take(EVIDENCE_MAX).collect();
    places.into_iter()
}

fn finished(
    scene: &Scene<'_>,
    category: Category,
    cause: &str,
    fix: Option<String>,
    evidence: impl Iterator<Item = usize>,
    confidence: f64,
) -> Finding {
    let mut places: Vec<usize> = Vec::new();
    for at in evidence {
        let said = |known: &usize| scene.lines[*known].text == scene.lines[at].text;
        if places.len() < EVIDENCE_MAX && !places.iter().any(said) {
            places.push(at);
        }
    }
    let confidence = (confidence.clamp(NEVER_LESS_SURE, NEVER_SURER) * 100.0).round() / 100.0;
    Finding {
        engine: NAME,
        category,
        summary: clipped(&format!("{cause}{}", circumstances(scene)), SUMMARY_CHARACTERS_MAX),
        evidence: places.into_iter().map(|at| Evidence::from(&scene.lines[at])).collect(),
        confidence,
        fix: fix.map(|fix| SuggestedFix { summary: clipped(&fix, SUMMARY_CHARACTERS_MAX), patch: None }),
    }
}

/// Where it was, and what was different when all went well.
fn circumstances(scene: &Scene<'_>) -> String {
    let mut text = String::new();
    if let (Some(stage), Some(step)) = (scene.stage, scene.step) {
        text.push_str(&format!(" (step `{}` of stage `{}`", step.name, stage.name));
        if let Some(code) = step.exit_code {
            text.push_str(&format!(", exit code {code}"));
        }
        text.push(')');
    }
    if let Some(success) = scene.case.last_success.as_ref().filter(|_| scene.action_changed()) {
        text.push_str(&format!("; the step is not what it was when {} succeeded", success.commit));
    }
    text
}

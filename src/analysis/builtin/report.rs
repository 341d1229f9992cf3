//! Turns the chosen cause into a finding: summary, evidence, confidence, suggested fix and alternatives.

use super::baseline::Baseline;
use super::case_view::{CaseView, Parts, is_remark};
use super::causes::{self, Choice, Group};
use super::meaning::{ExitMeaning, Meaning, Verdict, exit_meaning, meaning, verdict};
use super::noise;
use super::scan::{self, Hit, Scan};
use super::signatures::sentences;
use super::text::cleaned;
use crate::plain::last_shown;
use crate::{
    ALTERNATIVES_MAX, Alternative, CaseLine, Category, EVIDENCE_CHARACTERS_MAX, EVIDENCE_MAX, EngineName, Evidence,
    Finding, SUMMARY_CHARACTERS_MAX, SuggestedFix, clipped,
};

/// The confidence in a cause that follows only from the end of the step.
const CERTAIN: f64 = 0.95;
const CONFIDENCE_MAX: f64 = 0.97;
const CONFIDENCE_MIN: f64 = 0.05;
/// The confidence in an unknown cause.
const UNKNOWN: f64 = 0.1;
/// The last error message is searched for in the last lines, up to this many.
const ERROR_WITHIN: usize = 60;
/// The maximum confidence in a cause found in another step, or only in the deployment's error.
const INDIRECT_MAX: f64 = 0.45;
/// Below this the summary also names the second most likely cause.
const UNSURE_BELOW: f64 = 0.5;
/// The confidence in an alternative, as a share of its confidence as the cause.
const ALTERNATIVE: f64 = 0.5;
const ALTERNATIVE_EVIDENCE_MAX: usize = 2;
/// A signature that matches with a lower score (for example in a warning) counts like a generic phrase.
const WEAK_BELOW: f64 = 50.0;
/// The minimum probability of a guess, and the share of the probability that becomes the confidence: the classifier is
/// overconfident.
const GUESS_MIN: f64 = 0.25;
const GUESS: f64 = 0.8;
const GUESS_MAX: f64 = 0.7;
/// The number of lines for a guess, and the number of last lines that they are taken from.
const GUESS_LINES: usize = 40;
const GUESS_WITHIN: usize = 120;
/// Evidence of a guess: lines whose words alone give the guessed category this probability.
const TELLING_MIN: f64 = 0.1;
const TELLING_MAX: usize = 3;
const GUESS_BYTES_MAX: usize = 8 * 1024;
/// Further evidence is searched for in this many lines before and after the cause.
const AROUND_LINES: usize = 12;
const FOLLOWING: usize = 2;
/// Characters shown before a match in a long line.
const BEFORE_MATCH: usize = 80;

/// Guesses the category of a failure without a signature: takes a block of lines, the tool that wrote it and the exit
/// code, and returns categories with their probabilities, most likely first.
pub(super) type Classifier = fn(&str, Option<&str>, Option<i32>) -> Vec<(Category, f64)>;

pub(super) fn finding(
    view: &CaseView<'_>,
    scan: &Scan,
    baseline: &Baseline,
    parts: Parts,
    classifier: Classifier,
) -> Finding {
    let exit = exit_meaning(view);
    let groups = causes::groups(view, scan, baseline, exit, parts);
    let choice = causes::choose(&groups, parts.causes);
    if let Some(verdict) = verdict(view) {
        return by_verdict(view, &verdict, choice.as_ref());
    }
    let weight_of_exit = exit.map_or(0.0, |exit| f64::from(exit.weight));
    let last_command = if parts.segments { causes::last_command(view).unwrap_or(0) } else { 0 };
    let is_survived = groups.iter().all(|group| group.last() < last_command);
    let is_weak = |choice: &Choice| choice.cause.cause.hit.signature.is_vague() || choice.cause.score < WEAK_BELOW;
    let is_at_stake = |choice: &Choice| is_weak(choice) || is_survived;
    if parts.classifier
        && choice.as_ref().is_none_or(is_at_stake)
        && exit.is_none()
        && let Some(guessed) = by_guess(view, scan, classifier, choice.as_ref())
        && choice
            .as_ref()
            .is_none_or(|choice| is_weak(choice) || guessed.confidence > confidence(view, &choice.cause, exit))
    {
        return guessed;
    }
    match (choice, exit) {
        (Some(choice), exit) if choice.cause.cause.score >= weight_of_exit => by_line(view, &choice, exit),
        (choice, Some(exit)) => by_exit(view, exit, choice.as_ref()),
        (_, None) => by_error(view).unwrap_or_else(|| unknown(view)),
    }
}

fn by_line(view: &CaseView<'_>, choice: &Choice, exit: Option<&ExitMeaning>) -> Finding {
    let Choice { cause, others, is_close } = choice;
    let (summary, fix) = sentences_of(view, cause.cause.hit);
    let penalty = if *is_close { 0.1 } else { 0.0 };
    let confidence = rounded(confidence(view, cause, exit) - penalty);
    let alternatives = others.iter().take(ALTERNATIVES_MAX).map(|group| alternative(view, group, exit, confidence));
    let evidence = evidence_of(view, cause);
    finding_of(view, cause.category, &summary, Some(fix), evidence, confidence, alternatives.collect())
}

fn alternative(view: &CaseView<'_>, group: &Group, exit: Option<&ExitMeaning>, cause: f64) -> Alternative {
    let mut evidence = evidence_of(view, group);
    evidence.truncate(ALTERNATIVE_EVIDENCE_MAX);
    let confidence = (confidence(view, group, exit) * ALTERNATIVE).min(cause - 0.01);
    Alternative {
        category: group.category,
        summary: clipped(&sentences_of(view, group.cause.hit).0, SUMMARY_CHARACTERS_MAX),
        evidence,
        confidence: rounded(confidence),
    }
}

fn sentences_of(view: &CaseView<'_>, hit: Hit) -> (String, String) {
    sentences(hit.signature, &hit.text(view.lines))
}

/// High only for a specific signature in the failed step, near its end, that agrees with the exit code.
fn confidence(view: &CaseView<'_>, group: &Group, exit: Option<&ExitMeaning>) -> f64 {
    let specific: f64 = match group.cause.hit.signature.weight {
        90.. => 0.9,
        85.. => 0.84,
        80.. => 0.78,
        74.. => 0.73,
        65.. => 0.64,
        _ => 0.38,
    };
    let mut confidence = specific * group.cause.credibility * group.cause.hit.fits;
    confidence += match exit {
        Some(exit) if exit.categories.contains(&group.category) => 0.08,
        Some(_) => -0.2,
        None => 0.0,
    };
    confidence -= (1.0 - group.nearness) * 0.5;
    if group.is_new {
        confidence += 0.05;
    }
    if view.action_changed() {
        confidence += 0.03;
    }
    if group.cause.in_focus { confidence } else { confidence.min(INDIRECT_MAX) }
}

/// The most significant line first.
fn evidence_of(view: &CaseView<'_>, group: &Group) -> Vec<Evidence> {
    let hits = std::iter::once(group.cause.hit).chain(group.others.iter().map(|other| other.hit));
    let mut evidence: Vec<Evidence> = Vec::new();
    for (hit, at) in hits.flat_map(|hit| hit.lines().map(move |at| (hit, at))) {
        let Some(line) = view.lines.get(at) else { continue };
        if evidence.len() == EVIDENCE_MAX {
            break;
        }
        let mut shown = Evidence::from(line);
        if at == hit.at {
            shown.text = shown_match(line, hit).unwrap_or(shown.text);
        }
        if evidence.iter().all(|other| cleaned(&other.text) != cleaned(&shown.text)) {
            evidence.push(shown);
        }
    }
    let around = lines_of(view, errors_around(view, group.cause.hit.at).chain(following(view, group.cause.hit.at)));
    for line in around.into_iter().take(EVIDENCE_MAX.saturating_sub(evidence.len())) {
        if evidence.iter().all(|other| other.line != line.line && other.text != line.text) {
            evidence.push(line);
        }
    }
    evidence
}

/// The next lines of the same step, where a message may continue.
fn following<'a>(view: &'a CaseView<'_>, at: usize) -> impl Iterator<Item = usize> + 'a {
    let next = (at + 1..view.lines.len()).take(AROUND_LINES);
    next.filter(move |other| is_of_step(view, at, *other) && !view.lines[*other].text.trim().is_empty()).take(FOLLOWING)
}

/// The nearest lines of the same step that report an error: they often give more details.
fn errors_around<'a>(view: &'a CaseView<'_>, at: usize) -> impl Iterator<Item = usize> + 'a {
    let mut near: Vec<usize> = (at.saturating_sub(AROUND_LINES)..view.lines.len().min(at + AROUND_LINES + 1)).collect();
    near.sort_by_key(|other| other.abs_diff(at));
    near.into_iter().filter(move |other| is_of_step(view, at, *other) && has_error_word(&view.lines[*other].text))
}

/// Whether the same step wrote both lines.
fn is_of_step(view: &CaseView<'_>, at: usize, other: usize) -> bool {
    let (one, other) = (&view.lines[at], &view.lines[other]);
    (&one.stage, &one.step) == (&other.stage, &other.step) && !is_remark(other)
}

/// The part of a line around its match, if the beginning of the line does not contain it.
fn shown_match(line: &CaseLine, hit: Hit) -> Option<String> {
    let piece = hit.piece_of(&line.text)?;
    let begins: String = last_shown(&line.text).chars().take(EVIDENCE_CHARACTERS_MAX).collect();
    let matched = hit.captures(&piece).and_then(|captures| captures.get(0)).map_or(0..0, |matched| matched.range());
    if begins.contains(piece.get(matched.clone())?) {
        return None;
    }
    let before = piece[..piece.floor_char_boundary(matched.start)].chars().count();
    let skipped = before.saturating_sub(BEFORE_MATCH);
    let rest: String = piece.chars().skip(skipped).collect();
    let mark = if skipped > 0 { "…" } else { "" };
    Some(clipped(&format!("{mark}{rest}"), EVIDENCE_CHARACTERS_MAX))
}

fn by_guess(view: &CaseView<'_>, scan: &Scan, classifier: Classifier, choice: Option<&Choice>) -> Option<Finding> {
    let guesses = classifier(&last_block(view), scan.last_tool(), view.exit_code());
    let (category, probability) = guesses.first().copied().filter(|(_, probability)| *probability >= GUESS_MIN)?;
    let hinted = choice.filter(|choice| choice.cause.category == category);
    let confidence = (probability * GUESS).min(GUESS_MAX);
    if let Some(choice) = hinted {
        let finding = by_line(view, choice, None);
        return Some(Finding { confidence: rounded(confidence.max(finding.confidence)), ..finding });
    }
    let confidence = rounded(confidence);
    let mut alternatives: Vec<Alternative> =
        choice.map(|choice| alternative(view, &choice.cause, None, confidence)).into_iter().collect();
    for (other, probability) in guesses.iter().skip(1).filter(|(_, probability)| *probability >= GUESS_MIN / 2.0) {
        if alternatives.len() < ALTERNATIVES_MAX && alternatives.iter().all(|known| known.category != *other) {
            alternatives.push(Alternative {
                category: *other,
                summary: meaning(*other).cause.clone(),
                evidence: Vec::new(),
                confidence: rounded((probability * GUESS).min(confidence - 0.01)),
            });
        }
    }
    let telling = telling_lines(view, classifier, category);
    let evidence = lines_of(view, telling.into_iter().chain(last_error(view)).chain(last_lines(view)));
    let Meaning { cause, fix, .. } = meaning(category);
    Some(finding_of(view, category, cause, Some(fix.clone()), evidence, confidence, alternatives))
}

/// The lines for a guess, in their order.
fn guessed_from(view: &CaseView<'_>) -> Vec<usize> {
    let says = |at: &usize| !is_remark(&view.lines[*at]) && !noise::is_routine(&cleaned(&view.lines[*at].text));
    let mut lines: Vec<usize> = view.focus().rev().take(GUESS_WITHIN).filter(says).take(GUESS_LINES).collect();
    lines.reverse();
    lines
}

/// The lines that support a guess on their own, most significant first.
fn telling_lines(view: &CaseView<'_>, classifier: Classifier, category: Category) -> Vec<usize> {
    let share = |at: usize| {
        let text = clipped(&cleaned(&view.lines[at].text), EVIDENCE_CHARACTERS_MAX);
        let guesses = classifier(&text, None, None);
        let share = guesses.iter().find(|(other, _)| *other == category).map_or(0.0, |(_, share)| *share);
        (at, share * noise::credibility(&text))
    };
    let mut lines: Vec<(usize, f64)> = guessed_from(view).into_iter().map(share).collect();
    lines.retain(|(_, share)| *share >= TELLING_MIN);
    lines.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    lines.into_iter().map(|(at, _)| at).take(TELLING_MAX).collect()
}

/// The last lines of the failed step, cleaned.
fn last_block(view: &CaseView<'_>) -> String {
    let mut block = String::new();
    for at in guessed_from(view) {
        block.push_str(&clipped(&cleaned(&view.lines[at].text), EVIDENCE_CHARACTERS_MAX));
        block.push('\n');
    }
    let from = block.ceil_char_boundary(block.len().saturating_sub(GUESS_BYTES_MAX));
    block.split_off(from)
}

fn by_exit(view: &CaseView<'_>, exit: &ExitMeaning, choice: Option<&Choice>) -> Finding {
    let category = exit.categories.first().copied().unwrap_or(Category::Unknown);
    let evidence = lines_of(view, view.last_remark().into_iter().chain(last_lines(view)));
    let confidence = rounded(f64::from(exit.weight) / 100.0 - 0.1);
    let other = choice.map(|choice| &choice.cause).filter(|group| group.category != category);
    let alternatives = other.map(|group| alternative(view, group, None, confidence)).into_iter().collect();
    finding_of(view, category, &exit.cause, Some(exit.fix.clone()), evidence, confidence, alternatives)
}

/// If the step could not be started, the reason is not in the log.
fn by_error(view: &CaseView<'_>) -> Option<Finding> {
    let error = cleaned(view.error());
    let signature = scan::hit_of(&error)?.signature;
    let (cause, fix) = sentences(signature, &error);
    let evidence = lines_of(view, last_lines(view));
    Some(finding_of(view, signature.category, &cause, Some(fix), evidence, INDIRECT_MAX, Vec::new()))
}

fn by_verdict(view: &CaseView<'_>, verdict: &Verdict, choice: Option<&Choice>) -> Finding {
    let stage = view.stage.map(|stage| format!("stage `{}`", stage.name)).unwrap_or_default();
    let (mut lines, mut alternatives) = (Vec::from_iter(view.last_remark()), Vec::new());
    let (category, cause, fix) = match verdict {
        Verdict::Interrupted => (
            Category::Interrupted,
            format!("the server ended while {stage} was running"),
            format!(
                "retry {stage}; if running it twice is harmless, mark the stage as `idempotent`, and the server retries it on its own"
            ),
        ),
        Verdict::Rejected => (
            Category::Rejected,
            view.error().to_owned(),
            "agree with the person who rejected it on the necessary changes, then deploy again".to_owned(),
        ),
        Verdict::Cancelled => (
            Category::Cancelled,
            format!("{stage} was cancelled"),
            "nothing is broken: retry the stage or deploy again if it is still wanted".to_owned(),
        ),
        Verdict::TimedOut { seconds } => {
            let limit = seconds.map(|seconds| format!(" of {seconds} s")).unwrap_or_default();
            let mut cause = format!("{stage} did not end within its time limit{limit}");
            if let Some(Choice { cause: group, .. }) = choice {
                cause.push_str(&format!("; before that: {}", sentences_of(view, group.cause.hit).0));
                lines.push(group.cause.hit.at);
                if group.category != Category::Timeout {
                    alternatives.push(alternative(view, group, None, CERTAIN));
                }
            }
            let fix = "check what the last lines are waiting for; raise `timeoutSeconds` of the stage only if it really needs longer";
            (Category::Timeout, cause, fix.to_owned())
        }
    };
    let evidence = lines_of(view, lines.into_iter().chain(last_lines(view)));
    finding_of(view, category, &cause, Some(fix), evidence, CERTAIN, alternatives)
}

fn unknown(view: &CaseView<'_>) -> Finding {
    let cause = "the log matches no known failure; its last lines are the best lead";
    let evidence = lines_of(view, last_error(view).into_iter().chain(last_lines(view)));
    finding_of(view, Category::Unknown, cause, None, evidence, UNKNOWN, Vec::new())
}

/// The last line that reports an error.
fn last_error(view: &CaseView<'_>) -> Option<usize> {
    view.focus().rev().take(ERROR_WITHIN).find(|at| has_error_word(&view.lines[*at].text))
}

/// Whether a line reports an error: contains an error word, and is to be taken literally.
fn has_error_word(text: &str) -> bool {
    let text = cleaned(text).to_ascii_lowercase();
    let is_word = |word: &str| ["error", "fatal", "failed", "failure", "cannot", "exception", "abort"].contains(&word);
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(is_word)
        && noise::credibility(&text) >= 1.0
        && !noise::is_routine(&text)
}

/// The last meaningful lines of the step, from the end.
fn last_lines<'a>(view: &CaseView<'a>) -> impl Iterator<Item = usize> + use<'a> {
    let is_meaningful = |line: &CaseLine| !is_remark(line) && !line.text.trim().is_empty();
    let says = |line: &CaseLine| is_meaningful(line) && !noise::is_routine(&cleaned(&line.text));
    let lines = view.lines;
    let mut indexes: Vec<usize> =
        view.focus().rev().take(GUESS_WITHIN).filter(|at| says(&lines[*at])).take(EVIDENCE_MAX).collect();
    if indexes.is_empty() {
        indexes = view.focus().rev().filter(|at| is_meaningful(&lines[*at])).take(EVIDENCE_MAX).collect();
    }
    indexes.into_iter()
}

/// Distinct lines, as evidence.
fn lines_of(view: &CaseView<'_>, indexes: impl Iterator<Item = usize>) -> Vec<Evidence> {
    let mut evidence: Vec<Evidence> = Vec::new();
    for line in indexes.map(|at| Evidence::from(&view.lines[at])) {
        if evidence.len() < EVIDENCE_MAX && evidence.iter().all(|other| other.text != line.text) {
            evidence.push(line);
        }
    }
    evidence
}

fn rounded(confidence: f64) -> f64 {
    (confidence.clamp(CONFIDENCE_MIN, CONFIDENCE_MAX) * 100.0).round() / 100.0
}

fn finding_of(
    view: &CaseView<'_>,
    category: Category,
    cause: &str,
    fix: Option<String>,
    evidence: Vec<Evidence>,
    confidence: f64,
    alternatives: Vec<Alternative>,
) -> Finding {
    let confidence = rounded(confidence);
    let second = alternatives.first().filter(|_| confidence < UNSURE_BELOW);
    let or_else = second.map(|other| format!("; or else {}", other.summary)).unwrap_or_default();
    Finding {
        engine: EngineName::Builtin,
        category,
        summary: clipped(&format!("{cause}{or_else}{}", circumstances(view)), SUMMARY_CHARACTERS_MAX),
        evidence,
        confidence,
        fix: fix.map(|fix| SuggestedFix { summary: clipped(&fix, SUMMARY_CHARACTERS_MAX), patch: None }),
        compared_with: None,
        alternatives,
    }
}

/// The location, and the differences from the last success.
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

//! Weighs the lines that match a signature, groups those that belong to one failure, and chooses the cause: the failure
//! that no other explains, searched backwards from the most significant one. The catalogue contains the meaning of a
//! line alone; here its position, its context, the end of the step and the logs of successes count.

use super::baseline::Baseline;
use super::case_view::{CaseView, Parts, is_end_remark, is_remark};
use super::meaning::{ExitMeaning, Reach, meaning, reach};
use super::scan::{Hit, Scan};
use super::text::cleaned;
use super::{noise, tools};
use crate::Category;

/// Below this score no cause is named: the hint is most likely wrong.
const SCORE_MIN: f64 = 30.0;
/// The factor for lines of another step, whose failures did not end the deployment.
const ELSEWHERE: f64 = 0.3;
/// The factor for lines of the last success, where these are excluded.
const EXCLUDED: f64 = 0.1;
/// The factor for an error after which a later line reports recovery.
const RECOVERED: f64 = 0.3;
const RECOVERED_WITHIN: usize = 40;
/// The factor for an error after which the step continued with another command.
const SURVIVED: f64 = 0.75;
/// The last command is searched for in the last lines, up to this many.
const COMMAND_WITHIN: usize = 300;
/// The factor for errors logged before the first failed test.
const BEFORE_TESTS: f64 = 0.4;
/// The factor for lines of a response's body, which describe the other server.
const RESPONSE_BODY: f64 = 0.6;
/// The factors for an exit code that means the same category, or a different one.
const EXIT_AGREES: f64 = 1.12;
const EXIT_DISAGREES: f64 = 0.9;
/// Full score up to this many lines from the end; then it decreases gradually by up to a third.
const NEAR_LINES: usize = 30;
const FAR_LINES: usize = 300;
const FAR: f64 = 0.67;
/// Lines of a category that are further apart belong to different failures.
const CLUSTER_GAP: usize = 80;
/// The number of lines that count as the end of a log, and within which a program reports that it gives up.
const END_LINES: usize = 4;
/// The maximum number of compared failures: those with the lowest scores are left out.
const GROUPS_MAX: usize = 48;

/// A line that may be the cause.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub hit: Hit,
    pub score: f64,
    /// From 0 to 1: how literally the line can be taken.
    pub credibility: f64,
    pub in_focus: bool,
}

/// The lines of one category that belong to one failure.
#[derive(Clone)]
pub(super) struct Group {
    pub category: Category,
    /// The most significant line, the first of equals.
    pub cause: Candidate,
    /// The others, most significant first.
    pub others: Vec<Candidate>,
    /// From 0 to 1: how close the failure is to the end.
    pub nearness: f64,
    pub score: f64,
    /// Whether no success had such a line.
    pub is_new: bool,
}

/// The failures in the log, in its order.
pub(super) fn groups(
    view: &CaseView<'_>,
    scan: &Scan,
    baseline: &Baseline,
    exit: Option<&ExitMeaning>,
    parts: Parts,
) -> Vec<Group> {
    let end = view.focus().rev().find(|at| !is_remark(&view.lines[*at])).unwrap_or(view.lines.len());
    let counted_now = baseline.count_now(scan.hits().map(|hit| &view.lines[hit.at]));
    let hits = scan.hits().filter(|hit| !is_end_remark(&view.lines[hit.at]));
    let last_command = if parts.segments { last_command(view).unwrap_or(0) } else { 0 };
    let mut candidates: Vec<Candidate> = hits.map(|hit| judge(view, scan, exit, hit, last_command)).collect();
    discount_output_of_tests(&mut candidates);
    candidates.retain(|candidate| candidate.score >= SCORE_MIN);
    for candidate in &mut candidates {
        let line = &view.lines[candidate.hit.at];
        let weight = if parts.weighing {
            let ends = ends(view, candidate.hit.at, end);
            baseline.weight(line, &counted_now, ends)
        } else if baseline.weight(line, &counted_now, false) < 1.0 && !baseline.is_new(line) {
            EXCLUDED
        } else {
            1.0
        };
        candidate.score *= weight;
        candidate.credibility *= weight;
    }
    if !parts.weighing {
        candidates.retain(|candidate| candidate.score >= SCORE_MIN);
    }
    let mut groups: Vec<Group> = Vec::new();
    for category in Category::ALL {
        let of: Vec<Candidate> =
            candidates.iter().filter(|candidate| candidate.hit.signature.category == category).copied().collect();
        let apart = |one: &Candidate, other: &Candidate| other.hit.at - one.hit.at <= CLUSTER_GAP;
        let clusters = of.chunk_by(apart).map(|cluster| Group::of(category, cluster, end));
        groups.extend(clusters.flatten());
    }
    for group in &mut groups {
        group.is_new = baseline.is_new(&view.lines[group.cause.hit.at]);
    }
    groups.sort_by(|one, other| other.score.total_cmp(&one.score));
    groups.truncate(GROUPS_MAX);
    groups.sort_by_key(|group| group.cause.hit.at);
    groups
}

/// Whether the step ends with the line, or gives up right after it.
fn ends(view: &CaseView<'_>, at: usize, end: usize) -> bool {
    let after = view.lines.iter().skip(at).take(END_LINES);
    at + END_LINES > end || after.into_iter().any(|line| noise::gives_up(&line.text))
}

/// The line of the step's last command with output, not counting cleanups.
pub(super) fn last_command(view: &CaseView<'_>) -> Option<usize> {
    let mut has_output = false;
    for at in view.focus().rev().take(COMMAND_WITHIN) {
        let line = &view.lines[at];
        if is_remark(line) {
            continue;
        }
        let text = cleaned(&line.text);
        let text = text.strip_prefix("##[group]").unwrap_or(&text);
        match tools::announced(text).filter(|_| !text.starts_with('>')) {
            Some(command) if noise::comes_after_a_failure(command) || command.contains("|| true") => has_output = false,
            Some(_) if has_output => return Some(at),
            Some(_) => {}
            None => has_output |= !noise::is_routine(text),
        }
    }
    None
}

fn judge(view: &CaseView<'_>, scan: &Scan, exit: Option<&ExitMeaning>, hit: Hit, last_command: usize) -> Candidate {
    let line = &view.lines[hit.at];
    let category = hit.signature.category;
    let in_focus = view.is_in_focus(line);
    let mut credibility = if is_remark(line) { 1.0 } else { noise::credibility(&hit.text(view.lines)) };
    let recovers = |at: &usize| *at > hit.at && *at <= hit.at + RECOVERED_WITHIN;
    if meaning(category).passing && scan.recoveries.iter().any(recovers) {
        credibility *= RECOVERED;
    }
    if in_focus && hit.at < last_command {
        credibility *= SURVIVED;
    }
    let mut score = f64::from(hit.signature.weight) * hit.fits * credibility;
    if !in_focus {
        score *= ELSEWHERE;
    }
    if view.is_request() && in_focus && !is_remark(line) && !line.text.starts_with("HTTP/") {
        score *= RESPONSE_BODY;
    }
    if let Some(exit) = exit {
        score *= if exit.categories.contains(&category) { EXIT_AGREES } else { EXIT_DISAGREES };
    }
    Candidate { hit, score, credibility, in_focus }
}

/// Errors logged by code under test are usually intended by the test. Errors that prevent tests from running are not.
fn discount_output_of_tests(candidates: &mut [Candidate]) {
    let fails = |candidate: &&Candidate| {
        candidate.hit.signature.category == Category::TestFailure && candidate.score >= SCORE_MIN
    };
    let Some(first) = candidates.iter().find(fails).map(|candidate| candidate.hit.at) else { return };
    let logged = candidates.iter_mut().filter(|candidate| candidate.hit.at < first);
    for candidate in logged.filter(|candidate| !meaning(candidate.hit.signature.category).prevents_tests) {
        candidate.score *= BEFORE_TESTS;
    }
}

impl Group {
    /// The last line of the failure.
    pub fn last(&self) -> usize {
        self.others.iter().map(|other| other.hit.at).chain([self.cause.hit.at]).max().unwrap_or_default()
    }

    fn of(category: Category, candidates: &[Candidate], end: usize) -> Option<Self> {
        let last = candidates.last()?.hit.at;
        let best = candidates.iter().map(|candidate| candidate.score).max_by(f64::total_cmp)?;
        let cause = *candidates.iter().find(|candidate| candidate.score >= best)?;
        let mut others: Vec<Candidate> =
            candidates.iter().filter(|other| other.hit.at != cause.hit.at).copied().collect();
        others.sort_by(|one, other| other.score.total_cmp(&one.score));
        let nearness = nearness(end.saturating_sub(last));
        let score = best * nearness;
        Some(Self { category, cause, others, nearness, score, is_new: false })
    }
}

fn nearness(distance: usize) -> f64 {
    let beyond = distance.saturating_sub(NEAR_LINES).min(FAR_LINES) as f64;
    1.0 - (1.0 - FAR) * beyond / FAR_LINES as f64
}

/// If a failure with at least this share of the best score comes shortly before the best one, it is considered its
/// trigger.
const RIVALS_WITHIN: f64 = 0.92;
/// The maximum distance in lines for such a trigger. An error that the program survived for longer is not a trigger.
const CASCADE_LINES: usize = 40;
/// At a larger distance, up to this, only effects that may follow at any time count.
const SOON_LINES: usize = 120;
/// If a failure is reported before its reason, the reason follows within this many lines.
const AFTER_LINES: usize = 60;
/// An explanation has at least this credibility, and at least this share of the score of the failure it explains.
const CREDIBLE: f64 = 0.6;
const SCORE_SHARE: f64 = 0.6;
/// The minimum credibility for a failed download over a network: a retry does not make it less credible.
const CREDIBLE_RETRY: f64 = 0.33;
/// The longest chain of explanations.
const CHAIN_MAX: usize = 6;

/// The cause, and the other failures, the most likely first.
pub(super) struct Choice {
    pub cause: Group,
    /// Whether another failure, not explained by the cause, is about as likely.
    pub is_close: bool,
    pub others: Vec<Group>,
}

/// Chooses among failures in the order of the log.
pub(super) fn choose(groups: &[Group], with_causes: bool) -> Option<Choice> {
    let best = (0..groups.len()).max_by(|one, other| {
        let (one, other) = (&groups[*one], &groups[*other]);
        one.score.total_cmp(&other.score).then(other.cause.hit.at.cmp(&one.cause.hit.at))
    })?;
    let mut chain = vec![best];
    while with_causes && chain.len() < CHAIN_MAX {
        let explained = chain[chain.len() - 1];
        let explaining = (0..groups.len()).filter(|index| !chain.contains(index));
        let explaining = explaining.filter(|index| explains(&groups[*index], &groups[explained]));
        let Some(next) = explaining.max_by(|one, other| groups[*one].score.total_cmp(&groups[*other].score)) else {
            break;
        };
        chain.push(next);
    }
    let top = &groups[chain[chain.len() - 1]];
    let is_rival = |group: &Group| group.score >= top.score * RIVALS_WITHIN;
    let is_explained = |group: &Group| with_causes && chain.iter().any(|index| explains(&groups[*index], group));
    let is_beyond_doubt = with_causes && top.cause.hit.signature.is_beyond_doubt();
    let triggers = |group: &Group| {
        is_rival(group)
            && !is_beyond_doubt
            && group.cause.hit.signature.is_vague() <= top.cause.hit.signature.is_vague()
            && group.cause.hit.at <= top.cause.hit.at
            && group.cause.hit.at + CASCADE_LINES >= top.cause.hit.at
            && !is_explained(group)
    };
    let root = (0..groups.len()).find(|index| triggers(&groups[*index])).unwrap_or(chain[chain.len() - 1]);
    let cause = groups[root].clone();
    let is_other = |index: &usize| *index != root && groups[*index].category != cause.category;
    let mut others: Vec<Group> = Vec::new();
    let mut by_score: Vec<usize> = (0..groups.len()).filter(is_other).collect();
    by_score.sort_by(|one, other| groups[*other].score.total_cmp(&groups[*one].score));
    for index in by_score {
        if others.iter().all(|other| other.category != groups[index].category) {
            others.push(groups[index].clone());
        }
    }
    let unexplained = |other: &&Group| !(with_causes && reach(cause.category, other.category).is_some());
    let is_close = others.iter().filter(unexplained).any(is_rival);
    Some(Choice { is_close, cause, others })
}

fn explains(cause: &Group, effect: &Group) -> bool {
    let Some(reach) = reach(cause.category, effect.category) else { return false };
    // After retries without success the download is missing, so a retry counts here.
    let is_unfetched = meaning(cause.category).network && effect.cause.hit.signature.fetching;
    let (credible, share) = if is_unfetched { (CREDIBLE_RETRY, SCORE_SHARE / 2.0) } else { (CREDIBLE, SCORE_SHARE) };
    let is_serious = cause.cause.in_focus
        && cause.cause.credibility >= credible
        && cause.cause.score >= effect.cause.score * share
        && cause.cause.hit.signature.names_a_cause();
    let (from, to) = (cause.cause.hit.at, effect.cause.hit.at);
    let is_in_reach = if from <= to {
        reach == Reach::Later || to - from <= SOON_LINES
    } else {
        meaning(effect.category).report && !meaning(cause.category).symptom && from - to <= AFTER_LINES
    };
    is_serious && is_in_reach
}

//! Chooses the cause among the lines that match a signature. The catalogue says what a line means by itself; here its
//! position, the lines around it, the end of the step and the log of the last success decide.

use super::baseline::Baseline;
use super::case_view::{CaseView, is_end_remark, is_remark};
use super::ends::ExitMeaning;
use super::noise;
use super::scan::{Hit, Scan};
use super::text::cleaned;
use crate::analysis::Category;

/// No cause is named below this score: the hint is most likely wrong.
const SCORE_MIN: f64 = 30.0;
/// A candidate with this share of the best score that comes before the best one is taken as its trigger.
const RIVALS_WITHIN: f64 = 0.92;
/// … if it comes at most this many lines before: an error that was survived for longer triggered nothing.
const CASCADE_LINES: usize = 40;
/// For lines of another step: its failures were survived.
const ELSEWHERE: f64 = 0.3;
/// For lines that are usual in a success.
const USUAL: f64 = 0.1;
/// For an error after which a later line reports recovery.
const RECOVERED: f64 = 0.3;
const RECOVERED_WITHIN: usize = 40;
/// For errors logged before the first failed test.
const BEFORE_TESTS: f64 = 0.4;
/// For lines of a response's body, which describe the other server.
const RESPONSE_BODY: f64 = 0.6;
/// For an exit code that means the same category, or another one.
const EXIT_AGREES: f64 = 1.12;
const EXIT_DISAGREES: f64 = 0.9;
/// Full score up to this many lines from the end; then it decreases gradually by up to a third.
const NEAR_LINES: usize = 30;
const FAR_LINES: usize = 300;
const FAR: f64 = 0.67;
/// Lines of a category that are further apart belong to different moments, of which the last counts.
const CLUSTER_GAP: usize = 80;

/// A line that may be the cause.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub hit: Hit,
    pub score: f64,
    /// From 0 to 1: whether the line means what it says.
    pub credibility: f64,
    pub in_focus: bool,
}

/// The chosen cause.
pub(super) struct Choice {
    pub category: Category,
    pub cause: Candidate,
    /// Other lines of the same category, in the order of the log.
    pub others: Vec<Hit>,
    pub nearness: f64,
    /// Whether another category has nearly the same score.
    pub is_close: bool,
    /// Whether the last success had no such line.
    pub is_new: bool,
}

pub(super) fn choose(
    view: &CaseView<'_>,
    scan: &Scan,
    baseline: &Baseline,
    exit: Option<&ExitMeaning>,
) -> Option<Choice> {
    let counted_now = baseline.count_now(scan.hits().map(|hit| &view.lines[hit.at]));
    let hits = scan.hits().filter(|hit| !is_end_remark(&view.lines[hit.at]));
    let mut candidates: Vec<Candidate> = hits
        .map(|hit| {
            let is_usual = baseline.is_usual(&view.lines[hit.at], &counted_now);
            judge(view, scan, is_usual, exit, hit)
        })
        .collect();
    discount_output_of_tests(&mut candidates);
    let end = view.focus().rev().find(|at| !is_remark(&view.lines[*at])).unwrap_or(view.lines.len());
    let mut groups: Vec<Group> = Vec::new();
    for category in Category::ALL {
        let of = candidates.iter().filter(|candidate| candidate.hit.signature().category == category);
        let of: Vec<Candidate> = of.filter(|candidate| candidate.score >= SCORE_MIN).copied().collect();
        groups.extend(Group::of(category, of, end));
    }
    let best = groups.iter().max_by(|one, other| one.score.total_cmp(&other.score))?;
    let close: Vec<&Group> = groups.iter().filter(|group| group.score >= best.score * RIVALS_WITHIN).collect();
    let may_trigger = |group: &&&Group| group.cause.hit.at + CASCADE_LINES >= best.cause.hit.at;
    let chosen = *close.iter().filter(may_trigger).min_by_key(|group| group.cause.hit.at)?;
    Some(Choice {
        category: chosen.category,
        cause: chosen.cause,
        others: chosen.others.clone(),
        nearness: chosen.nearness,
        is_close: close.len() > 1,
        is_new: baseline.is_new(&view.lines[chosen.cause.hit.at]),
    })
}

fn judge(view: &CaseView<'_>, scan: &Scan, is_usual: bool, exit: Option<&ExitMeaning>, hit: Hit) -> Candidate {
    let line = &view.lines[hit.at];
    let category = hit.signature().category;
    let in_focus = view.is_in_focus(line);
    let mut credibility = if is_remark(line) { 1.0 } else { noise::credibility(&cleaned(&line.text)) };
    if is_usual {
        credibility *= USUAL;
    }
    let recovers = |at: &usize| *at > hit.at && *at <= hit.at + RECOVERED_WITHIN;
    if may_recover(category) && scan.recoveries.iter().any(recovers) {
        credibility *= RECOVERED;
    }
    let mut score = f64::from(hit.signature().weight) * credibility;
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

/// Errors that may disappear after a while.
fn may_recover(category: Category) -> bool {
    use Category::{ConnectionFailed, HttpStatus, Locked, NameResolution, RateLimited, Timeout, Tls, Unhealthy};
    matches!(
        category,
        ConnectionFailed | HttpStatus | Locked | NameResolution | RateLimited | Timeout | Tls | Unhealthy
    )
}

/// Errors logged by code under test are usually intended by the test. Errors that prevent tests from running are not.
fn discount_output_of_tests(candidates: &mut [Candidate]) {
    let fails = |candidate: &&Candidate| {
        candidate.hit.signature().category == Category::TestFailure && candidate.score >= SCORE_MIN
    };
    let Some(first) = candidates.iter().find(fails).map(|candidate| candidate.hit.at) else { return };
    let logged = candidates.iter_mut().filter(|candidate| candidate.hit.at < first);
    for candidate in logged.filter(|candidate| !prevents_tests(candidate.hit.signature().category)) {
        candidate.score *= BEFORE_TESTS;
    }
}

fn prevents_tests(category: Category) -> bool {
    use Category::{
        Compile, DependencyResolution, DiskFull, MigrationFailed, MissingCommand, MissingVariable, OutOfMemory,
        PortInUse, Syntax,
    };
    matches!(
        category,
        Compile
            | DependencyResolution
            | DiskFull
            | MigrationFailed
            | MissingCommand
            | MissingVariable
            | OutOfMemory
            | PortInUse
            | Syntax
    )
}

/// The lines of one category that belong together.
struct Group {
    category: Category,
    cause: Candidate,
    others: Vec<Hit>,
    nearness: f64,
    score: f64,
}

impl Group {
    fn of(category: Category, mut candidates: Vec<Candidate>, end: usize) -> Option<Self> {
        let gap = |pair: &[Candidate]| pair[1].hit.at - pair[0].hit.at > CLUSTER_GAP;
        if let Some(cut) = candidates.windows(2).rposition(gap) {
            candidates.drain(..=cut);
        }
        let last = candidates.last()?.hit.at;
        let best = candidates.iter().map(|candidate| candidate.score).max_by(f64::total_cmp)?;
        let cause = *candidates.iter().find(|candidate| candidate.score >= best)?;
        let others = candidates.iter().map(|candidate| candidate.hit).filter(|hit| hit.at != cause.hit.at).collect();
        let nearness = nearness(end.saturating_sub(last));
        Some(Self { category, cause, others, nearness, score: best * nearness })
    }
}

fn nearness(distance: usize) -> f64 {
    let beyond = distance.saturating_sub(NEAR_LINES).min(FAR_LINES) as f64;
    1.0 - (1.0 - FAR) * beyond / FAR_LINES as f64
}

//! Which of the lines with a signature is the cause. What a line says by itself is the catalogue's; here counts where it
//! stands, what stands around it, how the step ended, and whether the same was said when all went well.

use super::ends::ExitWord;
use super::known::Known;
use super::noise;
use super::scan::{Hit, Scan};
use super::scene::{Scene, is_last_word, is_remark};
use super::text::cleaned;
use crate::analysis::Category;

/// Below this nothing is named: a hint that is most likely none.
const SCORE_MIN: f64 = 30.0;
/// A cause that is worth this much of its best rival and stands before it is taken for what set the other off.
const RIVALS_WITHIN: f64 = 0.92;
/// … if it stands no further before it than this: what was survived for longer set nothing off.
const CASCADE_LINES: usize = 40;
/// Another step's lines: what failed in them was survived.
const ELSEWHERE: f64 = 0.3;
/// What was said when all went well too.
const KNOWN: f64 = 0.1;
/// What a later line says works again.
const RECOVERED: f64 = 0.3;
const RECOVERED_WITHIN: usize = 40;
/// Errors that code under test logs before the first test fails.
const BEFORE_TESTS: f64 = 0.4;
/// The body of an answer speaks of the other side.
const OF_ANSWER: f64 = 0.6;
/// An exit code that means the category, or another one.
const EXIT_AGREES: f64 = 1.12;
const EXIT_DISAGREES: f64 = 0.9;
/// Up to so many lines from the end nothing is lost; then gradually up to a third.
const NEAR_LINES: usize = 30;
const FAR_LINES: usize = 300;
const FAR: f64 = 0.67;
/// A category's lines that stand further apart are of different moments, of which the last counts.
const CLUSTER_GAP: usize = 80;

/// A line that may be the cause.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub hit: Hit,
    pub score: f64,
    /// From 0 to 1: whether the line is to be taken at its word.
    pub worth: f64,
    pub in_focus: bool,
}

/// What was chosen.
pub(super) struct Choice {
    pub category: Category,
    pub cause: Candidate,
    /// Others that say the same, in the order of the log.
    pub others: Vec<Hit>,
    pub nearness: f64,
    /// Whether another category is worth nearly as much.
    pub is_close: bool,
    /// Whether the last success had lines, none of which is like the cause.
    pub is_new: bool,
}

pub(super) fn choose(scene: &Scene<'_>, scan: &Scan, known: &Known, exit: Option<&ExitWord>) -> Option<Choice> {
    let now = known.counted(scan.hits().map(|hit| &scene.lines[hit.at]));
    let hits = scan.hits().filter(|hit| !is_last_word(&scene.lines[hit.at]));
    let mut candidates: Vec<Candidate> = hits
        .map(|hit| {
            let is_known = known.is_known(&scene.lines[hit.at], &now);
            judge(scene, scan, is_known, exit, hit)
        })
        .collect();
    distrust_what_tests_log(&mut candidates);
    let end = scene.focus().rev().find(|at| !is_remark(&scene.lines[*at])).unwrap_or(scene.lines.len());
    let mut groups: Vec<Group> = Vec::new();
    for category in Category::ALL {
        let of = candidates.iter().filter(|candidate| candidate.hit.signature().category == *category);
        let of: Vec<Candidate> = of.filter(|candidate| candidate.score >= SCORE_MIN).copied().collect();
        groups.extend(Group::of(*category, of, end));
    }
    let best = groups.iter().max_by(|one, other| one.score.total_cmp(&other.score))?;
    let close: Vec<&Group> = groups.iter().filter(|group| group.score >= best.score * RIVALS_WITHIN).collect();
    let may_set_off = |group: &&&Group| group.cause.hit.at + CASCADE_LINES >= best.cause.hit.at;
    let chosen = *close.iter().filter(may_set_off).min_by_key(|group| group.cause.hit.at)?;
    Some(Choice {
        category: chosen.category,
        cause: chosen.cause,
        others: chosen.others.clone(),
        nearness: chosen.nearness,
        is_close: close.len() > 1,
        is_new: known.is_new(&scene.lines[chosen.cause.hit.at]),
    })
}

fn judge(scene: &Scene<'_>, scan: &Scan, is_known: bool, exit: Option<&ExitWord>, hit: Hit) -> Candidate {
    let line = &scene.lines[hit.at];
    let category = hit.signature().category;
    let in_focus = scene.is_in_focus(line);
    let mut worth = if is_remark(line) { 1.0 } else { noise::worth(&cleaned(&line.text)) };
    if is_known {
        worth *= KNOWN;
    }
    let recovers = |at: &usize| *at > hit.at && *at <= hit.at + RECOVERED_WITHIN;
    if may_recover(category) && scan.recoveries.iter().any(recovers) {
        worth *= RECOVERED;
    }
    let mut score = f64::from(hit.signature().weight) * worth;
    if !in_focus {
        score *= ELSEWHERE;
    }
    if scene.is_request() && in_focus && !is_remark(line) && !line.text.starts_with("HTTP/") {
        score *= OF_ANSWER;
    }
    if let Some(exit) = exit {
        score *= if exit.categories.contains(&category) { EXIT_AGREES } else { EXIT_DISAGREES };
    }
    Candidate { hit, score, worth, in_focus }
}

/// What may fail for a while and then work.
fn may_recover(category: Category) -> bool {
    use Category::{ConnectionFailed, HttpStatus, Locked, NameResolution, RateLimited, Timeout, Tls, Unhealthy};
    matches!(
        category,
        ConnectionFailed | HttpStatus | Locked | NameResolution | RateLimited | Timeout | Tls | Unhealthy
    )
}

/// What code under test logs is most often what the test wants it to. What keeps tests from running is said by others.
fn distrust_what_tests_log(candidates: &mut [Candidate]) {
    let fails = |candidate: &&Candidate| {
        candidate.hit.signature().category == Category::TestFailure && candidate.score >= SCORE_MIN
    };
    let Some(first) = candidates.iter().find(fails).map(|candidate| candidate.hit.at) else { return };
    let logged = candidates.iter_mut().filter(|candidate| candidate.hit.at < first);
    for candidate in logged.filter(|candidate| !keeps_tests_from_running(candidate.hit.signature().category)) {
        candidate.score *= BEFORE_TESTS;
    }
}

fn keeps_tests_from_running(category: Category) -> bool {
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

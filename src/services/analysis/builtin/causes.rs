//! Which failure made another: the cause is the failure that no other explains, found from the most telling one backwards.

use super::rank::Group;
use crate::analysis::Category;

/// A failure with this share of the best score that comes shortly before the best one is taken as its trigger.
const RIVALS_WITHIN: f64 = 0.92;
/// Shortly: at most this many lines before. An error that was survived for longer triggered nothing by itself.
const CASCADE_LINES: usize = 40;
/// Further back, only a failure that makes others late.
const NEAR_LINES: usize = 120;
/// What is reported before its reason is shown: the reason follows within this many lines.
const AFTER_LINES: usize = 60;
/// An explanation is at least this credible, and has at least this share of the score of what it explains.
const CREDIBLE: f64 = 0.6;
const SCORE_SHARE: f64 = 0.6;
/// The same for what was to be fetched over a network: retries are no good sign there.
const CREDIBLE_RETRY: f64 = 0.33;
/// The longest chain of explanations.
const CHAIN_MAX: usize = 6;

/// The cause, and the other failures, the most likely first.
pub(super) struct Choice {
    pub cause: Group,
    /// Whether another failure that it does not explain is about as likely.
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
    let is_beyond_doubt = with_causes && top.cause.hit.signature().is_beyond_doubt();
    let triggers = |group: &Group| {
        is_rival(group)
            && !is_beyond_doubt
            && group.cause.hit.signature().is_vague() <= top.cause.hit.signature().is_vague()
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
    let unexplained = |other: &&Group| !(with_causes && reach(cause.category, other.category) != Reach::None);
    let is_close = others.iter().filter(unexplained).any(is_rival);
    Some(Choice { is_close, cause, others })
}

/// How far before a failure the one that explains it may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    None,
    Near,
    Far,
}

fn explains(cause: &Group, effect: &Group) -> bool {
    let reach = reach(cause.category, effect.category);
    // What was retried and never fetched is not there: here a retry counts.
    let is_unfetched = is_of_the_network(cause.category) && effect.cause.hit.signature().is_about_fetching();
    let (credible, share) = if is_unfetched { (CREDIBLE_RETRY, SCORE_SHARE / 2.0) } else { (CREDIBLE, SCORE_SHARE) };
    let is_serious = cause.cause.in_focus
        && cause.cause.credibility >= credible
        && cause.cause.score >= effect.cause.score * share
        && cause.cause.hit.signature().names_a_cause();
    if reach == Reach::None || !is_serious {
        return false;
    }
    let (from, to) = (cause.cause.hit.at, effect.cause.hit.at);
    if from <= to {
        return reach == Reach::Far || to - from <= NEAR_LINES;
    }
    is_a_report(effect.category) && !is_a_symptom(cause.category) && from - to <= AFTER_LINES
}

fn is_of_the_network(category: Category) -> bool {
    matches!(category, NameResolution | ConnectionFailed | Tls | Timeout | RateLimited | HttpStatus | Authentication)
}

/// Failures that those who wait for something see of it.
fn is_a_symptom(category: Category) -> bool {
    matches!(category, Timeout | ConnectionFailed | HttpStatus | TestFailure)
}

/// Failures that are reported first, before their reason is looked up.
fn is_a_report(category: Category) -> bool {
    matches!(category, Unhealthy | Timeout)
}

fn reach(cause: Category, effect: Category) -> Reach {
    let (far, near) = effects(cause);
    if far.contains(&effect) {
        Reach::Far
    } else if near.contains(&effect) {
        Reach::Near
    } else {
        Reach::None
    }
}

use Category::{
    AlreadyExists, Authentication, Cancelled, Compile, ConnectionFailed, Crashed, DependencyResolution, DiskFull,
    HttpStatus, ImagePull, Interrupted, Killed, Lint, Locked, MergeConflict, MigrationFailed, MissingCommand,
    MissingFile, MissingVariable, NameResolution, OutOfMemory, PermissionDenied, PortInUse, RateLimited, Rejected,
    ResourceLimit, Syntax, TestFailure, Timeout, Tls, Unhealthy, Unknown, Vulnerability,
};

/// What cannot be fetched is missed: soon as a package or an image, later as a command.
const UNFETCHED: &[Category] =
    &[DependencyResolution, ImagePull, MissingFile, MigrationFailed, Unhealthy, Crashed, Syntax];
/// What follows where room or memory ran out: files are incomplete, services are gone.
const INCOMPLETE: &[Category] = &[
    MissingFile,
    Compile,
    Crashed,
    ConnectionFailed,
    Unhealthy,
    Syntax,
    DependencyResolution,
    MigrationFailed,
    MissingCommand,
    Timeout,
    ImagePull,
    HttpStatus,
    TestFailure,
    Killed,
];

/// What may follow from a failure: any time later, and soon after it.
fn effects(cause: Category) -> (&'static [Category], &'static [Category]) {
    match cause {
        // What was not installed is missed later.
        DependencyResolution => (&[MissingCommand], &[Compile, TestFailure, Crashed, MissingFile, Lint]),
        OutOfMemory | Killed | DiskFull => (INCOMPLETE, &[]),
        ResourceLimit => (INCOMPLETE, &[MergeConflict]),
        NameResolution => (&[MissingCommand, ConnectionFailed, Timeout, HttpStatus], UNFETCHED),
        ConnectionFailed | HttpStatus => (&[MissingCommand], UNFETCHED),
        Timeout => (&[MissingCommand], &[DependencyResolution, ImagePull, MissingFile, MigrationFailed]),
        Tls => (&[MissingCommand, ConnectionFailed], UNFETCHED),
        RateLimited => (&[MissingCommand, HttpStatus, Authentication, PermissionDenied], UNFETCHED),
        Authentication => (&[MissingCommand, ConnectionFailed, PermissionDenied, HttpStatus, MergeConflict], UNFETCHED),
        PermissionDenied => (&[MissingCommand, ConnectionFailed, HttpStatus, MergeConflict, Timeout], UNFETCHED),
        // A setting that is missing shows where it is used.
        MissingVariable => (
            &[
                Authentication,
                ConnectionFailed,
                Syntax,
                ImagePull,
                MissingFile,
                Crashed,
                Unhealthy,
                NameResolution,
                MigrationFailed,
                HttpStatus,
                PermissionDenied,
                TestFailure,
                Timeout,
            ],
            &[],
        ),
        MissingCommand => (&[], &[MissingFile, Crashed, Compile, Unhealthy, Syntax, TestFailure, Lint, MergeConflict]),
        MissingFile => (&[], &[Unhealthy, Crashed, Syntax, Timeout]),
        Syntax => (&[], &[Unhealthy, Crashed, Compile, MissingFile, ConnectionFailed]),
        Compile => (&[MissingFile, MissingCommand, TestFailure, Unhealthy], &[MergeConflict]),
        PortInUse => (&[Unhealthy, ConnectionFailed, Crashed, TestFailure, Timeout], &[]),
        Crashed => (&[], &[ConnectionFailed, Unhealthy, MissingFile, Timeout]),
        ImagePull => (&[Unhealthy, Timeout], &[]),
        Unhealthy => (&[], &[Timeout, HttpStatus]),
        MigrationFailed => (&[], &[Unhealthy, Crashed, TestFailure]),
        Locked | AlreadyExists => (&[], &[Timeout, MigrationFailed, Unhealthy, DependencyResolution]),
        // A hook refuses the push.
        Lint | TestFailure | Vulnerability => (&[], &[MergeConflict]),
        // A run that is stopped from outside has its programs killed.
        Interrupted | Cancelled => (&[], &[Killed, Crashed, TestFailure, ConnectionFailed, OutOfMemory]),
        MergeConflict | Rejected | Unknown => (&[], &[]),
    }
}

//! Which failure made another: the cause is the failure that no other explains, found from the most telling one backwards.

use super::categories::{Reach, meaning, reach};
use super::rank::Group;

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
    // What was retried and never fetched is not there: here a retry counts.
    let is_unfetched = meaning(cause.category).network && effect.cause.hit.signature.fetching;
    let (credible, share) = if is_unfetched { (CREDIBLE_RETRY, SCORE_SHARE / 2.0) } else { (CREDIBLE, SCORE_SHARE) };
    let is_serious = cause.cause.in_focus
        && cause.cause.credibility >= credible
        && cause.cause.score >= effect.cause.score * share
        && cause.cause.hit.signature.names_a_cause();
    let (from, to) = (cause.cause.hit.at, effect.cause.hit.at);
    let is_in_reach = if from <= to {
        reach == Reach::Later || to - from <= NEAR_LINES
    } else {
        meaning(effect.category).report && !meaning(cause.category).symptom && from - to <= AFTER_LINES
    };
    is_serious && is_in_reach
}

//! Owns until when each one certainly held its lock: until the earliest moment at which a release, a force-claim or its
//! TTL may have ended it, or later if the server itself still took it for the holder then.

use std::collections::HashMap;
use std::time::Duration;

use super::about;
use super::evidence::{Evidence, Grant};
use crate::history::{Answer, Moment};

/// A lock that nothing ends.
pub const NEVER: Moment = Moment(u64::MAX);

/// The server counts a lease in whole milliseconds.
const LEASE_ROUNDING: Duration = Duration::from_millis(10);
/// Its clock and ours may run apart by one part in this many: twice what time synchronisation makes of them.
const CLOCK_DRIFT: u32 = 1_000;
/// How long the server certainly keeps a lock for a client that went before it could be told and may come back with its
/// key; half of what it says. The answer it gets later is still the same, but the lock may be another's.
const KEPT_UNTOLD: Duration = Duration::from_secs(30);

pub fn settle(evidence: &mut Evidence<'_>) {
    let active = last_active(evidence);
    let displaced = displaced(evidence);
    for ((grant, active), displaced) in evidence.grants.iter_mut().zip(active).zip(displaced) {
        let released = grant.release.map_or(NEVER, |release| release.sent);
        let expired = grant.ttl().map_or(NEVER, |ttl| lease_end(active, ttl));
        let lost = if came_back_late(grant) { grant.told() } else { NEVER };
        grant.held_until = released.min(expired).min(displaced).min(lost).max(active);
    }
}

fn came_back_late(grant: &Grant<'_>) -> bool {
    grant.earliest < grant.record.sent && grant.told() > after(grant.earliest, KEPT_UNTOLD)
}

/// After a time, without going round.
pub fn after(moment: Moment, time: Duration) -> Moment {
    Moment(moment.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}

/// A lease that was begun at this moment or later has not run out before.
fn lease_end(begun: Moment, ttl: Duration) -> Moment {
    after(begun, ttl.saturating_sub(LEASE_ROUNDING + ttl / CLOCK_DRIFT))
}

/// When each session was last known to be alive: its claim, or a heartbeat or deployment that was acknowledged, as only
/// the holder's are. Such an answer may be an older one's, repeated for an idempotency key, if one got none.
fn last_active(evidence: &Evidence<'_>) -> Vec<Moment> {
    let mut unanswered: HashMap<usize, Moment> = HashMap::new();
    let activities = || {
        let records = evidence.history.records.iter().filter(|record| about::is_activity(record));
        records.filter_map(|record| Some((evidence.place_of(about::session(record)?)?, record)))
    };
    for (place, record) in activities().filter(|(_, record)| record.answer == Answer::Unknown) {
        let first = unanswered.entry(place).or_insert(record.sent);
        *first = record.sent.min(*first);
    }
    let mut last: Vec<Moment> = evidence.grants.iter().map(|grant| grant.earliest).collect();
    for (place, record) in activities().filter(|(_, record)| record.answer == Answer::Done) {
        let first = unanswered.get(&place).map_or(record.sent, |first| record.sent.min(*first));
        last[place] = last[place].max(first);
    }
    last
}

/// From when on each one may have been displaced. Every grant takes the token after the one before it, so only the
/// session with the next token can have displaced it.
fn displaced(evidence: &Evidence<'_>) -> Vec<Moment> {
    let mut moments = Vec::with_capacity(evidence.grants.len());
    for (environment, grants) in evidence.by_environment() {
        let mut by_token: Vec<&Grant> = grants.iter().collect();
        by_token.sort_unstable_by_key(|grant| grant.token);
        let unseen = if evidence.history.alone {
            evidence.unanswered.first_force_claim(environment).unwrap_or(NEVER)
        } else {
            // Others may force-claim here, and nobody tells us.
            Moment(0)
        };
        moments.extend(grants.iter().map(|grant| {
            let next = grant.token.saturating_add(1);
            let start = by_token.partition_point(|other| other.token < next);
            let successors: Vec<_> = by_token[start..].iter().take_while(|other| other.token == next).collect();
            if successors.is_empty() {
                return unseen;
            }
            let forced = successors.into_iter().filter(|successor| successor.by_force());
            forced.map(|successor| successor.earliest).min().unwrap_or(NEVER)
        }));
    }
    moments
}

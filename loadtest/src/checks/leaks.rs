//! No lock is left behind: once all clients have stopped and all leases and waits have had time to end, no session
//! holds an environment or waits for one, unless the clients themselves left it that way.
//!
//! A lock that is still held is
//! - a leak, if its release was acknowledged, or its TTL must have run out;
//! - the client's doing, if the client received the grant and never got an answer to a release;
//! - if no client received the grant, a leak unless an unanswered claim may legitimately hold it: see [`rightly_has`].
//!
//! If others claim as well, waiters and unknown holders may be theirs.

use std::collections::HashMap;
use std::time::Duration;

use crate::checks::evidence::{Evidence, Grant, NEVER, after, is_activity, session};
use crate::checks::findings::Findings;
use crate::history::{Answer, Moment, Record, Request, SessionName, SessionStatus};
use crate::report::Check;

pub const NAME: &str = "no lock is left behind";

/// How long a busy server may take to end a lease, or to notice that a client has gone.
const GRACE: Duration = Duration::from_secs(5);

pub fn check(evidence: &Evidence<'_>) -> Check {
    let mut findings = Findings::new(evidence.history, NAME);
    let renewed = last_renewed(evidence);
    for read in &evidence.history.audit {
        let Some(environment) = read.environment else { continue };
        match &read.answer {
            Answer::Environment { holder, fencing, queue_length } => {
                findings.examined();
                let name = || evidence.name(environment);
                if evidence.history.alone && *queue_length > 0 {
                    findings.wrong(|| format!("{} has {queue_length} in line, and all have gone", name()), &[read]);
                }
                if let Some(holder) = holder
                    && let Some(Leak { why, requests }) = leak(evidence, &renewed, read, holder)
                {
                    let what = || format!("{} is still held by {holder} (fencing {fencing}): {why}", name());
                    findings.wrong(what, &requests);
                }
            }
            Answer::Session { status: SessionStatus::Queued, .. } => {
                findings.examined();
                findings.wrong(|| format!("somebody still waits for {}", evidence.name(environment)), &[read]);
            }
            Answer::Session { .. }
            | Answer::Granted { .. }
            | Answer::Done
            | Answer::Refused { .. }
            | Answer::Unknown => {}
        }
    }
    findings.into_check()
}

struct Leak<'h> {
    why: &'static str,
    requests: Vec<&'h Record>,
}

fn leak<'h>(
    evidence: &Evidence<'h>,
    renewed: &Renewed<'h>,
    read: &'h Record,
    holder: &SessionName,
) -> Option<Leak<'h>> {
    if let Some(grant) = evidence.grant_of(holder) {
        return told_leak(renewed, read, grant);
    }
    let (Some(environment), Answer::Environment { fencing, .. }) = (read.environment, &read.answer) else {
        return None;
    };
    if !evidence.history.alone {
        return None;
    }
    let begun = granted_after(evidence.grants_in(environment), *fencing);
    if evidence.unanswered.about(environment).any(|claim| rightly_has(claim, begun, read.sent)) {
        return None;
    }
    Some(Leak { why: "nobody was told of it, and nobody who is gone can have got it", requests: vec![read] })
}

fn told_leak<'h>(renewed: &Renewed<'h>, read: &'h Record, grant: &Grant<'h>) -> Option<Leak<'h>> {
    if let Some(release) = grant.released.filter(|release| release.ended <= read.sent) {
        return Some(Leak { why: "it gave it back", requests: vec![grant.record, release, read] });
    }
    let last = renewed.get(grant.session).map_or(grant.record, |last| *last);
    let expired = after(after(last.ended, grant.ttl()?), GRACE) <= read.sent;
    expired.then(|| Leak { why: "its TTL has run out", requests: vec![grant.record, last, read] })
}

type Renewed<'h> = HashMap<&'h SessionName, &'h Record>;

/// For each remaining holder, the last request that may have renewed its lease.
fn last_renewed<'h>(evidence: &Evidence<'h>) -> Renewed<'h> {
    let holders = evidence.history.audit.iter().filter_map(|read| match &read.answer {
        Answer::Environment { holder, .. } => holder.as_ref(),
        Answer::Session { .. } | Answer::Granted { .. } | Answer::Done | Answer::Refused { .. } | Answer::Unknown => {
            None
        }
    });
    let mut renewed: Renewed = holders.filter_map(|holder| Some((holder, evidence.grant_of(holder)?.record))).collect();
    for record in evidence.history.records.iter().filter(|record| is_activity(record)) {
        if let Some(last) = session(record).and_then(|session| renewed.get_mut(session))
            && last.ended < record.ended
        {
            *last = record;
        }
    }
    renewed
}

/// The earliest moment at which the token can have been granted: after the holders of all lower tokens.
fn granted_after(grants: &[Grant<'_>], token: u64) -> Moment {
    let before = grants.iter().filter(|grant| grant.token < token && grant.is_held());
    before.map(|grant| grant.held_until).filter(|until| *until != NEVER).max().unwrap_or(Moment(0))
}

/// Whether an unanswered claim may hold a lock that was granted at `begun` or later and is still held now. An answer
/// may get lost after the server has sent it; the server cannot know that, and the lock stays held. But
/// - a lock with a TTL has expired by now;
/// - a queued client that disconnects leaves the queue immediately and never gets a lock afterwards: the server sees
///   the disconnect, and must not grant the lock, or must take it back. A force-claim, or a claim that was not seen in
///   the queue, may still be in transit when its client disconnects.
fn rightly_has(claim: &Record, begun: Moment, now: Moment) -> bool {
    let Request::Claim { in_line_at, ttl, .. } = claim.request else { return true };
    let noticed = after(claim.ended, GRACE);
    let expired = ttl.is_some_and(|ttl| after(noticed, ttl) <= now);
    let gone = in_line_at.is_some() && noticed <= begun;
    !expired && !gone
}

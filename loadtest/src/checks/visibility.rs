//! What was acknowledged is seen later: whoever asks after an answer has arrived is shown its effect or something
//! later, and nothing that was shown is taken back. One file for what environments show, one for what sessions show.

use crate::checks::evidence::{Evidence, Grant, Rising};
use crate::checks::findings::Findings;
use crate::history::{Answer, Moment, Record, SessionName};
use crate::report::Check;

mod sessions;
pub const NAME: &str = "what was acknowledged is seen later";

pub fn check(evidence: &Evidence<'_>) -> Check {
    let mut findings = Findings::new(evidence.history, NAME);
    check_environments(evidence, &mut findings);
    sessions::check(evidence, &mut findings);
    findings.into_check()
}

fn check_environments<'h>(evidence: &Evidence<'h>, findings: &mut Findings<'h>) {
    let mut shown: Vec<(u32, &Record)> = evidence
        .history
        .everything()
        .filter(|record| token(record).is_some() || holder(record).is_some())
        .filter_map(|record| Some((record.environment?, record)))
        .collect();
    shown.sort_unstable_by_key(|(environment, record)| (*environment, record.sent));
    for shown in shown.chunk_by(|(one, _), (other, _)| one == other) {
        let Some((environment, _)) = shown.first() else { continue };
        let grants = evidence.grants_in(*environment);
        let told = grants.iter().map(|grant| (grant.told(), grant.token, grant.record));
        let read = || shown.iter().filter_map(|(_, record)| Some((record.ended, token(record)?, *record)));
        let rule = EnvironmentRule {
            evidence,
            name: evidence.name(*environment),
            known: Rising::of(told.chain(read())),
            holds: grants.iter().filter(|grant| grant.is_held()).collect(),
        };
        for (_, record) in shown {
            rule.compare(record, findings);
        }
        grants_follow(&rule.name, grants, &Rising::of(read()), findings);
    }
}

struct EnvironmentRule<'e, 'h> {
    evidence: &'e Evidence<'h>,
    name: String,
    known: Rising<'h>,
    /// Those who certainly held it at some time, in order.
    holds: Vec<&'e Grant<'h>>,
}

impl EnvironmentRule<'_, '_> {
    /// Says the first thing that is wrong with it.
    fn compare(&self, read: &Record, findings: &mut Findings<'_>) {
        let Some(holder) = holder(read) else { return };
        let shown = token(read);
        let known = self.known.by(read.sent).filter(|_| shown.is_some());
        let holds = self.holder_during(read);
        let grant = holder.and_then(|holder| self.evidence.grant_of(holder));
        if known.is_none() && holds.is_none() && grant.is_none() {
            return;
        }
        findings.examined();
        let name = &self.name;
        if let (Some(shown), Some((known, before))) = (shown, known)
            && shown < known
        {
            findings.wrong(|| format!("{name} showed fencing {shown} after {known} was known"), &[before, read]);
        } else if let Some(release) = grant.and_then(|grant| released_before(grant, read.sent)) {
            findings.wrong(|| format!("{name} showed a holder that had given it back"), &[release, read]);
        } else if let (Some(shown), Some(grant)) = (shown, grant)
            && (shown, read.environment) != (grant.token, Some(grant.environment))
        {
            let what =
                || format!("{name} showed {} with fencing {shown}, which was granted {}", grant.session, grant.token);
            findings.wrong(what, &[grant.record, read]);
        } else if let Some(holds) = holds.filter(|holds| Some(holds.session) != holder) {
            let what = || format!("{name} did not show its holder {} (fencing {})", holds.session, holds.token);
            findings.wrong(what, &[holds.record, read]);
        }
    }

    /// Who certainly held it from before the read until after it.
    fn holder_during(&self, read: &Record) -> Option<&Grant<'_>> {
        let begun = self.holds.partition_point(|grant| grant.told() <= read.sent);
        self.holds[..begun].last().copied().filter(|grant| grant.held_until >= read.ended)
    }
}

/// Whoever claims after a token was shown gets a higher one: what was shown cannot have been lost.
fn grants_follow(name: &str, grants: &[Grant<'_>], read: &Rising<'_>, findings: &mut Findings<'_>) {
    for grant in grants {
        let Some((shown, before)) = read.by(grant.earliest) else { continue };
        findings.examined();
        if shown >= grant.token {
            let what = || format!("{name} was granted with fencing {} after {shown} had been shown", grant.token);
            findings.wrong(what, &[before, grant.record]);
        }
    }
}

fn released_before<'h>(grant: &Grant<'h>, moment: Moment) -> Option<&'h Record> {
    grant.released.filter(|release| release.ended <= moment)
}

/// Whom a read of the environment shows as its holder, or that there is none.
fn holder(record: &Record) -> Option<Option<&SessionName>> {
    if let Answer::Environment { holder, .. } = &record.answer { Some(holder.as_ref()) } else { None }
}

/// The token that it shows. The API shows an environment's with its holder only; none is 0 in the history.
fn token(record: &Record) -> Option<u64> {
    let (fencing, shown) = match &record.answer {
        Answer::Environment { holder, fencing, .. } => (*fencing, holder.is_some()),
        Answer::Session { fencing, .. } => (*fencing, false),
        Answer::Granted { .. } | Answer::Done | Answer::Refused { .. } | Answer::Unknown => return None,
    };
    (shown || fencing > 0).then_some(fencing)
}

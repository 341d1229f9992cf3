//! Fencing tokens rise: each session has its own, a later grant has a higher one, and none is skipped unless others use
//! the environments too.
//!
//! A grant is later in one of two cases. Either its claim was sent after the other grant was answered. Or its session
//! certainly held the lock from the answer on, and the other grant was answered earlier: with one holder at a time, the
//! other session must have held the lock first.

use crate::checks::evidence::{Evidence, Grant, Rising};
use crate::checks::findings::Findings;
use crate::history::Moment;
use crate::report::Check;

pub const NAME: &str = "fencing tokens rise";

pub fn check(evidence: &Evidence<'_>) -> Check {
    let mut findings = Findings::new(evidence.history, NAME);
    for (one, other) in &evidence.contradictions {
        findings.examined();
        findings.wrong(|| "one session was granted twice, and not the same".to_owned(), &[one, other]);
    }
    for (environment, grants) in evidence.by_environment() {
        later_is_higher(&evidence.name(environment), grants, &mut findings);
        // An unanswered claim may have taken a token.
        let complete = evidence.history.alone && evidence.unanswered.count(environment) == 0;
        neighbours(&evidence.name(environment), grants, complete, &mut findings);
    }
    findings.into_check()
}

fn later_is_higher(name: &str, grants: &[Grant<'_>], findings: &mut Findings<'_>) {
    let rising = Rising::of(grants.iter().map(|grant| (grant.told(), grant.token, grant.record)));
    for grant in grants {
        let just_before = Moment(grant.told().0.saturating_sub(1));
        let by = if grant.is_held() { grant.earliest.max(just_before) } else { grant.earliest };
        if let Some((higher, before)) = rising.by(by).filter(|(token, _)| *token > grant.token) {
            let what = || format!("{name} was granted with fencing {} after {higher}", grant.token);
            findings.wrong(what, &[before, grant.record]);
        }
    }
}

/// Compares grants with adjacent tokens.
fn neighbours(name: &str, grants: &[Grant<'_>], complete: bool, findings: &mut Findings<'_>) {
    let mut by_token: Vec<&Grant> = grants.iter().collect();
    by_token.sort_unstable_by_key(|grant| (grant.token, grant.told()));
    for pair in by_token.windows(2) {
        let [one, other] = pair else { continue };
        findings.examined();
        let requests = [one.record, other.record];
        if one.token == other.token {
            let what =
                || format!("{name} was granted to {} and to {} with fencing {}", one.session, other.session, one.token);
            findings.wrong(what, &requests);
        } else if complete && other.token - one.token > 1 {
            let (from, to) = (one.token, other.token);
            findings
                .wrong(|| format!("{name} went from fencing {from} to {to}, and nobody got those between"), &requests);
        }
    }
}

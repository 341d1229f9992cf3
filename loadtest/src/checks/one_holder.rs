//! One holder at a time: no two sessions of one environment have times in which both certainly held its lock. What
//! "certainly" means is in [`super::holding`].

use crate::checks::evidence::{Evidence, Grant, NEVER};
use crate::checks::findings::{Findings, seconds};
use crate::report::Check;

pub const NAME: &str = "one holder at a time";

pub fn check(evidence: &Evidence<'_>) -> Check {
    let mut findings = Findings::new(evidence.history, NAME);
    for (environment, grants) in evidence.by_environment() {
        // In order of their beginnings, it is enough to look at the one that lasts longest of those before.
        let mut longest: Option<&Grant> = None;
        for grant in grants.iter().filter(|grant| grant.is_held()) {
            if let Some(other) = longest {
                findings.examined();
                if grant.told() < other.held_until {
                    let what = || overlap(&evidence.name(environment), other, grant);
                    let releases = [other, grant].into_iter().filter_map(|held| held.release);
                    let requests: Vec<_> = [other.record, grant.record].into_iter().chain(releases).collect();
                    findings.wrong(what, &requests);
                }
            }
            longest = longest.filter(|other| other.held_until >= grant.held_until).or(Some(grant));
        }
    }
    findings.into_check()
}

fn overlap(name: &str, first: &Grant, second: &Grant) -> String {
    let until = first.held_until.min(second.held_until);
    let until = if until == NEVER { "on".to_owned() } else { format!("until {} s", seconds(until)) };
    let (one, other) = (first.session, second.session);
    let (tokens, from) = ((first.token, second.token), seconds(second.told()));
    format!(
        "{name} had two holders from {from} s {until}: {one} (fencing {}) and {other} (fencing {})",
        tokens.0, tokens.1
    )
}

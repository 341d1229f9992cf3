//! The queue keeps its order: who was in line for an environment when another's claim was sent, and got the lock in the
//! end, got it first, and so has the lower token.
//!
//! - Force-claims pass the line rightly.
//! - Who was refused, left, or got no answer proves nothing: it may have had no turn.
//! - A claim for any environment may not pass one who is in line for this one, but not the other way round: that it
//!   waited somewhere else is no place in this line.
//! - All claims of a run have one priority.

use std::collections::BTreeSet;

use crate::checks::evidence::{Evidence, Grant};
use crate::checks::findings::Findings;
use crate::history::{Moment, Request};
use crate::report::Check;

pub const NAME: &str = "the queue keeps its order";

/// In this order, of what happens at the same moment: who has been told is no longer in line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Leaves,
    Joins,
    Asks,
}

pub fn check(evidence: &Evidence<'_>) -> Check {
    let mut findings = Findings::new(evidence.history, NAME);
    for (environment, grants) in evidence.by_environment() {
        let mut in_line: BTreeSet<(u64, usize)> = BTreeSet::new();
        for (_, step, place) in steps(grants) {
            let grant = &grants[place];
            match step {
                Step::Joins => _ = in_line.insert((grant.token, place)),
                Step::Leaves => _ = in_line.remove(&(grant.token, place)),
                Step::Asks => {
                    let Some((token, passed)) = in_line.iter().rev().find(|(_, other)| *other != place) else {
                        continue;
                    };
                    findings.examined();
                    if *token > grant.token {
                        let what = || overtaken(&evidence.name(environment), grant, &grants[*passed]);
                        findings.wrong(what, &[grants[*passed].record, grant.record]);
                    }
                }
            }
        }
    }
    findings.into_check()
}

fn steps(grants: &[Grant<'_>]) -> Vec<(Moment, Step, usize)> {
    let mut steps = Vec::new();
    for (place, grant) in grants.iter().enumerate() {
        let Request::Claim { any, in_line_at, .. } = grant.record.request else { continue };
        steps.push((grant.earliest, Step::Asks, place));
        if let Some(at) = in_line_at.filter(|at| !any && *at < grant.told()) {
            steps.push((at, Step::Joins, place));
            steps.push((grant.told(), Step::Leaves, place));
        }
    }
    steps.sort_unstable();
    steps
}

fn overtaken(name: &str, first: &Grant, passed: &Grant) -> String {
    let (one, other) = (first.session, passed.session);
    let tokens = (first.token, passed.token);
    format!(
        "{one} got {name} (fencing {}) before {other} (fencing {}), which was in line when it asked",
        tokens.0, tokens.1
    )
}

//! The queue keeps its order: a claim that was in the queue of an environment when another claim was sent, and was
//! granted in the end, was granted first, and so has the lower token.
//!
//! - Force-claims may overtake the queue.
//! - A claim that was refused, left, or got no answer proves nothing: it may never have had its turn.
//! - A claim for any environment may not overtake one that is in the queue of this environment. The reverse is allowed:
//!   waiting for another environment gives no place in this queue.
//! - All claims of a run have one priority.

use std::collections::BTreeSet;

use crate::checks::evidence::{Evidence, Grant};
use crate::checks::findings::Findings;
use crate::history::{Moment, Request};
use crate::report::Check;

pub const NAME: &str = "the queue keeps its order";

/// The order of steps at the same moment: a claim that has been answered is no longer in the queue.
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

//! Owns the shortening of a history that was refused, for its reader.

use crate::linearizability::checker::{Verdict, check};
use crate::linearizability::history::{Answer, History, Record, Request};

/// The search is repeated once for every record; a history that takes long to check is not shortened.
const MAX_RECORDS: usize = 2_000;

/// Drops what was sent after the answer that cannot be explained, and every request without effect that the contradiction
/// does not need. Requests that may have had an effect stay: without them the rest would prove nothing.
pub fn minimised(history: &History) -> History {
    let Verdict::Violation(violation) = check(history) else { return history.clone() };
    if history.records.len() > MAX_RECORDS {
        return history.clone();
    }
    let end = history.records[violation.record].ended;
    let mut shortest = history.clone();
    shortest.records.retain(|record| record.sent <= end);
    shortest.kills.retain(|killed| *killed <= end);
    shortest.takeovers.retain(|takeover| takeover.since <= end);
    if !is_refused(&shortest) {
        // Something that was told later is needed.
        shortest = history.clone();
    }
    let mut index = shortest.records.len();
    while index > 0 {
        index -= 1;
        if has_effect(&shortest.records[index]) {
            continue;
        }
        let removed = shortest.records.remove(index);
        if !is_refused(&shortest) {
            shortest.records.insert(index, removed);
        }
    }
    shortest
}

fn is_refused(history: &History) -> bool {
    matches!(check(history), Verdict::Violation(_))
}

/// A claim that waited in vain was in the queue meanwhile, which others may have seen.
fn has_effect(record: &Record) -> bool {
    let waited = matches!(&record.request, Request::Claim(claim) if claim.waits());
    waited
        || !record.request.is_read()
            && match record.answer {
                Answer::Granted { .. } | Answer::Queued { .. } | Answer::Session { .. } | Answer::Unknown => true,
                Answer::Locked { .. }
                | Answer::NotHolding(_)
                | Answer::NoSuchSession
                | Answer::Environment { .. }
                | Answer::Queue(_)
                | Answer::NothingDone => false,
            }
}

//! Owns the time that a lock takes from hand to hand: from sending a release to receiving the next grant, for those who
//! were already waiting then.

use std::collections::HashMap;
use std::time::Duration;

use crate::history::{Answer, Moment, Record, Request, SessionName};

/// When it ended, and how long it took.
pub fn handoffs(records: &[Record]) -> Vec<(Moment, Duration)> {
    let mut released: HashMap<&SessionName, Moment> = HashMap::new();
    let mut grants: HashMap<u32, Vec<(u64, &Record, &SessionName)>> = HashMap::new();
    for record in records {
        match (&record.request, &record.answer, record.environment) {
            (Request::Release { session }, Answer::Done, _) => {
                let sent = released.entry(session).or_insert(record.sent);
                *sent = record.sent.min(*sent);
            }
            (Request::Claim { .. }, Answer::Granted { session, fencing }, Some(environment)) => {
                grants.entry(environment).or_default().push((*fencing, record, session));
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    for mut of_one in grants.into_values() {
        of_one.sort_unstable_by_key(|(fencing, ..)| *fencing);
        for pair in of_one.windows(2) {
            let ((before, _, holder), (after, next, _)) = (pair[0], pair[1]);
            let Some(released) = released.get(holder).filter(|_| after == before + 1) else { continue };
            if next.sent < *released && next.ended >= *released {
                all.push((next.ended, Duration::from_nanos(next.ended.0 - released.0)));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(session: &str, fencing: u64, sent: u64, ended: u64) -> Record {
        Record {
            client: 0,
            environment: Some(1),
            request: Request::Claim { any: false, in_line_at: None, ttl: None },
            sent: Moment(sent),
            ended: Moment(ended),
            answer: Answer::Granted { session: SessionName(session.into()), fencing },
        }
    }

    fn released(session: &str, sent: u64) -> Record {
        let request = Request::Release { session: SessionName(session.into()) };
        Record { request, answer: Answer::Done, ..granted("", 0, sent, sent + 5) }
    }

    #[test]
    fn a_handoff_is_from_a_release_to_the_grant_of_who_waited() {
        let records = [
            granted("b", 2, 1, 30),
            granted("a", 1, 0, 10),
            released("a", 20),
            released("b", 40),
            granted("c", 3, 50, 60),
        ];
        // The third came only after the lock was free.
        assert_eq!(handoffs(&records), [(Moment(30), Duration::from_nanos(10))]);
    }

    #[test]
    fn a_gap_in_the_tokens_is_no_handoff() {
        assert_eq!(handoffs(&[granted("a", 1, 0, 10), released("a", 20), granted("c", 3, 1, 30)]), []);
    }
}

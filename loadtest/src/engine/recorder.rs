//! Bounds the memory of a segment's history: only its first requests are recorded. When the bound is reached, all
//! clients stop recording at the same moment, and requests in flight then count as unanswered. So the records are still
//! a valid history: that of an observer who left at that moment.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::history::{Answer, History, Moment, Record, Request, SessionName};

/// The maximum number of records. Each has about 150 bytes, including the session id.
pub const MAX_RECORDS: usize = 2_000_000;
/// At most one record in this many is a read: reads prove little compared with claims, and can be very many.
const READS_ARE_ONE_IN: usize = 4;

pub struct Recorder {
    limit: usize,
    count: AtomicUsize,
    reads: AtomicUsize,
    /// Nothing sent from here on is recorded; `u64::MAX` until the bound is reached.
    cut: AtomicU64,
}

impl Recorder {
    pub fn new(limit: usize) -> Self {
        let (count, reads) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { limit, count, reads, cut: AtomicU64::new(u64::MAX) }
    }

    /// Whether to keep this record; counts it if so.
    pub fn keeps(&self, record: &Record) -> bool {
        if record.sent.0 >= self.cut.load(Ordering::Relaxed) {
            return false;
        }
        let is_read = matches!(record.request, Request::ReadEnvironment | Request::ReadSession { .. });
        // Omitting a read does not weaken what the other records prove.
        if is_read && self.reads.fetch_add(1, Ordering::Relaxed) >= self.limit / READS_ARE_ONE_IN {
            return false;
        }
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 >= self.limit {
            self.cut.fetch_min(record.ended.0, Ordering::Relaxed);
        }
        true
    }

    pub fn reset(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.reads.store(0, Ordering::Relaxed);
        self.cut.store(u64::MAX, Ordering::Relaxed);
    }

    pub fn was_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed) != u64::MAX
    }

    /// Merges the records of all threads into the history up to the cut. Also returns the index of each environment in
    /// that history.
    pub fn history(
        &self,
        records: Vec<Record>,
        name: impl Fn(u32) -> String,
        retention: u64,
    ) -> (History, HashMap<u32, u32>) {
        let cut = Moment(self.cut.load(Ordering::Relaxed));
        let mut history = History { alone: true, retention, ..History::default() };
        let mut numbers = HashMap::new();
        history.records = records;
        history.records.retain(|record| record.sent < cut);
        for record in &mut history.records {
            if record.ended > cut {
                // The request was in flight when the recording ended.
                (record.ended, record.answer) = (cut, Answer::Unknown);
            }
            record.environment = record.environment.map(|number| {
                *numbers.entry(number).or_insert_with(|| {
                    history.environments.push(name(number));
                    history.environments.len() as u32 - 1
                })
            });
        }
        (history, numbers)
    }
}

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
mod recorder_tests {
    use super::*;
    use crate::history::SessionName;

    fn claim(environment: u32, sent: u64, ended: u64) -> Record {
        let session = SessionName("ses_1".into());
        Record {
            client: 0,
            environment: Some(environment),
            request: Request::Claim { any: false, in_line_at: None, ttl: None },
            sent: Moment(sent),
            ended: Moment(ended),
            answer: Answer::Granted { session, fencing: 1 },
        }
    }

    fn read(sent: u64) -> Record {
        Record { request: Request::ReadEnvironment, answer: Answer::Unknown, ..claim(1, sent, sent + 1) }
    }

    #[test]
    fn the_history_ends_for_all_at_the_moment_at_which_the_bound_is_reached() {
        let recorder = Recorder::new(3);
        let all = [claim(7, 0, 10), claim(7, 5, 20), claim(9, 12, 30), claim(9, 29, 40), claim(9, 31, 41)];
        let kept: Vec<_> = all.into_iter().filter(|record| recorder.keeps(record)).collect();
        assert!(recorder.was_cut());
        let (history, _) = recorder.history(kept, |number| format!("load-{number}"), 100);
        let ends: Vec<_> = history.records.iter().map(|record| (record.environment, record.ended.0)).collect();
        // The fourth request was in flight at 30; the fifth was sent later.
        assert_eq!(ends, [(Some(0), 10), (Some(0), 20), (Some(1), 30), (Some(1), 30)]);
        assert_eq!(history.records[3].answer, Answer::Unknown);
        assert_eq!(history.environments, ["load-7", "load-9"]);
    }

    #[test]
    fn reads_leave_room_for_the_others() {
        let recorder = Recorder::new(8);
        let reads = (0..100).filter(|number| recorder.keeps(&read(*number))).count();
        assert_eq!(reads, 2);
        assert!(!recorder.was_cut());
        assert!(recorder.keeps(&claim(1, 200, 201)));
    }

    #[test]
    fn a_new_segment_is_recorded_from_its_start() {
        let recorder = Recorder::new(1);
        assert!(recorder.keeps(&claim(1, 0, 1)));
        assert!(!recorder.keeps(&claim(1, 2, 3)));
        recorder.reset();
        assert!(recorder.keeps(&claim(1, 4, 5)));
    }
}

#[cfg(test)]
mod handoffs_tests {
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
        // The third claim was sent only after the lock was free.
        assert_eq!(handoffs(&records), [(Moment(30), Duration::from_nanos(10))]);
    }

    #[test]
    fn a_gap_in_the_tokens_is_no_handoff() {
        assert_eq!(handoffs(&[granted("a", 1, 0, 10), released("a", 20), granted("c", 3, 1, 30)]), []);
    }
}

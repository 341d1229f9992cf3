//! Owns what is counted while load runs: every status, latencies, everything that went wrong.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Latencies above are recorded as this; three digits of precision are more than the machine's noise leaves.
const MAX_LATENCY_MICROSECONDS: u64 = 60_000_000;
const LATENCY_DIGITS: u8 = 3;
/// A broken server can fail in very many words, and nobody reads more of them than this.
const MAX_LISTED: usize = 20;
const UNLISTED: &str = "further kinds of error";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Put,
    Health,
    Claim,
    Release,
    Read,
}

impl Operation {
    pub const ALL: [Self; 5] = [Self::Put, Self::Health, Self::Claim, Self::Release, Self::Read];

    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Health => "healthz",
            Self::Claim => "claim",
            Self::Release => "release",
            Self::Read => "read",
        }
    }

    pub fn expects(self, status: u16) -> bool {
        match self {
            Self::Put => matches!(status, 200 | 201),
            Self::Claim => status == 201,
            Self::Health | Self::Release | Self::Read => status == 200,
        }
    }
}

/// One thread's or, merged, one workload's count.
pub struct Tally {
    pub findings: Findings,
    latencies: [Histogram<u64>; Operation::ALL.len()],
    last_answer: Option<Instant>,
}

/// What is reported for the run as a whole.
#[derive(Default)]
pub struct Findings {
    pub statuses: BTreeMap<(Operation, u16), u64>,
    pub errors: BTreeMap<String, u64>,
    pub violations: Vec<String>,
    pub violation_count: u64,
    pub reconnects: u64,
    pub left_out: u64,
}

impl Default for Tally {
    fn default() -> Self {
        let histogram = || {
            Histogram::new_with_bounds(1, MAX_LATENCY_MICROSECONDS, LATENCY_DIGITS).expect("the bounds are constants")
        };
        Self { findings: Findings::default(), latencies: std::array::from_fn(|_| histogram()), last_answer: None }
    }
}

impl Tally {
    /// Returns whether the status was the expected one. Only expected answers count for rates and latencies: a server
    /// that refuses quickly is not a fast one.
    pub fn answered(&mut self, operation: Operation, status: u16, at: Instant, took: Duration) -> bool {
        *self.findings.statuses.entry((operation, status)).or_default() += 1;
        let expected = operation.expects(status);
        if expected {
            let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            self.latencies[operation as usize].saturating_record(microseconds);
            self.last_answer = Some(at);
        }
        expected
    }

    pub fn latencies(&self, operation: Operation) -> &Histogram<u64> {
        &self.latencies[operation as usize]
    }

    pub fn count(&self, operation: Operation) -> u64 {
        self.latencies(operation).len()
    }

    /// Up to the last expected answer, so that one hanging request does not stretch a round.
    pub fn elapsed_since(&self, start: Instant) -> Duration {
        self.last_answer.map_or(Duration::ZERO, |last| last.saturating_duration_since(start))
    }

    pub fn merge(&mut self, other: Self) {
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            mine.add(theirs).expect("all have the same bounds");
        }
        self.last_answer = self.last_answer.max(other.last_answer);
        self.findings.merge(other.findings);
    }
}

impl Findings {
    pub fn error(&mut self, what: String) {
        self.add_errors(what, 1);
    }

    pub fn violation(&mut self, what: String) {
        self.violation_count += 1;
        if self.violations.len() < MAX_LISTED {
            self.violations.push(what);
        }
    }

    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    pub fn merge(&mut self, other: Self) {
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (what, count) in other.errors {
            self.add_errors(what, count);
        }
        self.violation_count += other.violation_count;
        self.violations.extend(other.violations);
        self.violations.truncate(MAX_LISTED);
        self.reconnects += other.reconnects;
        self.left_out += other.left_out;
    }

    fn add_errors(&mut self, what: String, count: u64) {
        let listed = self.errors.len() < MAX_LISTED || self.errors.contains_key(&what);
        *self.errors.entry(if listed { what } else { UNLISTED.to_owned() }).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unexpected_status_is_counted_but_is_no_throughput() {
        let mut tally = Tally::default();
        let start = Instant::now();
        assert!(tally.answered(Operation::Claim, 201, start + Duration::from_secs(2), Duration::from_micros(90)));
        assert!(!tally.answered(Operation::Claim, 409, start + Duration::from_secs(3), Duration::from_micros(9)));
        assert_eq!(tally.count(Operation::Claim), 1);
        assert_eq!(tally.latencies(Operation::Claim).min(), 90);
        assert_eq!(tally.findings.statuses[&(Operation::Claim, 409)], 1);
        assert_eq!(tally.elapsed_since(start), Duration::from_secs(2));
    }

    #[test]
    fn merging_adds_up_what_the_threads_saw() {
        let start = Instant::now();
        let mut merged = Tally::default();
        for seconds in [5, 3] {
            let mut tally = Tally::default();
            tally.answered(Operation::Read, 200, start + Duration::from_secs(seconds), Duration::from_secs(100));
            tally.findings.error("read: broken".to_owned());
            tally.findings.violation("load-000001: broken".to_owned());
            merged.merge(tally);
        }
        assert_eq!(merged.count(Operation::Read), 2);
        assert_eq!(merged.elapsed_since(start), Duration::from_secs(5));
        assert_eq!((merged.findings.error_count(), merged.findings.violation_count), (2, 2));
        assert_eq!(merged.findings.errors["read: broken"], 2);
    }

    #[test]
    fn the_list_of_errors_is_bounded_and_the_count_is_not() {
        let mut findings = Findings::default();
        for number in 0..1_000 {
            findings.error(format!("error {number}"));
            findings.violation(format!("violation {number}"));
        }
        assert_eq!((findings.errors.len(), findings.error_count()), (MAX_LISTED + 1, 1_000));
        assert_eq!((findings.violations.len(), findings.violation_count), (MAX_LISTED, 1_000));
    }
}

//! Counts while load runs: statuses, latencies, errors.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::report::model;

/// Higher latencies are recorded as this value: the longest wait that the server allows, plus a minute.
pub const MAX_LATENCY_MICROSECONDS: u64 = 360_000_000;
/// More digits of precision would be lost in the machine's noise.
const LATENCY_DIGITS: u8 = 3;
/// The precision of a slice: slices are only drawn, and there are hundreds of them.
const SLICE_DIGITS: u8 = 2;
/// The maximum number of listed errors: a broken server can fail with very many different messages.
const MAX_LISTED: usize = 20;
const UNLISTED: &str = "further kinds of error";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Put,
    Health,
    Claim,
    Release,
    Handoff,
    Read,
    Deploy,
    ForceClaim,
    Heartbeat,
    FirstPage,
    LastPage,
    List,
}

impl Operation {
    /// In declaration order.
    const NAMES: [(Self, &'static str); 12] = [
        (Self::Put, "put"),
        (Self::Health, "healthz"),
        (Self::Claim, "claim"),
        (Self::Release, "release"),
        (Self::Handoff, "handoff"),
        (Self::Read, "read"),
        (Self::Deploy, "deploy"),
        (Self::ForceClaim, "force-claim"),
        (Self::Heartbeat, "heartbeat"),
        (Self::FirstPage, "first page"),
        (Self::LastPage, "last page"),
        (Self::List, "list"),
    ];

    pub fn all() -> impl Iterator<Item = Self> {
        Self::NAMES.into_iter().map(|(operation, _)| operation)
    }

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
}

/// Latencies of one span of time, by operation; operations that did not occur take no memory.
#[derive(Clone, Debug, Default)]
pub struct Latencies<C: hdrhistogram::Counter> {
    by_operation: [Option<Box<Histogram<C>>>; Operation::NAMES.len()],
}

pub type Precise = Latencies<u64>;
pub type Coarse = Latencies<u32>;

impl<C: hdrhistogram::Counter> Latencies<C> {
    pub fn of(&self, operation: Operation) -> Option<&Histogram<C>> {
        self.by_operation[operation as usize].as_deref()
    }

    pub fn count(&self, operation: Operation) -> u64 {
        self.of(operation).map_or(0, Histogram::len)
    }

    /// The operations that occurred, as the report shows them.
    pub fn into_model(self) -> Vec<model::Operation> {
        let shown = |operation: Operation| Some(model::Operation::of(operation.name(), self.of(operation)?));
        Operation::all().filter_map(shown).collect()
    }

    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.by_operation.iter_mut().zip(&other.by_operation) {
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => mine.add(&**theirs).expect("all have the same bounds"),
                (mine @ None, Some(theirs)) => *mine = Some(theirs.clone()),
                (_, None) => {}
            }
        }
    }

    fn record_with(&mut self, operation: Operation, took: Duration, digits: u8) {
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.by_operation[operation as usize]
            .get_or_insert_with(|| {
                let bounds = Histogram::new_with_bounds(1, MAX_LATENCY_MICROSECONDS, digits);
                Box::new(bounds.expect("the bounds are constants"))
            })
            .saturating_record(microseconds);
    }
}

impl Precise {
    pub fn record(&mut self, operation: Operation, took: Duration) {
        self.record_with(operation, took, LATENCY_DIGITS);
    }
}

impl Coarse {
    pub fn record(&mut self, operation: Operation, took: Duration) {
        self.record_with(operation, took, SLICE_DIGITS);
    }
}

/// The counts of one thread or, merged, of one segment of load.
#[derive(Default)]
pub struct Tally {
    pub findings: Findings,
    pub latencies: Precise,
    /// Latencies since the last slice of the timeline.
    pub slice: Coarse,
    pub slice_errors: u64,
    pub last_answer: Option<Instant>,
    /// How late the requests of an open loop were sent; their latencies count from the time at which they were due.
    pub lateness: Option<Box<Histogram<u64>>>,
}

/// Counts reported for the run as a whole.
#[derive(Default)]
pub struct Findings {
    pub statuses: BTreeMap<(Operation, u16), u64>,
    pub errors: BTreeMap<String, u64>,
    /// Counts kept by a workload itself, such as connections cut on purpose.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Records an answer. Only accepted ones count towards rates and latencies: fast refusals must not make a server
    /// look fast.
    pub fn answered(&mut self, operation: Operation, status: u16, accepted: bool, at: Instant, took: Duration) {
        *self.findings.statuses.entry((operation, status)).or_default() += 1;
        if accepted {
            self.latencies.record(operation, took);
            self.slice.record(operation, took);
            self.last_answer = Some(at);
        }
    }

    pub fn sent_late(&mut self, late: Duration) {
        let microseconds = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.lateness.get_or_insert_with(new_lateness).saturating_record(microseconds);
    }

    pub fn error(&mut self, what: String) {
        self.slice_errors += 1;
        self.findings.error(what);
    }

    pub fn count(&self, operation: Operation) -> u64 {
        self.latencies.count(operation)
    }

    /// The time until the last expected answer, so that one hanging request does not lengthen a round.
    pub fn elapsed_since(&self, start: Instant) -> Duration {
        self.last_answer.map_or(Duration::ZERO, |last| last.saturating_duration_since(start))
    }

    pub fn take_slice(&mut self) -> (Coarse, u64) {
        (std::mem::take(&mut self.slice), std::mem::take(&mut self.slice_errors))
    }

    pub fn merge(&mut self, other: Self) {
        self.latencies.merge(&other.latencies);
        self.slice.merge(&other.slice);
        self.slice_errors += other.slice_errors;
        self.last_answer = self.last_answer.max(other.last_answer);
        if let Some(theirs) = other.lateness {
            let mine = self.lateness.get_or_insert_with(new_lateness);
            mine.add(&*theirs).expect("all have the same bounds");
        }
        self.findings.merge(other.findings);
    }
}

fn new_lateness() -> Box<Histogram<u64>> {
    let bounds = Histogram::new_with_bounds(1, MAX_LATENCY_MICROSECONDS, LATENCY_DIGITS);
    Box::new(bounds.expect("the bounds are constants"))
}

impl Findings {
    pub fn error(&mut self, what: String) {
        self.add_errors(what, 1);
    }

    pub fn count(&mut self, what: &'static str, times: u64) {
        *self.counts.entry(what).or_default() += times;
    }

    pub fn merge(&mut self, other: Self) {
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (what, count) in other.errors {
            self.add_errors(what, count);
        }
        for (what, times) in other.counts {
            self.count(what, times);
        }
    }

    pub fn add_errors(&mut self, what: String, count: u64) {
        let listed = self.errors.len() < MAX_LISTED || self.errors.contains_key(&what);
        *self.errors.entry(if listed { what } else { UNLISTED.to_owned() }).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_counted_but_is_no_throughput() {
        let mut tally = Tally::default();
        let start = Instant::now();
        tally.answered(Operation::Claim, 201, true, start + Duration::from_secs(2), Duration::from_micros(90));
        tally.answered(Operation::Claim, 409, false, start + Duration::from_secs(3), Duration::from_micros(9));
        assert_eq!(tally.count(Operation::Claim), 1);
        assert_eq!(tally.latencies.of(Operation::Claim).map(Histogram::min), Some(90));
        assert_eq!(tally.findings.statuses[&(Operation::Claim, 409)], 1);
        assert_eq!(tally.elapsed_since(start), Duration::from_secs(2));
    }

    #[test]
    fn merging_adds_up_what_the_threads_saw() {
        let start = Instant::now();
        let mut merged = Tally::default();
        for seconds in [5, 3] {
            let mut tally = Tally::default();
            tally.answered(Operation::Read, 200, true, start + Duration::from_secs(seconds), Duration::from_secs(100));
            tally.error("read: broken".to_owned());
            tally.sent_late(Duration::from_micros(7));
            merged.merge(tally);
        }
        assert_eq!(merged.count(Operation::Read), 2);
        assert_eq!(merged.elapsed_since(start), Duration::from_secs(5));
        assert_eq!(merged.findings.errors["read: broken"], 2);
        assert_eq!(merged.lateness.map(|lateness| lateness.len()), Some(2));
        assert_eq!((merged.slice.count(Operation::Read), merged.slice_errors), (2, 2));
    }

    #[test]
    fn the_list_of_errors_is_bounded_and_the_count_is_not() {
        let mut findings = Findings::default();
        for number in 0..1_000 {
            findings.error(format!("error {number}"));
        }
        assert_eq!((findings.errors.len(), findings.errors.values().sum::<u64>()), (MAX_LISTED + 1, 1_000));
    }
}

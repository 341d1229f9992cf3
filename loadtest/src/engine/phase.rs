//! Collects the results of one phase over its rounds: medians with their spread, latencies, and a timeline sampled from
//! the running load several times per second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::engine::tally::{Coarse, Operation, Precise};
use crate::engine::threads::ClientThread;
use crate::report::{Figure, Goal, Latency, Slice, SliceOperation, model};
use crate::server::{CpuTime, Meter};

pub struct Phase {
    pub name: String,
    pub latencies: Precise,
    pub statuses: BTreeMap<(Operation, u16), u64>,
    pub figures: Figures,
    pub timeline: Timeline,
}

/// Named values, one per round, in the order in which the names were first added, and the goals of some of them.
#[derive(Default)]
pub struct Figures {
    values: Vec<(String, &'static str, Vec<f64>)>,
    goals: BTreeMap<String, Goal>,
}

impl Figures {
    /// Adds one round's value; `None` if it could not be measured.
    pub fn add(&mut self, name: &str, unit: &'static str, value: Option<f64>) {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        match self.values.iter_mut().find(|(known, ..)| known == name) {
            Some((_, _, values)) => values.push(value),
            None => self.values.push((name.to_owned(), unit, vec![value])),
        }
    }

    pub fn aim(&mut self, name: &str, goal: Goal) {
        self.goals.insert(name.to_owned(), goal);
    }

    pub fn into_model(self) -> Vec<Figure> {
        let figure = |(name, unit, values): (String, _, _)| {
            Figure::of(&name, unit, values).with_goal(self.goals.get(&name).copied())
        };
        self.values.into_iter().map(figure).collect()
    }
}

impl Phase {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            latencies: Precise::default(),
            statuses: BTreeMap::new(),
            figures: Figures::default(),
            timeline: Timeline::default(),
        }
    }

    pub fn into_model(self) -> model::Phase {
        let statuses = self.statuses.into_iter().map(|((operation, status), count)| model::Status {
            operation: operation.name().to_owned(),
            status,
            count,
        });
        model::Phase {
            name: self.name,
            operations: self.latencies.into_model(),
            statuses: statuses.collect(),
            figures: self.figures.into_model(),
            timeline: self.timeline.into_slices(),
        }
    }
}

const FIRST_WIDTH: Duration = Duration::from_millis(250);
/// The maximum length of a slice, so that a live display keeps moving.
const LAST_WIDTH: Duration = Duration::from_secs(30);
/// As many slices as a reader can distinguish in a plot.
const MAX_SLICES: usize = 240;

pub struct Timeline {
    slices: Vec<TimelineSlice>,
    width: Duration,
}

/// One slice, with everything needed to merge it with the next.
#[derive(Default)]
pub struct TimelineSlice {
    /// The slice's segment of load; there may be a gap in time between segments.
    pub segment: u32,
    pub at: f64,
    pub seconds: f64,
    pub latencies: Coarse,
    pub in_flight: u64,
    pub waiting: u64,
    pub errors: u64,
    pub cpu_percent: Option<f64>,
    pub memory_bytes: Option<u64>,
    pub marks: Vec<String>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { slices: Vec::new(), width: FIRST_WIDTH }
    }
}

impl Timeline {
    /// The length of the next slice.
    pub fn width(&self) -> Duration {
        self.width
    }

    pub fn push(&mut self, slice: TimelineSlice) {
        self.slices.push(slice);
        if self.slices.len() > MAX_SLICES {
            self.thin_out();
            self.width = (self.width * 2).min(LAST_WIDTH);
        }
    }

    /// Adds a value that is known only afterwards to the slice in which it happened.
    pub fn record(&mut self, operation: Operation, at: f64, took: Duration) {
        let after = self.slices.partition_point(|slice| slice.at <= at);
        if let Some(slice) = self.slices.get_mut(after.saturating_sub(1)) {
            slice.latencies.record(operation, took);
        }
    }

    pub fn into_slices(self) -> Vec<Slice> {
        self.slices.into_iter().map(TimelineSlice::into_slice).collect()
    }

    fn thin_out(&mut self) {
        let mut thinned: Vec<TimelineSlice> = Vec::with_capacity(MAX_SLICES);
        let mut joined = false;
        for slice in std::mem::take(&mut self.slices) {
            match thinned.last_mut() {
                Some(last) if !joined && last.segment == slice.segment => {
                    last.join(slice);
                    joined = true;
                }
                Some(_) | None => {
                    thinned.push(slice);
                    joined = false;
                }
            }
        }
        // With very many short segments there is nothing to merge; then the oldest slices are dropped.
        let surplus = thinned.len().saturating_sub(MAX_SLICES);
        thinned.drain(..surplus);
        self.slices = thinned;
    }
}

impl TimelineSlice {
    fn join(&mut self, next: Self) {
        let whole = self.seconds + next.seconds;
        self.cpu_percent = match (self.cpu_percent, next.cpu_percent) {
            (Some(before), Some(after)) if whole > 0.0 => Some((before * self.seconds + after * next.seconds) / whole),
            (before, after) => after.or(before),
        };
        self.seconds = next.at + next.seconds - self.at;
        self.latencies.merge(&next.latencies);
        (self.in_flight, self.waiting) = (next.in_flight, next.waiting);
        self.errors += next.errors;
        self.memory_bytes = self.memory_bytes.max(next.memory_bytes);
        self.marks.extend(next.marks);
    }

    fn into_slice(self) -> Slice {
        let operations = Operation::all()
            .filter_map(|operation| {
                let histogram = self.latencies.of(operation)?;
                let (name, count) = (operation.name().to_owned(), histogram.len());
                Some(SliceOperation { name, count, latency: Latency::of(histogram) })
            })
            .collect();
        Slice {
            at: self.at,
            seconds: self.seconds,
            operations,
            in_flight: self.in_flight,
            waiting: self.waiting,
            errors: self.errors,
            server_cpu_percent: self.cpu_percent,
            server_memory_bytes: self.memory_bytes,
            marks: self.marks,
        }
    }
}

pub struct Sampler {
    segment: u32,
    origin: Instant,
    meter: Meter,
    last: Instant,
    last_cpu: Option<CpuTime>,
    errors: u64,
}

impl Sampler {
    pub fn new(segment: u32, origin: Instant, meter: Meter) -> Self {
        Self { segment, origin, last: Instant::now(), last_cpu: meter.cpu(), meter, errors: 0 }
    }

    pub fn slice(&mut self, clients: &[Arc<ClientThread>], marks: Vec<String>) -> TimelineSlice {
        let (now, cpu) = (Instant::now(), self.meter.cpu());
        let seconds = now.duration_since(self.last).as_secs_f64();
        let cpu_percent = self.last_cpu.zip(cpu).and_then(|(before, after)| {
            let spent = after.since(before)? as f64;
            (seconds > 0.0).then(|| spent / seconds / 1e4)
        });
        let mut latencies = Coarse::default();
        let (mut errors, mut in_flight, mut waiting) = (0, 0, 0);
        for thread in clients {
            let (of_thread, errors_of_thread) = thread.tally().take_slice();
            latencies.merge(&of_thread);
            errors += errors_of_thread;
            in_flight += thread.in_flight.load(Ordering::Relaxed);
            waiting += thread.waiting.load(Ordering::Relaxed);
        }
        self.errors += errors;
        let at = self.last.duration_since(self.origin).as_secs_f64();
        (self.last, self.last_cpu) = (now, cpu);
        let memory_bytes = self.meter.memory();
        let segment = self.segment;
        TimelineSlice { segment, at, seconds, latencies, in_flight, waiting, errors, cpu_percent, memory_bytes, marks }
    }

    /// One line for the live display.
    pub fn describe(&self, slice: &TimelineSlice) -> String {
        let answers: u64 = Operation::all().map(|operation| slice.latencies.count(operation)).sum();
        let rate = answers as f64 / slice.seconds.max(1e-3);
        let mut text = format!("{rate:.0} requests/s, {} under way", slice.in_flight);
        if slice.waiting > 0 {
            text += &format!(", {} of them waiting", slice.waiting);
        }
        if self.errors > 0 {
            text += &format!(", {} errors", self.errors);
        }
        text
    }
}

#[cfg(test)]
mod phase_tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_figure_has_a_value_for_each_round_that_had_one_and_its_goal() {
        let mut figures = Figures::default();
        [Some(3.0), None, Some(f64::NAN), Some(1.0)].into_iter().for_each(|value| figures.add("rate", "/s", value));
        figures.aim("rate", Goal::AtLeast(2.0));
        figures.aim("never measured", Goal::AtMost(1.0));
        let shown = figures.into_model();
        assert_eq!(shown.len(), 1);
        assert_eq!((shown[0].median, shown[0].rounds, shown[0].meets_goal()), (2.0, 2, Some(true)));
    }

    #[test]
    fn a_phase_shows_the_operations_that_occurred() {
        let mut phase = Phase::new("cycle");
        (1..=100).for_each(|micros| phase.latencies.record(Operation::Claim, Duration::from_micros(micros)));
        let model = phase.into_model();
        assert_eq!(model.operations.len(), 1);
        let claim = &model.operations[0];
        assert_eq!(
            (claim.name.as_str(), claim.count, claim.latency.p50_us, claim.latency.max_us),
            ("claim", 100, 50, 100)
        );
    }
}

#[cfg(test)]
mod timeline_tests {
    use super::*;

    fn slice(segment: u32, number: u32) -> TimelineSlice {
        let mut slice =
            TimelineSlice { segment, at: f64::from(number), seconds: 1.0, errors: 1, ..TimelineSlice::default() };
        slice.latencies.record(Operation::Claim, Duration::from_micros(50));
        slice
    }

    #[test]
    fn a_long_run_keeps_a_bounded_number_of_slices_and_loses_nothing() {
        let mut timeline = Timeline::default();
        (0..10_000).for_each(|number| timeline.push(slice(0, number)));
        assert!(timeline.width() > FIRST_WIDTH);
        let slices = timeline.into_slices();
        assert!(slices.len() <= MAX_SLICES, "{}", slices.len());
        assert_eq!(slices.iter().map(|slice| slice.errors).sum::<u64>(), 10_000);
        assert_eq!(slices.iter().map(|slice| slice.operations[0].count).sum::<u64>(), 10_000);
        assert!(slices.windows(2).all(|pair| (pair[0].at + pair[0].seconds - pair[1].at).abs() < 1e-6));
    }

    #[test]
    fn slices_of_different_stretches_are_not_joined() {
        let mut timeline = Timeline::default();
        (0..1_000).for_each(|number| timeline.push(slice(number, number)));
        let slices = timeline.into_slices();
        assert!(slices.len() <= MAX_SLICES);
        assert!(slices.iter().all(|slice| (slice.seconds - 1.0).abs() < 1e-6));
    }

    #[test]
    fn what_is_known_later_is_put_where_it_happened() {
        let mut timeline = Timeline::default();
        (0..3).for_each(|number| timeline.push(slice(0, number)));
        timeline.record(Operation::Handoff, 1.5, Duration::from_micros(9));
        let slices = timeline.into_slices();
        let with_handoff = |slice: &Slice| slice.operations.iter().any(|operation| operation.name == "handoff");
        assert_eq!(slices.iter().position(with_handoff), Some(1));
    }
}

//! Owns what happened when: slices of time with what was counted in each. Bounded: where there are too many, neighbours
//! become one and the next ones are longer.

use std::time::Duration;

use crate::engine::tally::{Coarse, Operation};
use crate::report::model::{Latency, Slice, SliceOperation};

const FIRST_WIDTH: Duration = Duration::from_millis(250);
/// Who watches wants to see something move.
const LAST_WIDTH: Duration = Duration::from_secs(30);
/// As many as can be told apart in a picture.
const MAX_SLICES: usize = 240;

pub struct Timeline {
    slices: Vec<Drawn>,
    width: Duration,
}

/// One slice, with all that is needed to make one of two.
#[derive(Default)]
pub struct Drawn {
    /// Which segment of load it belongs to; between two of them time has passed.
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
    /// How long the next slice is to be.
    pub fn width(&self) -> Duration {
        self.width
    }

    pub fn push(&mut self, slice: Drawn) {
        self.slices.push(slice);
        if self.slices.len() > MAX_SLICES {
            self.thin_out();
            self.width = (self.width * 2).min(LAST_WIDTH);
        }
    }

    /// Something that is known only afterwards, put where it happened.
    pub fn record(&mut self, operation: Operation, at: f64, took: Duration) {
        let after = self.slices.partition_point(|slice| slice.at <= at);
        if let Some(slice) = self.slices.get_mut(after.saturating_sub(1)) {
            slice.latencies.record(operation, took);
        }
    }

    pub fn into_slices(self) -> Vec<Slice> {
        self.slices.into_iter().map(Drawn::into_slice).collect()
    }

    fn thin_out(&mut self) {
        let mut thinned: Vec<Drawn> = Vec::with_capacity(MAX_SLICES);
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
        // Many very short segments leave nothing to join; then the oldest go.
        let surplus = thinned.len().saturating_sub(MAX_SLICES);
        thinned.drain(..surplus);
        self.slices = thinned;
    }
}

impl Drawn {
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
        let operations = Operation::ALL
            .into_iter()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(segment: u32, number: u32) -> Drawn {
        let mut slice = Drawn { segment, at: f64::from(number), seconds: 1.0, errors: 1, ..Drawn::default() };
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

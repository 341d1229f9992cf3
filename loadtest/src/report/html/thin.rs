//! Owns how a long timeline becomes one that a page can carry: slices in a row are merged until few enough are left.

use crate::report::model::{Latency, Run, Slice};

/// More points than this are less than a pixel apart in any plot.
const MOST_SLICES: usize = 1_000;
/// However many phases there are, each keeps a shape.
const FEWEST_SLICES: usize = 20;

/// Slices in a row, as one.
pub struct Merged<'a>(&'a [&'a Slice]);

/// A phase's slices in order of time, without those whose time is not a number, and how many in a row are one point.
pub fn timeline(run: &Run, phase: usize) -> (Vec<&Slice>, usize) {
    let mut slices: Vec<&Slice> = run.phases[phase].timeline.iter().filter(|slice| is_placed(slice)).collect();
    slices.sort_by(|a, b| a.at.total_cmp(&b.at));
    let all: usize = run.phases.iter().map(|phase| phase.timeline.len()).sum();
    let allowed = (MOST_SLICES * slices.len() / all.max(1)).max(FEWEST_SLICES);
    let at_once = slices.len().div_ceil(allowed).max(1);
    (slices, at_once)
}

pub fn merged<'a>(slices: &'a [&'a Slice], at_once: usize) -> impl Iterator<Item = Merged<'a>> {
    slices.chunks(at_once).map(Merged)
}

/// The most slices that became one point.
pub fn most_merged(run: &Run) -> usize {
    (0..run.phases.len()).map(|phase| timeline(run, phase).1).max().unwrap_or(1)
}

fn is_placed(slice: &Slice) -> bool {
    slice.at.is_finite() && slice.seconds.is_finite() && slice.seconds > 0.0
}

impl Merged<'_> {
    pub fn from(&self) -> f64 {
        self.0[0].at
    }

    pub fn to(&self) -> f64 {
        self.0.iter().map(|slice| slice.at + slice.seconds).fold(self.from(), f64::max)
    }

    fn seconds(&self) -> f64 {
        self.0.iter().map(|slice| slice.seconds).sum()
    }

    pub fn errors_per_second(&self) -> f64 {
        self.0.iter().map(|slice| slice.errors as f64).sum::<f64>() / self.seconds()
    }

    pub fn in_flight(&self) -> u64 {
        self.0.iter().map(|slice| slice.in_flight).max().unwrap_or(0)
    }

    pub fn waiting(&self) -> u64 {
        self.0.iter().map(|slice| slice.waiting).max().unwrap_or(0)
    }

    /// The mean over the time in which it was known.
    pub fn cpu_percent(&self) -> Option<f64> {
        let known = self.0.iter().filter_map(|slice| Some((slice.server_cpu_percent?, slice.seconds)));
        let (sum, seconds) = known
            .filter(|(percent, _)| percent.is_finite())
            .fold((0.0, 0.0), |(sum, total), (percent, seconds)| (sum + percent * seconds, total + seconds));
        (seconds > 0.0).then(|| sum / seconds)
    }

    pub fn memory_bytes(&self) -> Option<u64> {
        self.0.iter().filter_map(|slice| slice.server_memory_bytes).max()
    }

    pub fn per_second(&self, operation: &str) -> f64 {
        let count: f64 = self.operations(operation).map(|(count, _)| count as f64).sum();
        count / self.seconds()
    }

    /// Percentiles of the parts cannot be added up to those of the whole; these are its nearest honest bounds.
    pub fn latency(&self, operation: &str) -> Option<[u64; 3]> {
        let all: Vec<Latency> =
            self.operations(operation).filter(|(count, _)| *count > 0).map(|(_, latency)| latency).collect();
        let mut medians: Vec<u64> = all.iter().map(|latency| latency.p50_us).collect();
        medians.sort_unstable();
        let p50 = *medians.get(medians.len() / 2)?;
        Some([p50, all.iter().map(|latency| latency.p99_us).max()?, all.iter().map(|latency| latency.max_us).max()?])
    }

    fn operations(&self, name: &str) -> impl Iterator<Item = (u64, Latency)> {
        let all = self.0.iter().flat_map(|slice| &slice.operations);
        all.filter(move |operation| operation.name == name).map(|operation| (operation.count, operation.latency))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn a_short_timeline_is_left_as_it_is() {
        let run = sample::killed();
        let (slices, at_once) = timeline(&run, 0);
        assert_eq!((slices.len(), at_once), (600, 1));
    }

    #[test]
    fn merging_keeps_totals_and_peaks() {
        let run = sample::killed();
        let (slices, _) = timeline(&run, 0);
        let one: Vec<Merged> = merged(&slices, 600).collect();
        let [one] = &one[..] else { panic!("one point") };
        assert_eq!((one.from(), one.to()), (0.0, 600.0));
        let claims: u64 =
            slices.iter().flat_map(|slice| &slice.operations).filter(|it| it.name == "claim").map(|it| it.count).sum();
        assert!((one.per_second("claim") * 600.0 - claims as f64).abs() < 1.0);
        let slowest = slices
            .iter()
            .flat_map(|slice| &slice.operations)
            .filter(|it| it.name == "claim")
            .map(|it| it.latency.max_us);
        assert_eq!(one.latency("claim").map(|[_, _, max]| max), slowest.max());
        assert_eq!(one.latency("deploy"), None);
    }

    #[test]
    fn slices_without_a_time_are_left_out() {
        let run = sample::without_numbers();
        assert!(timeline(&run, 0).0.iter().all(|slice| slice.at.is_finite()));
    }
}

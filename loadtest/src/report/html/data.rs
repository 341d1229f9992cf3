//! Prepares the data for the page's script: the runs' numbers in columns, thinned out, and embedded so that no text can
//! end the script element.

use serde::Serialize;

use crate::report::html::tables::in_order;
use crate::report::model::{Latency, Operation, Phase, Run, Slice};

/// The maximum number of labels: more cannot be distinguished in a plot.
const MOST_MARKS: usize = 100;
const MOST_POINTS: usize = 200;

#[derive(Serialize)]
struct RunData<'a> {
    seconds: f64,
    marks: Vec<(f64, &'a str)>,
    phases: Vec<PhaseData<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhaseData<'a> {
    name: &'a str,
    distributions: Vec<Distribution<'a>>,
    from: Vec<f64>,
    to: Vec<f64>,
    in_flight: Vec<u64>,
    waiting: Vec<u64>,
    errors: Vec<f64>,
    cpu: Vec<Option<f64>>,
    memory: Vec<Option<u64>>,
    operations: Vec<Series<'a>>,
}

#[derive(Serialize)]
struct Distribution<'a> {
    name: &'a str,
    count: u64,
    points: Vec<(f64, u64)>,
}

#[derive(Serialize)]
struct Series<'a> {
    name: &'a str,
    rate: Vec<f64>,
    /// p50, p99 and maximum.
    latency: Vec<Option<[u64; 3]>>,
}

/// JSON that is safe inside a script element: characters that could end the element or begin a comment are escaped.
pub fn embedded(runs: &[Run]) -> String {
    let data: Vec<RunData> = runs.iter().map(run_data).collect();
    let json = serde_json::to_string(&data).expect("numbers and strings in structs are always JSON");
    let mut safe = String::with_capacity(json.len() + 64);
    for character in json.chars() {
        match character {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            '\u{2028}' => safe.push_str("\\u2028"),
            '\u{2029}' => safe.push_str("\\u2029"),
            other => safe.push(other),
        }
    }
    safe
}

pub fn has_timeline(runs: &[Run]) -> bool {
    runs.iter().any(|run| (0..run.phases.len()).any(|phase| !timeline(run, phase).0.is_empty()))
}

pub fn has_distributions(runs: &[Run]) -> bool {
    let mut operations = runs.iter().flat_map(|run| &run.phases).flat_map(|phase| &phase.operations);
    operations.any(|operation| points(operation).len() > 1)
}

fn run_data(run: &Run) -> RunData<'_> {
    let slices = run.phases.iter().flat_map(|phase| &phase.timeline).filter(|slice| slice.at.is_finite());
    let mut marks: Vec<(f64, &str)> =
        slices.flat_map(|slice| slice.marks.iter().map(|mark| (thousandths(slice.at), mark.as_str()))).collect();
    marks.sort_by(|a, b| a.0.total_cmp(&b.0));
    marks.truncate(MOST_MARKS);
    let phases = run.phases.iter().enumerate().map(|(index, phase)| phase_data(run, index, phase)).collect();
    RunData { seconds: run.seconds, marks, phases }
}

fn phase_data<'a>(run: &'a Run, index: usize, phase: &'a Phase) -> PhaseData<'a> {
    let (slices, at_once) = timeline(run, index);
    let merged: Vec<Merged> = merged(&slices, at_once).collect();
    let names = in_order(phase.timeline.iter().flat_map(|slice| slice.operations.iter().map(|it| it.name.as_str())));
    let series = |name| Series {
        name,
        rate: column(&merged, |slice| thousandths(slice.per_second(name))),
        latency: column(&merged, |slice| slice.latency(name)),
    };
    let distribution = |operation: &'a Operation| Distribution {
        name: &operation.name,
        count: operation.count,
        points: points(operation),
    };
    PhaseData {
        name: &phase.name,
        distributions: phase.operations.iter().map(distribution).filter(|drawn| drawn.points.len() > 1).collect(),
        from: column(&merged, |slice| thousandths(slice.from())),
        to: column(&merged, |slice| thousandths(slice.to())),
        in_flight: column(&merged, |slice| slice.most(|slice| Some(slice.in_flight)).unwrap_or(0)),
        waiting: column(&merged, |slice| slice.most(|slice| Some(slice.waiting)).unwrap_or(0)),
        errors: column(&merged, |slice| thousandths(slice.errors_per_second())),
        cpu: column(&merged, |slice| slice.cpu_percent().map(thousandths)),
        memory: column(&merged, |slice| slice.most(|slice| slice.server_memory_bytes)),
        operations: names.into_iter().map(series).collect(),
    }
}

fn column<T>(merged: &[Merged<'_>], value: impl Fn(&Merged<'_>) -> T) -> Vec<T> {
    merged.iter().map(value).collect()
}

fn points(operation: &Operation) -> Vec<(f64, u64)> {
    let known: Vec<(f64, u64)> =
        operation.distribution.iter().copied().filter(|(quantile, _)| (0.0..=1.0).contains(quantile)).collect();
    let step = known.len().div_ceil(MOST_POINTS).max(1);
    // From the end, so that the slowest is always kept.
    let mut kept: Vec<(f64, u64)> = known.into_iter().rev().step_by(step).collect();
    kept.reverse();
    kept
}

fn thousandths(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// More points would be less than a pixel apart in any plot.
const MOST_SLICES: usize = 1_000;
/// The number of slices kept for each phase even if there are many phases, so that its shape stays visible.
const FEWEST_SLICES: usize = 20;

/// Consecutive slices, merged into one point.
struct Merged<'a>(&'a [&'a Slice]);

/// A phase's slices in time order, without those with invalid times, and the number of slices per point.
fn timeline(run: &Run, phase: usize) -> (Vec<&Slice>, usize) {
    let mut slices: Vec<&Slice> = run.phases[phase].timeline.iter().filter(|slice| is_placed(slice)).collect();
    slices.sort_by(|a, b| a.at.total_cmp(&b.at));
    let all: usize = run.phases.iter().map(|phase| phase.timeline.len()).sum();
    let allowed = (MOST_SLICES * slices.len() / all.max(1)).max(FEWEST_SLICES);
    let at_once = slices.len().div_ceil(allowed).max(1);
    (slices, at_once)
}

fn merged<'a>(slices: &'a [&'a Slice], at_once: usize) -> impl Iterator<Item = Merged<'a>> {
    slices.chunks(at_once).map(Merged)
}

/// The highest number of slices merged into one point.
pub fn most_merged(run: &Run) -> usize {
    (0..run.phases.len()).map(|phase| timeline(run, phase).1).max().unwrap_or(1)
}

fn is_placed(slice: &Slice) -> bool {
    slice.at.is_finite() && slice.seconds.is_finite() && slice.seconds > 0.0
}

impl Merged<'_> {
    fn from(&self) -> f64 {
        self.0[0].at
    }

    fn to(&self) -> f64 {
        self.0.iter().map(|slice| slice.at + slice.seconds).fold(self.from(), f64::max)
    }

    fn seconds(&self) -> f64 {
        self.0.iter().map(|slice| slice.seconds).sum()
    }

    fn errors_per_second(&self) -> f64 {
        self.0.iter().map(|slice| slice.errors as f64).sum::<f64>() / self.seconds()
    }

    fn most(&self, value: impl Fn(&Slice) -> Option<u64>) -> Option<u64> {
        self.0.iter().filter_map(|slice| value(slice)).max()
    }

    /// The mean over the time for which the value is known.
    fn cpu_percent(&self) -> Option<f64> {
        let known = self.0.iter().filter_map(|slice| Some((slice.server_cpu_percent?, slice.seconds)));
        let (sum, seconds) = known
            .filter(|(percent, _)| percent.is_finite())
            .fold((0.0, 0.0), |(sum, total), (percent, seconds)| (sum + percent * seconds, total + seconds));
        (seconds > 0.0).then(|| sum / seconds)
    }

    fn per_second(&self, operation: &str) -> f64 {
        let count: f64 = self.operations(operation).map(|(count, _)| count as f64).sum();
        count / self.seconds()
    }

    /// The percentiles of the whole cannot be computed from those of its parts, so this returns estimates: the middle
    /// of the medians, and the highest p99 and maximum.
    fn latency(&self, operation: &str) -> Option<[u64; 3]> {
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
    use crate::report::samples;

    #[test]
    fn a_short_timeline_is_left_as_it_is() {
        let run = samples::killed();
        let (slices, at_once) = timeline(&run, 0);
        assert_eq!((slices.len(), at_once), (600, 1));
    }

    #[test]
    fn merging_keeps_totals_and_peaks() {
        let run = samples::killed();
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
        let run = samples::without_numbers();
        assert!(timeline(&run, 0).0.iter().all(|slice| slice.at.is_finite()));
    }
}

//! Owns what the page's script draws from: the runs' numbers in columns, thinned out, embedded so that nothing in them
//! can end the element that holds them.

use serde::Serialize;

use super::tables::in_order;
use super::thin::{self, Merged};
use crate::report::model::{Operation, Phase, Run};

/// More labels than this cannot be told apart in a plot.
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
    /// p50, p99, max.
    latency: Vec<Option<[u64; 3]>>,
}

/// JSON that may stand inside of a script element: what could end it, or begin a comment, is written as an escape.
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
    runs.iter().any(|run| (0..run.phases.len()).any(|phase| !thin::timeline(run, phase).0.is_empty()))
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
    let (slices, at_once) = thin::timeline(run, index);
    let merged: Vec<Merged> = thin::merged(&slices, at_once).collect();
    let names = in_order(phase.timeline.iter().flat_map(|slice| slice.operations.iter().map(|it| it.name.as_str())));
    let operations = names
        .into_iter()
        .map(|name| Series {
            name,
            rate: merged.iter().map(|slice| thousandths(slice.per_second(name))).collect(),
            latency: merged.iter().map(|slice| slice.latency(name)).collect(),
        })
        .collect();
    let distributions = phase
        .operations
        .iter()
        .map(|operation| Distribution { name: &operation.name, count: operation.count, points: points(operation) })
        .filter(|distribution| distribution.points.len() > 1)
        .collect();
    PhaseData {
        name: &phase.name,
        distributions,
        from: merged.iter().map(|slice| thousandths(slice.from())).collect(),
        to: merged.iter().map(|slice| thousandths(slice.to())).collect(),
        in_flight: merged.iter().map(Merged::in_flight).collect(),
        waiting: merged.iter().map(Merged::waiting).collect(),
        errors: merged.iter().map(|slice| thousandths(slice.errors_per_second())).collect(),
        cpu: merged.iter().map(|slice| slice.cpu_percent().map(thousandths)).collect(),
        memory: merged.iter().map(Merged::memory_bytes).collect(),
        operations,
    }
}

fn points(operation: &Operation) -> Vec<(f64, u64)> {
    let known: Vec<(f64, u64)> =
        operation.distribution.iter().copied().filter(|(quantile, _)| (0.0..=1.0).contains(quantile)).collect();
    let step = known.len().div_ceil(MOST_POINTS).max(1);
    // From the end, so that the slowest is always among them.
    let mut kept: Vec<(f64, u64)> = known.into_iter().rev().step_by(step).collect();
    kept.reverse();
    kept
}

fn thousandths(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

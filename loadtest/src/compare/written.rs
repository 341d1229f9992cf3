//! Owns the form in which a comparison is written down, so that the report can draw it like any other run.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::compare::goals::{Goal, figure};
use crate::compare::options::{Plan, Source};
use crate::compare::peer::System;
use crate::compare::rounds::{Key, Outcome, Round};
use crate::compare::turn::{Operation as Kind, Turn};
use crate::compare::work::Work;
use crate::report::model::{Check, FORMAT, Figure, Latency, Operation, Phase, Run};

/// What happened around the turns.
pub struct Circumstances {
    pub started_at: String,
    pub seconds: f64,
    pub interrupted: bool,
    pub left_out: Vec<(System, String)>,
}

pub fn run(plan: &Plan, outcome: &Outcome, goals: &[Goal], checks: Vec<Check>, around: Circumstances) -> Run {
    let mut settings = settings(plan);
    for (system, reason) in &around.left_out {
        settings.insert(format!("left out: {}", system.title()), reason.clone());
    }
    Run {
        format: FORMAT,
        scenario: "compare".to_owned(),
        description: "The same locks, durable, in Lockkeeper and in its peers, taking turns on one machine.".to_owned(),
        started_at: around.started_at,
        seconds: around.seconds,
        interrupted: around.interrupted,
        target: match &plan.lockkeeper {
            Source::Program(program) => program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Source::Running { target, .. } => format!("http://{}", target.authority()),
        },
        settings,
        phases: phases(&outcome.rounds),
        ratios: goals.iter().filter_map(ratio).chain(disk(&outcome.rounds)).collect(),
        checks,
        errors: outcome.errors.clone(),
    }
}

fn settings(plan: &Plan) -> BTreeMap<String, String> {
    let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let systems = plan.systems.iter().map(|system| system.title()).collect::<Vec<_>>().join("; ");
    [
        ("systems", systems),
        ("clients", list(&plan.clients)),
        ("clients at one hot lock", list(&plan.hot_clients)),
        ("clients that read", plan.read_clients.to_string()),
        ("names", plan.names.to_string()),
        ("rounds", plan.rounds.to_string()),
        ("seconds a turn", plan.length.as_secs().to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// The goal is part of the name, since that is what a reader compares the figure with.
fn ratio(goal: &Goal) -> Option<Figure> {
    let figure = goal.figure.clone()?;
    let name = match (goal.bound, goal.met()) {
        (Some(bound), Some(met)) => {
            format!("{} (goal {}: {})", goal.name, bound.describe(), if met { "met" } else { "not met" })
        }
        (_, _) => goal.name.clone(),
    };
    Some(Figure { name, ..figure })
}

fn disk(rounds: &[Round]) -> Option<Figure> {
    figure("one fdatasync of the disk, p50", "µs", rounds.iter().filter_map(|round| round.fdatasync_microseconds))
}

/// One for each system, work and number of clients.
fn phases(rounds: &[Round]) -> Vec<Phase> {
    let mut turns: BTreeMap<Key, Vec<&Turn>> = BTreeMap::new();
    for (key, turn) in rounds.iter().flat_map(|round| &round.turns) {
        turns.entry(*key).or_default().push(turn);
    }
    turns.into_iter().map(|(key, turns)| phase(key, &turns)).collect()
}

fn phase(key: Key, turns: &[&Turn]) -> Phase {
    let work = key.work;
    let (unit, per_second, each) = match work {
        Work::Cycle => (Kind::Release, "cycles per second", "server CPU per cycle"),
        Work::Hot => (Kind::Handoff, "handoffs per second", "server CPU per handoff"),
        Work::ReadEnvironment | Work::ReadSession => (Kind::Read, "requests per second", "server CPU per request"),
    };
    let of = |name, unit, value: &dyn Fn(&Turn) -> Option<f64>| {
        figure(name, unit, turns.iter().filter_map(|turn| value(turn)))
    };
    let syncs = match work {
        Work::Hot => of("fsyncs per handoff", "", &Turn::syncs_per_handoff),
        Work::Cycle | Work::ReadEnvironment | Work::ReadSession => None,
    };
    let rate = of(per_second, "1/s", &|turn| turn.per_second(unit));
    let cpu = of(each, "µs", &|turn| turn.cpu_per(unit));
    Phase {
        name: key.to_string(),
        operations: Kind::ALL.into_iter().filter_map(|kind| operation(kind, turns)).collect(),
        figures: [rate, cpu, syncs].into_iter().flatten().collect(),
        ..Phase::default()
    }
}

/// Of all rounds together; None if it did not happen.
fn operation(kind: Kind, turns: &[&Turn]) -> Option<Operation> {
    let mut histograms = turns.iter().filter_map(|turn| turn.latencies.get(&kind));
    let mut all = histograms.next()?.clone();
    for histogram in histograms {
        all.add(histogram).expect("all have the same bounds");
    }
    let at = |quantile| all.value_at_quantile(quantile);
    let latency = Latency { p50_us: at(0.5), p90_us: at(0.9), p99_us: at(0.99), p999_us: at(0.999), max_us: all.max() };
    Some(Operation { name: kind.name().to_owned(), count: all.len(), latency, distribution: distribution(&all) })
}

/// Denser towards the end, where a reader looks.
fn distribution(histogram: &Histogram<u32>) -> Vec<(f64, u64)> {
    const STEPS_PER_HALF: u32 = 5;
    histogram
        .iter_quantiles(STEPS_PER_HALF)
        .map(|step| (step.quantile_iterated_to(), step.value_iterated_to()))
        .collect()
}

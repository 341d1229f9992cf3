//! Owns the form in which a comparison is written down, so that the report can draw it like any other run.

use std::collections::BTreeMap;

use crate::compare::peer::System;
use crate::compare::plan::Plan;
use crate::compare::rounds::{Key, Outcome, Round};
use crate::compare::turn::Turn;
use crate::compare::work::Work;
use crate::engine::tally::Precise;
use crate::report::model::{Check, FORMAT, Figure, Phase, Run};

/// What is left of a comparison when its servers are gone.
pub struct Seen {
    pub outcome: Outcome,
    pub checks: Vec<Check>,
    /// With the reason.
    pub left_out: Vec<(System, String)>,
}

/// But for its times, and whether it was ended early.
pub fn run(plan: &Plan, seen: Seen, goals: Vec<Figure>) -> Run {
    let rounds = &seen.outcome.rounds;
    let syncs = rounds.iter().filter_map(|round| round.fdatasync_microseconds);
    let disk = Figure::of("one fdatasync of the disk, p50", "µs", syncs);
    Run {
        format: FORMAT,
        scenario: "compare".to_owned(),
        description: "The same locks, durable, in Lockkeeper and in its peers, taking turns on one machine".to_owned(),
        started_at: String::new(),
        seconds: 0.0,
        interrupted: false,
        target: plan.target.clone(),
        settings: settings(plan, &seen.left_out),
        phases: phases(rounds),
        ratios: goals.into_iter().chain([disk]).filter(Figure::is_measured).collect(),
        checks: seen.checks,
        errors: seen.outcome.errors,
    }
}

fn settings(plan: &Plan, left_out: &[(System, String)]) -> BTreeMap<String, String> {
    let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let systems = plan.systems.iter().map(|system| system.title()).collect::<Vec<_>>().join("; ");
    let asked = [
        ("systems", systems),
        ("clients", list(&plan.clients)),
        ("clients at one hot lock", list(&plan.hot_clients)),
        ("clients that read", plan.read_clients.to_string()),
        ("names", plan.names.to_string()),
        ("rounds", plan.rounds.to_string()),
        ("seconds per turn", plan.length.as_secs().to_string()),
    ];
    let left_out = left_out.iter().map(|(system, why)| (format!("left out: {}", system.title()), why.clone()));
    asked.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(left_out).collect()
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
    let (per_second, each) = match key.work {
        Work::Cycle => ("cycles per second", "server CPU per cycle"),
        Work::Hot => ("handoffs per second", "server CPU per handoff"),
        Work::ReadEnvironment | Work::ReadSession => ("requests per second", "server CPU per request"),
    };
    let unit = key.work.unit();
    let of = |name, unit, value: &dyn Fn(&Turn) -> Option<f64>| {
        Figure::of(name, unit, turns.iter().filter_map(|turn| value(turn)))
    };
    let figures = [
        of(per_second, "/s", &|turn| turn.per_second(unit)),
        of(each, "µs", &|turn| turn.cpu_per(unit)),
        of("fsyncs per handoff", "", &Turn::syncs_per_handoff),
    ];
    let mut latencies = Precise::default();
    turns.iter().for_each(|turn| latencies.merge(&turn.latencies));
    Phase {
        name: key.to_string(),
        operations: latencies.into_model(),
        figures: figures.into_iter().filter(Figure::is_measured).collect(),
        ..Phase::default()
    }
}

//! Owns the order of the turns: in every round each system gets its turn at every kind of work and number of clients, and
//! another one begins, so that no system always follows the same one.

use std::collections::BTreeMap;
use std::fmt;

use crate::compare::peer::{System, counted};
use crate::compare::plan::Plan;
use crate::compare::systems::{Servers, Systems};
use crate::compare::turn::Turn;
use crate::compare::work::{Work, WorkSize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub work: Work,
    pub clients: u32,
    pub system: System,
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}, {}, {}", self.system.title(), self.work.name(), counted(self.clients))
    }
}

#[derive(Default)]
pub struct Round {
    pub turns: BTreeMap<Key, Turn>,
    /// Of the disk alone, measured just before Lockkeeper's turn with the fewest clients.
    pub fdatasync_microseconds: Option<f64>,
}

/// What a comparison has seen, also one that was ended early.
#[derive(Default)]
pub struct Outcome {
    pub rounds: Vec<Round>,
    pub errors: BTreeMap<String, u64>,
}

impl Outcome {
    fn error(&mut self, key: Key, what: &str) {
        *self.errors.entry(format!("{key}: {what}")).or_default() += 1;
    }
}

pub async fn take_turns(plan: &Plan, servers: &Servers, field: &Systems, outcome: &mut Outcome) {
    for number in 0..plan.rounds {
        outcome.rounds.push(Round::default());
        for key in schedule(plan, field, number as usize) {
            if key.work == Work::Cycle && key.system == System::Lockkeeper && plan.clients.first() == Some(&key.clients)
            {
                measure_disk(servers, outcome);
            }
            let size = WorkSize { clients: key.clients, names: plan.names, length: plan.length };
            let Some(turn) = field.systems[&key.system].take_turn(key.work, size).await else { continue };
            match turn {
                Ok(turn) => record(plan, number, key, turn, outcome),
                Err(fault) => outcome.error(key, &fault.to_string()),
            }
        }
    }
}

fn record(plan: &Plan, number: u32, key: Key, turn: Turn, outcome: &mut Outcome) {
    let (system, rate) = (key.system.title(), turn.per_second(key.work.unit()).unwrap_or(0.0));
    let (number, rounds) = (number + 1, plan.rounds);
    let (work, clients) = (key.work.name(), counted(key.clients));
    eprintln!("round {number}/{rounds}: {work:<16} {clients:>12}  {system:<26} {rate:>8.0}/s");
    for error in &turn.errors {
        outcome.error(key, error);
    }
    if turn.count(key.work.unit()) == 0 {
        outcome.error(key, "did nothing");
    }
    if let Some(round) = outcome.rounds.last_mut() {
        round.turns.insert(key, turn);
    }
}

fn measure_disk(servers: &Servers, outcome: &mut Outcome) {
    let measured = servers.fdatasync_microseconds();
    match (measured, outcome.rounds.last_mut()) {
        (Ok(microseconds), Some(round)) => round.fdatasync_microseconds = Some(microseconds),
        (Ok(_), None) => {}
        (Err(error), _) => *outcome.errors.entry(format!("fdatasync: {error}")).or_default() += 1,
    }
}

/// Every turn of one round.
fn schedule(plan: &Plan, field: &Systems, round: usize) -> Vec<Key> {
    let present: Vec<System> = field.systems.keys().copied().collect();
    let mut keys = Vec::new();
    for clients in &plan.clients {
        keys.extend(in_turn(&present, round).map(|system| Key { work: Work::Cycle, clients: *clients, system }));
    }
    let locks: Vec<System> = present.iter().copied().filter(|system| system.locks()).collect();
    for clients in &plan.hot_clients {
        keys.extend(in_turn(&locks, round).map(|system| Key { work: Work::Hot, clients: *clients, system }));
    }
    let readable: Vec<System> =
        present.iter().copied().filter(|system| matches!(system, System::Lockkeeper | System::Bare)).collect();
    for work in [Work::ReadEnvironment, Work::ReadSession] {
        keys.extend(in_turn(&readable, round).map(|system| Key { work, clients: plan.read_clients, system }));
    }
    keys
}

fn in_turn(systems: &[System], round: usize) -> impl Iterator<Item = System> {
    let first = round % systems.len().max(1);
    systems.iter().copied().cycle().skip(first).take(systems.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_begins_with_another_system_and_leaves_none_out() {
        let systems = [System::Lockkeeper, System::Redis, System::Bare];
        let order = |round| in_turn(&systems, round).collect::<Vec<_>>();
        assert_eq!(order(0), systems);
        assert_eq!(order(1), [System::Redis, System::Bare, System::Lockkeeper]);
        assert_eq!(order(3), systems);
        assert_eq!(in_turn(&[], 2).count(), 0);
    }
}

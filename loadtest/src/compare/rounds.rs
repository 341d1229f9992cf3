//! Owns the order of the turns: in every round each system takes a turn at every kind of work and number of clients.
//! The first system changes with each round, so that none always follows the same one.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fmt, io};

use rustix::fs::statfs;

use crate::compare::plan::{Plan, System, counted};
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
    /// The disk alone, measured just before Lockkeeper's turn with the fewest clients.
    pub fdatasync_microseconds: Option<f64>,
}

/// The results of a comparison, complete or interrupted.
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
            let size = WorkSize { clients: key.clients, names: plan.names, length: plan.length() };
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
    let measured = fdatasync_microseconds(servers.directory.path());
    match (measured, outcome.rounds.last_mut()) {
        (Ok(microseconds), Some(round)) => round.fdatasync_microseconds = Some(microseconds),
        (Ok(_), None) => {}
        (Err(error), _) => *outcome.errors.entry(format!("fdatasync: {error}")).or_default() += 1,
    }
}

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

const BLOCK_BYTES: usize = 4096;
/// Enough blocks that none is rewritten soon.
const BLOCKS: u64 = 1024;
/// The number of samples: enough for a median, taken in less than a tenth of a second on a good disk.
const SAMPLES: usize = 500;
/// The time limit: on a slow disk, fewer samples are taken.
const LONGEST: Duration = Duration::from_secs(2);
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The median time of overwriting a preallocated block followed by `fdatasync`, in microseconds. Nothing is appended,
/// so no metadata has to be written.
pub fn fdatasync_microseconds(directory: &Path) -> io::Result<f64> {
    let path = directory.join("fdatasync");
    let result = sample(&path);
    std::fs::remove_file(&path)?;
    result
}

fn sample(path: &Path) -> io::Result<f64> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    preallocate(&file)?;
    let block = [0x5a; BLOCK_BYTES];
    let (start, mut times) = (Instant::now(), Vec::with_capacity(SAMPLES));
    for place in (0..BLOCKS).cycle().take(SAMPLES) {
        let begun = Instant::now();
        file.write_all_at(&block, place * BLOCK_BYTES as u64)?;
        file.sync_data()?;
        times.push(begun.elapsed());
        if start.elapsed() > LONGEST {
            break;
        }
    }
    times.sort_unstable();
    Ok(times[times.len() / 2].as_secs_f64() * 1e6)
}

/// Writes the blocks instead of reserving them: the first write into a reserved block changes metadata.
fn preallocate(file: &File) -> io::Result<()> {
    let zeros = vec![0; BLOCK_BYTES * BLOCKS as usize];
    file.write_all_at(&zeros, 0)?;
    file.sync_all()
}

/// Whether the directory is in memory, where there is no durability to compare.
pub fn is_in_memory(directory: &Path) -> io::Result<bool> {
    Ok(statfs(directory)?.f_type as u64 == TMPFS_MAGIC)
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

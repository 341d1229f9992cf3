//! Owns the judgement: from what the clients of a queue saw to times, violations and the report.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::options::QueuePlan;
use crate::summary::Spread;

/// With fewer waiters, what they take is lost in what the allocator keeps and gives back.
const FEWEST_FOR_MEMORY: usize = 1_000;
/// Nobody reads more of them than this.
const MAX_LISTED: usize = 20;

/// What one waiter saw.
pub struct Served {
    /// When it joined the queue, as a number: each was seen there before the next one came.
    pub place: usize,
    pub token: u64,
    pub granted: Instant,
    /// Just before the release was sent.
    pub released: Instant,
}

/// A queue of one length, in one round.
#[derive(Default)]
pub struct Measured {
    pub waiters: usize,
    /// Bytes of the server for each waiter: with its connection, and what waiting adds to one that is idle.
    pub bytes: Option<(f64, f64)>,
    /// From sending a release to receiving the next grant, ascending.
    pub handoffs: Vec<Duration>,
    pub violations: Vec<String>,
}

/// The server's memory before there was any connection, with idle ones, and with all waiting; in bytes.
pub struct Memory {
    pub before: u64,
    pub connected: u64,
    pub waiting: u64,
}

impl Measured {
    pub fn new(waiters: usize, memory: Option<Memory>) -> Self {
        let bytes = memory.filter(|_| waiters >= FEWEST_FOR_MEMORY).map(|memory| {
            let each = |after: u64, before: u64| (after as f64 - before as f64) / waiters as f64;
            (each(memory.waiting, memory.before), each(memory.waiting, memory.connected))
        });
        Self { waiters, bytes, ..Self::default() }
    }

    /// Takes in a queue that was run through: the first lock had this token and was released then.
    pub fn add(&mut self, mut seen: Vec<Served>, first_token: u64, first_released: Instant) {
        seen.sort_by_key(|served| served.token);
        if seen.len() != self.waiters {
            self.violations.push(format!("{} of {} were served", seen.len(), self.waiters));
        }
        let (mut token, mut released, mut next) = (first_token, first_released, 0);
        for served in &seen {
            if served.token != token + 1 {
                let now = served.token;
                self.violations.push(format!("fencing token {now} came after {token}: it must rise by exactly one"));
            }
            if served.place != next {
                self.violations.push(format!("number {} was served when it was number {next}'s turn", served.place));
            }
            if served.granted < released {
                let token = served.token;
                self.violations.push(format!("token {token} was granted before its predecessor was released"));
            }
            self.handoffs.push(served.granted.saturating_duration_since(released));
            (token, released, next) = (served.token, served.released, served.place + 1);
        }
        self.handoffs.sort_unstable();
    }

    pub fn describe(&self) -> String {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|part| self.microseconds(part).unwrap_or(0.0));
        let bytes = match self.bytes {
            Some((whole, waiting)) => format!("; {whole:.0} B a waiter, {waiting:.0} B of them for waiting"),
            None => String::new(),
        };
        let (waiters, handoffs) = (self.waiters, self.handoffs.len());
        format!(
            "{waiters} waiters, {handoffs} hand-overs: release to next grant p50 {p50:.0} µs, p99 {p99:.0} µs, \
             max {max:.0} µs{bytes}"
        )
    }

    fn microseconds(&self, part: f64) -> Option<f64> {
        let last = self.handoffs.len().checked_sub(1)?;
        let handoff = self.handoffs.get((last as f64 * part).round() as usize)?;
        Some(handoff.as_secs_f64() * 1e6)
    }
}

/// All rounds of each length, and what was wrong.
pub fn report(plan: &QueuePlan, rounds: &[Vec<Measured>], out: &mut impl Write) -> io::Result<()> {
    let lengths = plan.waiters.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    write!(out, "{lengths} waiters")?;
    if plan.queued > 0 {
        write!(out, ", {} queued sessions behind them", plan.queued)?;
    }
    writeln!(out, ", {} of {} rounds\n", rounds.len(), plan.rounds)?;
    writeln!(out, "{:<36}{:>10}   min – max", "", "median")?;
    let mut figure = |label: String, decimals: usize, spread: Option<Spread>| match spread {
        Some(Spread { median, min, max }) => {
            writeln!(out, "{label:<36}{median:>10.decimals$}   {min:.decimals$} – {max:.decimals$}")
        }
        None => Ok(()),
    };
    for (index, waiters) in plan.waiters.iter().enumerate() {
        let spread = |value: &dyn Fn(&Measured) -> Option<f64>| {
            Spread::of(rounds.iter().filter_map(|round| round.get(index)).filter_map(value))
        };
        for (name, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            let label = format!("{waiters} waiters, hand-over {name} µs");
            figure(label, 0, spread(&|measured| measured.microseconds(part)))?;
        }
        let bytes = |measured: &Measured| measured.bytes;
        figure(format!("{waiters} waiters, B each"), 0, spread(&|measured| Some(bytes(measured)?.0)))?;
        figure(format!("{waiters} waiters, B each for waiting"), 0, spread(&|measured| Some(bytes(measured)?.1)))?;
    }
    figure(
        "p99, longest against shortest".to_owned(),
        2,
        Spread::of(rounds.iter().filter_map(|round| longest_to_shortest(round))),
    )?;
    let violations: Vec<_> = violations(rounds).collect();
    writeln!(out, "{:<36}{:>10}", "violations", violations.len())?;
    for violation in violations.iter().take(MAX_LISTED) {
        writeln!(out, "  {violation}")?;
    }
    Ok(())
}

pub fn is_clean(rounds: &[Vec<Measured>]) -> bool {
    violations(rounds).next().is_none()
}

fn violations(rounds: &[Vec<Measured>]) -> impl Iterator<Item = &String> {
    rounds.iter().flatten().flat_map(|measured| &measured.violations)
}

/// The ratio of their p99, side by side in one round.
fn longest_to_shortest(round: &[Measured]) -> Option<f64> {
    let longest = round.iter().max_by_key(|measured| measured.waiters)?;
    let shortest = round.iter().min_by_key(|measured| measured.waiters)?;
    let differ = longest.waiters != shortest.waiters;
    differ.then(|| Some(longest.microseconds(0.99)? / shortest.microseconds(0.99)?))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(start: Instant, place: usize, token: u64, [granted, released]: [u64; 2]) -> Served {
        let at = |millis| start + Duration::from_millis(millis);
        Served { place, token, granted: at(granted), released: at(released) }
    }

    fn judged(seen: Vec<Served>, start: Instant) -> Measured {
        let mut measured = Measured::new(2, None);
        measured.add(seen, 1, start);
        measured
    }

    #[test]
    fn a_queue_that_is_served_in_order_has_no_violations() {
        let start = Instant::now();
        let measured = judged(vec![served(start, 1, 3, [30, 31]), served(start, 0, 2, [10, 12])], start);
        assert_eq!(measured.violations, Vec::<String>::new());
        assert_eq!(measured.handoffs, [Duration::from_millis(10), Duration::from_millis(18)]);
        assert_eq!((measured.microseconds(0.0), measured.microseconds(1.0)), (Some(10_000.0), Some(18_000.0)));
        assert!(is_clean(&[vec![measured]]));
    }

    #[test]
    fn every_planted_fault_is_found() {
        let start = Instant::now();
        for (seen, expected) in [
            (vec![served(start, 0, 2, [1, 2]), served(start, 1, 2, [3, 4])], "must rise"),
            (vec![served(start, 0, 2, [1, 2]), served(start, 1, 4, [3, 4])], "must rise"),
            (vec![served(start, 0, 2, [1, 9]), served(start, 1, 3, [3, 10])], "before its predecessor"),
            (vec![served(start, 1, 2, [1, 2]), served(start, 0, 3, [3, 4])], "number 0's turn"),
            (vec![served(start, 0, 2, [1, 2])], "1 of 2"),
        ] {
            let measured = judged(seen, start);
            let found = measured.violations.iter().any(|violation| violation.contains(expected));
            assert!(found, "{expected}: {:?}", measured.violations);
            assert!(!is_clean(&[vec![measured]]));
        }
    }

    #[test]
    fn memory_is_told_of_many_waiters_only() {
        let memory = || Some(Memory { before: 10_000, connected: 2_010_000, waiting: 5_010_000 });
        assert_eq!(Measured::new(1_000, memory()).bytes, Some((5_000.0, 3_000.0)));
        assert_eq!(Measured::new(10, memory()).bytes, None);
        assert_eq!(Measured::new(1_000, None).bytes, None);
    }
}

//! Runs one turn: the clients of one system do one kind of work for a fixed time, after a short warm-up that does not
//! count. The result is the latencies in that time and the server's cost.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::compare::http_lock::HttpLock;
use crate::compare::peer::Fault;
use crate::compare::plan::System;
use crate::engine::{Operation, Precise};
use crate::report::{Check, Violation, quotient};
use crate::server::usage;
use crate::sync::locked;

/// The limit for the remaining waiters, who still get their turn: the slowest system does a few hundred handoffs per
/// second.
const END_SECONDS: u64 = 30;
/// The pause between turns, so that closing connections and ending processes do not affect the next one.
const SETTLE: Duration = Duration::from_millis(200);

pub struct Turn {
    pub seconds: f64,
    pub latencies: Precise,
    pub cpu_microseconds: Option<u64>,
    /// Syncs of Lockkeeper's log.
    pub syncs: Option<u64>,
    pub errors: Vec<String>,
}

/// State shared by the clients of a turn. Never contended: all of them run on one thread.
pub struct TurnState {
    closing: AtomicBool,
    latencies: Mutex<Precise>,
    ledger: Arc<Mutex<Ledger>>,
}

#[derive(Clone)]
pub struct CostSource {
    /// All processes of the system; empty if unknown.
    pub pids: Vec<u32>,
    pub syncs: Option<HttpLock>,
}

impl TurnState {
    pub fn new(ledger: &Arc<Mutex<Ledger>>) -> Arc<Self> {
        Arc::new(Self { closing: AtomicBool::new(false), latencies: Mutex::default(), ledger: Arc::clone(ledger) })
    }

    /// The turn is over: clients finish their current work and begin no more.
    pub fn closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    pub fn took(&self, operation: Operation, time: Duration) {
        locked(&self.latencies).record(operation, time);
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        locked(&self.ledger)
    }

    fn restart(&self) -> Precise {
        std::mem::take(&mut locked(&self.latencies))
    }
}

/// Lets the clients, which have already started, run for the length of the turn.
pub async fn measure(
    state: Arc<TurnState>,
    mut clients: JoinSet<Result<(), Fault>>,
    length: Duration,
    cost: &CostSource,
) -> Turn {
    tokio::time::sleep(warm_up(length)).await;
    let syncs_before = cost.syncs().await;
    let cpu_before = cost.cpu();
    drop(state.restart());
    let start = Instant::now();
    tokio::time::sleep(length).await;
    // In the same order as before, so that the time between the readings cancels out.
    let syncs = syncs_before.zip(cost.syncs().await).map(|(before, after)| after.saturating_sub(before));
    let cpu = cpu_before.zip(cost.cpu()).map(|(before, after)| after.saturating_sub(before));
    let latencies = state.restart();
    let seconds = start.elapsed().as_secs_f64();
    state.closing.store(true, Ordering::Relaxed);
    let errors = end(&mut clients).await;
    state.ledger().turn_ended();
    tokio::time::sleep(SETTLE).await;
    Turn { seconds, latencies, cpu_microseconds: cpu, syncs, errors }
}

/// Waits a bounded time for all clients.
async fn end(clients: &mut JoinSet<Result<(), Fault>>) -> Vec<String> {
    let mut errors = Vec::new();
    let all = async {
        while let Some(ended) = clients.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(fault)) => errors.push(fault.to_string()),
                Err(error) => errors.push(format!("a client failed: {error}")),
            }
        }
    };
    if tokio::time::timeout(Duration::from_secs(END_SECONDS), all).await.is_err() {
        errors.push(Fault::Stuck(END_SECONDS).to_string());
        clients.shutdown().await;
    }
    errors
}

fn warm_up(length: Duration) -> Duration {
    (length / 10).clamp(Duration::from_millis(100), Duration::from_millis(500))
}

impl CostSource {
    fn cpu(&self) -> Option<u64> {
        let read = self.pids.iter().map(|pid| usage::tree_cpu_time(*pid)).sum::<std::io::Result<u64>>();
        read.ok().filter(|_| !self.pids.is_empty())
    }

    async fn syncs(&self) -> Option<u64> {
        self.syncs.as_ref()?.syncs().await
    }
}

impl Turn {
    pub fn count(&self, operation: Operation) -> u64 {
        self.latencies.count(operation)
    }

    pub fn per_second(&self, operation: Operation) -> Option<f64> {
        quotient(self.count(operation) as f64, self.seconds).filter(|rate| *rate > 0.0)
    }

    pub fn quantile(&self, operation: Operation, quantile: f64) -> Option<f64> {
        Some(self.latencies.of(operation)?.value_at_quantile(quantile) as f64)
    }

    pub fn cpu_per(&self, operation: Operation) -> Option<f64> {
        quotient(self.cpu_microseconds? as f64, self.count(operation) as f64)
    }

    pub fn syncs_per_handoff(&self) -> Option<f64> {
        quotient(self.syncs? as f64, self.count(Operation::Handoff) as f64)
    }
}

/// The maximum number of listed errors; more would not be read.
const MAX_LISTED: usize = 10;

pub struct Ledger {
    last_tokens: HashMap<u32, u64>,
    holder: Option<u32>,
    tokens: Check,
    exclusion: Check,
}

impl Ledger {
    pub fn new(system: System) -> Self {
        let check = |name: &str| Check::new(format!("{}: {name}", system.title()));
        let (tokens, exclusion) = (check("fencing tokens rise"), check("one holder at a time"));
        Self { last_tokens: HashMap::new(), holder: None, tokens, exclusion }
    }

    /// Called in the order in which the answers arrived. A correct lock grants a name again only after its release was
    /// sent, so this is also the order of the grants.
    pub fn granted(&mut self, name: u32, token: Option<u64>) {
        let Some(token) = token else { return };
        self.tokens.examined += 1;
        if let Some(before) = self.last_tokens.insert(name, token).filter(|before| token <= *before) {
            self.tokens.broken(MAX_LISTED, || {
                Violation::of(format!("name {name}: fencing token {token} came after {before}"))
            });
        }
    }

    /// The client holds the hot lock from here until just before it sends its release.
    pub fn holds(&mut self, client: u32) {
        self.exclusion.examined += 1;
        if let Some(other) = self.holder.replace(client) {
            self.exclusion.broken(MAX_LISTED, || {
                Violation::of(format!("client {client} got the lock while client {other} held it"))
            });
        }
    }

    pub fn releases(&mut self, client: u32) {
        // If another client was granted it meanwhile, that is already reported.
        if self.holder == Some(client) {
            self.holder = None;
        }
    }

    /// Forgets the holder: clients that were cut off do not release.
    pub fn turn_ended(&mut self) {
        self.holder = None;
    }

    pub fn checks(&self) -> Vec<Check> {
        vec![self.tokens.clone(), self.exclusion.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(ledger: &Ledger) -> u64 {
        ledger.checks().iter().map(|check| check.violation_count).sum()
    }

    #[test]
    fn a_token_that_does_not_rise_is_a_violation_of_its_name_alone() {
        let mut ledger = Ledger::new(System::Redis);
        for (name, token) in [(1, 5), (2, 1), (1, 7), (2, 2)] {
            ledger.granted(name, Some(token));
        }
        assert_eq!(violations(&ledger), 0);
        ledger.granted(1, Some(7));
        ledger.granted(2, Some(1));
        assert_eq!(violations(&ledger), 2);
    }

    #[test]
    fn two_holders_at_once_are_a_violation() {
        let mut ledger = Ledger::new(System::Etcd);
        ledger.holds(1);
        ledger.releases(1);
        ledger.holds(2);
        assert_eq!(violations(&ledger), 0);
        ledger.holds(3);
        ledger.releases(2);
        ledger.holds(4);
        assert_eq!(violations(&ledger), 2);
        ledger.turn_ended();
        ledger.holds(5);
        assert_eq!(violations(&ledger), 2);
    }

    #[test]
    fn the_list_of_violations_is_bounded_and_their_count_is_not() {
        let mut ledger = Ledger::new(System::Postgres);
        (0..100).for_each(|_| ledger.granted(1, Some(1)));
        let check = &ledger.checks()[0];
        assert_eq!((check.examined, check.violation_count, check.violations.len()), (100, 99, MAX_LISTED));
    }
}

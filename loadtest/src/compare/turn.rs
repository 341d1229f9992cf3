//! Owns one turn: the clients of one system do one kind of work for a fixed time, after a short warm-up that does not
//! count. What was seen in that time, and what it cost the server, is the turn's result.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use crate::compare::http_lock::HttpLock;
use crate::compare::ledger::Ledger;
use crate::compare::peer::Fault;
use crate::compare::process_tree;

/// Latencies above are recorded as this; three digits of precision are more than the machine's noise leaves.
const MAX_LATENCY_MICROSECONDS: u64 = 60_000_000;
const LATENCY_DIGITS: u8 = 3;
/// Whoever waits in a queue still has to come to its turn, and the slowest hands over a few hundred times a second.
const END_SECONDS: u64 = 30;
/// Lets what a turn leaves behind (connections that close, processes that end) not count for the next.
const SETTLE: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Claim,
    Release,
    /// From sending a release to receiving the next grant.
    Handoff,
    Read,
}

impl Operation {
    pub const ALL: [Self; 4] = [Self::Claim, Self::Release, Self::Handoff, Self::Read];

    pub fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Release => "release",
            Self::Handoff => "handoff",
            Self::Read => "read",
        }
    }
}

/// What a turn has shown. Empty operations are left out.
pub struct Turn {
    pub seconds: f64,
    pub latencies: BTreeMap<Operation, Histogram<u32>>,
    pub cpu_microseconds: Option<u64>,
    /// Of Lockkeeper's log.
    pub syncs: Option<u64>,
    pub errors: Vec<String>,
}

/// What the clients of a turn share. Never contended: all of them run on one thread.
pub struct Shared {
    closing: AtomicBool,
    latencies: Mutex<[Histogram<u32>; Operation::ALL.len()]>,
    ledger: Arc<Mutex<Ledger>>,
}

/// Where the server's cost is read.
#[derive(Clone)]
pub struct Gauge {
    pub pid: Option<u32>,
    pub syncs: Option<HttpLock>,
}

impl Shared {
    pub fn new(ledger: &Arc<Mutex<Ledger>>) -> Arc<Self> {
        let latencies = Mutex::new(empty_histograms());
        Arc::new(Self { closing: AtomicBool::new(false), latencies, ledger: Arc::clone(ledger) })
    }

    /// The turn is over: finish what is begun, begin nothing.
    pub fn closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    pub fn took(&self, operation: Operation, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        locked(&self.latencies)[operation as usize].saturating_record(microseconds);
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        locked(&self.ledger)
    }

    fn restart(&self) -> [Histogram<u32>; Operation::ALL.len()] {
        std::mem::replace(&mut locked(&self.latencies), empty_histograms())
    }
}

/// Lets the clients, which have begun already, run for the turn's length.
pub async fn measure(
    shared: Arc<Shared>,
    mut clients: JoinSet<Result<(), Fault>>,
    length: Duration,
    gauge: &Gauge,
) -> Turn {
    tokio::time::sleep(warm_up(length)).await;
    let syncs_before = gauge.syncs().await;
    let cpu_before = gauge.cpu();
    drop(shared.restart());
    let start = Instant::now();
    tokio::time::sleep(length).await;
    // In the same order as before, so that the time between the readings cancels out.
    let syncs = syncs_before.zip(gauge.syncs().await).map(|(before, after)| after.saturating_sub(before));
    let cpu = cpu_before.zip(gauge.cpu()).map(|(before, after)| after.saturating_sub(before));
    let histograms = shared.restart();
    let seconds = start.elapsed().as_secs_f64();
    shared.closing.store(true, Ordering::Relaxed);
    let errors = end(&mut clients).await;
    shared.ledger().turn_ended();
    tokio::time::sleep(SETTLE).await;
    let latencies = Operation::ALL.into_iter().zip(histograms).filter(|(_, histogram)| !histogram.is_empty()).collect();
    Turn { seconds, latencies, cpu_microseconds: cpu, syncs, errors }
}

/// Waits for all of them, for a bounded time.
async fn end(clients: &mut JoinSet<Result<(), Fault>>) -> Vec<String> {
    let mut errors = Vec::new();
    let all = async {
        while let Some(ended) = clients.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(fault)) => errors.push(fault.to_string()),
                Err(error) => errors.push(format!("a client did not end well: {error}")),
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

fn empty_histograms() -> [Histogram<u32>; Operation::ALL.len()] {
    std::array::from_fn(|_| {
        Histogram::new_with_bounds(1, MAX_LATENCY_MICROSECONDS, LATENCY_DIGITS).expect("the bounds are constants")
    })
}

/// The data is plain counters, which a panic elsewhere leaves usable.
fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gauge {
    fn cpu(&self) -> Option<u64> {
        process_tree::cpu_microseconds(self.pid?).ok()
    }

    async fn syncs(&self) -> Option<u64> {
        self.syncs.as_ref()?.syncs().await
    }
}

impl Turn {
    pub fn count(&self, operation: Operation) -> u64 {
        self.latencies.get(&operation).map_or(0, Histogram::len)
    }

    pub fn per_second(&self, operation: Operation) -> Option<f64> {
        quotient(self.count(operation) as f64, self.seconds).filter(|rate| *rate > 0.0)
    }

    pub fn quantile(&self, operation: Operation, quantile: f64) -> Option<f64> {
        Some(self.latencies.get(&operation)?.value_at_quantile(quantile) as f64)
    }

    pub fn cpu_per(&self, operation: Operation) -> Option<f64> {
        quotient(self.cpu_microseconds? as f64, self.count(operation) as f64)
    }

    pub fn syncs_per_handoff(&self) -> Option<f64> {
        quotient(self.syncs? as f64, self.count(Operation::Handoff) as f64)
    }
}

/// None instead of an infinity or a NaN, neither of which JSON can say.
pub fn quotient(dividend: f64, divisor: f64) -> Option<f64> {
    (divisor > 0.0).then(|| dividend / divisor)
}

//! Owns `long-queue`: many clients wait for one lock, which then passes through all of them. Compares queues of several
//! lengths: the server's memory per waiter, and the time from a release to the next grant. Each waiter joins once the
//! previous one is seen in the queue, so that their order is known and can be checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Deserialize;
use tokio::task::JoinSet;

use crate::engine::{Client, ClientThread, Failure, Fault, LoadTest, Operation, Work, work};
use crate::report::{Goal, quotient};
use crate::server::Meter;
use crate::settings::{Common, within};
use crate::wire::{ClaimTemplate, LONGEST_WAIT_SECONDS, Terms};
use crate::workloads::kind::{Kind, only_closed, sizes};

const ENVIRONMENT: u32 = 1;
/// A short queue is run several times in a row, so that its p99 is more than just its slowest handoff.
const FEWEST_HANDOFFS: u32 = 1_000;
/// With fewer waiters, their memory disappears in the allocator's noise.
const FEWEST_FOR_MEMORY: u32 = 1_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Queue lengths, one per phase.
    waiters: Vec<u32>,
    /// Queued sessions behind the waiters: they lengthen the queue without a connection, and leave at the end.
    #[serde(default)]
    queued: u32,
}

impl Kind for Settings {
    fn check(&self, common: &Common) -> Result<(), String> {
        only_closed(common)?;
        within("threads", common.threads.into(), 1, 1)?;
        within("queued", self.queued.into(), 0, 20_000)?;
        sizes("waiters", &self.waiters, 19_000)
    }

    fn connections(&self, _common: &Common) -> u32 {
        self.waiters.iter().copied().max().unwrap_or(0) + 1
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
        let longest = self.waiters.iter().copied().max().unwrap_or(0) + self.queued;
        // All waiters are one member, which may have half of a queue.
        let room = 2 * longest;
        let configuration = format!(r#"{{"maxQueueLength":{room}}}"#);
        test.environments(ENVIRONMENT..=ENVIRONMENT, &configuration).await?;
        for _ in 0..test.common.rounds {
            let mut slowest = Vec::new();
            for &waiters in &self.waiters {
                slowest.push(self.measure(test, waiters).await?.unwrap_or(0.0));
            }
            let (first, last) = (slowest[0], slowest[slowest.len() - 1]);
            let (shortest, longest) = (self.waiters[0], self.waiters[self.waiters.len() - 1]);
            if shortest != longest {
                let name = format!("handoff p99, {longest} waiters against {shortest}");
                test.ratio(&name, quotient(last, first));
                test.aim_ratio(&name, Goal::AtMost(2.0));
            }
        }
        Ok(())
    }
}

impl Settings {
    /// Measures one queue length; returns the p99.
    async fn measure(&self, test: &mut LoadTest, waiters: u32) -> Result<Option<f64>, Fault> {
        let phase = format!("{waiters} waiters");
        test.disconnect().await;
        let before = test.server.meter().memory();
        test.connect(waiters + 1).await?;
        let connected = test.server.meter().memory();
        let all_waiting = Arc::new(AtomicU64::new(0));
        let load = self.load(waiters, test.server.meter().clone(), all_waiting.clone());
        let seen = test.measure(test.segment(&phase), load).await?;
        for (name, quantile) in [("handoff p50", 0.5), ("handoff p99", 0.99), ("handoff max", 1.0)] {
            test.figure(&phase, name, "µs", seen.quantile(Operation::Handoff, quantile));
        }
        let all_waiting = Some(all_waiting.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0);
        if waiters >= FEWEST_FOR_MEMORY {
            let each = |before: Option<u64>| Some((all_waiting? as f64 - before? as f64) / f64::from(waiters));
            test.figure(&phase, "memory a waiter, with its connection", "B", each(before));
            test.figure(&phase, "memory a waiter, beyond its connection", "B", each(connected));
        }
        let (handed, least) = (seen.handoffs, u64::from(waiters));
        if handed < least {
            test.error(format!("{phase}: the lock went through {handed} of {least}"));
        }
        Ok(seen.quantile(Operation::Handoff, 0.99))
    }

    fn load(&self, waiters: u32, meter: Meter, all_waiting: Arc<AtomicU64>) -> Work {
        let queued = self.queued;
        work(move |thread| {
            let (meter, all_waiting) = (meter.clone(), all_waiting.clone());
            async move {
                let mut line = QueueRun::new(&thread, waiters);
                let mut handed = 0;
                while handed < FEWEST_HANDOFFS && line.own.goes_on() {
                    if let Err(failure) = line.run_through(queued, &meter, &all_waiting).await {
                        line.own.error(format!("the queue was not drained: {failure:?}"));
                        return;
                    }
                    handed += waiters;
                }
            }
        })
    }
}

/// The waiters, and the client that holds the lock until all wait.
struct QueueRun {
    own: Client,
    waiters: Vec<Client>,
    claim_at_once: ClaimTemplate,
    claim_waiting: Arc<ClaimTemplate>,
}

impl QueueRun {
    fn new(thread: &Arc<ClientThread>, waiters: u32) -> Self {
        Self {
            own: Client::new(thread.clone(), 0),
            waiters: (1..=waiters).map(|number| Client::new(thread.clone(), number)).collect(),
            claim_at_once: thread.requests.claim(Terms::default()),
            claim_waiting: Arc::new(thread.requests.claim(Terms::waiting(LONGEST_WAIT_SECONDS))),
        }
    }

    async fn run_through(&mut self, queued: u32, meter: &Meter, all_waiting: &AtomicU64) -> Result<(), Failure> {
        let held = self.own.claim(ENVIRONMENT, &self.claim_at_once).await?;
        let mut waiting = JoinSet::new();
        for (place, client) in std::mem::take(&mut self.waiters).into_iter().enumerate() {
            let seen_in_line = client.seen_in_line.clone();
            waiting.spawn(wait_and_release(client, self.claim_waiting.clone()));
            self.until_joined(place as u64 + 1, &seen_in_line, &mut waiting).await?;
        }
        let mut behind = Vec::with_capacity(queued as usize);
        let queue_last = self.own.thread.requests.queue_last();
        for _ in 0..queued {
            behind.push(self.own.queue_last(ENVIRONMENT, &queue_last).await?);
        }
        // Only the first run counts: later ones reuse its memory.
        _ = all_waiting.compare_exchange(0, meter.memory().unwrap_or(0), Ordering::Relaxed, Ordering::Relaxed);
        self.own.release(ENVIRONMENT, held.session).await?;
        while let Some(client) = waiting.join_next().await {
            self.waiters.push(client.expect("a waiter neither panics nor is aborted"));
        }
        self.waiters.sort_unstable_by_key(|client| client.number);
        for session in behind {
            self.own.release(ENVIRONMENT, session).await?;
        }
        Ok(())
    }

    async fn until_joined(
        &mut self,
        length: u64,
        seen_in_line: &AtomicU64,
        waiting: &mut JoinSet<Client>,
    ) -> Result<(), Failure> {
        loop {
            if self.own.read(ENVIRONMENT).await?.queue_length >= length {
                let seen = self.own.thread.moment(Instant::now()).0;
                seen_in_line.store(seen, Ordering::Relaxed);
                return Ok(());
            }
            // Either a waiter was answered while we hold the lock, or the load is ending.
            if waiting.try_join_next().is_some() || !self.own.goes_on() {
                return Err(Failure::Unknown);
            }
        }
    }
}

async fn wait_and_release(mut client: Client, claim: Arc<ClaimTemplate>) -> Client {
    _ = client.cycle(ENVIRONMENT, &claim).await;
    client
}

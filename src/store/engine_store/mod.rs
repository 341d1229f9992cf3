//! The store over an engine: keeps a whole shard in memory, and writes each group of batches as one transaction of the
//! engine. Reads show what the engine has confirmed. A [`Snapshot`] has the read-only records of a shard at one moment.
//!
//! `committer` sends the transactions, and does not depend on this file.

mod committer;
#[cfg(test)]
mod tests;

use std::ops::Bound;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use self::committer::{Committer, Confirmed, LeaseClock, Stopping, lease_clock};
use super::engine::Shard;
use crate::batch::{Batch, Pair, Sequence};
use crate::contract::{Store, StoreError};
use crate::engine::{Engine, EngineError, Lease, Limits, Moment, Pairs, Room, Tenure, Timing};
use crate::fatal::{Fatal, contained, exit_on_fatal};
use crate::journal::{Appended, Journals};
use crate::log::queue::Queue;

#[derive(Clone)]
pub struct EngineOptions {
    pub appended: Option<Appended>,
    /// Called when another node has taken the shard, or the engine will never accept a queued batch. The store refuses
    /// everything afterwards.
    pub fatal: Fatal,
    /// How long a closing store waits for an engine that does not answer.
    pub close_within: Duration,
    pub clock: LeaseClock,
    pub timing: Timing,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            appended: None,
            fatal: exit_on_fatal(),
            close_within: Duration::from_secs(5),
            clock: lease_clock(),
            timing: Timing::default(),
        }
    }
}

/// A shard of an engine that this process owns. Only the committer knows the type of the engine.
pub struct EngineStore {
    queue: Arc<Queue>,
    limits: Limits,
    confirmed: Arc<Confirmed>,
    durable: watch::Receiver<Sequence>,
    stopping: watch::Sender<Stopping>,
    committer: Mutex<Option<JoinHandle<()>>>,
    close_within: Duration,
    lease: Arc<Lease>,
    clock: LeaseClock,
    millis_at_start: u64,
}

impl EngineStore {
    /// Loads the shard as it was when it was taken, by a transaction sent at the time `taken`.
    pub async fn open<E: Engine>(
        engine: Arc<E>,
        tenure: Tenure,
        taken: Moment,
        options: EngineOptions,
    ) -> Result<EngineStore, EngineError> {
        let pairs = engine.load(tenure.shard().number, tenure.shard().version).await?;
        EngineStore::start(engine, tenure, taken, pairs, options).map_err(EngineError::Refused)
    }

    /// Like `open`, with the contents of the shard from before it was taken. They are unchanged: the transaction that
    /// took the shard compared the version.
    pub fn start<E: Engine>(
        engine: Arc<E>,
        tenure: Tenure,
        taken: Moment,
        pairs: Pairs,
        options: EngineOptions,
    ) -> Result<EngineStore, StoreError> {
        let (last, millis_at_start) = (tenure.shard().sequence, tenure.shard().millis);
        let confirmed = Arc::new(Confirmed::loaded(pairs));
        let (journals, surplus) = Journals::load(last.0, |from, to, limit| confirmed.scan(from, to, limit))?;
        if !surplus.is_empty() {
            let reason = format!("its journals have entries after batch {}, which is its last", last.0);
            return Err(StoreError::Read(reason));
        }
        let name = format!("shard-{}", tenure.shard().number);
        let (queue, limits) = (Arc::new(Queue::starting_after(last.0)), engine.limits());
        let (sender, durable) = watch::channel(last);
        let (stopping, wants) = watch::channel(Stopping::No);
        let lease = Arc::new(Lease::since(taken, options.timing.lease));
        let committer = Committer {
            engine,
            tenure,
            queue: queue.clone(),
            journals,
            confirmed: confirmed.clone(),
            durable: sender,
            stopping: wants,
            lease: lease.clone(),
            clock: options.clock.clone(),
            beat_every: options.timing.beat_every,
            appended: options.appended,
            fatal: options.fatal.clone(),
        };
        let cannot_start = |error: std::io::Error| StoreError::Engine(format!("cannot start a thread: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(cannot_start)?;
        let run = contained(&name, &options.fatal, move || committer.run(&runtime));
        let thread = Builder::new().name(name).spawn(run).map_err(cannot_start)?;
        let committer = Mutex::new(Some(thread));
        let close_within = options.close_within;
        Ok(EngineStore {
            queue,
            limits,
            confirmed,
            durable,
            stopping,
            committer,
            close_within,
            lease,
            clock: options.clock,
            millis_at_start,
        })
    }

    /// Accepts no more batches, and returns when the engine has all queued ones, or has not answered for a while. Reads
    /// still work. Idempotent.
    pub fn close(&self) {
        self.stop(Stopping::GivingUpAt(Instant::now() + self.close_within));
    }

    /// Closes the store and gives up its shard, to `successor` if there is one, so that no other node has to wait for
    /// the lease to end.
    pub fn leave(&self, successor: Option<&str>) {
        self.stop(Stopping::Leaving { to: successor.map(str::to_owned), by: Instant::now() + self.close_within });
    }

    fn stop(&self, how: Stopping) {
        self.stopping.send_if_modified(|stopping| {
            let is_first = *stopping == Stopping::No;
            if is_first {
                *stopping = how;
            }
            is_first
        });
        self.queue.close();
        self.join();
    }

    /// How long this process may still act as the owner of the shard without another answer from the engine; `None` if
    /// it may not act any more.
    pub fn lease_left(&self) -> Option<Duration> {
        self.lease.left((self.clock)())
    }

    /// The latest wall clock of the previous owners, in milliseconds.
    pub fn millis_at_start(&self) -> u64 {
        self.millis_at_start
    }

    /// Milliseconds that have passed for the shard. They stop while this process may not act as its owner.
    pub fn time(&self) -> Moment {
        self.lease.time((self.clock)())
    }

    /// Gives the shard up immediately: the transaction in flight may or may not take effect, and nothing else is sent.
    pub fn abandon(self) {
        self.queue.abandon();
        self.stopping.send_replace(Stopping::Abandoned);
        self.join();
    }

    /// Takes note of the engine's current usage: writes are refused while the engine is too full.
    pub fn heed(&self, room: Room) {
        self.confirmed.set_full(room);
    }

    fn join(&self) {
        // Held until the end, so that a second caller also returns only when everything has ended.
        let mut committer = self.committer.lock();
        if let Some(thread) = committer.take() {
            // A panic has already been reported as fatal.
            thread.join().ok();
        }
    }
}

impl Drop for EngineStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for EngineStore {
    fn commit(&self, batch: Batch) -> Result<Sequence, StoreError> {
        if let Some(refusal) = self.refusing_writes()
            && !(batch.may_use_reserve() && self.confirmed.takes_ends())
        {
            return Err(refusal);
        }
        committer::check(&batch, &self.limits)?;
        self.queue.push(batch)
    }

    fn durable(&self) -> watch::Receiver<Sequence> {
        self.durable.clone()
    }

    fn handed_in(&self) -> Sequence {
        self.queue.last()
    }

    /// This machine has no log: the engine has everything.
    fn applied(&self) -> Sequence {
        *self.durable.borrow()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.confirmed.get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError> {
        self.confirmed.scan(from, to, limit)
    }

    fn refusing_writes(&self) -> Option<StoreError> {
        self.confirmed.refusing_writes()
    }

    fn is_current(&self) -> bool {
        self.lease_left().is_some()
    }
}

pub struct Snapshot {
    shard: Shard,
    pairs: Pairs,
    durable: watch::Receiver<Sequence>,
}

impl Snapshot {
    /// From the result of [`super::engine::Engine::copy`].
    pub fn new(shard: Shard, pairs: Pairs) -> Snapshot {
        let (_, durable) = watch::channel(shard.sequence);
        Snapshot { shard, pairs, durable }
    }

    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    pub fn pairs(&self) -> &Pairs {
        &self.pairs
    }
}

impl Store for Snapshot {
    fn commit(&self, _: Batch) -> Result<Sequence, StoreError> {
        Err(StoreError::Closed)
    }

    fn durable(&self) -> watch::Receiver<Sequence> {
        self.durable.clone()
    }

    fn handed_in(&self) -> Sequence {
        self.shard.sequence
    }

    fn applied(&self) -> Sequence {
        self.shard.sequence
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.pairs.get(key).cloned())
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError> {
        if from >= to {
            return Ok(Vec::new());
        }
        let range = self.pairs.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        Ok(range.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn refusing_writes(&self) -> Option<StoreError> {
        Some(StoreError::Closed)
    }
}

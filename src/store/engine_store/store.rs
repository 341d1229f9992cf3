//! The store itself.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::committer::{Committer, Stopping};
use super::confirmed::Confirmed;
use super::gathered;
use crate::store::batch::{Batch, Pair, Sequence};
use crate::store::contained::contained;
use crate::store::contract::{Store, StoreError};
use crate::store::engine::{Engine, EngineError, Limits, Pairs, Room, Tenure};
use crate::store::journal::{Appended, Journals};
use crate::store::log::queue::Queue;
use crate::store::log::{Fatal, exit_on_fatal};

#[derive(Clone)]
pub struct EngineOptions {
    pub appended: Option<Appended>,
    /// Called when another node has taken the shard, or the engine will never take a batch that was handed in. The store
    /// refuses everything from then on.
    pub fatal: Fatal,
    /// How long a store that is being closed waits for an engine that does not answer.
    pub close_within: Duration,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions { appended: None, fatal: exit_on_fatal(), close_within: Duration::from_secs(5) }
    }
}

/// A shard of an engine that this process owns. Which engine it is matters only to the committer.
pub struct EngineStore {
    queue: Arc<Queue>,
    limits: Limits,
    confirmed: Arc<Confirmed>,
    durable: watch::Receiver<Sequence>,
    stopping: watch::Sender<Stopping>,
    committer: Mutex<Option<JoinHandle<()>>>,
    close_within: Duration,
}

impl EngineStore {
    /// Loads the shard as it was when it was taken.
    pub async fn open<E: Engine>(
        engine: Arc<E>,
        tenure: Tenure,
        options: EngineOptions,
    ) -> Result<EngineStore, EngineError> {
        let pairs = engine.load(tenure.shard().number, tenure.shard().version).await?;
        EngineStore::start(engine, tenure, pairs, options).map_err(EngineError::Refused)
    }

    fn start<E: Engine>(
        engine: Arc<E>,
        tenure: Tenure,
        pairs: Pairs,
        options: EngineOptions,
    ) -> Result<EngineStore, StoreError> {
        let last = tenure.shard().sequence;
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
        let committer = Committer {
            engine,
            tenure,
            queue: queue.clone(),
            journals,
            confirmed: confirmed.clone(),
            durable: sender,
            stopping: wants,
            appended: options.appended,
            fatal: options.fatal.clone(),
        };
        let cannot_start = |error: std::io::Error| StoreError::Engine(format!("cannot start a thread: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(cannot_start)?;
        let run = contained(&name, &options.fatal, move || committer.run(&runtime));
        let thread = Builder::new().name(name).spawn(run).map_err(cannot_start)?;
        let committer = Mutex::new(Some(thread));
        let close_within = options.close_within;
        Ok(EngineStore { queue, limits, confirmed, durable, stopping, committer, close_within })
    }

    /// Takes no more batches, and returns when the engine has all that were handed in, or has not answered for a while.
    /// Reads still work. Closing again does nothing.
    pub fn close(&self) {
        self.queue.close();
        self.stopping.send_if_modified(|stopping| {
            let is_first = *stopping == Stopping::No;
            if is_first {
                *stopping = Stopping::GivingUpAt(Instant::now() + self.close_within);
            }
            is_first
        });
        self.join();
    }

    /// Gives the shard up at once: the transaction under way may or may not take effect, and nothing else is sent.
    pub fn abandon(self) {
        self.queue.abandon();
        self.stopping.send_replace(Stopping::Abandoned);
        self.join();
    }

    /// How full the engine is now: writes are refused while it is too full.
    pub fn heed(&self, room: Room) {
        self.confirmed.set_full(room.is_full());
    }

    fn join(&self) {
        // Held until the end, so that a second caller also returns only when everything is done.
        let mut committer = self.committer.lock();
        if let Some(thread) = committer.take() {
            // A panic has been reported as fatal by then.
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
        if let Some(refusal) = self.refusing_writes() {
            return Err(refusal);
        }
        gathered::check(&batch, &self.limits)?;
        self.queue.push(batch)
    }

    fn durable(&self) -> watch::Receiver<Sequence> {
        self.durable.clone()
    }

    fn handed_in(&self) -> Sequence {
        self.queue.last()
    }

    /// There is no log of ours: what the engine has is all there is.
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
}

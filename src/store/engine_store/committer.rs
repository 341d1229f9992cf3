//! The thread that sends transactions to the engine: one at a time, each again until it is confirmed.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::clock::LeaseClock;
use super::confirmed::Confirmed;
use super::gathered::Gathered;
use crate::batch::{Changes, Sequence};
use crate::contract::StoreError;
use crate::engine::{Engine, EngineError, Lease, Tenure, Transaction};
use crate::journal::{Appended, Journals};
use crate::log::Fatal;
use crate::log::queue::{Group, Queue, Taken};
use ambient::backoff::{Backoff, Retries};

/// A transaction without an answer is sent again at once, to the next member. After that there are pauses, the longest of
/// them short beside an election in the engine, which takes a second or more.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(500));
/// An engine that is full stays so until its operator makes room.
const FULL_BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

pub struct Committer<E> {
    pub engine: Arc<E>,
    pub tenure: Tenure,
    pub queue: Arc<Queue>,
    pub journals: Journals,
    pub confirmed: Arc<Confirmed>,
    pub durable: watch::Sender<Sequence>,
    pub stopping: watch::Receiver<Stopping>,
    pub lease: Arc<Lease>,
    pub clock: LeaseClock,
    pub beat_every: Duration,
    pub appended: Option<Appended>,
    pub fatal: Fatal,
}

/// What the store wants of its committer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopping {
    No,
    /// No more batches come. Those that are there are sent, if the engine answers by then.
    GivingUpAt(Instant),
    /// The same, and then the shard is left, to this node if one is named.
    Leaving {
        to: Option<String>,
        by: Instant,
    },
    /// Nothing more is sent, and no answer is waited for.
    Abandoned,
}

impl Stopping {
    fn is_over(&self, now: Instant) -> bool {
        match self {
            Stopping::No => false,
            Stopping::GivingUpAt(end) | Stopping::Leaving { by: end, .. } => *end <= now,
            Stopping::Abandoned => true,
        }
    }
}

/// Why no more transactions are sent.
enum End {
    Deposed,
    Refused(StoreError),
    Closed,
    Abandoned,
}

impl<E: Engine> Committer<E> {
    pub fn run(mut self, runtime: &Runtime) {
        loop {
            let done = match self.queue.take_within(self.beat_every) {
                Taken::Group(group) => runtime.block_on(self.commit(&group)).map(|()| self.queue.finish(group)),
                Taken::Nothing => runtime.block_on(self.beat()),
                Taken::Closed => return runtime.block_on(self.leave()),
            };
            if let Err(end) = done {
                return self.end(end);
            }
        }
    }

    /// A transaction that changes nothing but the shard's record, as a sign of life.
    async fn beat(&mut self) -> Result<(), End> {
        let last = self.tenure.shard().sequence;
        self.confirm(&Transaction { last, millis: millis_now(), changes: &Changes::new() }).await
    }

    /// Gives the shard to whoever it shall go to. If that fails, somebody takes it when this owner has been silent for a while.
    async fn leave(&self) {
        let Stopping::Leaving { to, by } = self.stopping.borrow().clone() else { return };
        let shard = self.tenure.shard().number;
        let mut retries = Retries::new(BACKOFF);
        loop {
            match self.engine.leave(&self.tenure, to.as_deref()).await {
                Ok(()) => return tracing::info!(shard, successor = to.as_deref(), "left the shard"),
                Err(EngineError::Away(_)) if Instant::now() < by => tokio::time::sleep(retries.failed()).await,
                Err(error) => {
                    return tracing::warn!(shard, %error, "could not leave the shard; another node will take it");
                }
            }
        }
    }

    /// Sends a group as one transaction, or as several if it does not fit into one.
    async fn commit(&mut self, group: &Group) -> Result<(), End> {
        let limits = self.engine.limits();
        let mut gathered = Gathered::default();
        for (batch, sequence) in group.batches().zip(group.first..) {
            let pages = self.journals.extend(sequence, std::iter::once(batch));
            if let Err(next) = gathered.add(sequence, batch, pages, &limits) {
                self.commit_gathered(std::mem::replace(&mut gathered, next)).await?;
            }
        }
        self.commit_gathered(gathered).await
    }

    async fn commit_gathered(&mut self, gathered: Gathered) -> Result<(), End> {
        let last = Sequence(gathered.last);
        self.confirm(&Transaction { last, millis: millis_now(), changes: &gathered.changes }).await?;
        if let Some(appended) = &self.appended {
            gathered.appends.iter().for_each(|append| appended(&append.journal, &append.body));
        }
        self.confirmed.apply(gathered.changes, || {
            self.durable.send_replace(last);
        });
        Ok(())
    }

    /// Returns when the engine has the transaction, and nothing else can be in its place.
    async fn confirm(&mut self, transaction: &Transaction<'_>) -> Result<(), End> {
        let (mut away, mut full) = (Retries::new(BACKOFF), Retries::new(FULL_BACKOFF));
        let mut attempts = 0u32;
        let sent = (self.clock)();
        loop {
            attempts += 1;
            let pause = match self.attempt(transaction).await? {
                Ok(()) => {
                    self.lease.confirmed(sent, (self.clock)());
                    self.confirmed.set_exhausted(false);
                    if attempts > 1 {
                        tracing::info!(attempts, last = transaction.last.0, "the engine has confirmed a transaction");
                    }
                    return Ok(());
                }
                Err(EngineError::Deposed) => return Err(End::Deposed),
                Err(EngineError::Refused(error)) if error.is_lack_of_room() => {
                    self.confirmed.set_exhausted(true);
                    self.say_once(attempts, &error);
                    full.failed()
                }
                Err(EngineError::Refused(error)) => return Err(End::Refused(error)),
                Err(error @ EngineError::Away(_)) => {
                    self.say_once(attempts, &error);
                    if attempts == 1 { Duration::ZERO } else { away.failed() }
                }
            };
            if self.stopping.borrow().is_over(Instant::now()) {
                return Err(End::Closed);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// The outer error is that the store was abandoned meanwhile.
    async fn attempt(&mut self, transaction: &Transaction<'_>) -> Result<Result<(), EngineError>, End> {
        tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stopping| *stopping == Stopping::Abandoned) => Err(End::Abandoned),
            outcome = self.engine.commit(&mut self.tenure, transaction) => Ok(outcome),
        }
    }

    fn say_once(&self, attempts: u32, error: &dyn std::fmt::Display) {
        if attempts == 1 {
            let shard = self.tenure.shard().number;
            tracing::warn!(shard, %error, "a transaction is not confirmed yet; it is sent again until it is");
        }
    }

    fn end(self, end: End) {
        let shard = self.tenure.shard().number;
        let (why, sentence) = match end {
            End::Deposed => {
                (StoreError::Deposed, format!("another node has taken shard {shard}; everything acknowledged is there"))
            }
            End::Refused(error) => {
                let sentence = format!("shard {shard} cannot be written: {error}; everything acknowledged is safe");
                (error, sentence)
            }
            End::Closed => {
                tracing::error!(shard, "closing with batches that the engine has not confirmed; none was acknowledged");
                return self.queue.abandon();
            }
            End::Abandoned => return self.queue.abandon(),
        };
        // First, so that whoever finds the queue closed finds the reason too.
        self.confirmed.end(why);
        self.queue.abandon();
        (self.fatal)(&sentence);
    }
}

fn millis_now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

//! The thread that sends transactions to the engine, one after another, each retried until it is confirmed.
//! [`Gathered`] collects the batches of one transaction. [`Confirmed`] is the confirmed state, all in memory, and the
//! reason if the store refuses.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::RwLock;
use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::batch::{Append, Batch, BatchRef, Change, Changes, Pair, Sequence};
use crate::contract::StoreError;
use crate::engine::{CHANGE_BYTES, Engine, EngineError, Lease, Limits, Moment, Pairs, Room, Tenure, Transaction};
use crate::fatal::Fatal;
use crate::journal::{Appended, Journals, PAGE_ENTRIES};
use crate::log::queue::{Group, Queue, Taken};
use ambient::backoff::{Backoff, Retries};

/// A transaction without an answer is resent immediately, to the next member. Later retries pause; the longest pause is
/// short compared to an election in the engine, which takes a second or more.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(500));
/// A full engine stays full until its operator makes room.
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

/// Whether and how the store tells its committer to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopping {
    No,
    /// No more batches are accepted. Queued ones are sent, if the engine answers by this time.
    GivingUpAt(Instant),
    /// As above, and then the shard is given up, to this node if one is named.
    Leaving {
        to: Option<String>,
        by: Instant,
    },
    /// Nothing more is sent, and answers are ignored.
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

    /// Sends a transaction that changes only the shard's record, as a sign of life.
    async fn beat(&mut self) -> Result<(), End> {
        let last = self.tenure.shard().sequence;
        self.confirm(&Transaction { last, millis: millis_now(), changes: &Changes::new() }).await
    }

    /// Gives up the shard, to its successor if there is one. If that fails, another node takes the shard once this
    /// owner has been silent for a while.
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

    /// Returns when the engine has the transaction, and no other transaction can take its place in the order.
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

    /// The outer error means that the store was abandoned meanwhile.
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
        // Recorded before the queue is closed, so that anyone who finds it closed also finds the reason.
        self.confirmed.end(why);
        self.queue.abandon();
        (self.fatal)(&sentence);
    }
}

fn millis_now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Reads the clock by which an owner measures its lease. The clock must continue while the machine sleeps.
pub type LeaseClock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// Milliseconds since boot, including sleep.
pub fn lease_clock() -> LeaseClock {
    Arc::new(|| {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Boottime);
        let millis = tv_sec.saturating_mul(1_000).saturating_add(tv_nsec / 1_000_000);
        Moment(u64::try_from(millis).unwrap_or_default())
    })
}

/// The maximum size of a journal entry: its page is rewritten with it, and may be full of such entries. Events take a
/// few hundred bytes.
const MAX_ENTRY_BYTES: usize = 32 * 1024;
/// Stored bytes of an entry in addition to its body.
const ENTRY_HEADER_BYTES: usize = 64;

/// Consecutive batches, with the last change of each key.
#[derive(Default)]
struct Gathered {
    pub changes: Changes,
    pub appends: Vec<Entry>,
    /// The sequence of the last batch.
    pub last: u64,
    bytes: usize,
}

/// An entry of a journal.
struct Entry {
    pub journal: String,
    pub body: Vec<u8>,
}

impl Gathered {
    /// Adds a batch with the journal pages that it changes, or returns both if they do not fit. A first batch always
    /// fits: [`check`] has verified it.
    pub fn add(
        &mut self,
        sequence: u64,
        batch: BatchRef<'_>,
        pages: BatchRef<'_>,
        limits: &Limits,
    ) -> Result<(), Gathered> {
        let entry = |Append { journal, body }: Append<'_>| Entry { journal: journal.to_owned(), body: body.to_vec() };
        let mut next =
            Gathered { appends: batch.appends().map(entry).collect(), last: sequence, ..Gathered::default() };
        for Change { key, value } in batch.changes().chain(pages.changes()) {
            next.put(key.to_vec(), value.map(<[u8]>::to_vec));
        }
        let is_first = self.last == 0;
        if !is_first && !self.fits_with(&next, limits) {
            return Err(next);
        }
        next.changes.into_iter().for_each(|(key, value)| self.put(key, value));
        self.appends.append(&mut next.appends);
        self.last = sequence;
        Ok(())
    }

    fn fits_with(&self, next: &Gathered, limits: &Limits) -> bool {
        let replaced = next.changes.keys().filter_map(|key| Some(cost(key, self.changes.get(key)?.as_deref())));
        let (count, bytes) = replaced.fold((0, 0), |(count, bytes), cost| (count + 1, bytes + cost));
        let changes = self.changes.len() + next.changes.len() - count;
        changes <= limits.changes && self.bytes + next.bytes - bytes <= limits.bytes
    }

    fn put(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let key_bytes = cost(&key, None);
        self.bytes += value.as_ref().map_or(0, Vec::len);
        match self.changes.insert(key, value) {
            Some(old) => self.bytes -= old.map_or(0, |value| value.len()),
            None => self.bytes += key_bytes,
        }
    }
}

fn cost(key: &[u8], value: Option<&[u8]>) -> usize {
    CHANGE_BYTES + key.len() + value.map_or(0, <[u8]>::len)
}

/// Refuses a batch that might not fit into a transaction of its own. Once queued, a batch has its place in the order of
/// all batches, and it is too late to refuse it.
pub fn check(batch: &Batch, limits: &Limits) -> Result<(), StoreError> {
    // An entry changes at most one page and the head of its journal.
    let appends = batch.as_ref().append_count();
    let changes = batch.changes().len() + 2 * appends;
    if changes > limits.changes {
        return Err(StoreError::TooManyChanges { changes, limit: limits.changes });
    }
    if let Some(append) = batch.appends().find(|append| append.body.len() > MAX_ENTRY_BYTES) {
        return Err(StoreError::BatchTooLarge { bytes: append.body.len(), limit: MAX_ENTRY_BYTES });
    }
    let journals = batch.appends().map(|append| append.journal).collect::<BTreeSet<_>>();
    // For each journal, the size of the entries that its current page may already have.
    let pages = journals.len() * PAGE_ENTRIES as usize * (MAX_ENTRY_BYTES + ENTRY_HEADER_BYTES);
    let bytes = batch.encoded_len() + changes * CHANGE_BYTES + appends * ENTRY_HEADER_BYTES + pages;
    if bytes > limits.bytes {
        return Err(StoreError::BatchTooLarge { bytes, limit: limits.bytes });
    }
    Ok(())
}

#[derive(Default)]
pub struct Confirmed {
    pairs: RwLock<Pairs>,
    /// Why the store no longer reads or writes.
    end: OnceLock<StoreError>,
    /// Whether the engine refused a transaction for lack of room, and has accepted none since.
    is_exhausted: AtomicBool,
    /// Whether the engine is so full that no more batches should be accepted.
    is_full: AtomicBool,
    /// Whether the engine reports that it accepts no more writes at all.
    says_exhausted: AtomicBool,
}

impl Confirmed {
    pub fn loaded(pairs: Pairs) -> Confirmed {
        Confirmed { pairs: RwLock::new(pairs), ..Confirmed::default() }
    }

    /// Applies the changes of a transaction, and calls `publish` before any reader can see them.
    pub fn apply(&self, changes: Changes, publish: impl FnOnce()) {
        let mut pairs = self.pairs.write();
        for (key, value) in changes {
            match value {
                Some(value) => pairs.insert(key, value),
                None => pairs.remove(&key),
            };
        }
        publish();
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.check_not_ended()?;
        Ok(self.pairs.read().get(key).cloned())
    }

    pub fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError> {
        self.check_not_ended()?;
        if from >= to {
            return Ok(Vec::new());
        }
        let pairs = self.pairs.read();
        let range = pairs.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        Ok(range.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// Refuses all reads and writes from now on.
    pub fn end(&self, why: StoreError) {
        // The first reason is kept.
        self.end.set(why).ok();
    }

    fn set_exhausted(&self, is_exhausted: bool) {
        self.is_exhausted.store(is_exhausted, Ordering::Relaxed);
    }

    pub fn set_full(&self, room: Room) {
        self.is_full.store(room.is_full(), Ordering::Relaxed);
        self.says_exhausted.store(room.is_exhausted, Ordering::Relaxed);
    }

    /// Whether ends and deletions are still accepted when other writes are refused: a fifth of the engine's quota is
    /// reserved for them.
    pub fn takes_ends(&self) -> bool {
        let is_exhausted = self.is_exhausted.load(Ordering::Relaxed) || self.says_exhausted.load(Ordering::Relaxed);
        self.end.get().is_none() && !is_exhausted
    }

    pub fn refusing_writes(&self) -> Option<StoreError> {
        let is_full = self.is_full.load(Ordering::Relaxed) || self.is_exhausted.load(Ordering::Relaxed);
        self.end.get().cloned().or_else(|| is_full.then_some(StoreError::EngineFull))
    }

    fn check_not_ended(&self) -> Result<(), StoreError> {
        self.end.get().map_or(Ok(()), |why| Err(why.clone()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::conformance::put;
    use crate::journal::Journals;

    const LIMITS: Limits = Limits { changes: 3, bytes: 1000 };

    #[test]
    fn each_key_is_there_once_with_its_last_change() {
        let mut gathered = Gathered::default();
        for (sequence, value) in [(1, "old"), (2, "newer"), (3, "x")] {
            assert!(gathered.add(sequence, put("a", value).as_ref(), put("page", value).as_ref(), &LIMITS).is_ok());
        }
        let mut delete = Batch::default();
        delete.delete(b"page");
        assert!(gathered.add(4, delete.as_ref(), Batch::default().as_ref(), &LIMITS).is_ok());
        let expected = Changes::from([(b"a".to_vec(), Some(b"x".to_vec())), (b"page".to_vec(), None)]);
        assert_eq!((gathered.changes, gathered.last, gathered.bytes), (expected, 4, 2 * CHANGE_BYTES + 6));
    }

    #[test]
    fn a_batch_that_does_not_fit_is_given_back_whole() {
        let mut gathered = Gathered::default();
        assert!(gathered.add(1, put("a", "1").as_ref(), put("b", "1").as_ref(), &LIMITS).is_ok());
        let next = gathered.add(2, put("c", "1").as_ref(), put("d", "1").as_ref(), &LIMITS).err().unwrap();
        assert_eq!((next.changes.len(), next.last, gathered.changes.len(), gathered.last), (2, 2, 2, 1));
        assert!(
            gathered.add(2, put("a", "1").as_ref(), put("c", "1").as_ref(), &LIMITS).is_ok(),
            "known keys take no place"
        );
        let next = gathered.add(3, put("a", vec![0; 900]).as_ref(), Batch::default().as_ref(), &LIMITS).err().unwrap();
        assert_eq!(next.bytes, CHANGE_BYTES + 901);
    }

    #[test]
    fn whatever_is_checked_fits_with_its_pages() {
        let limits = Limits { changes: 4095, bytes: 4 * 1024 * 1024 };
        let mut journals = Journals::default();
        let mut longest = Batch::default();
        longest.append("acme", vec![1; MAX_ENTRY_BYTES]);
        for sequence in 1..=2 * PAGE_ENTRIES {
            check(&longest, &limits).unwrap();
            let mut gathered = Gathered::default();
            let pages = journals.extend(sequence, std::iter::once(longest.as_ref()));
            gathered.add(sequence, longest.as_ref(), pages, &limits).ok().unwrap();
            assert!(gathered.bytes <= limits.bytes && gathered.changes.len() == 2, "{}", gathered.bytes);
        }
        longest.append("acme", vec![1; MAX_ENTRY_BYTES + 1]);
        assert!(matches!(check(&longest, &limits), Err(StoreError::BatchTooLarge { .. })));
        let mut many = Batch::default();
        (0..4096u32).for_each(|n| many.delete(n.to_be_bytes()));
        assert!(matches!(check(&many, &limits), Err(StoreError::TooManyChanges { changes: 4096, limit: 4095 })));
    }
}

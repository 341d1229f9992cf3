//! The keys of all tokens: keys in flight are in memory, keys with an answer in the store. A sweep drops expired and
//! surplus answers, oldest first.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dashmap::DashSet;
use tokio::sync::Notify;

use super::answer;
use super::answer::{Fingerprint, IdempotencyKey, StoredAnswer};
use super::ledger::{Ledger, Ledgers};
use ambient::steady_clock::SteadyClock;
use domain::{IdSeed, Identifier, Timestamp};
use shares::level;
use store::{Batch, Sequence, Store, StoreError, durable_up_to, end_of_prefix};

/// How long an answer is kept, as the API promises.
const KEPT: Duration = Duration::from_hours(24);
/// No answer is dropped earlier, even if there are too many: after this time a client has retried or given up.
const KEPT_AT_LEAST: Duration = Duration::from_mins(5);

/// Cheap to clone.
#[derive(Clone)]
pub struct Keys {
    inner: Arc<Inner>,
}

struct Inner {
    pub store: Arc<dyn Store>,
    pub steady: SteadyClock,
    pub ledgers: Ledgers,
    /// Wakes the sweep when there are too many answers.
    pub too_many: Notify,
    /// The record keys of requests that are running or whose answer is not durable yet.
    in_flight: DashSet<Arc<[u8]>>,
}

/// The state of the key of a request.
pub enum KeyState {
    /// The request has been executed, with this answer.
    Executed(StoredAnswer),
    /// The key was used for a different request.
    Reused,
    /// A request with the key is running.
    InFlight,
    /// The organization has used its share of keys, and all are too young to be dropped.
    NoRoom,
    /// The key is unused: execute the request.
    Unused(Pending),
}

/// A running request. Dropping it frees the key.
pub struct Pending {
    guard: KeyGuard,
    ledger: Arc<Ledger>,
    fingerprint: Fingerprint,
}

/// A key in flight, freed on drop.
struct KeyGuard {
    inner: Arc<Inner>,
    record_key: Arc<[u8]>,
}

impl Keys {
    pub fn open(store: Arc<dyn Store>, keys_max: usize, steady: SteadyClock) -> Result<Self, StoreError> {
        let ledgers = Ledgers::open(&*store, keys_max as u64)?;
        let inner = Inner { store, steady, ledgers, too_many: Notify::new(), in_flight: DashSet::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Registers the request as running, unless it is already running or executed.
    pub fn begin(
        &self,
        organization: &Identifier,
        token: IdSeed,
        key: &IdempotencyKey,
        fingerprint: Fingerprint,
    ) -> Result<KeyState, StoreError> {
        let record_key = answer::record_key(token, key);
        // The guard is taken before the store is read, which has only durable answers: a guard is dropped when its
        // answer is durable, so the next request that gets the guard sees the answer.
        let guard = self.take(&record_key);
        let Some(bytes) = self.inner.store.get(&record_key)? else {
            return Ok(self.unused(guard, organization, fingerprint));
        };
        let record = answer::decode(&bytes)?;
        if has_expired(record.age(&self.inner.steady)) {
            return Ok(self.unused(guard, organization, fingerprint));
        }
        Ok(if record.fingerprint() == fingerprint {
            KeyState::Executed(record.into_answer())
        } else {
            KeyState::Reused
        })
    }

    /// Resolves when there are too many answers; then call [`Keys::sweep`].
    pub async fn too_many(&self) {
        self.inner.too_many.notified().await;
    }

    fn unused(&self, guard: Option<KeyGuard>, organization: &Identifier, fingerprint: Fingerprint) -> KeyState {
        let Some(guard) = guard else { return KeyState::InFlight };
        let ledger = self.inner.ledgers.of(organization);
        if !self.inner.ledgers.has_room(&ledger) {
            self.inner.too_many.notify_one();
            return KeyState::NoRoom;
        }
        KeyState::Unused(Pending { guard, ledger, fingerprint })
    }

    /// `None` while the key is in flight.
    fn take(&self, record_key: &[u8]) -> Option<KeyGuard> {
        let record_key: Arc<[u8]> = record_key.into();
        let is_free = self.inner.in_flight.insert(record_key.clone());
        is_free.then(|| KeyGuard { inner: self.inner.clone(), record_key })
    }
}

impl Pending {
    /// The store's key of the answer's record.
    pub fn record_key(&self) -> &[u8] {
        &self.guard.record_key
    }

    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Adds the answer to the batch that has the effect. Hold `self` until the batch is durable or refused: the key is
    /// in flight until then.
    pub fn record(&self, batch: &mut Batch, answer: &StoredAnswer, now: Timestamp) {
        let inner = &self.guard.inner;
        let number = inner.ledgers.add(&self.ledger);
        if inner.ledgers.total() > inner.ledgers.keys_max {
            inner.too_many.notify_one();
        }
        let record_key = &self.guard.record_key;
        batch.put(record_key, answer::encode(now, inner.steady.now(), number, self.fingerprint, answer));
        batch.put(answer::index_key(&self.ledger.index, number), record_key);
    }

    /// Like [`Self::record`]; returns the value to hold.
    #[must_use]
    pub fn keep(self, batch: &mut Batch, answer: &StoredAnswer, now: Timestamp) -> Self {
        self.record(batch, answer, now);
        self
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        self.inner.in_flight.remove(&self.record_key);
    }
}

fn has_expired(age: Duration) -> bool {
    age >= KEPT
}

fn may_be_dropped_early(age: Duration) -> bool {
    age >= KEPT_AT_LEAST
}

/// Answers dropped per commit: far below the store's batch limit, and quick to read.
const SWEPT_AT_ONCE: usize = 256;
/// Index entries counted before the task yields.
const COUNTED_AT_ONCE: usize = 1_024;
/// If there are too many answers, this fraction of the limit is freed in addition, so that not every further answer
/// causes a sweep.
const FREED: u64 = 16;

/// The result of sweeping one range of an index.
#[derive(Default)]
struct SweptRange {
    committed: Option<Sequence>,
    /// The number of index entries dropped.
    dropped: u64,
    /// The number of answers dropped early because there were too many.
    early: u64,
    /// The number to continue from, unless all further entries are kept.
    next: Option<u64>,
}

/// The action for an index entry.
enum EntryFate {
    Kept,
    Dropped {
        early: bool,
    },
    /// The answer has been replaced or dropped.
    Stale,
}

impl Keys {
    /// Drops answers older than 24 hours. If there are too many, also drops the oldest answers of the organizations
    /// that have most, but none of the last minutes. Works in ranges, each after the previous one is durable, so that
    /// other writes are not delayed.
    pub async fn sweep(&self) -> Result<(), StoreError> {
        let ledgers = self.inner.ledgers.all();
        let level = self.level(&ledgers).await?;
        for ledger in ledgers {
            let early = self.sweep_index(&ledger, ledger.kept().saturating_sub(level)).await?;
            if early > 0 {
                tracing::warn!(
                    organization = ledger.organization.as_str(),
                    early,
                    "dropped idempotency keys before their 24 hours, since there were too many; raise idempotency.max_keys"
                );
            }
        }
        self.inner.ledgers.show();
        Ok(())
    }

    /// How many answers each organization may keep.
    async fn level(&self, ledgers: &[Arc<Ledger>]) -> Result<u64, StoreError> {
        let keys_max = self.inner.ledgers.keys_max;
        if self.inner.ledgers.total() < keys_max {
            return Ok(u64::MAX);
        }
        for ledger in ledgers {
            self.recount(ledger).await?;
        }
        let kept: Vec<u64> = ledgers.iter().map(|ledger| ledger.kept()).collect();
        if kept.iter().sum::<u64>() <= keys_max {
            return Ok(u64::MAX);
        }
        Ok(level(keys_max - keys_max / FREED, kept))
    }

    /// Corrects the number of kept answers: a full disk may have left a long gap in the numbers.
    async fn recount(&self, ledger: &Ledger) -> Result<(), StoreError> {
        let (inner, end) = (&self.inner, end_of_prefix(&ledger.index));
        let (kept, counted_up_to) = (ledger.kept(), ledger.next_number.load(Ordering::Relaxed));
        let (mut count, mut from) = (0, 0);
        while from < counted_up_to {
            let found = inner.store.scan(&answer::index_key(&ledger.index, from), &end, COUNTED_AT_ONCE)?;
            let numbers = found.iter().filter_map(|(index_key, _)| answer::number_of(&ledger.index, index_key));
            let numbers: Vec<u64> = numbers.take_while(|number| *number < counted_up_to).collect();
            count += numbers.len() as u64;
            match numbers.last() {
                Some(last) if numbers.len() == COUNTED_AT_ONCE => from = last.saturating_add(1),
                Some(_) | None => break,
            }
            tokio::task::yield_now().await;
        }
        inner.ledgers.recounted(ledger, kept, count);
        Ok(())
    }

    /// Drops expired answers, and `excess` others. Returns how many were dropped early.
    async fn sweep_index(&self, ledger: &Ledger, mut excess: u64) -> Result<u64, StoreError> {
        let mut early = 0;
        // Each sweep starts at the beginning: the last one may have skipped a key in flight, or a number whose batch
        // was not durable yet.
        let mut next = Some(0);
        while let Some(from) = next {
            let range = self.sweep_range(ledger, from, excess)?;
            self.inner.ledgers.subtract(ledger, range.dropped);
            excess = excess.saturating_sub(range.dropped);
            early += range.early;
            next = range.next;
            if let Some(sequence) = range.committed {
                durable_up_to(&*self.inner.store, sequence).await;
            }
        }
        Ok(early)
    }

    fn sweep_range(&self, ledger: &Ledger, from: u64, excess: u64) -> Result<SweptRange, StoreError> {
        let (store, index) = (&self.inner.store, &ledger.index);
        let found = store.scan(&answer::index_key(index, from), &end_of_prefix(index), SWEPT_AT_ONCE)?;
        let last = found.last().filter(|_| found.len() == SWEPT_AT_ONCE);
        let next = last.and_then(|(index_key, _)| answer::number_of(index, index_key)?.checked_add(1));
        let mut range = SweptRange { next, ..SweptRange::default() };
        let mut batch = Batch::default();
        // Held until the batch is committed: an answer stored between the read and the delete would be lost. Until
        // then, a request with a key that has just expired is told to retry in a second.
        let mut taken: Vec<KeyGuard> = Vec::new();
        for (index_key, record_key) in found {
            let Some(guard) = self.take(&record_key) else {
                continue;
            };
            let number = answer::number_of(index, &index_key);
            match self.fate(number, &record_key, range.dropped < excess)? {
                EntryFate::Kept => {
                    range.next = None;
                    break;
                }
                EntryFate::Dropped { early } => {
                    range.early += u64::from(early);
                    batch.delete(record_key);
                    taken.push(guard);
                }
                EntryFate::Stale => {}
            }
            range.dropped += 1;
            batch.delete(index_key);
        }
        if !batch.is_empty() {
            range.committed = Some(store.commit(batch)?);
        }
        Ok(range)
    }

    fn fate(&self, number: Option<u64>, record_key: &[u8], is_in_excess: bool) -> Result<EntryFate, StoreError> {
        let Some(bytes) = self.inner.store.get(record_key)? else {
            return Ok(EntryFate::Stale);
        };
        let Ok(record) = answer::decode(&bytes) else {
            // An undecodable answer would block its key permanently.
            tracing::error!("dropped an idempotency key whose answer cannot be decoded");
            return Ok(EntryFate::Dropped { early: false });
        };
        if number != Some(record.number()) {
            return Ok(EntryFate::Stale);
        }
        let age = record.age(&self.inner.steady);
        if has_expired(age) {
            return Ok(EntryFate::Dropped { early: false });
        }
        let early = is_in_excess && may_be_dropped_early(age);
        Ok(if early { EntryFate::Dropped { early } } else { EntryFate::Kept })
    }
}

//! The keys of all tokens: those in flight are in memory, those with an answer in the store.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashSet;
use tokio::sync::Notify;

use super::answer::StoredAnswer;
use super::key::{Fingerprint, IdempotencyKey};
use super::ledger::{Ledger, Ledgers};
use super::stored;
use ambient::steady_clock::SteadyClock;
use domain::{IdSeed, Identifier, Timestamp};
use store::{Batch, Store, StoreError};

/// How long an answer is kept, as the API promises.
const KEPT: Duration = Duration::from_hours(24);
/// No answer is dropped earlier, however many there are: by then a client has retried or given up.
const KEPT_AT_LEAST: Duration = Duration::from_mins(5);

/// Cheap to clone.
#[derive(Clone)]
pub struct Keys {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub store: Arc<dyn Store>,
    pub steady: SteadyClock,
    pub ledgers: Ledgers,
    /// Wakes the sweep: there are more answers than should be kept.
    pub too_many: Notify,
    /// The record keys of requests that are being executed or whose answer is not durable yet.
    in_flight: DashSet<Arc<[u8]>>,
}

/// What is known of the key of a request.
pub enum KeyState {
    /// The request has been executed; this was the answer.
    Executed(StoredAnswer),
    /// Another request has been executed under the key.
    Reused,
    /// A request under the key is being executed.
    InFlight,
    /// The organization has used its share of keys, all of them too young to be dropped.
    NoRoom,
    /// Nothing: execute the request.
    Unused(Pending),
}

/// A request that is being executed. Dropping it frees the key.
pub struct Pending {
    guard: KeyGuard,
    ledger: Arc<Ledger>,
    fingerprint: Fingerprint,
}

/// A key in flight, freed when this is dropped.
pub(super) struct KeyGuard {
    inner: Arc<Inner>,
    record_key: Arc<[u8]>,
}

impl Keys {
    pub fn open(store: Arc<dyn Store>, keys_max: usize, steady: SteadyClock) -> Result<Self, StoreError> {
        let ledgers = Ledgers::open(&*store, keys_max as u64)?;
        let inner = Inner { store, steady, ledgers, too_many: Notify::new(), in_flight: DashSet::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Registers the request as being executed, unless it is or has been.
    pub fn begin(
        &self,
        organization: &Identifier,
        token: IdSeed,
        key: &IdempotencyKey,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Result<KeyState, StoreError> {
        let record_key = stored::record_key(token, key);
        // First the guard, then the store, which shows only durable answers: a guard is dropped when its answer is durable,
        // so whoever gets the guard sees the answer of its predecessor.
        let guard = self.take(&record_key);
        let Some(bytes) = self.inner.store.get(&record_key)? else {
            return Ok(self.unused(guard, organization, fingerprint));
        };
        let record = stored::decode(&bytes)?;
        if has_expired(record.age(now, &self.inner.steady)) {
            return Ok(self.unused(guard, organization, fingerprint));
        }
        Ok(if record.fingerprint() == fingerprint {
            KeyState::Executed(record.into_answer())
        } else {
            KeyState::Reused
        })
    }

    /// Resolves when there are more answers than should be kept, so that [`Keys::sweep`] should be called.
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
    pub(super) fn take(&self, record_key: &[u8]) -> Option<KeyGuard> {
        let record_key: Arc<[u8]> = record_key.into();
        let is_free = self.inner.in_flight.insert(record_key.clone());
        is_free.then(|| KeyGuard { inner: self.inner.clone(), record_key })
    }
}

impl Pending {
    /// The key of the record of the answer in the store.
    pub fn record_key(&self) -> &[u8] {
        &self.guard.record_key
    }

    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Adds the answer to the batch that has the effect. Hold `self` until the batch is durable or refused: the key is in
    /// flight until then.
    pub fn record(&self, batch: &mut Batch, answer: &StoredAnswer, now: Timestamp) {
        let inner = &self.guard.inner;
        let number = inner.ledgers.add(&self.ledger);
        if inner.ledgers.total() > inner.ledgers.keys_max {
            inner.too_many.notify_one();
        }
        let record_key = &self.guard.record_key;
        batch.put(record_key, stored::encode(now, inner.steady.now(), number, self.fingerprint, answer));
        batch.put(stored::index_key(&self.ledger.index, number), record_key);
    }

    /// The same, returning what must be held until then.
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

pub(super) fn has_expired(age: Duration) -> bool {
    age >= KEPT
}

pub(super) fn may_be_dropped_early(age: Duration) -> bool {
    age >= KEPT_AT_LEAST
}

//! The keys of all tokens: those in flight are in memory, those with an answer in the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashSet;

use super::answer::StoredAnswer;
use super::key::{Fingerprint, IdempotencyKey};
use super::stored;
use crate::domain::{IdSeed, Timestamp};
use crate::store::{Batch, Store, StoreError, end_of_prefix};

/// How long an answer is kept, as the API promises.
const KEPT: Duration = Duration::from_hours(24);

/// Cheap to clone.
#[derive(Clone)]
pub struct Keys {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub store: Arc<dyn Store>,
    pub keys_max: u64,
    /// The number of the next answer. An answer that the store refused leaves a gap.
    pub next_number: AtomicU64,
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
    /// Nothing: execute the request.
    Unused(Pending),
}

/// A request that is being executed. Dropping it frees the key.
pub struct Pending {
    guard: KeyGuard,
    fingerprint: Fingerprint,
}

/// A key in flight, freed when this is dropped.
pub(super) struct KeyGuard {
    inner: Arc<Inner>,
    record_key: Arc<[u8]>,
}

impl Keys {
    pub fn open(store: Arc<dyn Store>, keys_max: usize) -> Result<Self, StoreError> {
        let next_number = AtomicU64::new(next_number(&*store)?);
        let inner = Inner { store, keys_max: keys_max as u64, next_number, in_flight: DashSet::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Registers the request as being executed, unless it is or has been.
    pub fn begin(
        &self,
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
            return Ok(KeyState::unused(guard, fingerprint));
        };
        let record = stored::decode(&bytes)?;
        if has_expired(record.made_at(), now) {
            return Ok(KeyState::unused(guard, fingerprint));
        }
        Ok(if record.fingerprint() == fingerprint {
            KeyState::Executed(record.into_answer())
        } else {
            KeyState::Reused
        })
    }

    /// `None` while the key is in flight.
    pub(super) fn take(&self, record_key: &[u8]) -> Option<KeyGuard> {
        let record_key: Arc<[u8]> = record_key.into();
        let is_free = self.inner.in_flight.insert(record_key.clone());
        is_free.then(|| KeyGuard { inner: self.inner.clone(), record_key })
    }
}

impl KeyState {
    fn unused(guard: Option<KeyGuard>, fingerprint: Fingerprint) -> Self {
        guard.map_or(KeyState::InFlight, |guard| KeyState::Unused(Pending { guard, fingerprint }))
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
        let number = self.guard.inner.next_number.fetch_add(1, Ordering::Relaxed);
        let record_key = &self.guard.record_key;
        batch.put(record_key.to_vec(), stored::encode(now, number, self.fingerprint, answer));
        batch.put(stored::index_key(number), record_key.to_vec());
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

pub(super) fn has_expired(made_at: Timestamp, now: Timestamp) -> bool {
    now.since(made_at) >= KEPT
}

pub(super) fn unreadable() -> StoreError {
    StoreError::Read("a key of the idempotency index is malformed".to_owned())
}

/// The number after the last in the index, by binary search, since the index may be long.
fn next_number(store: &dyn Store) -> Result<u64, StoreError> {
    let end = end_of_prefix(stored::INDEX);
    // Invariant: the entry before `next` exists, unless that is 0, and there is none from `unused` on.
    let (mut next, mut unused) = (0, u64::MAX);
    while next < unused {
        let middle = next + (unused - next) / 2;
        match store.scan(&stored::index_key(middle), &end, 1)?.first() {
            Some((key, _)) => next = stored::number_of(key).ok_or_else(unreadable)?.saturating_add(1),
            None => unused = middle,
        }
    }
    Ok(next)
}

//! The keys of all tokens: which are in flight, in memory, and which have their answer, in the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashSet;

use super::key::{Fingerprint, IdempotencyKey};
use super::stored;
use crate::domain::{AnalysisId, DeploymentId, EnvironmentKey, IdSeed, SessionId, Timestamp};
use crate::store::{Batch, Store, StoreError, end_of_prefix};

/// How long an answer is kept: the contract's promise.
const KEPT: Duration = Duration::from_hours(24);

/// Cheap to clone.
#[derive(Clone)]
pub struct Keys {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub store: Arc<dyn Store>,
    pub keys_max: u64,
    /// Counts the answers kept. One that the store refused leaves a gap.
    pub next_number: AtomicU64,
    /// The records' keys of requests that are being executed, or whose answer is not durable yet.
    in_flight: DashSet<Arc<[u8]>>,
}

/// The answer to a request, as it is stored for a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    pub status: u16,
    pub location: Option<String>,
    pub body: Vec<u8>,
    pub subject: Option<Subject>,
}

/// The object that an answer is about, where a retry does more than repeat the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Session { environment: EnvironmentKey, session: SessionId },
    Deployment(DeploymentId),
    Analysis(AnalysisId),
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
    slot: Slot,
    fingerprint: Fingerprint,
}

/// A key taken, and freed when this is dropped.
pub(super) struct Slot {
    shared: Arc<Shared>,
    record_key: Arc<[u8]>,
}

impl Keys {
    pub fn open(store: Arc<dyn Store>, keys_max: usize) -> Result<Self, StoreError> {
        let next_number = AtomicU64::new(next_number(&*store)?);
        let shared = Shared { store, keys_max: keys_max as u64, next_number, in_flight: DashSet::new() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Registers the request as being executed, unless it has been or is.
    pub fn begin(
        &self,
        token: IdSeed,
        key: &IdempotencyKey,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Result<KeyState, StoreError> {
        let record_key = stored::record_key(token, key);
        // First the slot and then the store, which shows what is durable: a slot is freed when its answer is, so whoever
        // gets the slot sees the answer of everybody who had it before.
        let slot = self.take(&record_key);
        let Some(bytes) = self.shared.store.get(&record_key)? else {
            return Ok(KeyState::unused(slot, fingerprint));
        };
        let record = stored::decode(&bytes).ok_or_else(unreadable)?;
        if has_expired(record.made_at(), now) {
            return Ok(KeyState::unused(slot, fingerprint));
        }
        Ok(if record.fingerprint() == fingerprint {
            KeyState::Executed(record.into_answer())
        } else {
            KeyState::Reused
        })
    }

    /// None while somebody else has it.
    pub(super) fn take(&self, record_key: &[u8]) -> Option<Slot> {
        let record_key: Arc<[u8]> = record_key.into();
        let is_free = self.shared.in_flight.insert(record_key.clone());
        is_free.then(|| Slot { shared: self.shared.clone(), record_key })
    }
}

impl KeyState {
    fn unused(slot: Option<Slot>, fingerprint: Fingerprint) -> Self {
        slot.map_or(KeyState::InFlight, |slot| KeyState::Unused(Pending { slot, fingerprint }))
    }
}

impl Pending {
    /// Under which the answer will lie in the store.
    pub fn record_key(&self) -> &[u8] {
        &self.slot.record_key
    }

    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Puts the answer into the batch that has the effect. The key stays in flight until this is dropped, so it is held
    /// until the batch is durable, or refused.
    pub fn record(&self, batch: &mut Batch, answer: &StoredAnswer, now: Timestamp) {
        let number = self.slot.shared.next_number.fetch_add(1, Ordering::Relaxed);
        let record_key = &self.slot.record_key;
        batch.put(record_key.to_vec(), stored::encode(now, number, self.fingerprint, answer));
        batch.put(stored::index_key(number), record_key.to_vec());
    }

    /// The same, for who has nothing else to do with the request than to hold it so long.
    #[must_use]
    pub fn keep(self, batch: &mut Batch, answer: &StoredAnswer, now: Timestamp) -> Self {
        self.record(batch, answer, now);
        self
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.shared.in_flight.remove(&self.record_key);
    }
}

pub(super) fn has_expired(made_at: Timestamp, now: Timestamp) -> bool {
    let age = now.as_millis().saturating_sub(made_at.as_millis());
    u128::try_from(age).is_ok_and(|age| age >= KEPT.as_millis())
}

pub(super) fn unreadable() -> StoreError {
    StoreError::Read("an answer kept under an idempotency key does not have the form of its version".to_owned())
}

/// The number after the last in the index. Halves the space of numbers instead of reading the index, which may be long.
fn next_number(store: &dyn Store) -> Result<u64, StoreError> {
    let end = end_of_prefix(stored::INDEX);
    // There is an entry just below `next`, unless that is 0, and none from `unused` on.
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

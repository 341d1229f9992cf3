//! Drops expired and surplus answers, oldest first.

use std::sync::atomic::Ordering;

use super::keys::{KeyGuard, Keys, has_expired};
use super::stored;
use crate::domain::Timestamp;
use crate::store::{Batch, Sequence, StoreError, durable_up_to, end_of_prefix};

/// How many answers one commit drops: far below the store's batch limit, and quick to read.
const SWEPT_AT_ONCE: usize = 256;
/// How many index entries are counted before the task yields.
const COUNTED_AT_ONCE: usize = 1_024;

/// The result of sweeping one range of the index.
#[derive(Default)]
struct SweptRange {
    committed: Option<Sequence>,
    /// The number of index entries dropped.
    dropped: u64,
    /// The number of answers dropped before their time, since there were too many.
    early: u64,
    /// The next number, unless all further entries are to be kept.
    next: Option<u64>,
}

/// What to do with an index entry.
enum EntryFate {
    Kept,
    Dropped {
        early: bool,
    },
    /// Its answer has been replaced or dropped.
    Stale,
}

impl Keys {
    /// Drops answers older than 24 hours, and the oldest beyond the bound. Works in ranges, each after the one before is
    /// durable, so that other writes are not delayed.
    pub async fn sweep(&self, now: Timestamp) {
        if let Err(error) = self.try_sweep(now).await {
            tracing::warn!(%error, "cannot sweep old idempotency keys; the next sweep tries again");
        }
    }

    async fn try_sweep(&self, now: Timestamp) -> Result<(), StoreError> {
        let (mut excess, mut early) = (self.excess().await?, 0);
        // From the beginning each time: the last sweep may have skipped a key in flight, or a number whose batch was not
        // durable yet.
        let mut next = Some(0);
        while let Some(from) = next {
            let range = self.sweep_range(from, excess, now)?;
            excess = excess.saturating_sub(range.dropped);
            early += range.early;
            next = range.next;
            if let Some(sequence) = range.committed {
                durable_up_to(&*self.inner.store, sequence).await;
            }
        }
        if early > 0 {
            tracing::warn!(
                early,
                "dropped idempotency keys before their 24 hours, since there were too many; raise idempotency.max_keys"
            );
        }
        Ok(())
    }

    /// How many entries there are beyond the bound. The numbers alone show when there are none; otherwise the index is
    /// counted, since a full disk may have left a long gap in the numbers.
    async fn excess(&self) -> Result<u64, StoreError> {
        let inner = &self.inner;
        let end = end_of_prefix(stored::INDEX);
        let numbers = |limit, from| -> Result<Vec<u64>, StoreError> {
            let found = inner.store.scan(&stored::index_key(from), &end, limit)?;
            Ok(found.iter().filter_map(|(index_key, _)| stored::number_of(index_key)).collect())
        };
        let (next, oldest) = (inner.next_number.load(Ordering::Relaxed), numbers(1, 0)?);
        if oldest.first().is_none_or(|oldest| next.saturating_sub(*oldest) <= inner.keys_max) {
            return Ok(0);
        }
        let (mut count, mut from) = (0, 0);
        loop {
            let found = numbers(COUNTED_AT_ONCE, from)?;
            count += found.len() as u64;
            match found.last() {
                Some(last) if found.len() == COUNTED_AT_ONCE => from = last.saturating_add(1),
                Some(_) | None => return Ok(count.saturating_sub(inner.keys_max)),
            }
            tokio::task::yield_now().await;
        }
    }

    /// Drops expired answers, and as many others as are in excess.
    fn sweep_range(&self, from: u64, excess: u64, now: Timestamp) -> Result<SweptRange, StoreError> {
        let store = &self.inner.store;
        let found = store.scan(&stored::index_key(from), &end_of_prefix(stored::INDEX), SWEPT_AT_ONCE)?;
        let last = found.last().filter(|_| found.len() == SWEPT_AT_ONCE);
        let next = last.and_then(|(index_key, _)| stored::number_of(index_key)?.checked_add(1));
        let mut range = SweptRange { next, ..SweptRange::default() };
        let mut batch = Batch::default();
        // Held until the batch is committed: an answer stored between our read and our delete would be lost. Until then, a
        // request under a key that has just expired is told to retry in a second.
        let mut taken: Vec<KeyGuard> = Vec::new();
        for (index_key, record_key) in found {
            let Some(guard) = self.take(&record_key) else {
                continue;
            };
            match self.fate(&index_key, &record_key, range.dropped < excess, now)? {
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

    fn fate(
        &self,
        index_key: &[u8],
        record_key: &[u8],
        is_in_excess: bool,
        now: Timestamp,
    ) -> Result<EntryFate, StoreError> {
        let Some(bytes) = self.inner.store.get(record_key)? else {
            return Ok(EntryFate::Stale);
        };
        let Ok(record) = stored::decode(&bytes) else {
            // It would block its key forever.
            tracing::error!("dropped an idempotency key whose answer cannot be decoded");
            return Ok(EntryFate::Dropped { early: false });
        };
        if stored::number_of(index_key) != Some(record.number()) {
            return Ok(EntryFate::Stale);
        }
        if has_expired(record.made_at(), now) {
            return Ok(EntryFate::Dropped { early: false });
        }
        Ok(if is_in_excess { EntryFate::Dropped { early: true } } else { EntryFate::Kept })
    }
}

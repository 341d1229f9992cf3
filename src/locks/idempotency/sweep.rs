//! Drops expired and surplus answers, oldest first.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::keys::{KeyGuard, Keys, has_expired, may_be_dropped_early};
use super::ledger::Ledger;
use super::stored;
use domain::Timestamp;
use shares::level;
use store::{Batch, Sequence, StoreError, durable_up_to, end_of_prefix};

/// How many answers one commit drops: far below the store's batch limit, and quick to read.
const SWEPT_AT_ONCE: usize = 256;
/// How many index entries are counted before the task yields.
const COUNTED_AT_ONCE: usize = 1_024;
/// If there are too many answers, this part of the bound is freed beyond what is necessary, so that not every further answer
/// causes a sweep.
const FREED: u64 = 16;

/// The result of sweeping one range of an index.
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
    /// Drops answers older than 24 hours. If there are too many, also the oldest of the organizations that have most, but
    /// none of the last minutes. Works in ranges, each after the one before is durable, so that other writes are not delayed.
    pub async fn sweep(&self, now: Timestamp) -> Result<(), StoreError> {
        let ledgers = self.inner.ledgers.all();
        let level = self.level(&ledgers).await?;
        for ledger in ledgers {
            let early = self.sweep_index(&ledger, ledger.kept().saturating_sub(level), now).await?;
            if early > 0 {
                let organization = ledger.organization.as_ref().map_or("", |organization| organization.as_str());
                tracing::warn!(
                    organization,
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
            let found = inner.store.scan(&stored::index_key(&ledger.index, from), &end, COUNTED_AT_ONCE)?;
            let numbers = found.iter().filter_map(|(index_key, _)| stored::number_of(&ledger.index, index_key));
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

    /// Drops expired answers, and as many others as are in excess. Returns how many were dropped before their time.
    async fn sweep_index(&self, ledger: &Ledger, mut excess: u64, now: Timestamp) -> Result<u64, StoreError> {
        let mut early = 0;
        // From the beginning each time: the last sweep may have skipped a key in flight, or a number whose batch was not
        // durable yet.
        let mut next = Some(0);
        while let Some(from) = next {
            let range = self.sweep_range(ledger, from, excess, now)?;
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

    fn sweep_range(&self, ledger: &Ledger, from: u64, excess: u64, now: Timestamp) -> Result<SweptRange, StoreError> {
        let (store, index) = (&self.inner.store, &ledger.index);
        let found = store.scan(&stored::index_key(index, from), &end_of_prefix(index), SWEPT_AT_ONCE)?;
        let last = found.last().filter(|_| found.len() == SWEPT_AT_ONCE);
        let next = last.and_then(|(index_key, _)| stored::number_of(index, index_key)?.checked_add(1));
        let mut range = SweptRange { next, ..SweptRange::default() };
        let mut batch = Batch::default();
        // Held until the batch is committed: an answer stored between our read and our delete would be lost. Until then, a
        // request under a key that has just expired is told to retry in a second.
        let mut taken: Vec<KeyGuard> = Vec::new();
        for (index_key, record_key) in found {
            let Some(guard) = self.take(&record_key) else {
                continue;
            };
            let number = stored::number_of(index, &index_key);
            match self.fate(number, &record_key, range.dropped < excess, now)? {
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
        number: Option<u64>,
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
        if number != Some(record.number()) {
            return Ok(EntryFate::Stale);
        }
        let age = record.age(now, &self.inner.steady);
        if has_expired(age) {
            return Ok(EntryFate::Dropped { early: false });
        }
        let early = is_in_excess && may_be_dropped_early(age);
        Ok(if early { EntryFate::Dropped { early } } else { EntryFate::Kept })
    }
}

//! Lets go of answers that are old enough, or too many, from the oldest on.

use std::sync::atomic::Ordering;

use super::keys::{Keys, Slot, has_expired};
use super::stored;
use crate::domain::Timestamp;
use crate::store::{Batch, Sequence, StoreError, durable_up_to, end_of_prefix};

/// How many answers one commit drops: a batch far below the store's limit, and reads that take a moment.
const SWEPT_AT_ONCE: usize = 256;
/// How many entries of the index are counted before others get their turn.
const COUNTED_AT_ONCE: usize = 1_024;

/// What became of one piece of the index.
#[derive(Default)]
struct Piece {
    handed_in: Option<Sequence>,
    /// Entries of the index that are gone.
    dropped: u64,
    /// Answers among them that went before their time, since there were too many.
    early: u64,
    /// Where to go on, unless all that is left is to be kept.
    next: Option<u64>,
}

/// What becomes of one entry of the index.
enum Fate {
    Kept,
    Dropped {
        early: bool,
    },
    /// Its answer has been replaced by a later one, or is gone.
    Outlived,
}

impl Keys {
    /// Drops what is older than 24 h, and the oldest beyond the bound, piece by piece, the next when the last is durable,
    /// so that it does not crowd out others.
    pub async fn sweep(&self, now: Timestamp) {
        if let Err(error) = self.try_sweep(now).await {
            tracing::warn!(%error, "old idempotency keys could not be swept; the next sweep tries again");
        }
    }

    async fn try_sweep(&self, now: Timestamp) -> Result<(), StoreError> {
        let (mut excess, mut early) = (self.excess().await?, 0);
        // From the very beginning each time: the last sweep may have passed by a key that was in flight, or a number whose
        // batch was not durable yet.
        let mut next = Some(0);
        while let Some(from) = next {
            let piece = self.sweep_piece(from, excess, now)?;
            excess = excess.saturating_sub(piece.dropped);
            early += piece.early;
            next = piece.next;
            if let Some(sequence) = piece.handed_in {
                durable_up_to(&*self.shared.store, sequence).await;
            }
        }
        if early > 0 {
            tracing::warn!(
                early,
                "dropped idempotency keys before their 24 hours, since there are too many; raise idempotency.max_keys"
            );
        }
        Ok(())
    }

    /// How many there are beyond the bound. The numbers tell at once where it is none; beyond that they cannot, since a
    /// disk that was full for an hour has left a long gap in them, and then the index is counted.
    async fn excess(&self) -> Result<u64, StoreError> {
        let shared = &self.shared;
        let end = end_of_prefix(stored::INDEX);
        let numbers = |limit, from| -> Result<Vec<u64>, StoreError> {
            let found = shared.store.scan(&stored::index_key(from), &end, limit)?;
            Ok(found.iter().filter_map(|(index_key, _)| stored::number_of(index_key)).collect())
        };
        let (next, oldest) = (shared.next_number.load(Ordering::Relaxed), numbers(1, 0)?);
        if oldest.first().is_none_or(|oldest| next.saturating_sub(*oldest) <= shared.keys_max) {
            return Ok(0);
        }
        let (mut count, mut from) = (0, 0);
        loop {
            let found = numbers(COUNTED_AT_ONCE, from)?;
            count += found.len() as u64;
            match found.last() {
                Some(last) if found.len() == COUNTED_AT_ONCE => from = last.saturating_add(1),
                Some(_) | None => return Ok(count.saturating_sub(shared.keys_max)),
            }
            tokio::task::yield_now().await;
        }
    }

    /// Drops what has expired, and as many of the others as are in excess.
    fn sweep_piece(&self, from: u64, excess: u64, now: Timestamp) -> Result<Piece, StoreError> {
        let store = &self.shared.store;
        let found = store.scan(&stored::index_key(from), &end_of_prefix(stored::INDEX), SWEPT_AT_ONCE)?;
        let last = found.last().filter(|_| found.len() == SWEPT_AT_ONCE);
        let next = last.and_then(|(index_key, _)| stored::number_of(index_key)?.checked_add(1));
        let mut piece = Piece { next, ..Piece::default() };
        let mut batch = Batch::default();
        // Until the batch is handed in: a key that is recorded anew between our read and our delete would be lost. For so
        // long, a request under a key that has just expired is told to come back in a second.
        let mut taken: Vec<Slot> = Vec::new();
        for (index_key, record_key) in found {
            let Some(slot) = self.take(&record_key) else {
                continue;
            };
            match self.fate(&index_key, &record_key, piece.dropped < excess, now)? {
                Fate::Kept => {
                    piece.next = None;
                    break;
                }
                Fate::Dropped { early } => {
                    piece.early += u64::from(early);
                    batch.delete(record_key);
                    taken.push(slot);
                }
                Fate::Outlived => {}
            }
            piece.dropped += 1;
            batch.delete(index_key);
        }
        if !batch.is_empty() {
            piece.handed_in = Some(store.commit(batch)?);
        }
        Ok(piece)
    }

    fn fate(
        &self,
        index_key: &[u8],
        record_key: &[u8],
        is_in_excess: bool,
        now: Timestamp,
    ) -> Result<Fate, StoreError> {
        let Some(bytes) = self.shared.store.get(record_key)? else {
            return Ok(Fate::Outlived);
        };
        let Some(record) = stored::decode(&bytes) else {
            // It answers nobody, and would keep its key from being used for ever.
            tracing::error!("dropped an idempotency key whose answer cannot be read");
            return Ok(Fate::Dropped { early: false });
        };
        if stored::number_of(index_key) != Some(record.number()) {
            return Ok(Fate::Outlived);
        }
        if has_expired(record.made_at(), now) {
            return Ok(Fate::Dropped { early: false });
        }
        Ok(if is_in_excess { Fate::Dropped { early: true } } else { Fate::Kept })
    }
}

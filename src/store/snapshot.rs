//! The records of a shard of an engine at one moment, to read.

use std::ops::Bound;

use tokio::sync::watch;

use super::batch::{Batch, Pair, Sequence};
use super::contract::{Store, StoreError};
use super::engine::{Pairs, Shard};

pub struct Snapshot {
    shard: Shard,
    pairs: Pairs,
    durable: watch::Receiver<Sequence>,
}

impl Snapshot {
    /// As [`super::engine::Engine::copy`] has given them.
    pub fn new(shard: Shard, pairs: Pairs) -> Snapshot {
        let (_, durable) = watch::channel(shard.sequence);
        Snapshot { shard, pairs, durable }
    }

    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    pub fn pairs(&self) -> &Pairs {
        &self.pairs
    }
}

impl Store for Snapshot {
    fn commit(&self, _: Batch) -> Result<Sequence, StoreError> {
        Err(StoreError::Closed)
    }

    fn durable(&self) -> watch::Receiver<Sequence> {
        self.durable.clone()
    }

    fn handed_in(&self) -> Sequence {
        self.shard.sequence
    }

    fn applied(&self) -> Sequence {
        self.shard.sequence
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.pairs.get(key).cloned())
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError> {
        if from >= to {
            return Ok(Vec::new());
        }
        let range = self.pairs.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        Ok(range.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn refusing_writes(&self) -> Option<StoreError> {
        Some(StoreError::Closed)
    }
}

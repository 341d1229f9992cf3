//! The contract of every engine.

use std::collections::BTreeMap;

use super::membership::{ClusterRecord, NodeRecord};
use super::shard::{Owner, Shard, Tenure, Version};
use crate::batch::{Changes, Sequence};
use crate::contract::StoreError;

/// The contents of a shard.
pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

pub trait Engine: Send + Sync + 'static {
    /// Checks that the engine is set up for us; otherwise the error says what to change.
    fn probe(&self) -> impl Future<Output = Result<(), EngineError>> + Send;

    fn limits(&self) -> Limits;

    /// Returns the cluster's record; writes this one if none exists.
    fn found(&self, cluster: &ClusterRecord) -> impl Future<Output = Result<ClusterRecord, EngineError>> + Send;

    /// Reads the cluster's record. The result is no older than this call.
    fn cluster(&self) -> impl Future<Output = Result<Option<ClusterRecord>, EngineError>> + Send;

    /// Replaces or removes the cluster's record if it is still `seen`. Returns whether the record now is `next`. After
    /// [`EngineError::Away`] the change may have happened; repeating the call finds out.
    fn replace(
        &self,
        seen: &ClusterRecord,
        next: Option<&ClusterRecord>,
    ) -> impl Future<Output = Result<bool, EngineError>> + Send;

    /// Removes the cluster's record with all shards and their contents, if the record is still `seen`; otherwise
    /// removes nothing. Returns whether there is no record now. After [`EngineError::Away`] the change may have
    /// happened; repeating the call finds out. Works even when the engine is full.
    fn clear(&self, seen: &ClusterRecord) -> impl Future<Output = Result<bool, EngineError>> + Send;

    /// Writes the record of a node.
    fn announce(&self, node: &NodeRecord) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Reads all nodes that have ever written a record. The result is no older than this call.
    fn nodes(&self) -> impl Future<Output = Result<Vec<NodeRecord>, EngineError>> + Send;

    /// Reads all shards that have a record. The result is no older than this call.
    fn shards(&self) -> impl Future<Output = Result<Vec<Shard>, EngineError>> + Send;

    /// The contents of a shard at this version of its record. Fails if that version has been forgotten, which never
    /// happens to a shard's newest version.
    fn load(&self, number: u16, at: Version) -> impl Future<Output = Result<Pairs, EngineError>> + Send;

    /// The record and the contents of a shard at one moment, while its owner continues to write; `None` if the shard
    /// has no record.
    fn copy(&self, number: u16) -> impl Future<Output = Result<Option<(Shard, Pairs)>, EngineError>> + Send;

    /// Writes the shard's record and all changes if its record still has the compared version; otherwise writes
    /// nothing. Returns the new version, or `None` if another node has written the record. After [`EngineError::Away`]
    /// the write may have happened; repeating the call finds out, as `resolve` decides.
    fn write(
        &self,
        compared: Version,
        record: &Shard,
        changes: &Changes,
    ) -> impl Future<Output = Result<Option<Version>, EngineError>> + Send;

    /// Makes `by` the owner of a shard if its record is still `seen`; `None` if it has changed. After
    /// [`EngineError::Away`] the change may have happened; repeating the call finds out.
    fn take(&self, seen: &Shard, by: &Owner) -> impl Future<Output = Result<Option<Tenure>, EngineError>> + Send {
        async {
            let record = seen.taken_by(by);
            let written = self.write(seen.version, &record, &Changes::new()).await?;
            Ok(written.map(|version| Tenure::of(record, version)))
        }
    }

    /// Writes the shard's record and all changes, or nothing. After [`EngineError::Away`] the write may have happened;
    /// repeating the call finds out, and no other transaction of this tenure may be sent before that.
    fn commit(
        &self,
        tenure: &mut Tenure,
        transaction: &Transaction<'_>,
    ) -> impl Future<Output = Result<(), EngineError>> + Send {
        async {
            let record = tenure.advanced_to(transaction.last, transaction.millis);
            let written = self.write(tenure.shard().version, &record, transaction.changes).await?;
            tenure.wrote(record, written.ok_or(EngineError::Deposed)?);
            Ok(())
        }
    }

    /// Gives up a shard, to this node if one is named. After [`EngineError::Away`] the change may have happened;
    /// repeating the call finds out.
    fn leave(&self, tenure: &Tenure, successor: Option<&str>) -> impl Future<Output = Result<(), EngineError>> + Send {
        async move {
            let written = self.write(tenure.shard().version, &tenure.left_to(successor), &Changes::new()).await?;
            written.map(drop).ok_or(EngineError::Deposed)
        }
    }

    fn room(&self) -> impl Future<Output = Result<Room, EngineError>> + Send;

    /// Frees data needed only by versions before this one. Those cannot be loaded any more.
    fn forget(&self, before: Version) -> impl Future<Output = Result<(), EngineError>> + Send;
}

/// One atomic write.
#[derive(Debug, Clone, Copy)]
pub struct Transaction<'a> {
    /// The sequence of the last batch.
    pub last: Sequence,
    /// The wall clock at its creation.
    pub millis: u64,
    pub changes: &'a Changes,
}

/// The limits of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub changes: usize,
    /// The sum of keys, values, and [`CHANGE_BYTES`] per change.
    pub bytes: usize,
}

/// The overhead of a change in a request: the shard's prefix, lengths and tags.
pub const CHANGE_BYTES: usize = 64;

/// How full an engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub used_bytes: u64,
    pub quota_bytes: u64,
    /// Whether the engine itself refuses writes.
    pub is_exhausted: bool,
}

impl Room {
    /// Whether writes are refused. This happens before the engine itself would refuse them, so that queued batches
    /// still fit and an operator can still delete something.
    pub fn is_full(&self) -> bool {
        const FULL_PERCENT: u64 = 80;
        self.is_exhausted || self.used_bytes >= self.quota_bytes / 100 * FULL_PERCENT
    }
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// A transaction in flight took effect before that, or never will.
    #[error("another node has taken the shard")]
    Deposed,
    /// Nothing was changed.
    #[error(transparent)]
    Refused(StoreError),
    /// No answer: it is unknown whether anything was changed.
    #[error("the engine does not answer: {0}")]
    Away(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_full_at_four_fifths_of_its_quota_or_when_it_says_so() {
        let room = |used_bytes, is_exhausted| Room { used_bytes, quota_bytes: 1000, is_exhausted }.is_full();
        assert_eq!((room(799, false), room(800, false), room(0, true)), (false, true, true));
    }
}

//! The engine of a cluster during an operation on it: retries, the check that the cluster is complete, taking its
//! shards, and filling them. Nodes do not serve a cluster that is being filled, so only another import can take a shard;
//! the last one to take it continues, and the other ends.

use std::time::Duration;

use tokio::time::Instant;

use ambient::backoff::{Backoff, Retries};
use store::engine::{
    CHANGE_BYTES, ClusterRecord, ClusterState, Engine, EngineError, Moment, Owner, Pairs, Shard, Tenure, Transaction,
    Version,
};
use store::{Changes, EngineOptions, FORMAT_NUMBER, Sequence};

/// Longer than an engine needs to elect a leader, or a database to fail over.
const PATIENCE: Duration = Duration::from_secs(60);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

/// Repeats an idempotent request for up to a minute while the engine is unreachable.
pub async fn answered<T>(mut ask: impl AsyncFnMut() -> Result<T, EngineError>) -> Result<T, EngineError> {
    let (began, mut retries) = (Instant::now(), Retries::new(BACKOFF));
    loop {
        match ask().await {
            Err(EngineError::Away(_)) if began.elapsed() < PATIENCE => {
                tokio::time::sleep(retries.failed()).await;
            }
            answer => return answer,
        }
    }
}

/// Why a cluster cannot be read: one sentence that says what to do.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotReady {
    #[error("cluster: {0}; run the command again when the engine answers and accepts it")]
    Engine(#[from] EngineError),
    #[error(
        "there is no cluster in this engine, or its keys have another prefix: check cluster.etcd_prefix and the address of the \
         engine, or start a node or import a data directory first"
    )]
    Missing,
    #[error(
        "the cluster is being filled by `lockkeeper cluster import` and is not whole; wait until that has finished; if it was \
         interrupted, run it again, or give it up with `lockkeeper cluster import --give-up`"
    )]
    Filling,
    #[error(
        "the master key of the cluster is being replaced by `lockkeeper secrets rotate-key`; wait until that has finished; if \
         it was interrupted, run it again with the same two keys, or with the two exchanged to go back to the old one"
    )]
    Rotating,
    #[error(
        "the cluster's data has format {found}, and this version reads format {FORMAT_NUMBER}: a newer version of lockkeeper \
         has written it; use that version"
    )]
    Format { found: u32 },
    #[error(
        "LOCKKEEPER_MASTER_KEY is not the key of this cluster, which it was first started with or which `lockkeeper secrets \
         rotate-key` has given it; all nodes need the same one, since each must be able to open the secrets of all organizations"
    )]
    Key,
}

/// The record of a cluster that can be served with the master key that has this hash.
pub async fn ready(engine: &impl Engine, key: u64) -> Result<ClusterRecord, NotReady> {
    let record = answered(async || engine.cluster().await).await?.ok_or(NotReady::Missing)?;
    check(&record, key)?;
    Ok(record)
}

pub fn check(record: &ClusterRecord, key: u64) -> Result<(), NotReady> {
    if record.format != FORMAT_NUMBER {
        return Err(NotReady::Format { found: record.format });
    }
    match record.state {
        ClusterState::Filling { .. } => Err(NotReady::Filling),
        ClusterState::Rotating { .. } => Err(NotReady::Rotating),
        ClusterState::Ready | ClusterState::Filled { .. } if record.key != key => Err(NotReady::Key),
        ClusterState::Ready | ClusterState::Filled { .. } => Ok(()),
    }
}

/// How often to retry taking a shard that somebody else has just written.
const TAKE_ATTEMPTS: u32 = 100;

/// A shard that this process has taken.
pub struct TakenShard {
    pub tenure: Tenure,
    /// When the request was sent that took it.
    pub sent: Moment,
    /// Whether its last owner gave it up in an orderly way.
    pub was_left: bool,
}

/// Takes a shard from its owner: an earlier run may still be writing, and ends when it finds its shards taken. `None`
/// if the cluster's record is not `record` any more, since another run has replaced this one.
pub async fn take<E: Engine>(
    engine: &E,
    record: &ClusterRecord,
    number: u16,
    by: &Owner,
) -> Result<Option<TakenShard>, EngineError> {
    let is_current = async || Ok::<_, EngineError>(answered(async || engine.cluster().await).await? == Some(*record));
    for _ in 0..TAKE_ATTEMPTS {
        // Checked before taking, so that a late run does not take the shard from a node of a complete cluster.
        if !is_current().await? {
            return Ok(None);
        }
        let known = answered(async || engine.shards().await).await?;
        let seen = known.into_iter().find(|shard| shard.number == number).unwrap_or_else(|| Shard::vacant(number));
        let sent = (EngineOptions::default().clock)();
        if let Some(tenure) = answered(async || engine.take(&seen, by).await).await? {
            // Checked again before changing anything: a run that replaces this one from now on takes the shard after it.
            let taken = TakenShard { tenure, sent, was_left: seen.owner.is_none() };
            return Ok(is_current().await?.then_some(taken));
        }
    }
    Ok(None)
}

/// Larger transactions take longer and are not faster.
const TRANSACTION_BYTES: usize = 1024 * 1024;
const TRANSACTION_CHANGES: usize = 1_000;
/// Bound on the unwritten changes of all shards together: each shard alone may stay below a transaction.
const WAITING_BYTES: usize = 64 * 1024 * 1024;

/// A shard that this process fills.
pub struct FilledShard<'a, E> {
    engine: &'a E,
    tenure: Tenure,
    last: Sequence,
    millis: u64,
    waiting: Changes,
    waiting_bytes: usize,
    /// Everything put into the shard so far.
    pairs: u64,
    bytes: u64,
}

impl<'a, E: Engine> FilledShard<'a, E> {
    /// Once the shard is filled, it contains all batches up to `last`.
    pub fn new(engine: &'a E, tenure: Tenure, last: Sequence, millis: u64) -> Self {
        Self { engine, tenure, last, millis, waiting: Changes::new(), waiting_bytes: 0, pairs: 0, bytes: 0 }
    }

    pub fn number(&self) -> u16 {
        self.tenure.shard().number
    }

    /// Deletes everything in the shard. Returns the version without it if there was something.
    pub async fn empty(&mut self) -> Result<Option<Version>, EngineError> {
        let contents = self.contents().await?;
        let was_empty = contents.is_empty();
        for key in contents.into_keys() {
            self.change(key, None).await?;
        }
        self.write().await?;
        Ok((!was_empty).then(|| self.tenure.shard().version))
    }

    pub async fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), EngineError> {
        self.pairs += 1;
        self.bytes += (key.len() + value.len()) as u64;
        self.change(key, Some(value)).await
    }

    async fn change(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) -> Result<(), EngineError> {
        let bytes = CHANGE_BYTES + key.len() + value.as_ref().map_or(0, Vec::len);
        let is_full = self.waiting_bytes + bytes > TRANSACTION_BYTES || self.waiting.len() >= TRANSACTION_CHANGES;
        if is_full {
            self.write().await?;
        }
        self.waiting_bytes += bytes;
        self.waiting.insert(key, value);
        Ok(())
    }

    /// Writes the pending changes.
    pub async fn write(&mut self) -> Result<(), EngineError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.waiting_bytes = 0;
        let changes = std::mem::take(&mut self.waiting);
        self.commit(&changes).await
    }

    async fn commit(&mut self, changes: &Changes) -> Result<(), EngineError> {
        let Self { engine, tenure, last, millis, .. } = self;
        let transaction = Transaction { last: *last, millis: *millis, changes };
        answered(async || engine.commit(tenure, &transaction).await).await
    }

    async fn contents(&mut self) -> Result<Pairs, EngineError> {
        let (engine, number, version) = (self.engine, self.number(), self.tenure.shard().version);
        match answered(async || engine.load(number, version).await).await {
            // Some engines refuse to load a version older than that of the shard's new owner.
            Err(refused @ EngineError::Refused(_)) => {
                self.commit(&Changes::new()).await?;
                Err(refused)
            }
            loaded => loaded,
        }
    }

    /// Writes the pending changes, then checks that the shard contains exactly what was put into it.
    pub async fn is_complete(&mut self) -> Result<bool, EngineError> {
        self.write().await?;
        // An empty shard records `last` as well: later batches must come after it.
        self.commit(&Changes::new()).await?;
        let pairs = self.contents().await?;
        let bytes: u64 = pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
        Ok((pairs.len() as u64, bytes) == (self.pairs, self.bytes))
    }

    /// Frees the shard: a node that may serve the cluster takes it immediately.
    pub async fn leave(self) -> Result<(), EngineError> {
        let Self { engine, tenure, .. } = self;
        answered(async || engine.leave(&tenure, None).await).await
    }
}

/// Writes the shards with the most pending changes until the total is within `WAITING_BYTES`.
pub async fn relieve<E: Engine>(shards: &mut [FilledShard<'_, E>]) -> Result<(), EngineError> {
    while shards.iter().map(|shard| shard.waiting_bytes).sum::<usize>() > WAITING_BYTES {
        let Some(fullest) = shards.iter_mut().max_by_key(|shard| shard.waiting_bytes) else { return Ok(()) };
        fullest.write().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_engine_is_asked_until_it_answers_or_has_been_silent_for_a_minute() {
        let mut asked = 0;
        let silent = answered(async || {
            asked += 1;
            if asked < 5 { Err(EngineError::Away("gone".to_owned())) } else { Ok(asked) }
        });
        assert_eq!(silent.await.unwrap(), 5);
        let began = Instant::now();
        let never = answered(async || Err::<(), _>(EngineError::Away("gone".to_owned()))).await;
        assert!(matches!(never, Err(EngineError::Away(_))) && began.elapsed() >= PATIENCE);
        let deposed = answered(async || Err::<(), _>(EngineError::Deposed)).await;
        assert!(matches!(deposed, Err(EngineError::Deposed)));
    }

    use std::num::NonZeroU16;

    #[test]
    fn only_a_whole_cluster_of_this_key_and_format_is_served() {
        let ready =
            ClusterRecord { format: FORMAT_NUMBER, shards: NonZeroU16::MIN, key: 7, state: ClusterState::Ready };
        assert!(check(&ready, 7).is_ok());
        assert!(matches!(check(&ready, 8), Err(NotReady::Key)));
        let filled = ClusterRecord { state: ClusterState::Filled { run: 1 }, ..ready };
        assert!(check(&filled, 7).is_ok() && matches!(check(&filled, 8), Err(NotReady::Key)));
        let newer = ClusterRecord { format: FORMAT_NUMBER + 1, ..ready };
        assert!(matches!(check(&newer, 7), Err(NotReady::Format { .. })));
        let filling = ClusterRecord { state: ClusterState::Filling { run: 1 }, ..ready };
        assert!(matches!(check(&filling, 7), Err(NotReady::Filling)));
        let rotating = ClusterRecord { state: ClusterState::Rotating { from: 1, run: None }, ..ready };
        assert!(matches!(check(&rotating, 7), Err(NotReady::Rotating)));
    }
}

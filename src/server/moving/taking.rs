//! All shards of a cluster in the hands of one process, which empties and fills them. Nodes do not serve it meanwhile, so
//! nobody else takes a shard but another process of this kind; whoever comes last goes on, and the other ends.

use store::engine::{CHANGE_BYTES, Engine, EngineError, Owner, Pairs, Shard, Tenure, Transaction, Version};
use store::{Changes, Sequence};

use super::answered::answered;

/// Larger transactions take longer, and are no faster.
const TRANSACTION_BYTES: usize = 1024 * 1024;
const TRANSACTION_CHANGES: usize = 1_000;
/// What waits to be written, of all shards: some have little each.
const WAITING_BYTES: usize = 64 * 1024 * 1024;

/// A shard that this process has taken.
pub struct TakenShard<'a, E> {
    engine: &'a E,
    tenure: Tenure,
    last: Sequence,
    millis: u64,
    waiting: Changes,
    waiting_bytes: usize,
    /// What was put into it.
    pub pairs: u64,
    pub bytes: u64,
}

impl<'a, E: Engine> TakenShard<'a, E> {
    /// `None` if its record is no longer the one that was seen. `last` is the batch up to which it has all batches, once it is
    /// filled.
    pub async fn take(
        engine: &'a E,
        seen: &Shard,
        by: &Owner,
        last: Sequence,
        millis: u64,
    ) -> Result<Option<Self>, EngineError> {
        let tenure = answered(async || engine.take(seen, by).await).await?;
        let of = |tenure| Self {
            engine,
            tenure,
            last,
            millis,
            waiting: Changes::new(),
            waiting_bytes: 0,
            pairs: 0,
            bytes: 0,
        };
        Ok(tenure.map(of))
    }

    pub fn number(&self) -> u16 {
        self.tenure.shard().number
    }

    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Deletes everything in it; the version without it, if there was something.
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

    /// Writes what waits.
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
            // Some engines keep no older version than that of whoever has taken the shard meanwhile.
            Err(refused @ EngineError::Refused(_)) => {
                self.commit(&Changes::new()).await?;
                Err(refused)
            }
            loaded => loaded,
        }
    }

    /// Writes what waits, and whether exactly that lies in the shard which was put into it.
    pub async fn is_complete(&mut self) -> Result<bool, EngineError> {
        self.write().await?;
        // Also a shard without records has all batches: later ones come after them.
        self.commit(&Changes::new()).await?;
        let pairs = self.contents().await?;
        let bytes: u64 = pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
        Ok((pairs.len() as u64, bytes) == (self.pairs, self.bytes))
    }

    /// A node that may serve it takes it at once.
    pub async fn leave(self) -> Result<(), EngineError> {
        let Self { engine, tenure, .. } = self;
        answered(async || engine.leave(&tenure, None).await).await
    }
}

/// Writes the shards with most, until not much is waiting in all.
pub async fn relieve<E: Engine>(shards: &mut [TakenShard<'_, E>]) -> Result<(), EngineError> {
    while shards.iter().map(TakenShard::waiting_bytes).sum::<usize>() > WAITING_BYTES {
        let Some(fullest) = shards.iter_mut().max_by_key(|shard| shard.waiting_bytes()) else { return Ok(()) };
        fullest.write().await?;
    }
    Ok(())
}

//! Moves a data directory into an empty cluster.
//!
//! The cluster's record says that it is being filled, from before the first shard is taken until the last one is
//! complete. The next attempt deletes the remains of an interrupted one.

use std::collections::BTreeSet;
use std::num::NonZeroU16;

use super::engine::{self, FilledShard, NotReady, answered, relieve};
use super::record_owner::{RecordOwner, Scopes, UnownedRecord, owner_of};
use cluster::shard_of;
use domain::Identifier;
use store::engine::{ClusterRecord, ClusterState, Engine, EngineError, Owner, Shard};
use store::{FORMAT_NUMBER, Sequence, Store, StoreError, end_of_prefix, keys};

/// Pairs per read: some hundred kilobytes, rarely more than a megabyte.
const PAIRS_AT_ONCE: usize = 256;
/// How often to retry when the cluster's record changes between reading and replacing it.
const ATTEMPTS: u32 = 5;

/// Why the data was not moved: one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("cluster: {0}; nodes do not start until this import is run again, or given up with --give-up")]
    Engine(EngineError),
    #[error(
        "the engine is full: give the import up with `lockkeeper cluster import --give-up`, which needs no room; then make room, \
         with etcd by a larger --quota-backend-bytes or by `etcdctl compact REVISION`, `etcdctl defrag --cluster` and `etcdctl alarm \
         disarm`, and import again"
    )]
    Full,
    #[error(
        "the engine is full and refuses deletions too: make room, with etcd by `etcdctl compact REVISION`, `etcdctl defrag --cluster` \
         and `etcdctl alarm disarm`, and run this command again"
    )]
    FullToGiveUp,
    #[error(
        "this cluster has data: its nodes have been started, or an import has finished; import into an empty one: another \
         database, or another cluster.etcd_prefix"
    )]
    NotEmpty,
    #[error(
        "the engine has records in shard {shard}, and no record of their cluster; import into an empty one: another database, \
         or another cluster.etcd_prefix"
    )]
    LeftOver { shard: u16 },
    #[error(transparent)]
    NotReady(#[from] NotReady),
    #[error(
        "another import or --give-up has taken the place of this one, which has stopped; wait for the other one, and look at \
         the result with `lockkeeper cluster status`"
    )]
    Replaced,
    #[error(
        "the cluster is not being filled: there is nothing to give up; start its nodes, or import into an empty one"
    )]
    NothingToGiveUp,
    #[error(
        "cannot read the data directory: {0}; check its disk, or restore a backup into another one, and run the import again, or \
         give it up with --give-up"
    )]
    Store(#[from] StoreError),
    #[error("cannot move the data directory: {0}; then run the import again, or give it up with --give-up")]
    Unowned(#[from] UnownedRecord),
    #[error(
        "shard {0} does not have everything that was written to it: the engine has lost something; check its disks and its log, \
         and run the import again"
    )]
    Incomplete(u16),
}

impl From<EngineError> for ImportError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Deposed => Self::Replaced,
            EngineError::Refused(StoreError::EngineFull) => Self::Full,
            error @ (EngineError::Refused(_) | EngineError::Away(_)) => Self::Engine(error),
        }
    }
}

/// The cluster to create.
pub struct Target<'a, E> {
    pub engine: &'a E,
    pub shards: NonZeroU16,
    /// The hash of its master key.
    pub key: u64,
    /// This process.
    pub owner: Owner,
    /// The wall clock.
    pub millis: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    pub organizations: BTreeSet<Identifier>,
    /// Includes deleted environments: their fencing tokens continue if they are created again.
    pub environments: u64,
    pub records: u64,
    pub bytes: u64,
    /// Answers to requests made with tokens that no longer exist.
    pub left_out: u64,
}

impl Totals {
    pub fn count(&mut self, key: &[u8], value: &[u8]) {
        self.records += 1;
        self.bytes += (key.len() + value.len()) as u64;
        self.environments += u64::from(key.starts_with(keys::ENVIRONMENTS));
    }
}

/// Moves everything in the store. `progress` gets the totals so far from time to time.
pub async fn import<E: Engine>(
    target: &Target<'_, E>,
    source: &dyn Store,
    mut progress: impl FnMut(&Totals),
) -> Result<Totals, ImportError> {
    let scopes = Scopes::of(source)?;
    let filling = begin(target).await?;
    let last = *source.durable().borrow();
    let mut shards = take_all(target, &filling, last).await?;
    let mut totals = Totals::default();
    let (mut from, end) = (Vec::new(), end_of_prefix(&[]));
    loop {
        let pairs = source.scan(&from, &end, PAIRS_AT_ONCE)?;
        let is_last = pairs.len() < PAIRS_AT_ONCE;
        if let Some((last, _)) = pairs.last() {
            from = [last.as_slice(), &[0]].concat();
        }
        for (key, value) in pairs {
            match owner_of(&key, &value, &scopes)? {
                RecordOwner::Organization(organization) => {
                    totals.count(&key, &value);
                    let shard = usize::from(shard_of(&organization, target.shards));
                    totals.organizations.insert(organization);
                    shards[shard].put(key, value).await?;
                }
                RecordOwner::Everywhere => {
                    totals.count(&key, &value);
                    for shard in &mut shards {
                        shard.put(key.clone(), value.clone()).await?;
                    }
                }
                RecordOwner::Nobody => totals.left_out += 1,
            }
        }
        relieve(&mut shards).await?;
        progress(&totals);
        if is_last {
            break;
        }
    }
    for shard in &mut shards {
        if !shard.is_complete().await? {
            return Err(ImportError::Incomplete(shard.number()));
        }
    }
    for shard in shards {
        shard.leave().await?;
    }
    // The record names the run, because another import may have replaced this one and finished too.
    let filled = ClusterRecord { state: ClusterState::Filled { run: target.owner.run }, ..filling };
    let done = answered(async || target.engine.replace(&filling, Some(&filled)).await).await?;
    if done { Ok(totals) } else { Err(ImportError::Replaced) }
}

/// Deletes everything that an interrupted import left, so that the cluster is as empty as before it. An import that is
/// still running loses its shards and ends.
pub async fn give_up<E: Engine>(engine: &E) -> Result<(), ImportError> {
    let found = answered(async || engine.cluster().await).await?;
    let Some(filling @ ClusterRecord { state: ClusterState::Filling { .. }, .. }) = found else {
        return Err(ImportError::NothingToGiveUp);
    };
    match answered(async || engine.clear(&filling).await).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(ImportError::Replaced),
        Err(EngineError::Refused(StoreError::EngineFull)) => Err(ImportError::FullToGiveUp),
        Err(error) => Err(error.into()),
    }
}

/// Records that this process is filling the cluster.
async fn begin<E: Engine>(target: &Target<'_, E>) -> Result<ClusterRecord, ImportError> {
    let Target { engine, shards, key, owner, .. } = target;
    let state = ClusterState::Filling { run: owner.run };
    let filling = ClusterRecord { format: FORMAT_NUMBER, shards: *shards, key: *key, state };
    for _ in 0..ATTEMPTS {
        match answered(async || engine.cluster().await).await? {
            None => {
                check_empty(*engine).await?;
                if answered(async || engine.found(&filling).await).await? == filling {
                    return Ok(filling);
                }
            }
            // Left by an interrupted attempt, or by one that ends when it finds its shards taken.
            Some(seen @ ClusterRecord { state: ClusterState::Filling { .. }, .. }) => {
                if answered(async || engine.replace(&seen, Some(&filling)).await).await? {
                    return Ok(filling);
                }
            }
            Some(ClusterRecord { state: ClusterState::Rotating { .. }, .. }) => return Err(NotReady::Rotating.into()),
            Some(ClusterRecord { state: ClusterState::Ready | ClusterState::Filled { .. }, .. }) => {
                return Err(ImportError::NotEmpty);
            }
        }
    }
    Err(ImportError::Replaced)
}

/// Refuses leftover data: if only the cluster's record was removed, the data may still be needed.
async fn check_empty(engine: &impl Engine) -> Result<(), ImportError> {
    for Shard { number, .. } in answered(async || engine.shards().await).await? {
        let copied = answered(async || engine.copy(number).await).await?;
        if copied.is_some_and(|(_, pairs)| !pairs.is_empty()) {
            return Err(ImportError::LeftOver { shard: number });
        }
    }
    Ok(())
}

/// Takes and empties all shards, also those that an attempt with more shards left.
async fn take_all<'a, E: Engine>(
    target: &Target<'a, E>,
    filling: &ClusterRecord,
    last: Sequence,
) -> Result<Vec<FilledShard<'a, E>>, ImportError> {
    let (engine, count) = (target.engine, target.shards.get());
    let mut taken = Vec::new();
    for number in 0..count {
        taken.push(take(target, filling, number, last).await?);
    }
    let mut emptied = Vec::new();
    let known = answered(async || engine.shards().await).await?;
    for Shard { number, .. } in known.into_iter().filter(|shard| shard.number >= count) {
        let mut other = take(target, filling, number, Sequence(0)).await?;
        emptied.extend(other.empty().await?);
        other.leave().await?;
    }
    for shard in &mut taken {
        emptied.extend(shard.empty().await?);
    }
    // Without this, the data of every attempt would stay in the engine's history until the engine is full.
    if let Some(last) = emptied.into_iter().max() {
        answered(async || engine.forget(last).await).await?;
    }
    Ok(taken)
}

async fn take<'a, E: Engine>(
    target: &Target<'a, E>,
    filling: &ClusterRecord,
    number: u16,
    last: Sequence,
) -> Result<FilledShard<'a, E>, ImportError> {
    let taken = engine::take(target.engine, filling, number, &target.owner).await?.ok_or(ImportError::Replaced)?;
    Ok(FilledShard::new(target.engine, taken.tenure, last, target.millis))
}

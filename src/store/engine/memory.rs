//! An in-memory engine for tests. Several nodes share one [`Cluster`]; each has its own engine, which loses answers,
//! delivers late and refuses as configured, driven by a seed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::contract::{Engine, EngineError, Limits, Pairs, Room};
use super::membership::{ClusterRecord, NodeRecord};
use super::shard::{Shard, Version, resolve};
use crate::batch::Changes;
use crate::contract::StoreError;
use crate::log::Random;

/// The state shared by all nodes.
#[derive(Default)]
pub struct Cluster {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cluster: Option<ClusterRecord>,
    nodes: BTreeMap<String, NodeRecord>,
    shards: BTreeMap<u16, (Shard, Pairs)>,
    version: u64,
    /// Requests that their sender has given up but that may still arrive.
    late: VecDeque<Write>,
    is_full: bool,
    writes: u64,
    /// No version before this one can be loaded.
    forgotten: Version,
}

/// A transaction in flight.
#[derive(Clone)]
struct Write {
    compared: Version,
    record: Shard,
    changes: Changes,
}

/// The faults between a node and the engine: the percentage of writes that are lost before or after they take effect,
/// or that arrive after they were given up.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub lost_before_percent: u64,
    pub lost_after_percent: u64,
    pub late_percent: u64,
    /// Each request and each answer lets other tasks run up to this many times.
    pub delays: u64,
    pub is_away: bool,
    pub refuses_compares: bool,
}

pub struct MemoryEngine {
    cluster: Arc<Cluster>,
    network: Mutex<Network>,
    limits: Limits,
}

struct Network {
    random: Random,
    faults: Faults,
}

/// The fate of one request.
struct Fate {
    delay_before: u64,
    delay_after: u64,
    delivery: Delivery,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Answered,
    LostBefore,
    LostAfter,
    Late,
}

impl Cluster {
    /// Sets whether the engine is full.
    pub fn set_full(&self, is_full: bool) {
        self.state.lock().is_full = is_full;
    }

    /// Number of transactions written so far.
    pub fn writes(&self) -> u64 {
        self.state.lock().writes
    }

    /// The version before which everything was forgotten.
    pub fn forgotten(&self) -> Version {
        self.state.lock().forgotten
    }

    pub fn shard(&self, number: u16) -> Option<Shard> {
        self.state.lock().shards.get(&number).map(|(shard, _)| shard.clone())
    }
}

impl MemoryEngine {
    pub fn of(cluster: &Arc<Cluster>, seed: u64, faults: Faults) -> MemoryEngine {
        let limits = Limits { changes: 4095, bytes: 4 * 1024 * 1024 };
        MemoryEngine::with_limits(cluster, seed, faults, limits)
    }

    pub fn with_limits(cluster: &Arc<Cluster>, seed: u64, faults: Faults, limits: Limits) -> MemoryEngine {
        let network = Mutex::new(Network { random: Random::new(seed), faults });
        MemoryEngine { cluster: cluster.clone(), network, limits }
    }

    pub fn set_faults(&self, faults: Faults) {
        self.network.lock().faults = faults;
    }

    async fn send(&self, write: Write) -> Result<Result<Version, Option<Box<Shard>>>, EngineError> {
        let fate = self.network.lock().fate();
        let refuses_compares = self.network.lock().faults.refuses_compares;
        pass(fate.delay_before).await;
        let written = {
            let mut state = self.cluster.state.lock();
            match fate.delivery {
                Delivery::LostBefore => return Err(lost()),
                Delivery::Late => {
                    state.late.push_back(write);
                    return Err(lost());
                }
                Delivery::Answered | Delivery::LostAfter => {}
            }
            state.room()?;
            let compared = if refuses_compares { Version(u64::MAX) } else { write.compared };
            let written = state.write(&Write { compared, ..write });
            // Requests that were given up may arrive after later ones.
            if self.network.lock().random.below(2) == 0
                && let Some(late) = state.late.pop_front()
            {
                let _ = state.write(&late);
            }
            written
        };
        pass(fate.delay_after).await;
        if fate.delivery == Delivery::LostAfter { Err(lost()) } else { Ok(written) }
    }

    async fn read<T>(&self, read: impl FnOnce(&mut State) -> T) -> Result<T, EngineError> {
        let fate = self.network.lock().fate();
        pass(fate.delay_before + fate.delay_after).await;
        if fate.delivery == Delivery::Answered { Ok(read(&mut self.cluster.state.lock())) } else { Err(lost()) }
    }
}

fn lost() -> EngineError {
    EngineError::Away("the test has lost the answer".to_owned())
}

async fn pass(times: u64) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

impl Network {
    fn fate(&mut self) -> Fate {
        let Faults { lost_before_percent, lost_after_percent, late_percent, delays, is_away, refuses_compares: _ } =
            self.faults;
        let [before, after] = [(); 2].map(|()| self.random.below(delays + 1));
        let drawn = self.random.below(100);
        let delivery = if is_away || drawn < lost_before_percent {
            Delivery::LostBefore
        } else if drawn < lost_before_percent + lost_after_percent {
            Delivery::LostAfter
        } else if drawn < lost_before_percent + lost_after_percent + late_percent {
            Delivery::Late
        } else {
            Delivery::Answered
        };
        Fate { delay_before: before, delay_after: after, delivery }
    }
}

impl State {
    /// Fails if the cluster is full, like an etcd that accepts only deletions.
    fn room(&self) -> Result<(), EngineError> {
        if self.is_full { Err(EngineError::Refused(StoreError::EngineFull)) } else { Ok(()) }
    }

    /// The new version, or the record if its version differs from the compared one.
    fn write(&mut self, write: &Write) -> Result<Version, Option<Box<Shard>>> {
        let number = write.record.number;
        let found = self.shards.get(&number).map(|(shard, _)| shard);
        if found.map_or(Version(0), |shard| shard.version) != write.compared {
            return Err(found.cloned().map(Box::new));
        }
        self.version += 1;
        self.writes += 1;
        let version = Version(self.version);
        let (shard, pairs) = self.shards.entry(number).or_insert_with(|| (Shard::vacant(number), Pairs::new()));
        *shard = Shard { version, ..write.record.clone() };
        for (key, value) in &write.changes {
            match value {
                Some(value) => pairs.insert(key.clone(), value.clone()),
                None => pairs.remove(key),
            };
        }
        Ok(version)
    }
}

impl Engine for MemoryEngine {
    async fn probe(&self) -> Result<(), EngineError> {
        self.read(|_| ()).await
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    async fn found(&self, cluster: &ClusterRecord) -> Result<ClusterRecord, EngineError> {
        self.read(|state| state.room().map(|()| *state.cluster.get_or_insert(*cluster))).await?
    }

    async fn cluster(&self) -> Result<Option<ClusterRecord>, EngineError> {
        self.read(|state| state.cluster).await
    }

    async fn replace(&self, seen: &ClusterRecord, next: Option<&ClusterRecord>) -> Result<bool, EngineError> {
        self.read(|state| {
            // A removal needs no room.
            if next.is_some() {
                state.room()?;
            }
            if state.cluster == Some(*seen) {
                state.cluster = next.copied();
            }
            Ok(state.cluster == next.copied())
        })
        .await?
    }

    async fn clear(&self, seen: &ClusterRecord) -> Result<bool, EngineError> {
        self.read(|state| {
            if state.cluster == Some(*seen) {
                state.cluster = None;
                state.shards.clear();
                state.forgotten = Version(state.version);
            }
            state.cluster.is_none()
        })
        .await
    }

    async fn announce(&self, node: &NodeRecord) -> Result<(), EngineError> {
        self.read(|state| {
            state.version += 1;
            let version = Version(state.version);
            state.nodes.insert(node.node.clone(), NodeRecord { version, ..node.clone() });
        })
        .await
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, EngineError> {
        self.read(|state| state.nodes.values().cloned().collect()).await
    }

    async fn shards(&self) -> Result<Vec<Shard>, EngineError> {
        self.read(|state| state.shards.values().map(|(shard, _)| shard.clone()).collect()).await
    }

    /// Loads the newest version, the only one kept.
    async fn load(&self, number: u16, at: Version) -> Result<Pairs, EngineError> {
        let found = self.read(|state| state.shards.get(&number).cloned()).await?;
        match found {
            Some((shard, pairs)) if shard.version == at => Ok(pairs),
            _ => Err(EngineError::Refused(StoreError::Engine("this version is forgotten".to_owned()))),
        }
    }

    async fn copy(&self, number: u16) -> Result<Option<(Shard, Pairs)>, EngineError> {
        self.read(|state| state.shards.get(&number).cloned()).await
    }

    async fn write(
        &self,
        compared: Version,
        record: &Shard,
        changes: &Changes,
    ) -> Result<Option<Version>, EngineError> {
        if changes.len() > self.limits.changes {
            let limit = self.limits.changes;
            return Err(EngineError::Refused(StoreError::TooManyChanges { changes: changes.len(), limit }));
        }
        let write = Write { compared, record: record.clone(), changes: changes.clone() };
        Ok(match self.send(write).await? {
            Ok(version) => Some(version),
            Err(found) => resolve(record, found.as_deref()),
        })
    }

    async fn room(&self) -> Result<Room, EngineError> {
        self.read(|state| Room { used_bytes: 0, quota_bytes: 1 << 30, is_exhausted: state.is_full }).await
    }

    /// Records the version; older ones are not kept anyway.
    async fn forget(&self, before: Version) -> Result<(), EngineError> {
        self.read(|state| state.forgotten = state.forgotten.max(before)).await
    }
}

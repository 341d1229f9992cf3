//! Shard ownership of several nodes on one in-memory engine.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::{ShardOwnership, ShardOwnershipOptions, TakenShard, View};
use store::engine::memory::{Cluster, Faults, MemoryEngine};
use store::engine::{Owner, Timing};
use store::{Batch, EngineOptions, EngineStore, Store, StoreError, commit_durably};

const SHARDS: u16 = 6;
/// Longer than anything here takes; a test that waits longer fails.
const LONGEST: Duration = Duration::from_secs(60);

struct Node {
    engine: Arc<MemoryEngine>,
    ownership: JoinHandle<()>,
    view: watch::Receiver<View>,
    taken: mpsc::Receiver<TakenShard>,
    stores: BTreeMap<u16, EngineStore>,
}

impl Node {
    fn start(cluster: &Arc<Cluster>, run: u128, faults: Faults, timing: Timing) -> Self {
        let engine = Arc::new(MemoryEngine::of(cluster, run as u64, faults));
        let name = format!("n{run}");
        let options = ShardOwnershipOptions {
            own: Owner { url: format!("http://{name}"), node: name, run },
            program: "test".to_owned(),
            shards: NonZeroU16::new(SHARDS).unwrap(),
            store: EngineOptions { timing, fatal: Arc::new(|_: &str| {}), ..EngineOptions::default() },
        };
        let (ownership, view, taken) = ShardOwnership::new(engine.clone(), options);
        Self { engine, ownership: tokio::spawn(ownership.run()), view, taken, stores: BTreeMap::new() }
    }

    /// Opens shards until the node has this many.
    async fn until_it_has(&mut self, count: usize) {
        while self.stores.len() < count {
            let taken = tokio::time::timeout(LONGEST, self.taken.recv()).await.unwrap().unwrap();
            self.stores.insert(taken.number, taken.store);
        }
    }

    async fn until_it_sees(&mut self, what: impl FnMut(&View) -> bool) -> View {
        tokio::time::timeout(LONGEST, self.view.wait_for(what)).await.unwrap().unwrap().clone()
    }

    /// Stops the node like `kill -9`: nothing more is sent.
    fn kill(self) {
        self.ownership.abort();
        self.stores.into_values().for_each(EngineStore::abandon);
    }
}

fn put(key: &str, value: &str) -> Batch {
    let mut batch = Batch::default();
    batch.put(key.as_bytes(), value.as_bytes());
    batch
}

fn owners(view: &View) -> BTreeSet<&str> {
    view.shards.iter().filter_map(|shard| Some(shard.owner.as_ref()?.node.as_str())).collect()
}

fn all_owned(view: &View) -> bool {
    view.shards.len() == usize::from(SHARDS) && view.shards.iter().all(|shard| shard.owner.is_some())
}

#[tokio::test]
async fn one_node_takes_everything_and_another_takes_it_over_when_it_is_killed() {
    // The timing is slow enough that a stalled machine does not make an owner look dead.
    let (cluster, timing) = (Arc::new(Cluster::default()), Timing::default());
    let mut first = Node::start(&cluster, 1, Faults::default(), timing);
    first.until_it_has(SHARDS.into()).await;
    for (number, store) in &first.stores {
        commit_durably(store, put("shard", &number.to_string())).await.unwrap();
    }
    let mut second = Node::start(&cluster, 2, Faults::default(), timing);
    let view = second.until_it_sees(|view| all_owned(view) && view.nodes.len() == 2).await;
    assert_eq!(owners(&view), BTreeSet::from(["n1"]), "a living owner keeps its shards");
    first.kill();
    second.until_it_has(SHARDS.into()).await;
    for (number, store) in &second.stores {
        assert_eq!(store.get(b"shard").unwrap(), Some(number.to_string().into_bytes()));
        assert!(store.lease_left().is_some());
    }
    let view = second.until_it_sees(|view| owners(view) == BTreeSet::from(["n2"]) && all_owned(view)).await;
    let lives: Vec<_> = view.nodes.iter().map(|node| (node.record.node.as_str(), node.lives)).collect();
    assert!(lives.contains(&("n2", true)), "{lives:?}");
    assert!(view.shards.iter().all(|shard| shard.epoch == 2));
}

#[tokio::test]
async fn a_shard_that_was_left_is_had_at_once_by_the_node_that_it_was_left_to() {
    let (cluster, timing) = (Arc::new(Cluster::default()), Timing::default());
    let mut first = Node::start(&cluster, 1, Faults::default(), timing);
    first.until_it_has(SHARDS.into()).await;
    let mut second = Node::start(&cluster, 2, Faults::default(), timing);
    second.until_it_sees(all_owned).await;
    for store in first.stores.values() {
        store.leave(Some("n2"));
        assert!(matches!(store.commit(put("a", "b")), Err(StoreError::Closed)));
    }
    second.until_it_has(SHARDS.into()).await;
}

#[tokio::test]
async fn an_owner_that_is_cut_off_loses_its_lease_and_then_its_shards() {
    let (cluster, timing) = (Arc::new(Cluster::default()), Timing::times_faster(5));
    let mut first = Node::start(&cluster, 1, Faults::default(), timing);
    first.until_it_has(SHARDS.into()).await;
    let mut second = Node::start(&cluster, 2, Faults::default(), timing);
    second.until_it_sees(all_owned).await;
    first.engine.set_faults(Faults { is_away: true, ..Faults::default() });
    first.until_it_sees(|view| view.engine_away.is_some()).await;
    while let Some(taken) = tokio::time::timeout(LONGEST, second.taken.recv()).await.unwrap() {
        assert_eq!(first.stores[&taken.number].lease_left(), None, "its owner had stopped before");
        second.stores.insert(taken.number, taken.store);
        if second.stores.len() == usize::from(SHARDS) {
            break;
        }
    }
    first.engine.set_faults(Faults::default());
    let store = &first.stores[&0];
    let mut durable = store.durable();
    tokio::time::timeout(LONGEST, durable.wait_for(|_| false)).await.unwrap().unwrap_err();
    assert!(matches!(store.get(b"shard"), Err(StoreError::Deposed)));
}

#[tokio::test]
async fn with_an_engine_that_loses_answers_every_shard_has_an_owner_in_the_end() {
    let cluster = Arc::new(Cluster::default());
    let faults = Faults { lost_before_percent: 5, lost_after_percent: 5, late_percent: 5, ..Faults::default() };
    let mut nodes: Vec<_> = (1..=3).map(|run| Node::start(&cluster, run, faults, Timing::times_faster(5))).collect();
    nodes[0].until_it_sees(all_owned).await;
    nodes.into_iter().for_each(Node::kill);
}

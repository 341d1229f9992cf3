//! The shards of a cluster from the view of a node: local realms, owners of other shards, this node's shards and how it
//! gives them up, and when the engine forgets old versions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::app::host::ShardHost;
use crate::app::realm::LiveRealm;
use crate::http::{NodeSeen, Overview, Peer, Realm, ShardSeen, Shards, Whereabouts};
use cluster::{Balance, SeenNode, View, best, shard_of};
use domain::Identifier;
use store::EngineStore;
use store::engine::{Engine, Shard, Version};

/// The owner of this shard makes the engine forget old versions of all shards.
const FORGETTING_SHARD: u16 = 0;
/// How long handing over a shard waits for its requests.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// A shard of this node.
#[derive(Clone)]
pub struct OwnedStore {
    pub number: u16,
    pub store: Arc<EngineStore>,
    /// After this time, no step of an earlier owner can be running.
    pub steps_over_at: Option<Instant>,
}

/// A shard with its realm.
pub struct OwnedShard {
    pub owned: OwnedStore,
    pub live: LiveRealm,
}

impl OwnedStore {
    /// A node that takes a shard marked as left assumes that no steps of it are running.
    fn may_be_left(&self, now: Instant) -> bool {
        self.steps_over_at.is_none_or(|over| over <= now)
    }
}

pub struct OwnedShards<E> {
    engine: Arc<E>,
    view: watch::Receiver<View>,
    map: Arc<ShardMap>,
    /// The name of this node.
    own: String,
    shards: Vec<OwnedShard>,
    /// Taken, but without a realm yet.
    opening: BTreeMap<u16, OwnedStore>,
    versions: SeenVersions,
    balance: Balance,
}

impl<E: Engine> OwnedShards<E> {
    pub fn new(engine: Arc<E>, view: watch::Receiver<View>, map: Arc<ShardMap>, own: String) -> Self {
        let (versions, balance) = (SeenVersions::default(), Balance::default());
        Self { engine, view, map, own, shards: Vec::new(), opening: BTreeMap::new(), versions, balance }
    }

    /// Registers a taken shard. It is given up with the others even if its realm is never opened.
    pub fn opens(&mut self, owned: OwnedStore) {
        self.opening.insert(owned.number, owned);
    }

    pub fn add(&mut self, shard: OwnedShard) {
        self.opening.remove(&shard.owned.number);
        self.map.add(shard.owned.number, shard.live.realm.clone());
        self.shards.push(shard);
    }

    /// Makes stores refuse writes before the engine is full, and forgets versions that nobody needs any more.
    pub async fn tend(&mut self) {
        metrics::gauge!("lockkeeper_shards_owned").set(self.shards.len() as f64);
        let left = self.shards.iter().map(|shard| shard.owned.store.lease_left().unwrap_or_default()).min();
        metrics::gauge!("lockkeeper_lease_left_seconds").set(left.unwrap_or_default().as_secs_f64());
        // The `ShardOwnership` reports an unreachable engine.
        if let Ok(room) = self.engine.room().await {
            metrics::gauge!("lockkeeper_engine_bytes").set(room.used_bytes as f64);
            self.shards.iter().for_each(|shard| shard.owned.store.heed(room));
        }
        let now = Instant::now();
        let newest = self.view.borrow().shards.iter().map(|shard| shard.version).max();
        self.versions.saw(newest.unwrap_or(Version(0)), now);
        let Some(version) = self.versions.next_to_forget(now) else { return };
        if !self.shards.iter().any(|shard| shard.owned.number == FORGETTING_SHARD) {
            return;
        }
        if let Err(error) = self.engine.forget(version).await {
            tracing::debug!(%error, "cannot forget old versions; the next round tries again");
        }
    }

    /// Hands one shard over to the node that should own it, if there is one. Not while steps run here, which would be
    /// interrupted.
    pub async fn hand_over_one(&mut self, host: &ShardHost<'_>) {
        let now = Instant::now();
        let may_be_left = self.shards.iter().filter(|shard| shard.owned.may_be_left(now));
        let numbers: Vec<_> = may_be_left.map(|shard| shard.owned.number).collect();
        let due = {
            let view = self.view.borrow();
            let living: Vec<_> = living(&view).collect();
            self.balance.next(&self.own, &numbers, &living, now.into_std())
        };
        let Some((number, successor)) = due.filter(|_| host.runner.running() + host.runner.waiting() == 0) else {
            return;
        };
        let Some(place) = self.shards.iter().position(|shard| shard.owned.number == number) else { return };
        tracing::info!(shard = number, successor, "handing a shard over to the node that should own it");
        let OwnedShard { owned, mut live } = self.shards.swap_remove(place);
        self.map.remove(number);
        live.wind_down();
        live.realm.environments.send_waiters_away();
        host.runner_hosts.remove(number);
        live.settle(ANSWERED_WITHIN).await;
        live.write_last().await;
        tokio::task::spawn_blocking(move || owned.store.leave(Some(&successor))).await.ok();
    }

    /// Stops background work in all shards and answers the requests in progress; new ones wait for the next owners.
    pub async fn settle(&mut self, patience: Duration) {
        for shard in &self.shards {
            self.map.remove(shard.owned.number);
            shard.live.wind_down();
            shard.live.realm.environments.send_waiters_away();
        }
        let patience = patience.min(ANSWERED_WITHIN);
        join_all(self.shards.iter_mut().map(|shard| shard.live.settle(patience))).await;
    }

    /// Writes the remaining changes, and gives up all shards, each to the living node that should own it. Stays the
    /// recorded owner of shards where steps may still run, of this node unless they are `gone`, or of an earlier owner:
    /// whoever takes a shard marked as left does not wait for them.
    pub async fn give_up(self, gone: bool) {
        let now = Instant::now();
        join_all(self.shards.iter().map(|shard| shard.live.write_last())).await;
        let view = self.view.borrow().clone();
        let others: Vec<_> = living(&view).filter(|node| *node != self.own).collect();
        let all = self.shards.into_iter().map(|shard| shard.owned).chain(self.opening.into_values());
        let ending = all.map(|owned| {
            let (is_left, successor) = (gone && owned.may_be_left(now), best(owned.number, &others).map(str::to_owned));
            let OwnedStore { store, .. } = owned;
            tokio::task::spawn_blocking(move || if is_left { store.leave(successor.as_deref()) } else { store.close() })
        });
        join_all(ending).await;
    }
}

fn living(view: &View) -> impl Iterator<Item = &str> {
    view.nodes.iter().filter(|seen| seen.lives).map(|seen| seen.record.node.as_str())
}

pub struct ShardMap {
    shards: NonZeroU16,
    /// The run of this process.
    run: u128,
    here: RwLock<BTreeMap<u16, Arc<Realm>>>,
    view: watch::Receiver<View>,
}

impl ShardMap {
    pub fn new(shards: NonZeroU16, run: u128, view: watch::Receiver<View>) -> Self {
        Self { shards, run, here: RwLock::default(), view }
    }

    pub fn add(&self, number: u16, realm: Arc<Realm>) {
        self.here.write().insert(number, realm);
    }

    /// From now on, requests for the shard wait until another node has it.
    pub fn remove(&self, number: u16) {
        self.here.write().remove(&number);
    }

    fn place(&self, number: u16, shard: Option<&Shard>) -> Whereabouts {
        if let Some(realm) = self.here.read().get(&number) {
            return Whereabouts::Here(realm.clone());
        }
        match shard.and_then(|shard| Some((shard, shard.owner.as_ref()?))) {
            // A shard of this process that has no realm is being opened.
            Some((shard, owner)) if owner.run != self.run => {
                Whereabouts::At(Peer { node: owner.node.clone(), url: owner.url.clone(), epoch: shard.epoch })
            }
            Some(_) | None => Whereabouts::Nowhere,
        }
    }
}

impl Shards for ShardMap {
    fn number_of(&self, organization: &str) -> u16 {
        Identifier::parse(organization).map_or(0, |id| shard_of(&id, self.shards))
    }

    fn overview(&self) -> Overview {
        let view = self.view.borrow();
        let nodes = view.nodes.iter().map(|SeenNode { record, lives }| NodeSeen {
            node: record.node.clone(),
            version: record.program.clone(),
            lives: *lives,
        });
        let shards = view
            .shards
            .iter()
            .map(|shard| ShardSeen { owner: shard.owner.as_ref().map(|owner| owner.node.clone()), epoch: shard.epoch });
        Overview { nodes: nodes.collect(), shards: shards.collect() }
    }

    /// For invalid names any shard will do: they are unknown everywhere.
    fn of(&self, organization: &str) -> Whereabouts {
        let number = self.number_of(organization);
        let view = self.view.borrow();
        self.place(number, view.shards.get(usize::from(number)))
    }

    fn everywhere(&self) -> Vec<Whereabouts> {
        let view = self.view.borrow();
        let mut asked = BTreeSet::new();
        let places = (0..self.shards.get()).map(|number| self.place(number, view.shards.get(usize::from(number))));
        let once = |place: &Whereabouts| match place {
            Whereabouts::Here(_) => true,
            Whereabouts::At(peer) => asked.insert(peer.url.clone()),
            Whereabouts::Nowhere => false,
        };
        places.filter(once).collect()
    }

    fn moved(&self) -> BoxFuture<'static, ()> {
        let mut view = self.view.clone();
        view.mark_unchanged();
        // The sender lives as long as the node.
        async move { drop(view.changed().await) }.boxed()
    }

    fn unready(&self) -> Option<String> {
        let view = self.view.borrow();
        if let Some(why) = &view.engine_away {
            return Some(why.clone());
        }
        if view.shards.is_empty() {
            return Some("this node has not seen the shards yet".to_owned());
        }
        let is_nowhere = |shard: &&Shard| {
            view.lapsed.contains(&shard.number) || matches!(self.place(shard.number, Some(shard)), Whereabouts::Nowhere)
        };
        let without: Vec<_> = view.shards.iter().filter(is_nowhere).map(|shard| shard.number.to_string()).collect();
        (!without.is_empty()).then(|| format!("these shards are being taken over: {}", without.join(", ")))
    }
}

/// Longer than loading a shard takes. A slower node starts over with a newer version.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// The newest versions at several times.
#[derive(Default)]
struct SeenVersions {
    seen: VecDeque<(Instant, Version)>,
    forgotten: Version,
}

impl SeenVersions {
    fn saw(&mut self, newest: Version, now: Instant) {
        if self.seen.back().is_none_or(|(_, last)| *last < newest) {
            self.seen.push_back((now, newest));
        }
    }

    /// The version before which everything can now be forgotten, if there is any progress.
    fn next_to_forget(&mut self, now: Instant) -> Option<Version> {
        let mut found = None;
        while self.seen.front().is_some_and(|(seen, _)| now - *seen >= REMEMBERED_FOR) {
            found = self.seen.pop_front().map(|(_, version)| version);
        }
        let found = found.filter(|version| *version > self.forgotten)?;
        self.forgotten = found;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use store::EngineOptions;
    use store::engine::memory::{Cluster, Faults, MemoryEngine};
    use store::engine::{Moment, Owner, Shard};

    #[tokio::test]
    async fn a_shard_is_not_left_while_steps_of_an_earlier_owner_may_run() {
        let engine = Arc::new(MemoryEngine::of(&Arc::new(Cluster::default()), 1, Faults::default()));
        let by = Owner { node: "n1".to_owned(), url: String::new(), run: 1 };
        let tenure = engine.take(&Shard::vacant(0), &by).await.unwrap().unwrap();
        let store = Arc::new(EngineStore::open(engine, tenure, Moment(0), EngineOptions::default()).await.unwrap());
        let now = Instant::now();
        let over = |steps_over_at| OwnedStore { number: 0, store: store.clone(), steps_over_at }.may_be_left(now);
        assert_eq!((over(None), over(Some(now)), over(Some(now + Duration::from_secs(1)))), (true, true, false));
    }

    #[test]
    fn versions_are_forgotten_when_nobody_can_be_loading_them() {
        let (mut versions, start) = (SeenVersions::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for (second, version) in [(0, 5), (20, 5), (30, 9), (70, 12)] {
            versions.saw(Version(version), at(second));
        }
        assert_eq!(versions.next_to_forget(at(59)), None);
        assert_eq!(versions.next_to_forget(at(60)), Some(Version(5)));
        assert_eq!(versions.next_to_forget(at(80)), None);
        assert_eq!(versions.next_to_forget(at(200)), Some(Version(12)));
        assert_eq!(versions.next_to_forget(at(300)), None);
    }
}

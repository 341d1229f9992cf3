//! The shards that this node owns: what they need from time to time, and how they are given up.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::Instant;

use super::shard_map::ShardMap;
use super::versions::SeenVersions;
use crate::app::live_realm::LiveRealm;
use crate::app::opening::Steps;
use crate::cluster::{Balance, View, best};
use crate::store::EngineStore;
use crate::store::engine::{Engine, Version};

/// The owner of this shard forgets old versions for all.
const FORGETTING_SHARD: u16 = 0;
/// How long a shard that is handed over waits for its requests.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

/// A shard of this node, and its realm.
pub struct OwnedShard {
    pub number: u16,
    pub store: Arc<EngineStore>,
    pub live: LiveRealm,
}

pub struct OwnedShards<E> {
    engine: Arc<E>,
    view: watch::Receiver<View>,
    map: Arc<ShardMap>,
    /// The name of this node.
    own: String,
    shards: Vec<OwnedShard>,
    versions: SeenVersions,
    balance: Balance,
}

impl<E: Engine> OwnedShards<E> {
    pub fn new(engine: Arc<E>, view: watch::Receiver<View>, map: Arc<ShardMap>, own: String) -> Self {
        let (versions, balance) = (SeenVersions::default(), Balance::default());
        Self { engine, view, map, own, shards: Vec::new(), versions, balance }
    }

    pub fn add(&mut self, shard: OwnedShard) {
        self.map.add(shard.number, shard.live.realm.clone());
        self.shards.push(shard);
    }

    /// Refuses writes before the engine is full, and forgets what nobody needs any more.
    pub async fn tend(&mut self) {
        metrics::gauge!("lockkeeper_shards_owned").set(self.shards.len() as f64);
        let left = self.shards.iter().map(|shard| shard.store.lease_left().unwrap_or_default()).min();
        metrics::gauge!("lockkeeper_lease_left_seconds").set(left.unwrap_or_default().as_secs_f64());
        // An engine that does not answer is reported by the steward.
        if let Ok(room) = self.engine.room().await {
            metrics::gauge!("lockkeeper_engine_bytes").set(room.used_bytes as f64);
            self.shards.iter().for_each(|shard| shard.store.heed(room));
        }
        let now = Instant::now();
        let newest = self.view.borrow().shards.iter().map(|shard| shard.version).max();
        self.versions.saw(newest.unwrap_or(Version(0)), now);
        let Some(version) = self.versions.next_to_forget(now) else { return };
        if !self.shards.iter().any(|shard| shard.number == FORGETTING_SHARD) {
            return;
        }
        if let Err(error) = self.engine.forget(version).await {
            tracing::debug!(%error, "cannot forget old versions; the next round tries again");
        }
    }

    /// Gives a shard to the node that should rather own it, if there is one. Not while steps run here: they would be
    /// interrupted.
    pub async fn hand_over_one(&mut self, steps: &Steps) {
        let numbers: Vec<_> = self.shards.iter().map(|shard| shard.number).collect();
        let due = {
            let view = self.view.borrow();
            let living: Vec<_> = living(&view).collect();
            self.balance.next(&self.own, &numbers, &living, Instant::now().into_std())
        };
        let Some((number, successor)) = due.filter(|_| steps.runner.running() + steps.runner.waiting() == 0) else {
            return;
        };
        let Some(place) = self.shards.iter().position(|shard| shard.number == number) else { return };
        tracing::info!(shard = number, successor, "handing a shard over to the node that should own it");
        let OwnedShard { store, mut live, .. } = self.shards.swap_remove(place);
        self.map.remove(number);
        live.wind_down();
        live.realm.environments.send_waiters_away();
        steps.hosts.remove(number);
        live.settle(ANSWERED_WITHIN).await;
        live.write_last().await;
        tokio::task::spawn_blocking(move || store.leave(Some(&successor))).await.ok();
    }

    /// Begins nothing more in any of them, and answers the requests under way; new ones wait for the next owners.
    pub async fn settle(&mut self, patience: Duration) {
        for shard in &self.shards {
            self.map.remove(shard.number);
            shard.live.wind_down();
            shard.live.realm.environments.send_waiters_away();
        }
        let patience = patience.min(ANSWERED_WITHIN);
        join_all(self.shards.iter_mut().map(|shard| shard.live.settle(patience))).await;
    }

    /// Writes what is left to write, and stays the owner for whoever takes over.
    pub async fn close(self) {
        join_all(self.shards.iter().map(|shard| shard.live.write_last())).await;
        let close = |shard: OwnedShard| tokio::task::spawn_blocking(move || shard.store.close());
        join_all(self.shards.into_iter().map(close)).await;
    }

    /// Gives up all shards, each to the living node that should own it.
    pub async fn leave(self) {
        join_all(self.shards.iter().map(|shard| shard.live.write_last())).await;
        let leaving: Vec<_> = {
            let view = self.view.borrow();
            let others: Vec<_> = living(&view).filter(|node| *node != self.own).collect();
            let with_successor = |shard: OwnedShard| (best(shard.number, &others).map(str::to_owned), shard.store);
            self.shards.into_iter().map(with_successor).collect()
        };
        let leave = |(successor, store): (Option<String>, Arc<EngineStore>)| {
            tokio::task::spawn_blocking(move || store.leave(successor.as_deref()))
        };
        join_all(leaving.into_iter().map(leave)).await;
    }
}

fn living(view: &View) -> impl Iterator<Item = &str> {
    view.nodes.iter().filter(|seen| seen.lives).map(|seen| seen.record.node.as_str())
}

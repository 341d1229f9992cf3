//! The realms of this node, and the owners of the other shards as it sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::http::{NodeSeen, Overview, Peer, Realm, ShardSeen, Shards, Surveyed, Whereabouts};
use cluster::{SeenNode, View, shard_of};
use domain::Identifier;
use store::engine::Shard;

pub struct ShardMap {
    shards: NonZeroU16,
    /// Of this process.
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

    /// Requests for it wait from now on for another node to have it.
    pub fn remove(&self, number: u16) {
        self.here.write().remove(&number);
    }

    pub fn realms(&self) -> Vec<Arc<Realm>> {
        self.here.read().values().cloned().collect()
    }

    fn place(&self, number: u16, shard: Option<&Shard>) -> Whereabouts {
        if let Some(realm) = self.here.read().get(&number) {
            return Whereabouts::Here(realm.clone());
        }
        match shard.and_then(|shard| Some((shard, shard.owner.as_ref()?))) {
            // A shard of this process without a realm is being opened.
            Some((shard, owner)) if owner.run != self.run => {
                Whereabouts::At(Peer { node: owner.node.clone(), url: owner.url.clone(), epoch: shard.epoch })
            }
            Some(_) | None => Whereabouts::Nowhere,
        }
    }
}

impl Surveyed for ShardMap {
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
}

impl Shards for ShardMap {
    /// A name that no organization can have is as unknown in one shard as in any other.
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

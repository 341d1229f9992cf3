//! Keeps a node in the cluster: writes its record, watches the others, and takes free shards.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use super::sightings::{Sightings, Wish};
use ambient::backoff::{Backoff, Retries};
use store::engine::{Engine, EngineError, Moment, NodeRecord, Owner, Pairs, Shard, Tenure, Version};
use store::{EngineOptions, EngineStore};

/// The attempts to take a shard when answers are lost; afterwards, the shard's record shows the outcome. The pauses are
/// short, since the lease has already begun.
const TAKE_ATTEMPTS: u32 = 3;
const TAKE_BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(200));
/// The pauses before loading a shard again after a failure: each attempt requests the whole shard.
const LOAD_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// A node's name and address, and the options of the stores it opens.
#[derive(Clone)]
pub struct ShardOwnershipOptions {
    pub own: Owner,
    /// The version of this program.
    pub program: String,
    pub shards: NonZeroU16,
    pub store: EngineOptions,
}

/// A shard that this node has just taken.
pub struct TakenShard {
    pub number: u16,
    pub store: EngineStore,
    /// Whether the last owner had left the shard, so that none of its steps can still run.
    pub was_left: bool,
}

/// The cluster as last seen by this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// The shards by number; a shard without a record has no owner.
    pub shards: Vec<Shard>,
    pub nodes: Vec<SeenNode>,
    /// The numbers of shards whose owners have been silent for the length of a lease.
    pub lapsed: Vec<u16>,
    /// Why the engine did not answer the last poll.
    pub engine_away: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenNode {
    pub record: NodeRecord,
    pub lives: bool,
}

pub struct ShardOwnership<E> {
    engine: Arc<E>,
    options: ShardOwnershipOptions,
    sightings: Sightings,
    announced: Option<Moment>,
    /// Shards being loaded before they are taken.
    ahead: HashMap<u16, Ahead>,
    /// Shards that could not be loaded, and when to try again.
    unloadable: HashMap<u16, (Instant, Retries)>,
    view: watch::Sender<View>,
    hand_on: mpsc::Sender<TakenShard>,
}

struct Ahead {
    version: Version,
    loading: JoinHandle<Result<Pairs, EngineError>>,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.loading.abort();
    }
}

impl<E: Engine> ShardOwnership<E> {
    /// Also returns the receivers of the view and of the taken shards.
    pub fn new(
        engine: Arc<E>,
        options: ShardOwnershipOptions,
    ) -> (Self, watch::Receiver<View>, mpsc::Receiver<TakenShard>) {
        let (view, seen) = watch::channel(View::default());
        let (hand_on, taken) = mpsc::channel(usize::from(options.shards.get()));
        let sightings = Sightings::of(&options.own.node, options.store.timing);
        let ownership = Self {
            engine,
            options,
            sightings,
            announced: None,
            ahead: HashMap::new(),
            unloadable: HashMap::new(),
            view,
            hand_on,
        };
        (ownership, seen, taken)
    }

    /// Runs until both receivers are dropped. If only the receiver of shards is dropped, this process is stopping.
    pub async fn run(mut self) {
        let mut polls = tokio::time::interval(self.options.store.timing.poll_every);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.hand_on.is_closed() || !self.view.is_closed() {
            polls.tick().await;
            if let Err(error) = self.round().await {
                self.lose_sight(&error);
            }
        }
    }

    async fn round(&mut self) -> Result<(), EngineError> {
        if !self.hand_on.is_closed() {
            self.announce().await?;
        }
        let (known, nodes) = tokio::try_join!(self.engine.shards(), self.engine.nodes())?;
        let now = (self.options.store.clock)();
        let mut shards: Vec<_> = (0..self.options.shards.get()).map(Shard::vacant).collect();
        for shard in known {
            let Some(place) = shards.get_mut(usize::from(shard.number)) else { continue };
            *place = shard;
        }
        self.sightings.saw(&shards, &nodes, now);
        self.publish(&shards, nodes, now);
        for shard in &shards {
            if !self.hand_on.is_closed() {
                self.consider(shard).await?;
            }
        }
        Ok(())
    }

    async fn announce(&mut self) -> Result<(), EngineError> {
        let now = (self.options.store.clock)();
        let every = self.options.store.timing.announce_every;
        if self.announced.is_some_and(|announced| now.since(announced) < every) {
            return Ok(());
        }
        let Owner { node, url, run: _ } = self.options.own.clone();
        let record = NodeRecord { node, url, program: self.options.program.clone(), version: Version(0) };
        self.engine.announce(&record).await?;
        self.announced = Some(now);
        Ok(())
    }

    fn publish(&self, shards: &[Shard], nodes: Vec<NodeRecord>, now: Moment) {
        let lives = |node: &NodeRecord| self.sightings.living(now).any(|living| living == node.node);
        let nodes = nodes.into_iter().map(|record| SeenNode { lives: lives(&record), record }).collect();
        let lapsed = self.sightings.lapsed(now);
        let before = self.view.send_replace(View { shards: shards.to_vec(), nodes, lapsed, engine_away: None });
        if before.engine_away.is_some() {
            tracing::info!("the engine answers again");
        }
    }

    async fn consider(&mut self, shard: &Shard) -> Result<(), EngineError> {
        if shard.owner.as_ref().is_some_and(|owner| owner.run == self.options.own.run) {
            return Ok(());
        }
        let wish = self.sightings.wish(shard, (self.options.store.clock)());
        if wish == Wish::Wait {
            self.ahead.remove(&shard.number);
            return Ok(());
        }
        // A shard is taken only once it is loaded, because its owner must renew the record every second from then on.
        match self.ahead.get(&shard.number) {
            Some(ahead) if ahead.version != shard.version => self.load_ahead(shard),
            Some(ahead) if ahead.loading.is_finished() && wish == Wish::Take => self.take(shard).await?,
            Some(_) => {}
            None => self.load_ahead(shard),
        }
        Ok(())
    }

    fn load_ahead(&mut self, shard: &Shard) {
        if self.unloadable.get(&shard.number).is_some_and(|(again, _)| Instant::now() < *again) {
            return;
        }
        let (engine, number, version) = (self.engine.clone(), shard.number, shard.version);
        let loading = tokio::spawn(async move {
            // Version 0 means that the shard has never been written.
            if version == Version(0) { Ok(Pairs::new()) } else { engine.load(number, version).await }
        });
        self.ahead.insert(number, Ahead { version, loading });
    }

    async fn take(&mut self, shard: &Shard) -> Result<(), EngineError> {
        let Some(mut ahead) = self.ahead.remove(&shard.number) else { return Ok(()) };
        let loaded = (&mut ahead.loading).await.map_err(|ended| EngineError::Away(ended.to_string()));
        let pairs = match loaded.flatten() {
            Ok(pairs) => {
                self.unloadable.remove(&shard.number);
                pairs
            }
            Err(error) => {
                let new = || (Instant::now(), Retries::new(LOAD_BACKOFF));
                let (again, retries) = self.unloadable.entry(shard.number).or_insert_with(new);
                *again = Instant::now() + retries.failed();
                tracing::warn!(shard = shard.number, %error, "could not load a shard; it is loaded once more");
                return Ok(());
            }
        };
        let sent = (self.options.store.clock)();
        let Some(tenure) = self.ask_for(shard).await? else { return Ok(()) };
        let (epoch, pairs_count) = (tenure.shard().epoch, pairs.len());
        let store = EngineStore::start(self.engine.clone(), tenure, sent, pairs, self.options.store.clone());
        let store = store.map_err(EngineError::Refused)?;
        tracing::info!(shard = shard.number, epoch, pairs = pairs_count, before = owner_of(shard), "took a shard");
        let was_left = shard.owner.is_none();
        let handed_on = self.hand_on.send(TakenShard { number: shard.number, store, was_left }).await;
        if let Err(mpsc::error::SendError(unwanted)) = handed_on {
            // A stopping process no longer receives shards. The shard goes to another node, immediately if its last
            // owner had left it.
            let give_up = move || if was_left { unwanted.store.leave(None) } else { unwanted.store.close() };
            tokio::task::spawn_blocking(give_up).await.ok();
        }
        Ok(())
    }

    async fn ask_for(&self, shard: &Shard) -> Result<Option<Tenure>, EngineError> {
        let mut attempts = 1;
        loop {
            match self.engine.take(shard, &self.options.own).await {
                Err(EngineError::Away(_)) if attempts < TAKE_ATTEMPTS => {
                    tokio::time::sleep(TAKE_BACKOFF.pause(attempts, rand::random())).await;
                    attempts += 1;
                }
                answer => return answer,
            }
        }
    }

    fn lose_sight(&mut self, error: &EngineError) {
        self.sightings.saw_nothing();
        let sentence = error.to_string();
        let is_new = self.view.send_if_modified(|view| view.engine_away.replace(sentence.clone()).is_none());
        if is_new {
            tracing::warn!(%error, "cannot see the cluster; asking again until it answers");
        }
    }
}

fn owner_of(shard: &Shard) -> &str {
    shard.owner.as_ref().map_or("nobody", |owner| &owner.node)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use store::engine::memory::{Cluster, Faults, MemoryEngine};

    #[tokio::test]
    async fn a_shard_that_is_taken_by_a_process_that_is_stopping_is_left_at_once() {
        let engine = Arc::new(MemoryEngine::of(&Arc::new(Cluster::default()), 1, Faults::default()));
        let own = Owner { node: "n1".to_owned(), url: String::new(), run: 1 };
        let store = EngineOptions { fatal: Arc::new(|_: &str| {}), ..EngineOptions::default() };
        let shards = NonZeroU16::new(1).unwrap();
        let options = ShardOwnershipOptions { own, program: "test".to_owned(), shards, store };
        let (mut ownership, _view, taken) = ShardOwnership::new(engine.clone(), options);
        let vacant = Shard::vacant(0);
        ownership.load_ahead(&vacant);
        drop(taken);
        ownership.take(&vacant).await.unwrap();
        let shards = engine.shards().await.unwrap();
        let seen: Vec<_> = shards.iter().map(|shard| (shard.epoch, &shard.owner, &shard.successor)).collect();
        assert_eq!(seen, [(1, &None, &None)], "free for whoever wants it");
    }
}

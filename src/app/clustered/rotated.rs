//! `lockkeeper secrets rotate-key` over a stopped cluster, one shard after the other.
//!
//! The cluster's record says that it is being done, from before the first change until after the last: meanwhile no node opens a
//! shard, neither with the old key nor with the new one. Interrupted anywhere, it goes on when it is run again with both keys.

use std::path::Path;
use std::sync::Arc;

use super::operating::{ClusterError, Operation, operate};
use super::running;
use crate::config::Cluster;
use crate::entropy;
use crate::moving::{NotReady, answered};
use crate::secrets::{self, MasterKey, Rotated};
use crate::store::engine::{ClusterRecord, ClusterState, Engine, EngineError, Owner, Shard};
use crate::store::{EngineOptions, EngineStore, FORMAT_NUMBER, Snapshot, exit_with};

/// The name of this process, in the records of shards.
const NAME: &str = "rotate-key";
const EXIT_FAILED: i32 = 1;
/// How often a shard is asked for that somebody else has just written.
const TAKE_ATTEMPTS: u32 = 100;

/// Replaces the master key of a cluster, and every data key. `None` if the cluster has the new key already.
pub fn rotate(cluster: &Cluster, old: MasterKey, new: MasterKey) -> Result<Option<Rotated>, ClusterError> {
    operate(cluster, Rotation { old, new })
}

struct Rotation {
    old: MasterKey,
    new: MasterKey,
}

impl Operation for Rotation {
    type Outcome = Option<Rotated>;

    async fn run<E: Engine>(self, engine: Arc<E>) -> Result<Option<Rotated>, ClusterError> {
        let found = answered(async || engine.cluster().await).await?.ok_or(NotReady::Missing)?;
        // A cluster that serves is not disturbed.
        check_stopped(&*engine).await?;
        let Some(begun) = self.begin(&*engine, found).await? else { return Ok(None) };
        if let Err(error) = self.check(&*engine, begun.shards.get()).await {
            // Unless an earlier attempt has changed something.
            if found.state == ClusterState::Ready {
                answered(async || engine.replace(&begun, Some(&found)).await).await?;
            }
            return Err(error);
        }
        let owner = Owner { node: NAME.to_owned(), url: String::new(), run: entropy::run() };
        let mut total = Rotated::default();
        for number in 0..begun.shards.get() {
            let Rotated { organizations, secrets } = self.rotate_shard(&engine, number, &owner).await?;
            total = Rotated { organizations: total.organizations + organizations, secrets: total.secrets + secrets };
        }
        let ready = ClusterRecord { state: ClusterState::Ready, ..begun };
        let done = answered(async || engine.replace(&begun, Some(&ready)).await).await?;
        if done { Ok(Some(total)) } else { Err(ClusterError::Replaced) }
    }
}

impl Rotation {
    /// The record that says that it is being done; `None` if it has been done.
    async fn begin(&self, engine: &impl Engine, found: ClusterRecord) -> Result<Option<ClusterRecord>, ClusterError> {
        let (old, new) = (self.old.short_hash(), self.new.short_hash());
        let begun = ClusterRecord { key: new, state: ClusterState::Rotating { from: old }, ..found };
        if found.format != FORMAT_NUMBER {
            return Err(NotReady::Format { found: found.format }.into());
        }
        match found.state {
            ClusterState::Filling { .. } => Err(NotReady::Filling.into()),
            ClusterState::Rotating { .. } if found == begun => Ok(Some(begun)),
            ClusterState::Rotating { .. } => Err(ClusterError::OtherKeys),
            ClusterState::Ready if found.key == new => Ok(None),
            ClusterState::Ready if found.key != old => Err(NotReady::Key.into()),
            ClusterState::Ready => match answered(async || engine.replace(&found, Some(&begun)).await).await? {
                true => Ok(Some(begun)),
                false => Err(ClusterError::Replaced),
            },
        }
    }

    /// Before anything is changed: no node has started meanwhile, and everything opens.
    async fn check(&self, engine: &impl Engine, shards: u16) -> Result<(), ClusterError> {
        check_stopped(engine).await?;
        for number in 0..shards {
            if let Some((shard, pairs)) = answered(async || engine.copy(number).await).await? {
                secrets::check_opens(&Snapshot::new(shard, pairs), &[&self.new, &self.old])?;
            }
        }
        Ok(())
    }

    async fn rotate_shard<E: Engine>(
        &self,
        engine: &Arc<E>,
        number: u16,
        owner: &Owner,
    ) -> Result<Rotated, ClusterError> {
        let Some((store, was_left)) = open(engine, number, owner).await? else { return Ok(Rotated::default()) };
        let keys = Some((self.old.clone(), self.new.clone()));
        let rotated = secrets::rotate(&store, Path::new(""), keys).await?;
        // Waits for the engine, outside of this thread. A shard whose owner died is not left: steps of that may still run, and
        // the next owner waits for them.
        if was_left {
            store.leave(None);
        } else {
            store.close();
        }
        Ok(rotated)
    }
}

async fn check_stopped(engine: &impl Engine) -> Result<(), ClusterError> {
    let running = answered(async || running::node(engine).await).await?;
    running.map_or(Ok(()), |node| Err(ClusterError::NodeRuns(node)))
}

/// The shard in the hands of this process, and whether its last owner had left it; `None` if nobody has ever written it.
async fn open<E: Engine>(
    engine: &Arc<E>,
    number: u16,
    owner: &Owner,
) -> Result<Option<(EngineStore, bool)>, ClusterError> {
    // Somebody else has taken the shard, and does the same, or is a node that ends as soon as it opens it.
    let options = EngineOptions { fatal: exit_with(EXIT_FAILED), ..EngineOptions::default() };
    for _ in 0..TAKE_ATTEMPTS {
        let known = answered(async || engine.shards().await).await?;
        let Some(seen): Option<Shard> = known.into_iter().find(|shard| shard.number == number) else { return Ok(None) };
        let sent = (options.clock)();
        let Some(tenure) = answered(async || engine.take(&seen, owner).await).await? else { continue };
        let pairs = answered(async || engine.load(number, tenure.shard().version).await).await?;
        let store = EngineStore::start(engine.clone(), tenure, sent, pairs, options);
        return Ok(Some((store.map_err(EngineError::Refused)?, seen.owner.is_none())));
    }
    Err(ClusterError::Replaced)
}

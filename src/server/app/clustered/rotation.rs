//! `lockkeeper secrets rotate-key` on a stopped cluster, shard by shard.
//!
//! From before the first change until after the last, the cluster's record names both keys and the run of the rotation;
//! meanwhile no node opens a shard. Each step checks that the record still names its run. A rotation with the same two
//! keys takes over with its own run and direction, so exchanging the keys reverts an interrupted rotation. All shards
//! are taken before their contents decide anything, so that an earlier run that is still alive cannot change them any
//! more.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::engine::{running_node, with_engine};
use super::operations::{ClusterError, operate};
use crate::app::error::ServeError;
use crate::config::Cluster;
use crate::moving::{NotReady, TakenShard, answered, take};
use accounts::secrets::{self, MasterKey, OpenError, Rotated};
use ambient::entropy;
use store::engine::{ClusterRecord, ClusterState, Engine, EngineError, Owner};
use store::{EngineOptions, EngineStore, FORMAT_NUMBER, Fatal, Snapshot, StoreError};

/// The hashes of both keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KeyHashes {
    old: u64,
    new: u64,
}

/// Which of the two keys open secrets in the shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sealed {
    under_old: bool,
    under_new: bool,
}

/// The record with which this run replaces the found one; `None` if the cluster already has the new key.
fn begun(found: &ClusterRecord, keys: KeyHashes, run: u128) -> Result<Option<ClusterRecord>, ClusterError> {
    let KeyHashes { old, new } = keys;
    if found.format != FORMAT_NUMBER {
        return Err(NotReady::Format { found: found.format }.into());
    }
    let begun = ClusterRecord { key: new, state: ClusterState::Rotating { from: old, run: Some(run) }, ..*found };
    match found.state {
        ClusterState::Filling { .. } => Err(NotReady::Filling.into()),
        ClusterState::Rotating { from, .. } if [(old, new), (new, old)].contains(&(from, found.key)) => Ok(Some(begun)),
        ClusterState::Rotating { .. } => Err(ClusterError::OtherKeys),
        ClusterState::Ready | ClusterState::Filled { .. } if found.key == new => Ok(None),
        ClusterState::Ready | ClusterState::Filled { .. } if found.key != old => Err(NotReady::Key.into()),
        ClusterState::Ready | ClusterState::Filled { .. } => Ok(Some(begun)),
    }
}

/// The record that ends a rotation that has changed nothing itself; `None` if an earlier rotation left secrets under
/// both keys, so that no node could open all of them.
fn stopped(found: &ClusterRecord, keys: KeyHashes, sealed: Sealed) -> Option<ClusterRecord> {
    let ready = |key| Some(ClusterRecord { key, state: ClusterState::Ready, ..*found });
    match sealed {
        _ if found.state.is_ready() => Some(*found),
        Sealed { under_new: false, .. } => ready(keys.old),
        Sealed { under_old: false, .. } => ready(keys.new),
        Sealed { under_old: true, under_new: true } => None,
    }
}

/// The owner's name in the shard records during a rotation.
const NAME: &str = "rotate-key";

/// Replaces the master key of a cluster, and every data key. `None` if the cluster has the new key already.
pub fn rotate(cluster: &Cluster, old: MasterKey, new: MasterKey) -> Result<Option<Rotated>, ClusterError> {
    let rotation = Rotation { old, new };
    with_engine!(cluster, |engine| operate(engine, async |engine| rotation.run(&engine).await))
}

struct Rotation {
    old: MasterKey,
    new: MasterKey,
}

/// Converts an error after the rotation has begun into one that says to run it again.
fn interrupted(error: ClusterError) -> ClusterError {
    match error {
        ClusterError::Serve(ServeError::Engine(error)) => ClusterError::Interrupted(error),
        ClusterError::Secrets(OpenError::Store(error)) => ClusterError::Interrupted(EngineError::Refused(error)),
        error => error,
    }
}

impl Rotation {
    async fn run<E: Engine>(&self, engine: &Arc<E>) -> Result<Option<Rotated>, ClusterError> {
        let Some(attempt) = self.begin(engine).await? else { return Ok(None) };
        attempt.run().await.map(Some)
    }

    fn hashes(&self) -> KeyHashes {
        KeyHashes { old: self.old.short_hash(), new: self.new.short_hash() }
    }

    /// Records that this run is rotating; `None` if the cluster already has the new key.
    async fn begin<'a, E: Engine>(&'a self, engine: &'a Arc<E>) -> Result<Option<Attempt<'a, E>>, ClusterError> {
        let found = answered(async || engine.cluster().await).await?.ok_or(NotReady::Missing)?;
        // A running cluster is refused before anything is written.
        check_stopped(&**engine).await?;
        let owner = Owner { node: NAME.to_owned(), url: String::new(), run: entropy::run() };
        let Some(begun) = begun(&found, self.hashes(), owner.run)? else { return Ok(None) };
        match answered(async || engine.replace(&found, Some(&begun)).await).await? {
            true => Ok(Some(Attempt { rotation: self, engine, owner, found, begun })),
            false => Err(ClusterError::Replaced),
        }
    }
}

/// A rotation that has begun.
struct Attempt<'a, E> {
    rotation: &'a Rotation,
    engine: &'a Arc<E>,
    owner: Owner,
    /// The cluster's record before this run.
    found: ClusterRecord,
    /// The cluster's record during this run, unless another one takes over.
    begun: ClusterRecord,
}

impl<E: Engine> Attempt<'_, E> {
    async fn run(&self) -> Result<Rotated, ClusterError> {
        let mut total = Rotated::default();
        for shard in self.prepare().await? {
            let Rotated { organizations, secrets } = self.rotate(shard).await.map_err(interrupted)?;
            total = Rotated { organizations: total.organizations + organizations, secrets: total.secrets + secrets };
        }
        self.finish().await.map_err(interrupted)?;
        Ok(total)
    }

    /// Takes all shards, so that nobody else changes them, and checks that everything opens. If it fails, nodes may
    /// start again, unless an earlier rotation has changed some shards.
    async fn prepare(&self) -> Result<Vec<TakenShard>, ClusterError> {
        let mut shards = Vec::new();
        let Err(error) = self.take_and_check(&mut shards).await else { return Ok(shards) };
        let sealed = match &error {
            ClusterError::Secrets(_) => self.sealed(&shards).await?,
            _ => Sealed { under_old: true, under_new: true },
        };
        for TakenShard { tenure, was_left, .. } in &shards {
            if *was_left {
                // If this fails, the shard can be taken after its owner has been silent for a while.
                answered(async || self.engine.leave(tenure, None).await).await.ok();
            }
        }
        match (stopped(&self.found, self.rotation.hashes(), sealed), error) {
            (Some(stopped), error) => {
                answered(async || self.engine.replace(&self.begun, Some(&stopped)).await).await?;
                Err(error)
            }
            (None, ClusterError::Secrets(error)) => Err(ClusterError::Stuck(error)),
            (None, error) => Err(interrupted(error)),
        }
    }

    async fn take_and_check(&self, shards: &mut Vec<TakenShard>) -> Result<(), ClusterError> {
        // Finds nodes that started before the record was written.
        check_stopped(&**self.engine).await?;
        // A node that could still write to a shard had taken it before the record was written.
        let known = answered(async || self.engine.shards().await).await?;
        for shard in known.iter().filter(|shard| shard.number < self.begun.shards.get()) {
            let taken = take(&**self.engine, &self.begun, shard.number, &self.owner).await?;
            shards.push(taken.ok_or(ClusterError::Replaced)?);
        }
        let Rotation { old, new } = self.rotation;
        for shard in &*shards {
            secrets::check_opens(&self.copied(shard).await?, &[new, old])?;
        }
        Ok(())
    }

    async fn copied(&self, shard: &TakenShard) -> Result<Snapshot, ClusterError> {
        let number = shard.tenure.shard().number;
        let copied = answered(async || self.engine.copy(number).await).await?;
        copied.map(|(shard, pairs)| Snapshot::new(shard, pairs)).ok_or(ClusterError::Replaced)
    }

    /// Which keys are in use. An unreadable shard counts as being under both.
    async fn sealed(&self, shards: &[TakenShard]) -> Result<Sealed, ClusterError> {
        let mut sealed = Sealed { under_old: false, under_new: false };
        for shard in shards {
            let copied = self.copied(shard).await?;
            let opens = |master| secrets::opens_any(&copied, master).unwrap_or(true);
            sealed.under_old |= opens(&self.rotation.old);
            sealed.under_new |= opens(&self.rotation.new);
        }
        Ok(sealed)
    }

    async fn rotate(&self, shard: TakenShard) -> Result<Rotated, ClusterError> {
        let TakenShard { tenure, sent, was_left } = shard;
        self.check_run().await?;
        let (number, version) = (tenure.shard().number, tenure.shard().version);
        let pairs = answered(async || self.engine.load(number, version).await).await?;
        let (told, mut ended) = mpsc::unbounded_channel();
        // The receiver is gone when the shard is done.
        let fatal: Fatal = Arc::new(move |sentence: &str| _ = told.send(sentence.to_owned()));
        let options = EngineOptions { fatal, ..EngineOptions::default() };
        let store = EngineStore::start(self.engine.clone(), tenure, sent, pairs, options);
        let store = store.map_err(EngineError::Refused)?;
        let (old, new) = (&self.rotation.old, &self.rotation.new);
        let rotated = tokio::select! {
            rotated = secrets::rotate_between(&store, old, new) => rotated,
            Some(sentence) = ended.recv() => Err(StoreError::Engine(sentence).into()),
        };
        if rotated.is_err() {
            self.check_run().await?;
        }
        // Waits for the engine on another thread. If the previous owner crashed, the shard is not marked as left: its
        // steps may still run, and the next owner must wait for them.
        if was_left {
            store.leave(None);
        } else {
            store.close();
        }
        Ok(rotated?)
    }

    async fn finish(&self) -> Result<(), ClusterError> {
        let done = ClusterRecord { state: ClusterState::Ready, ..self.begun };
        let is_done = answered(async || self.engine.replace(&self.begun, Some(&done)).await).await?;
        if is_done { Ok(()) } else { Err(ClusterError::Replaced) }
    }

    /// Fails if another rotation has taken over.
    async fn check_run(&self) -> Result<(), ClusterError> {
        let found = answered(async || self.engine.cluster().await).await?;
        if found == Some(self.begun) { Ok(()) } else { Err(ClusterError::Replaced) }
    }
}

async fn check_stopped(engine: &impl Engine) -> Result<(), ClusterError> {
    let running = answered(async || running_node(engine).await).await?;
    running.map_or(Ok(()), |node| Err(ClusterError::NodeRuns(node)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::num::NonZeroU16;

    use super::*;

    const KEYS: KeyHashes = KeyHashes { old: 1, new: 2 };
    const EXCHANGED: KeyHashes = KeyHashes { old: 2, new: 1 };

    fn rule_record(key: u64, state: ClusterState) -> ClusterRecord {
        ClusterRecord { format: FORMAT_NUMBER, shards: NonZeroU16::MIN, key, state }
    }

    fn rotating(from: u64, key: u64, run: impl Into<Option<u128>>) -> ClusterRecord {
        rule_record(key, ClusterState::Rotating { from, run: run.into() })
    }

    #[test]
    fn a_rotation_begins_on_a_cluster_with_its_old_key() {
        for state in [ClusterState::Ready, ClusterState::Filled { run: 5 }] {
            assert_eq!(begun(&rule_record(1, state), KEYS, 7).unwrap(), Some(rotating(1, 2, 7)));
            assert_eq!(begun(&rule_record(2, state), KEYS, 7).unwrap(), None, "it has the new key");
            let refused = begun(&rule_record(3, state), KEYS, 7);
            assert!(matches!(refused, Err(ClusterError::NotReady(NotReady::Key))));
        }
        let refused = begun(&rule_record(1, ClusterState::Filling { run: 5 }), KEYS, 7);
        assert!(matches!(refused, Err(ClusterError::NotReady(NotReady::Filling))));
        let newer = ClusterRecord { format: FORMAT_NUMBER + 1, ..rule_record(1, ClusterState::Ready) };
        assert!(matches!(begun(&newer, KEYS, 7), Err(ClusterError::NotReady(NotReady::Format { .. }))));
    }

    #[test]
    fn the_same_keys_take_over_and_the_exchanged_ones_revert() {
        for earlier in [None, Some(5)] {
            let interrupted = rotating(1, 2, earlier);
            assert_eq!(begun(&interrupted, KEYS, 7).unwrap(), Some(rotating(1, 2, 7)));
            assert_eq!(begun(&interrupted, EXCHANGED, 7).unwrap(), Some(rotating(2, 1, 7)));
            // And in the other direction.
            assert_eq!(begun(&rotating(2, 1, 7), KEYS, 8).unwrap(), Some(rotating(1, 2, 8)));
            for (old, new) in [(1, 3), (3, 2), (3, 1), (2, 3), (3, 4)] {
                let other = begun(&interrupted, KeyHashes { old, new }, 7);
                assert!(matches!(other, Err(ClusterError::OtherKeys)), "{old} {new}");
            }
        }
    }

    #[test]
    fn a_rotation_ends_with_the_key_that_everything_is_under() {
        let sealed = |under_old, under_new| Sealed { under_old, under_new };
        let filled = rule_record(1, ClusterState::Filled { run: 5 });
        assert_eq!(stopped(&filled, KEYS, sealed(true, true)), Some(filled), "as it was found");
        let ready = |key| Some(rule_record(key, ClusterState::Ready));
        let interrupted = rotating(1, 2, 5);
        assert_eq!(stopped(&interrupted, KEYS, sealed(true, false)), ready(1));
        assert_eq!(stopped(&interrupted, KEYS, sealed(false, true)), ready(2));
        assert_eq!(stopped(&interrupted, KEYS, sealed(false, false)), ready(1));
        assert_eq!(stopped(&interrupted, KEYS, sealed(true, true)), None);
        assert_eq!(stopped(&interrupted, EXCHANGED, sealed(false, true)), ready(1), "nothing was changed");
    }

    use std::time::Duration;

    use accounts::secrets::{NewSecret, SecretValue, Vault};
    use domain::{Description, Identifier, Timestamp, VariableName};
    use events::Cause;
    use store::engine::memory::{Cluster, Faults, MemoryEngine};
    use store::engine::{NodeRecord, Shard, Transaction, Version};
    use store::{Changes, Sequence};

    const SHARDS: u16 = 3;

    fn master(digit: char) -> MasterKey {
        MasterKey::parse(&digit.to_string().repeat(64)).unwrap()
    }

    fn rotation((old, new): (char, char)) -> Rotation {
        Rotation { old: master(old), new: master(new) }
    }

    fn record(key: char, state: ClusterState) -> ClusterRecord {
        let shards = NonZeroU16::new(SHARDS).unwrap();
        ClusterRecord { format: FORMAT_NUMBER, shards, key: master(key).short_hash(), state }
    }

    fn acme() -> Identifier {
        Identifier::parse("acme").unwrap()
    }

    fn password() -> VariableName {
        VariableName::parse("PASSWORD").unwrap()
    }

    /// A stopped cluster with one secret per shard, under these keys.
    async fn cluster(found: ClusterRecord, keys: [char; SHARDS as usize]) -> Arc<MemoryEngine> {
        let engine = Arc::new(MemoryEngine::of(&Arc::new(Cluster::default()), 7, Faults::default()));
        engine.found(&found).await.unwrap();
        for (number, key) in (0..).zip(keys) {
            let owner = Owner { node: "n1".to_owned(), url: String::new(), run: 1 };
            let tenure = engine.take(&Shard::vacant(number), &owner).await.unwrap().unwrap();
            let options = EngineOptions::default();
            let sent = (options.clock)();
            let store = Arc::new(EngineStore::open(engine.clone(), tenure, sent, options).await.unwrap());
            secrets::audit_key(&*store, &master(key)).await.unwrap();
            let vault = Vault::open(store.clone(), master(key)).unwrap();
            let (value, description) = (SecretValue::parse("hush").unwrap(), Description::parse("").unwrap());
            let secret = NewSecret { pipeline: None, name: password(), value, description };
            let cause = Cause { by: None, at: Timestamp::from_millis(1_000) };
            vault.create(&acme(), secret, cause, |_, _| ()).await.unwrap();
            drop(vault);
            store.leave(None);
        }
        engine
    }

    /// The key that the secret of each shard is under.
    async fn keys_of(engine: &MemoryEngine) -> Vec<char> {
        let mut keys = Vec::new();
        for number in 0..SHARDS {
            let (shard, pairs) = engine.copy(number).await.unwrap().unwrap();
            let snapshot = Arc::new(Snapshot::new(shard, pairs));
            let opens = |key: &char| {
                let vault = Vault::open(snapshot.clone(), master(*key)).ok()?;
                let value = vault.open_one(&acme(), &password()).unwrap().unwrap();
                assert!(value.reveal() == "hush" && secrets::opens_any(&*snapshot, &master(*key)).unwrap());
                Some(())
            };
            keys.push(['1', '2', '3'].into_iter().find(|key| opens(key).is_some()).unwrap());
        }
        keys
    }

    async fn owners(engine: &MemoryEngine) -> Vec<Option<String>> {
        let shards = engine.shards().await.unwrap();
        shards.into_iter().map(|shard| shard.owner.map(|owner| owner.node)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_rotation_replaces_the_key_of_every_shard_once() {
        for state in [ClusterState::Ready, ClusterState::Filled { run: 5 }] {
            let engine = cluster(record('1', state), ['1'; 3]).await;
            let rotated = rotation(('1', '2')).run(&engine).await.unwrap();
            assert_eq!(rotated, Some(Rotated { organizations: 3, secrets: 3 }));
            let leftover = std::env::current_dir().unwrap().join("master.key.id");
            assert!(!leftover.exists(), "a cluster has no data directory: nothing is written beside the engine");
            assert_eq!(engine.cluster().await.unwrap(), Some(record('2', ClusterState::Ready)));
            assert_eq!((keys_of(&engine).await, owners(&engine).await), (vec!['2'; 3], vec![None; 3]));
            assert_eq!(rotation(('1', '2')).run(&engine).await.unwrap(), None);
        }
    }

    /// The first rotation has begun, or taken all shards, or changed some or all of them when the second one comes.
    #[tokio::test(start_paused = true)]
    async fn the_second_rotation_takes_over_or_reverts_and_the_first_is_refused_in_its_next_step() {
        for steps in 0..=1 + usize::from(SHARDS) {
            for (keys, expected) in [(('1', '2'), '2'), (('2', '1'), '1')] {
                let engine = cluster(record('1', ClusterState::Ready), ['1'; 3]).await;
                let first = rotation(('1', '2'));
                let first = first.begin(&engine).await.unwrap().unwrap();
                let mut shards = if steps > 0 { first.prepare().await.unwrap() } else { Vec::new() };
                for shard in shards.drain(..steps.saturating_sub(1)) {
                    first.rotate(shard).await.unwrap();
                }
                rotation(keys).run(&engine).await.unwrap().unwrap();
                let ended = async || (engine.cluster().await.unwrap().unwrap(), keys_of(&engine).await);
                assert_eq!(
                    ended().await,
                    (record(expected, ClusterState::Ready), vec![expected; 3]),
                    "{steps} {keys:?}"
                );
                if steps == 0 {
                    assert!(matches!(first.prepare().await, Err(ClusterError::Replaced)));
                }
                for shard in shards {
                    assert!(matches!(first.rotate(shard).await, Err(ClusterError::Replaced)), "{steps} {keys:?}");
                }
                // The cluster has the key that the first rotation wanted, or the other one.
                assert_eq!(first.finish().await.is_ok(), expected == '2');
                assert_eq!(
                    ended().await,
                    (record(expected, ClusterState::Ready), vec![expected; 3]),
                    "{steps} {keys:?}"
                );
            }
        }
    }

    /// The first rotation's check fails because of a starting node, after the second rotation has begun.
    #[tokio::test(start_paused = true)]
    async fn a_rotation_that_fails_does_not_undo_the_record_of_another() {
        let engine = cluster(record('1', ClusterState::Ready), ['1'; 3]).await;
        let (first, second) = (rotation(('1', '2')), rotation(('1', '2')));
        let first = first.begin(&engine).await.unwrap().unwrap();
        let second = second.begin(&engine).await.unwrap().unwrap();
        let mut shards = second.prepare().await.unwrap().into_iter();
        second.rotate(shards.next().unwrap()).await.unwrap();
        let node =
            NodeRecord { node: "n1".to_owned(), url: String::new(), program: String::new(), version: Version(0) };
        let starts = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            engine.announce(&node).await.unwrap();
        };
        let (refused, ()) = tokio::join!(first.prepare(), starts);
        assert!(matches!(refused, Err(ClusterError::NodeRuns(_))));
        assert_eq!(engine.cluster().await.unwrap(), Some(second.begun));
        for shard in shards {
            second.rotate(shard).await.unwrap();
        }
        second.finish().await.unwrap();
        assert_eq!(keys_of(&engine).await, ['2'; 3]);
    }

    /// One shard is under an unknown key. Nothing was changed, regardless of an earlier interruption.
    #[tokio::test(start_paused = true)]
    async fn after_a_failed_check_nodes_may_start_again() {
        let from = master('1').short_hash();
        let ready = record('1', ClusterState::Ready);
        for found in [ready, record('2', ClusterState::Rotating { from, run: Some(5) })] {
            for keys in [('1', '2'), ('2', '1')].into_iter().filter(|keys| found != ready || keys.0 == '1') {
                let engine = cluster(found, ['1', '1', '3']).await;
                let refused = rotation(keys).run(&engine).await;
                assert!(matches!(refused, Err(ClusterError::Secrets(_))), "{found:?} {keys:?}");
                assert_eq!(engine.cluster().await.unwrap(), Some(ready), "{found:?} {keys:?}");
                assert_eq!((keys_of(&engine).await, owners(&engine).await), (vec!['1', '1', '3'], vec![None; 3]));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn secrets_under_both_keys_are_not_served_and_the_sentence_says_what_to_do() {
        let from = master('1').short_hash();
        let engine = cluster(record('2', ClusterState::Rotating { from, run: Some(5) }), ['2', '1', '3']).await;
        let refused = rotation(('1', '2')).run(&engine).await.unwrap_err();
        assert!(refused.to_string().contains("restore the cluster from its last export"), "{refused}");
        assert!(!engine.cluster().await.unwrap().unwrap().state.is_ready());
        assert_eq!(keys_of(&engine).await, ['2', '1', '3']);
    }

    /// An earlier rotation that still writes is replaced; a node is not.
    #[tokio::test(start_paused = true)]
    async fn a_command_that_owns_a_shard_is_no_node() {
        let engine = cluster(record('1', ClusterState::Ready), ['1'; 3]).await;
        let seen = engine.shards().await.unwrap().remove(0);
        let owner = Owner { node: NAME.to_owned(), url: String::new(), run: 5 };
        let mut tenure = engine.take(&seen, &owner).await.unwrap().unwrap();
        let mut beat = async || {
            let writes = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let transaction = Transaction { last: Sequence(9), millis: 1, changes: &Changes::new() };
                engine.commit(&mut tenure, &transaction).await.unwrap();
            };
            tokio::join!(check_stopped(&*engine), writes).0
        };
        beat().await.unwrap();
        let node =
            NodeRecord { node: NAME.to_owned(), url: String::new(), program: String::new(), version: Version(0) };
        engine.announce(&node).await.unwrap();
        assert!(matches!(beat().await, Err(ClusterError::NodeRuns(_))));
    }
}

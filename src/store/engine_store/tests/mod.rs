//! Tests of the store over each engine: how to open one, and requirements beyond the conformance suite.

#![allow(clippy::unwrap_used)]

mod in_memory;
mod on_etcd;
mod on_postgres;

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::{EngineOptions, EngineStore};
use crate::conformance::{Harness, commit_durably, put, wait_for};
use crate::engine::{
    ClusterRecord, ClusterState, Engine, EngineError, NodeRecord, Owner, Pairs, Shard, Tenure, Timing, Transaction,
    Version,
};
use crate::{Changes, Sequence, Store, StoreError, end_of_prefix};

const SHARD: u16 = 3;
/// Longer than any step takes: a test that waits for something that never happens fails.
const LONGEST: Duration = Duration::from_secs(60);

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn owner(run: u128) -> Owner {
    Owner { node: format!("n{run}"), url: format!("http://n{run}:8080"), run }
}

/// Takes the shard from any owner. Retries until there is an answer.
async fn take<E: Engine>(engine: &E, by: &Owner) -> Tenure {
    loop {
        let Some(shards) = answered(engine.shards().await) else { continue };
        let seen = shards.into_iter().find(|shard| shard.number == SHARD).unwrap_or_else(|| Shard::vacant(SHARD));
        loop {
            match answered(engine.take(&seen, by).await) {
                Some(Some(tenure)) => return tenure,
                Some(None) => break,
                None => {}
            }
        }
    }
}

fn open<E: Engine>(engine: &Arc<E>, by: &Owner, options: &EngineOptions) -> EngineStore {
    block_on(async {
        loop {
            let (taken, tenure) = ((options.clock)(), take(&**engine, by).await);
            if let Some(store) = answered(EngineStore::open(engine.clone(), tenure, taken, options.clone()).await) {
                return store;
            }
        }
    })
}

fn answered<T>(answer: Result<T, EngineError>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(EngineError::Away(_)) => None,
        Err(error @ (EngineError::Deposed | EngineError::Refused(_))) => panic!("{error}"),
    }
}

/// Retries until the engine answers: a real one may be slow while other tests run.
fn until_answered<T>(mut ask: impl AsyncFnMut() -> Result<T, EngineError>) -> T {
    block_on(async {
        loop {
            if let Some(answer) = answered(ask().await) {
                return answer;
            }
        }
    })
}

/// Options of a store that must not end.
fn steady() -> EngineOptions {
    EngineOptions { fatal: Arc::new(|sentence| panic!("{sentence}")), ..EngineOptions::default() }
}

/// Options of a store that reports why it ended.
fn telling() -> (EngineOptions, mpsc::Receiver<String>) {
    let (sender, sentences) = mpsc::channel();
    let fatal = Arc::new(move |sentence: &str| sender.send(sentence.to_owned()).unwrap());
    (EngineOptions { fatal, ..EngineOptions::default() }, sentences)
}

/// The sentence that a store reported when it ended. Fails if the store does not end.
fn told(sentences: &mpsc::Receiver<String>) -> String {
    sentences.recv_timeout(LONGEST).expect("the store should have ended")
}

/// Nodes that take the same shard in turn.
struct Nodes<E, N> {
    node: N,
    run: u128,
    engine: std::marker::PhantomData<E>,
}

impl<E: Engine, N: FnMut(u128) -> Arc<E>> Nodes<E, N> {
    fn new(node: N) -> Nodes<E, N> {
        Nodes { node, run: 0, engine: std::marker::PhantomData }
    }

    fn next(&mut self) -> EngineStore {
        self.run += 1;
        open(&(self.node)(self.run), &owner(self.run), &steady())
    }
}

impl<E: Engine, N: FnMut(u128) -> Arc<E>> Harness for Nodes<E, N> {
    type Store = EngineStore;

    fn open(&mut self) -> EngineStore {
        self.next()
    }

    fn reopen(&mut self, store: EngineStore) -> EngineStore {
        store.close();
        drop(store);
        self.next()
    }

    fn crash(&mut self, store: EngineStore) -> EngineStore {
        store.abandon();
        self.next()
    }
}

/// Everything in the store.
fn all(store: &EngineStore) -> Vec<(Vec<u8>, Vec<u8>)> {
    store.scan(b"", &end_of_prefix(b""), usize::MAX).unwrap()
}

/// The second owner takes the shard while the first commits as fast as it can. `node` creates an engine for each.
fn a_second_owner_fences_the_first<E: Engine>(mut node: impl FnMut() -> Arc<E>) {
    const AT_LEAST: u64 = 30;
    let (options, sentences) = telling();
    let first = open(&node(), &owner(1), &options);
    let (acknowledging, acknowledged) = mpsc::channel();
    let second = std::thread::scope(|threads| {
        let first = &first;
        threads.spawn(move || {
            for n in 1.. {
                let Ok(sequence) = first.commit(put(format!("{n:05}"), "first")) else { return };
                let durable =
                    block_on(async { first.durable().wait_for(|durable| *durable >= sequence).await.is_ok() });
                if !durable {
                    return;
                }
                acknowledging.send(sequence).unwrap();
            }
        });
        while acknowledged.recv().unwrap() < Sequence(AT_LEAST) {}
        open(&node(), &owner(2), &steady())
    });
    assert!(told(&sentences).contains("another node has taken shard 3"));
    let last = acknowledged.iter().last().unwrap_or(Sequence(AT_LEAST));
    let taken = *second.durable().borrow();
    assert!(taken >= last, "what was acknowledged is there");
    assert_eq!(all(&second).len() as u64, taken.0);
    // The first owner never commits again.
    assert!(matches!(first.commit(put("99999", "first")), Err(StoreError::Deposed)));
    assert!(matches!(first.refusing_writes(), Some(StoreError::Deposed)));
    assert!(matches!(first.get(b"00001"), Err(StoreError::Deposed)));
    assert!(matches!(first.scan(b"", b"z", 1), Err(StoreError::Deposed)));
    assert_eq!(commit_durably(&second, put("second", "1")), Sequence(taken.0 + 1));
    drop(first);
    let third = open(&node(), &owner(3), &steady());
    assert_eq!(all(&third).len() as u64, taken.0 + 1);
    assert_eq!(third.get(b"99999").unwrap(), None);
}

/// The first record of a cluster stays; a node's record gets a new version with each write.
fn nodes_announce_themselves<E: Engine>(engine: &E) {
    let state = ClusterState::Ready;
    let cluster = |shards| ClusterRecord { format: 4, shards: NonZeroU16::new(shards).unwrap(), key: 1, state };
    let node = |name: &str| NodeRecord {
        node: name.to_owned(),
        url: format!("http://{name}"),
        program: "1.0".to_owned(),
        version: Version(0),
    };
    for shards in [16, 8] {
        assert_eq!(until_answered(async || engine.found(&cluster(shards)).await), cluster(16));
    }
    let filling = ClusterRecord { state: ClusterState::Filling { run: 7 }, ..cluster(16) };
    let now = || until_answered(async || engine.cluster().await);
    let replace =
        |seen, next: Option<ClusterRecord>| until_answered(async || engine.replace(&seen, next.as_ref()).await);
    assert!(!replace(cluster(8), Some(filling)) && now() == Some(cluster(16)), "it is another one");
    assert!(replace(cluster(16), Some(filling)) && now() == Some(filling));
    assert!(replace(cluster(16), Some(filling)), "it has happened");
    assert!(!replace(cluster(16), None) && now() == Some(filling));
    assert!(replace(filling, None) && now().is_none() && replace(filling, None));
    assert_eq!(until_answered(async || engine.found(&cluster(16)).await), cluster(16));
    let nodes = || until_answered(async || engine.nodes().await);
    assert_eq!(nodes(), []);
    let mut versions = Vec::new();
    for name in ["a", "b", "a"] {
        until_answered(async || engine.announce(&node(name)).await);
        let written = nodes().into_iter().find(|written| written.node == name).unwrap();
        versions.push(written.version);
        assert_eq!(NodeRecord { version: Version(0), ..written }, node(name));
    }
    assert!(versions.is_sorted_by(|earlier, later| earlier < later), "{versions:?}");
    assert_eq!(nodes().len(), 2);
}

/// Clears a cluster only if it is the one that was seen, and then all of it: its owners cannot write any more either.
fn a_cluster_is_cleared_if_it_is_still_the_same<E: Engine>(engine: &E) {
    let shards = NonZeroU16::new(2).unwrap();
    let filling = |run| ClusterRecord { format: 4, shards, key: 1, state: ClusterState::Filling { run } };
    let clear = |run| until_answered(async || engine.clear(&filling(run)).await);
    let shards = || until_answered(async || engine.shards().await);
    let changes = Changes::from([(b"a".to_vec(), Some(b"1".to_vec()))]);
    let fill = |tenure: &mut Tenure, last| {
        let transaction = Transaction { last: Sequence(last), millis: 1, changes: &changes };
        block_on(async {
            loop {
                match engine.commit(tenure, &transaction).await {
                    Err(EngineError::Away(_)) => {}
                    outcome => return outcome,
                }
            }
        })
    };
    until_answered(async || engine.found(&filling(7)).await);
    let take_new = |number| {
        let seen = Shard::vacant(number);
        until_answered(async || engine.take(&seen, &owner(1)).await).unwrap()
    };
    let mut tenures = [0, 9].map(take_new);
    for tenure in &mut tenures {
        fill(tenure, 1).unwrap();
    }
    assert!(!clear(8) && shards().len() == 2, "it is another one");
    assert!(clear(7) && clear(7) && shards().is_empty());
    assert_eq!(until_answered(async || engine.cluster().await), None);
    for mut tenure in tenures {
        assert!(matches!(fill(&mut tenure, 2), Err(EngineError::Deposed)));
        let number = tenure.shard().number;
        take_new(number);
        assert_eq!(until_answered(async || engine.copy(number).await).unwrap().1, Pairs::new());
    }
}

/// A shard that was given up has no owner, and contains every committed batch.
fn a_shard_is_left_with_everything_in_it<E: Engine>(node: impl Fn() -> Arc<E>) {
    let engine = node();
    let first = open(&engine, &owner(1), &steady());
    first.commit(put("a", "1")).unwrap();
    first.leave(Some("n2"));
    let left = until_answered(async || engine.shards().await).remove(0);
    assert_eq!((left.owner.clone(), left.successor.as_deref(), left.sequence), (None, Some("n2"), Sequence(1)));
    let second = open(&node(), &owner(2), &steady());
    assert_eq!(second.get(b"a").unwrap(), Some(b"1".to_vec()));
    let taken = until_answered(async || engine.shards().await).remove(0);
    assert_eq!((taken.owner, taken.successor, taken.epoch), (Some(owner(2)), None, left.epoch + 1));
}

/// While the owner writes, a copy has exactly the batches up to the sequence of its record.
fn a_copy_is_of_one_moment<E: Engine>(node: impl Fn() -> Arc<E>) {
    let engine = node();
    assert!(until_answered(async || engine.copy(SHARD).await).is_none(), "nobody has written it");
    let store = open(&node(), &owner(1), &steady());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let next = (store.handed_in().0 + 1).to_string();
                let mut batch = put("one", &*next);
                batch.put(b"other", next.into_bytes());
                commit_durably(&store, batch);
            }
        });
        let mut seen = Vec::new();
        while seen.len() < 5 {
            let (shard, pairs) = until_answered(async || engine.copy(SHARD).await).unwrap();
            let of = |key: &str| pairs.get(key.as_bytes()).map(|value| String::from_utf8(value.clone()).unwrap());
            let written = (shard.sequence.0 > 0).then(|| shard.sequence.0.to_string());
            assert_eq!((of("one"), of("other")), (written.clone(), written));
            if seen.last() != Some(&shard.sequence) {
                seen.push(shard.sequence);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(seen.is_sorted(), "{seen:?}");
    });
}

/// While nothing is written, the record changes and the lease is renewed.
fn an_idle_owner_shows_that_it_lives<E: Engine>(engine: &Arc<E>) {
    let timing = Timing { beat_every: Duration::from_millis(20), ..Timing::default() };
    let store = open(engine, &owner(1), &EngineOptions { timing, ..steady() });
    commit_durably(&store, put("a", "1"));
    let seen = || until_answered(async || engine.shards().await).remove(0);
    let (first, mut versions) = (seen(), BTreeSet::new());
    while versions.len() < 3 {
        let now = seen();
        assert_eq!((now.epoch, now.sequence, &now.owner), (first.epoch, Sequence(1), &first.owner));
        versions.insert(now.version);
    }
    assert_eq!(commit_durably(&store, put("b", "1")), Sequence(2), "signs of life have no sequence of their own");
    assert!(store.lease_left().is_some());
}

/// Commits continuously while `disturb` acts on the engine; it can wait until some more batches are acknowledged.
/// Returns the last acknowledged batch.
fn commit_during<E: Engine>(engine: &Arc<E>, disturb: impl FnOnce(&dyn Fn())) -> Sequence {
    const SOME: u64 = 40;
    let store = Arc::new(open(engine, &owner(1), &steady()));
    let (acknowledging, acknowledged) = mpsc::channel();
    let enough = Arc::new(AtomicBool::new(false));
    // Not a scoped thread: a panic in `disturb` must fail the test instead of waiting for an engine that never answers
    // again.
    let (committing, has_enough) = (store.clone(), enough.clone());
    let committing = std::thread::spawn(move || {
        for n in 1u64.. {
            let mut batch = put(n.to_be_bytes(), n.to_be_bytes());
            batch.put(b"last", n.to_be_bytes());
            assert_eq!(committing.commit(batch).unwrap(), Sequence(n));
            // Batches between these waits share a transaction.
            if n % 4 == 0 {
                wait_for(&*committing, Sequence(n));
                acknowledging.send(n).unwrap();
                if has_enough.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    });
    let next = || acknowledged.recv_timeout(LONGEST).expect("a batch should have been acknowledged");
    let wait_for_some = || {
        let newest: u64 = acknowledged.try_iter().last().unwrap_or_else(next);
        while next() < newest + SOME {}
    };
    disturb(&wait_for_some);
    wait_for_some();
    enough.store(true, Ordering::Relaxed);
    committing.join().unwrap();
    assert_eq!(*store.durable().borrow(), store.handed_in());
    store.handed_in()
}

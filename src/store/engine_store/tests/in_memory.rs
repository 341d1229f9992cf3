//! Tests on the in-memory engine: with and without faults, lost answers, a full engine, crashes.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::{
    Nodes, SHARD, a_cluster_is_cleared_if_it_is_still_the_same, a_copy_is_of_one_moment,
    a_second_owner_fences_the_first, a_shard_is_left_with_everything_in_it, all, an_idle_owner_shows_that_it_lives,
    block_on, nodes_announce_themselves, open, owner, steady, telling, told,
};
use crate::conformance::{self, Harness, commit_durably, put, wait_for};
use crate::engine::memory::{Cluster, Faults, MemoryEngine};
use crate::engine::{Engine, Limits, Room, Shard};
use crate::log::Random;
use crate::{Batch, EngineOptions, EngineStore, Sequence, Store, StoreError};

/// Nodes whose networks have these faults, each with a different seed.
fn in_memory(seed: u64, faults: Faults) -> impl Harness<Store = EngineStore> {
    let cluster = Arc::new(Cluster::default());
    Nodes::new(move |run| Arc::new(MemoryEngine::of(&cluster, seed * 1000 + run as u64, faults)))
}

const FAULTY: Faults = Faults {
    lost_before_percent: 10,
    lost_after_percent: 15,
    late_percent: 10,
    delays: 3,
    is_away: false,
    refuses_compares: false,
};

mod without_faults {
    use super::*;
    conformance::conformance_tests!(in_memory(0, Faults::default()));
}

macro_rules! faulty {
    ($($seed:literal $name:ident)*) => {
        $(mod $name {
            use super::*;
            conformance::conformance_tests!(in_memory($seed, FAULTY));
        })*
    };
}

faulty! { 1 faulty_1 2 faulty_2 3 faulty_3 4 faulty_4 }

/// A node with a separate network.
fn node(cluster: &Arc<Cluster>, faults: Faults) -> Arc<MemoryEngine> {
    Arc::new(MemoryEngine::of(cluster, 1, faults))
}

#[test]
fn a_cluster_in_memory_has_nodes_that_come_live_and_leave() {
    let cluster = Arc::new(Cluster::default());
    nodes_announce_themselves(&*node(&cluster, Faults::default()));
    a_shard_is_left_with_everything_in_it(|| node(&cluster, Faults::default()));
    an_idle_owner_shows_that_it_lives(&node(&Arc::new(Cluster::default()), Faults::default()));
    let cluster = Arc::new(Cluster::default());
    a_copy_is_of_one_moment(|| node(&cluster, Faults::default()));
}

#[test]
fn a_second_owner_fences_the_first_in_memory() {
    for faults in [Faults::default(), FAULTY] {
        let cluster = Arc::new(Cluster::default());
        a_second_owner_fences_the_first(|| node(&cluster, faults));
    }
}

#[test]
fn a_cluster_in_memory_is_cleared_if_it_is_still_the_same() {
    for faults in [Faults::default(), FAULTY] {
        a_cluster_is_cleared_if_it_is_still_the_same(&*node(&Arc::new(Cluster::default()), faults));
    }
}

#[test]
fn of_two_who_saw_the_same_record_one_gets_the_shard() {
    let cluster = Arc::new(Cluster::default());
    let engine = node(&cluster, Faults::default());
    block_on(async {
        let seen = Shard::vacant(SHARD);
        let tenure = engine.take(&seen, &owner(1)).await.unwrap().unwrap();
        assert_eq!((tenure.shard().epoch, tenure.shard().owner.clone()), (1, Some(owner(1))));
        assert_eq!(engine.take(&seen, &owner(2)).await.unwrap(), None);
        assert_eq!(engine.take(&seen, &owner(1)).await.unwrap(), Some(tenure), "asking again changes nothing");
        assert_eq!(cluster.writes(), 1);
    });
}

#[test]
fn a_transaction_whose_answer_was_lost_is_not_done_twice() {
    let cluster = Arc::new(Cluster::default());
    let engine = node(&cluster, Faults::default());
    let store = open(&engine, &owner(1), &steady());
    let before = cluster.writes();
    engine.set_faults(Faults { lost_after_percent: 100, ..Faults::default() });
    let sequence = store.commit(put("a", "1")).unwrap();
    while cluster.writes() == before {
        std::thread::yield_now();
    }
    assert_eq!((*store.durable().borrow(), store.get(b"a").unwrap()), (Sequence(0), None), "nothing is said too early");
    engine.set_faults(Faults::default());
    wait_for(&store, sequence);
    assert_eq!((cluster.writes(), store.get(b"a").unwrap()), (before + 1, Some(b"1".to_vec())));
}

#[test]
fn batches_that_waited_for_the_engine_share_a_transaction() {
    let cluster = Arc::new(Cluster::default());
    let engine = node(&cluster, Faults::default());
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = told.clone();
    let appended = Arc::new(move |journal: &str, body: &[u8]| telling.lock().push((journal.to_owned(), body.to_vec())));
    let store = open(&engine, &owner(1), &EngineOptions { appended: Some(appended), ..steady() });
    let before = cluster.writes();
    engine.set_faults(Faults { is_away: true, ..Faults::default() });
    for n in 0..200u8 {
        let mut batch = put("a", [n]);
        batch.append("acme", vec![n]);
        store.commit(batch).unwrap();
    }
    assert!(told.lock().is_empty(), "nothing has happened yet");
    engine.set_faults(Faults::default());
    wait_for(&store, Sequence(200));
    // The first batch may have been sent alone.
    assert!(cluster.writes() - before <= 2, "{}", cluster.writes() - before);
    assert!(told.lock().iter().map(|(_, body)| body[0]).eq(0..200));
}

#[test]
fn a_group_that_is_too_large_becomes_several_transactions_in_order() {
    let cluster = Arc::new(Cluster::default());
    let limits = Limits { changes: 8, bytes: 4 * 1024 * 1024 };
    let engine = Arc::new(MemoryEngine::with_limits(&cluster, 1, Faults::default(), limits));
    let store = open(&engine, &owner(1), &steady());
    engine.set_faults(Faults { is_away: true, ..Faults::default() });
    let before = cluster.writes();
    for n in 0..50u8 {
        let mut batch = put([b'a', n], [n]);
        batch.put(vec![b'b', n], vec![n]);
        batch.put(b"last", vec![n]);
        batch.append("acme", vec![n]);
        store.commit(batch).unwrap();
    }
    engine.set_faults(Faults::default());
    wait_for(&store, Sequence(50));
    assert!(cluster.writes() - before >= 50 / 3);
    assert_eq!(store.get(b"last").unwrap().unwrap(), [49]);
    let read = all(&store);
    drop(store);
    assert_eq!(all(&open(&engine, &owner(2), &steady())), read);
    assert_eq!(cluster.shard(SHARD).unwrap().sequence, Sequence(50));
}

#[test]
fn an_engine_without_room_refuses_what_comes_and_keeps_what_was_handed_in() {
    let cluster = Arc::new(Cluster::default());
    let engine = node(&cluster, Faults::default());
    let store = open(&engine, &owner(1), &steady());
    cluster.set_full(true);
    let sequence = store.commit(put("a", "1")).unwrap();
    while store.refusing_writes().is_none() {
        std::thread::yield_now();
    }
    assert!(matches!(store.commit(put("b", "1")), Err(StoreError::EngineFull)));
    cluster.set_full(false);
    wait_for(&store, sequence);
    assert!(store.refusing_writes().is_none());

    store.heed(Room { used_bytes: 90, quota_bytes: 100, is_exhausted: false });
    assert!(matches!(store.commit(put("b", "1")), Err(StoreError::EngineFull)));
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"1");
    let mut end = put("a", "2");
    end.mark_as_end();
    commit_durably(&store, end.clone());
    store.heed(Room { used_bytes: 90, quota_bytes: 100, is_exhausted: true });
    assert!(matches!(store.commit(end), Err(StoreError::EngineFull)), "the engine takes nothing more");
    store.heed(Room { used_bytes: 10, quota_bytes: 100, is_exhausted: false });
    commit_durably(&store, put("b", "1"));
}

#[test]
fn a_refused_compare_ends_the_store() {
    let cluster = Arc::new(Cluster::default());
    let engine = node(&cluster, Faults::default());
    let (options, sentences) = telling();
    let store = open(&engine, &owner(1), &options);
    commit_durably(&store, put("a", "1"));
    engine.set_faults(Faults { refuses_compares: true, ..Faults::default() });
    store.commit(put("b", "1")).unwrap();
    assert!(told(&sentences).contains("everything acknowledged is there"));
    assert!(matches!(store.commit(put("c", "1")), Err(StoreError::Deposed)));
    assert_eq!(*store.durable().borrow(), Sequence(1));
}

/// Successive owners crash with batches in flight. The next owner has every acknowledged batch and all batches before
/// it, without gaps.
#[test]
fn no_crash_and_no_lost_answer_loses_or_reorders_a_batch() {
    for seed in 0..40 {
        let cluster = Arc::new(Cluster::default());
        let mut random = Random::new(seed);
        let mut last = 0;
        for run in 1..=5 {
            let engine = Arc::new(MemoryEngine::of(&cluster, seed * 100 + run, FAULTY));
            let store = open(&engine, &owner(run.into()), &steady());
            let found = store.durable().borrow().0;
            assert!(found >= last, "seed {seed}: {last} was acknowledged, {found} is there");
            let numbers = all(&store).into_iter().filter(|(key, _)| key != b"last");
            let expected = (1..=found).map(|n| (n.to_be_bytes().to_vec(), n.to_be_bytes().to_vec()));
            assert!(numbers.eq(expected), "seed {seed}: not the batches from 1 to {found}");
            assert_eq!(store.get(b"last").unwrap(), (found > 0).then(|| found.to_be_bytes().to_vec()));
            for n in found + 1..=found + 1 + random.below(30) {
                let mut batch = put(n.to_be_bytes(), n.to_be_bytes());
                batch.put(b"last", n.to_be_bytes());
                assert_eq!(store.commit(batch).unwrap(), Sequence(n));
                if random.below(4) == 0 {
                    wait_for(&store, Sequence(n));
                }
            }
            last = store.durable().borrow().0;
            store.abandon();
        }
    }
}

#[test]
fn a_closed_store_refuses_writes_and_still_reads() {
    let cluster = Arc::new(Cluster::default());
    let store = open(&node(&cluster, Faults::default()), &owner(1), &steady());
    let sequence = store.commit(put("a", "1")).unwrap();
    store.close();
    store.close();
    assert_eq!((*store.durable().borrow(), store.applied()), (sequence, sequence));
    assert!(matches!(store.commit(put("b", "1")), Err(StoreError::Closed)));
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"1");
}

#[test]
fn closing_gives_up_on_an_engine_that_does_not_answer() {
    let cluster = Arc::new(Cluster::default());
    let engine = node(&cluster, Faults::default());
    let store = open(&engine, &owner(1), &EngineOptions { close_within: Duration::ZERO, ..steady() });
    commit_durably(&store, put("a", "1"));
    engine.set_faults(Faults { is_away: true, ..Faults::default() });
    store.commit(put("a", "2")).unwrap();
    store.close();
    assert_eq!((*store.durable().borrow(), store.get(b"a").unwrap().unwrap()), (Sequence(1), b"1".to_vec()));
}

#[test]
fn what_can_never_fit_is_refused_before_it_is_handed_in() {
    let cluster = Arc::new(Cluster::default());
    let store = open(&node(&cluster, Faults::default()), &owner(1), &steady());
    let mut batch = Batch::default();
    (0..5000u32).for_each(|n| batch.delete(n.to_be_bytes()));
    assert!(matches!(store.commit(batch), Err(StoreError::TooManyChanges { changes: 5000, limit: 4095 })));
    assert_eq!(store.handed_in(), Sequence(0));
}

//! On real members of etcd.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use super::{Nodes, SHARD, a_second_owner_fences_the_first, all, block_on, open, owner, steady};
use crate::store::conformance::{self, Harness, put, wait_for};
use crate::store::engine::Engine;
use crate::store::engine::etcd::Etcd;
use crate::store::engine::etcd::fixture::{EtcdServers, SIZED};
use crate::store::{EngineStore, Sequence, Store};

/// None where etcd is not installed.
fn on_etcd() -> Option<impl Harness<Store = EngineStore>> {
    let servers = EtcdServers::start(1, SIZED)?;
    Some(Nodes::new(move |_| Arc::new(servers.engine())))
}

conformance::conformance_tests!(match on_etcd() {
    Some(nodes) => nodes,
    None => return,
});

#[test]
fn a_second_owner_fences_the_first_on_etcd() {
    let Some(servers) = EtcdServers::start(1, SIZED) else { return };
    a_second_owner_fences_the_first(|| Arc::new(servers.engine()));
}

#[test]
fn nothing_acknowledged_is_lost_when_members_are_killed_and_started_again() {
    /// Batches between two events.
    const SOME: u64 = 40;
    let Some(mut servers) = EtcdServers::start(3, SIZED) else { return };
    let store = open(&Arc::new(servers.engine()), &owner(1), &steady());
    let (acknowledging, acknowledged) = mpsc::channel();
    let enough = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let (store, enough) = (&store, &enough);
        threads.spawn(move || {
            for n in 1u64.. {
                let mut batch = put(n.to_be_bytes(), n.to_be_bytes());
                batch.put(b"last".to_vec(), n.to_be_bytes().to_vec());
                assert_eq!(store.commit(batch).unwrap(), Sequence(n));
                // Some share a transaction.
                if n % 4 == 0 {
                    wait_for(store, Sequence(n));
                    acknowledging.send(n).unwrap();
                    if enough.load(Ordering::Relaxed) {
                        return;
                    }
                }
            }
        });
        let wait_for_some = || {
            let first: u64 = acknowledged.recv().unwrap();
            while acknowledged.recv().unwrap() < first + SOME {}
        };
        // Each once: the one that is asked, and the leader.
        for place in [0, 1, 2, 0] {
            wait_for_some();
            servers.kill(place);
            wait_for_some();
            servers.restart(place);
        }
        wait_for_some();
        enough.store(true, Ordering::Relaxed);
    });
    let last = store.handed_in();
    assert_eq!(*store.durable().borrow(), last);
    drop(store);
    let engine = Arc::new(servers.engine());
    let next = open(&engine, &owner(2), &steady());
    assert_eq!(*next.durable().borrow(), last);
    let read = all(&next);
    let expected = (1..=last.0).map(|n| (n.to_be_bytes().to_vec(), n.to_be_bytes().to_vec()));
    let expected: Vec<_> = expected.chain([(b"last".to_vec(), last.0.to_be_bytes().to_vec())]).collect();
    assert_eq!(read, expected);
    // Each member has all of it.
    for url in servers.urls() {
        let engine = Etcd::new(crate::store::engine::etcd::EtcdSettings { members: vec![url], ..servers.settings() });
        let engine = engine.unwrap();
        let pairs = block_on(async {
            let shards = engine.shards().await.unwrap();
            engine.load(SHARD, shards[0].version).await.unwrap()
        });
        assert!(pairs.into_iter().eq(expected.iter().cloned()));
    }
}

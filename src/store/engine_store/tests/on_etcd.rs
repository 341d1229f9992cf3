//! Tests on real etcd members.

use std::sync::Arc;

use super::{
    Nodes, SHARD, a_cluster_is_cleared_if_it_is_still_the_same, a_copy_is_of_one_moment,
    a_second_owner_fences_the_first, a_shard_is_left_with_everything_in_it, all, an_idle_owner_shows_that_it_lives,
    answered, block_on, commit_during, nodes_announce_themselves, open, owner, steady,
};
use crate::conformance::{self, Harness};
use crate::engine::Engine;
use crate::engine::etcd::fixture::{EtcdServers, SIZED, settings};
use crate::engine::etcd::{Etcd, EtcdSettings};
use crate::{EngineStore, Sequence, Store};

/// `None` if etcd is not installed.
fn on_etcd() -> Option<impl Harness<Store = EngineStore>> {
    let servers = EtcdServers::start(1, SIZED)?;
    Some(Nodes::new(move |_| Arc::new(servers.engine())))
}

conformance::conformance_tests!(match on_etcd() {
    Some(nodes) => nodes,
    None => return,
});

#[test]
fn a_cluster_on_etcd_has_nodes_that_come_live_and_leave() {
    let Some(servers) = EtcdServers::start(1, SIZED) else { return };
    nodes_announce_themselves(&servers.engine());
    a_shard_is_left_with_everything_in_it(|| Arc::new(servers.engine()));
    let Some(servers) = EtcdServers::start(1, SIZED) else { return };
    an_idle_owner_shows_that_it_lives(&Arc::new(servers.engine()));
}

#[test]
fn a_cluster_on_etcd_is_cleared_if_it_is_still_the_same() {
    let Some(servers) = EtcdServers::start(1, SIZED) else { return };
    a_cluster_is_cleared_if_it_is_still_the_same(&servers.engine());
}

#[test]
fn a_copy_of_a_shard_on_etcd_is_of_one_moment() {
    let Some(servers) = EtcdServers::start(1, SIZED) else { return };
    a_copy_is_of_one_moment(|| Arc::new(servers.engine()));
}

#[test]
fn a_second_owner_fences_the_first_on_etcd() {
    let Some(servers) = EtcdServers::start(1, SIZED) else { return };
    a_second_owner_fences_the_first(|| Arc::new(servers.engine()));
}

#[test]
fn nothing_acknowledged_is_lost_when_members_are_killed_and_started_again() {
    let Some(mut servers) = EtcdServers::start(3, SIZED) else { return };
    let urls = servers.urls();
    let last = commit_during(&engine(&urls), |wait_for_some| {
        // These include the member in use and the leader.
        for place in [0, 1, 2, 0] {
            wait_for_some();
            servers.kill(place);
            wait_for_some();
            servers.restart(place);
        }
    });
    check_all(&urls, last);
}

#[test]
fn nothing_acknowledged_is_lost_when_members_freeze_and_go_on() {
    let Some(servers) = EtcdServers::start(3, SIZED) else { return };
    let urls = servers.urls();
    let last = commit_during(&engine(&urls), |wait_for_some| {
        for place in [0, 1, 2] {
            wait_for_some();
            servers.freeze(place, true);
            wait_for_some();
            // The member now executes the requests that it received while paused, although they have since succeeded
            // through another member.
            servers.freeze(place, false);
        }
    });
    check_all(&urls, last);
}

fn engine(members: &[String]) -> Arc<Etcd> {
    Arc::new(Etcd::new(EtcdSettings { members: members.to_vec(), ..settings() }).unwrap())
}

/// The next owner finds every batch up to the last one, also through each member alone.
fn check_all(members: &[String], last: Sequence) {
    let numbers = (1..=last.0).map(|n| (n.to_be_bytes().to_vec(), n.to_be_bytes().to_vec()));
    let expected: Vec<_> = numbers.chain([(b"last".to_vec(), last.0.to_be_bytes().to_vec())]).collect();
    let next = open(&engine(members), &owner(2), &steady());
    assert_eq!((*next.durable().borrow(), all(&next)), (last, expected.clone()));
    for member in members {
        let engine = engine(std::slice::from_ref(member));
        // A member that was paused may take a while to find the leader.
        let pairs = block_on(async {
            loop {
                let Some(shards) = answered(engine.shards().await) else { continue };
                if let Some(pairs) = answered(engine.load(SHARD, shards[0].version).await) {
                    return pairs;
                }
            }
        });
        assert!(pairs.into_iter().eq(expected.iter().cloned()), "{member}");
    }
}

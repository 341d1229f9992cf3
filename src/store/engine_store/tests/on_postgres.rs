//! Tests on a real PostgreSQL.

use std::sync::Arc;

use super::{
    Nodes, a_cluster_is_cleared_if_it_is_still_the_same, a_copy_is_of_one_moment, a_second_owner_fences_the_first,
    a_shard_is_left_with_everything_in_it, all, an_idle_owner_shows_that_it_lives, commit_during,
    nodes_announce_themselves, open, owner, steady, until_answered,
};
use crate::conformance::{self, Harness};
use crate::engine::Engine;
use crate::engine::postgres::fixture::PostgresServer;
use crate::engine::postgres::{Postgres, PostgresSettings};
use crate::{EngineStore, Sequence, Store};

/// `None` if PostgreSQL is not installed.
fn server() -> Option<PostgresServer> {
    let server = PostgresServer::start(&[])?;
    let engine = server.engine();
    until_answered(async || engine.probe().await);
    Some(server)
}

fn on_postgres() -> Option<impl Harness<Store = EngineStore>> {
    let server = server()?;
    Some(Nodes::new(move |_| Arc::new(server.engine())))
}

conformance::conformance_tests!(match on_postgres() {
    Some(nodes) => nodes,
    None => return,
});

#[test]
fn a_cluster_on_postgres_has_nodes_that_come_live_and_leave() {
    let Some(server) = server() else { return };
    nodes_announce_themselves(&server.engine());
    an_idle_owner_shows_that_it_lives(&Arc::new(server.engine()));
}

#[test]
fn a_shard_on_postgres_is_left_with_everything_in_it() {
    let Some(server) = server() else { return };
    a_shard_is_left_with_everything_in_it(|| Arc::new(server.engine()));
}

#[test]
fn a_cluster_on_postgres_is_cleared_if_it_is_still_the_same() {
    let Some(server) = server() else { return };
    a_cluster_is_cleared_if_it_is_still_the_same(&server.engine());
}

#[test]
fn a_copy_of_a_shard_on_postgres_is_of_one_moment() {
    let Some(server) = server() else { return };
    a_copy_is_of_one_moment(|| Arc::new(server.engine()));
}

#[test]
fn a_second_owner_fences_the_first_on_postgres() {
    let Some(server) = server() else { return };
    a_second_owner_fences_the_first(|| Arc::new(server.engine()));
}

#[test]
fn nothing_acknowledged_is_lost_when_postgres_is_killed_freezes_and_starts_again() {
    let Some(mut server) = server() else { return };
    let url = server.url();
    let engine =
        || Arc::new(Postgres::new(&PostgresSettings { url: url.clone(), tls: None, quota_bytes: 1 << 30 }).unwrap());
    let last = commit_during(&engine(), |wait_for_some| {
        for _ in 0..3 {
            wait_for_some();
            server.kill();
            server.restart();
        }
        wait_for_some();
        server.freeze(true);
        // The pause is longer than the timeout: requests sent meanwhile are executed when the server resumes.
        std::thread::sleep(std::time::Duration::from_secs(2));
        server.freeze(false);
    });
    let numbers = (1..=last.0).map(|n| (n.to_be_bytes().to_vec(), n.to_be_bytes().to_vec()));
    let expected: Vec<_> = numbers.chain([(b"last".to_vec(), last.0.to_be_bytes().to_vec())]).collect();
    let next = open(&engine(), &owner(2), &steady());
    assert_eq!((*next.durable().borrow(), all(&next)), (last, expected));
    assert_eq!(next.handed_in(), Sequence(last.0));
}

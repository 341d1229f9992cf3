//! An engine without space: writes are refused, nothing is lost, and it continues when there is space again.

use std::time::Duration;

use loadtest::etcd_client::EtcdClient;
use serde_json::json;

use super::etcd::EtcdServers;
use super::nodes::{Nodes, setup};
use crate::support::Client;
use crate::support::waiting::until;

const JUNK: &[u8] = b"junk/";
const MEGABYTE: usize = 1024 * 1024;

/// Writes one megabyte at a time, until `is_enough`, or until the engine refuses.
pub async fn fill(etcd: &EtcdServers, is_enough: impl Fn(i64) -> bool) {
    let mut engine = EtcdClient::connect(etcd.addresses()[0]).await.unwrap();
    for number in 0..200 {
        let key = [JUNK, format!("{number}").as_bytes()].concat();
        match engine.put(&key, vec![1; MEGABYTE]).await {
            Err(error) if error.is_out_of_room() => return,
            put => put.unwrap(),
        }
        if is_enough(engine.status().await.unwrap().db_size) {
            return;
        }
    }
    panic!("the engine is never full");
}

/// As its operator would.
pub async fn tidy_up(etcd: &EtcdServers) {
    let mut engine = EtcdClient::connect(etcd.addresses()[0]).await.unwrap();
    engine.delete(JUNK).await.unwrap();
    let newest = engine.newest_revision().await.unwrap();
    engine.compact(newest).await.unwrap();
    engine.defragment().await.unwrap();
    engine.disarm().await.unwrap();
}

/// Claims until the answer is this one. Successful claims are released.
async fn until_claims_are(admin: &Client, status: u16) {
    until("claims are answered so", async || {
        let answer = admin.claim("review-2", json!({})).await;
        if answer.status == status {
            if status == 503 {
                answer.refused(503, "storage_full");
            }
            return true;
        }
        if answer.status == 201 {
            admin.release("review-2", &answer.session()).await;
        }
        false
    })
    .await;
}

#[tokio::test]
async fn before_the_engine_is_full_writes_are_refused_and_reads_go_on() {
    let Some(etcd) = EtcdServers::start(1) else { return };
    let node = setup(&etcd, "n1", "quota_mb = 64\n").start();
    let nodes = Nodes { nodes: vec![node], etcd };
    nodes.until_ready(0).await;
    let admin = nodes.admin(0);
    let held = admin.claim("review-1", json!({})).await.created();
    fill(&nodes.etcd, |used| used > 52 * MEGABYTE as i64).await;
    until_claims_are(&admin, 503).await;
    // Longer than the duration of a lease: it is renewed, since the engine itself still accepts writes.
    for _ in 0..30 {
        assert_eq!(admin.environment("review-1").await.ok().data()["lock"]["sessionId"], held.session());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // Ending something needs hardly any space, and may free some.
    admin.release("review-1", &held.session()).await.ok();
    let refused = admin.claim("review-1", json!({})).await.refused(503, "storage_full");
    assert!(refused.text.contains("the cluster's engine is full"), "{}", refused.text);
    tidy_up(&nodes.etcd).await;
    until_claims_are(&admin, 201).await;
}

#[tokio::test]
async fn an_engine_that_takes_no_more_writes_loses_nothing_and_goes_on_when_it_does() {
    let Some(etcd) = EtcdServers::start_with(1, &["--quota-backend-bytes=33554432"]) else { return };
    let nodes = Nodes::start_on(etcd, 2).await;
    let admin = nodes.admin(nodes.other());
    fill(&nodes.etcd, |used| used > 24 * MEGABYTE as i64).await;
    let held = admin.claim("review-1", json!({ "ttlSeconds": 10 })).await.created();
    fill(&nodes.etcd, |_| false).await;
    // Requests are now refused, or their outcome is unknown; then the nodes can no longer prove that they own their
    // shards.
    until("reads are refused", async || admin.environment("review-1").await.status == 503).await;
    assert_eq!(admin.claim("review-2", json!({})).await.status, 503);
    tidy_up(&nodes.etcd).await;
    until_claims_are(&admin, 201).await;
    // Locks do not expire while they cannot be renewed.
    admin.heartbeat("review-1", &held.session()).await.ok();
}

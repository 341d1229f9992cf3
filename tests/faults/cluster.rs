//! Several nodes on a real engine: nodes that are killed, frozen or stopped, and an engine that does not answer.

mod crowd;
mod cut;
mod etcd;
mod full;
mod logs;
mod moving;
mod nodes;
mod passing_on;
mod postgres;
mod reloading;
mod steps;

use std::time::Duration;

use crate::support::waiting::{until, until_found};
use crate::support::{ADMIN_TOKEN, Server, Setup, at, refusal};
use nodes::Nodes;
use reqwest::Method;
use serde_json::json;

/// Another node has taken over.
const EXIT_DEPOSED: i32 = 75;

#[tokio::test]
async fn any_node_answers_any_request() {
    let Some(nodes) = Nodes::start(3, 1).await else { return };
    for node in 0..3 {
        let admin = nodes.admin(node);
        let environment = format!("review-{}", node + 1);
        let claimed = admin.claim(&environment, json!({ "commitId": "c0ffee1" })).await.created();
        assert!(!claimed.header("x-request-id").is_empty());
        assert_eq!(claimed.headers.get_all("x-request-id").iter().count(), 1);
        assert_eq!(claimed.headers.get_all("date").iter().count(), 1);
        assert_eq!(claimed.headers.get_all("cache-control").iter().count(), 1);
        // With the same view on all nodes.
        for seen_by in 0..3 {
            let seen = nodes.admin(seen_by).environment(&environment).await.ok();
            assert_eq!(seen.data()["lock"]["sessionId"], claimed.session());
            let client = nodes.admin(seen_by);
            let head = client.send(client.request(Method::HEAD, &client.path(&at(&environment)))).await.ok();
            assert!(head.text.is_empty() && head.header("content-length") == seen.header("content-length"), "{head:?}");
        }
        let who = admin.send(admin.request(Method::GET, "/api/v1/whoami")).await.ok();
        assert_eq!(who.data()["organization"]["id"], "acme");
        let sign_in = admin.request(Method::POST, "/auth/sign-in").json(&json!({ "token": ADMIN_TOKEN }));
        admin.send(sign_in).await.has_status(204);
        let cluster = admin.get("/cluster").await.ok();
        let data = cluster.data();
        let alive = data["nodes"].as_array().unwrap().iter().filter(|node| node["lives"] == true);
        assert_eq!(alive.count(), 3, "{cluster:?}");
        assert_eq!(data["owner"], format!("n{}", nodes.owner() + 1), "{cluster:?}");
        // Requests that only nodes may send.
        let undelivered = format!("{}/sessions/{}/undelivered", at(&environment), claimed.session());
        admin.post(&undelivered, json!({})).await.refused(404, "route_not_found");
        let forged =
            admin.request(Method::GET, &admin.path(&at(&environment))).header("lockkeeper-via", "n9 - http 00");
        admin.send(forged).await.refused(421, "not_the_owner");
        assert_eq!(admin.environment(&environment).await.ok().data()["lock"]["sessionId"], claimed.session());
        admin.environment("nowhere").await.refused(404, "environment_not_found");
        let stranger = nodes.nodes[node].with_token(&ADMIN_TOKEN.replace("2C8GjS", "1C8GjS"));
        stranger.environment(&environment).await.refused(401, "invalid_token");
        stranger.send(stranger.request(Method::GET, "/api/v1/whoami")).await.refused(401, "invalid_token");
        nodes.nodes[node].anonymous().environment(&environment).await.refused(401, "missing_token");
    }
}

#[tokio::test]
async fn a_claim_that_waits_is_granted_through_another_node_and_given_up_with_its_client() {
    let Some(nodes) = Nodes::start(2, 1).await else { return };
    let (owner, other) = (nodes.admin(nodes.owner()), nodes.admin(nodes.other()));
    let holder = owner.claim("review-1", json!({})).await.created().session();
    let waiting = other.wait_in_line("review-1", json!({ "waitSeconds": 60 }), 1).await;
    owner.release("review-1", &holder).await.has_status(200);
    let granted = waiting.await.unwrap().created().session();
    let gone = other.wait_in_line("review-1", json!({ "waitSeconds": 60 }), 1).await;
    gone.abort();
    owner.until_queue_is("review-1", 0).await;
    other.release("review-1", &granted).await.has_status(200);
    assert_eq!(owner.environment("review-1").await.ok().data()["lockStatus"], "unlocked");
}

#[tokio::test]
async fn a_lock_whose_client_has_gone_when_it_comes_through_another_node_is_taken_back() {
    let Some(nodes) = Nodes::start(2, 1).await else { return };
    let (owner, other) = (nodes.admin(nodes.owner()), nodes.admin(nodes.other()));
    nodes.nodes[nodes.owner()].without_ttl("review-1").await;
    let holder = owner.claim("review-1", json!({})).await.created().session();
    let waiting = other.wait_in_line("review-1", json!({ "waitSeconds": 60 }), 1).await;
    // While the other node is frozen, this node gets the lock, and its client disconnects.
    nodes.nodes[nodes.other()].signal("-STOP");
    owner.release("review-1", &holder).await.has_status(200);
    let is_free = async || owner.environment("review-1").await.ok().data()["lock"].is_null();
    until("it has the lock", async || !is_free().await).await;
    waiting.abort();
    assert!(waiting.await.is_err_and(|ended| ended.is_cancelled()));
    nodes.nodes[nodes.other()].signal("-CONT");
    until("the lock is free", is_free).await;
    assert!(nodes.nodes[nodes.owner()].log().contains("the client disconnected before it got the lock"));
}

#[tokio::test]
async fn a_killed_owner_is_replaced_and_a_client_with_a_key_sees_no_error() {
    let Some(mut nodes) = Nodes::start(3, 1).await else { return };
    let (owner, other) = (nodes.owner(), nodes.other());
    let held = nodes.admin(other).claim("review-1", json!({})).await.created();
    nodes.nodes[owner].kill();
    let admin = nodes.admin(other);
    let sessions = format!("{}/sessions", at("review-2"));
    let claimed = admin.post_with_key(&sessions, "k1", json!({})).await.created();
    let again = admin.post_with_key(&sessions, "k1", json!({})).await;
    assert_eq!(again.session(), claimed.session(), "the same answer, and no second lock");
    assert_eq!(admin.environment("review-1").await.ok().data()["lock"]["sessionId"], held.session());
    // It returns as one node among others.
    nodes.nodes[owner].start_again();
    nodes.until_ready(owner).await;
    assert_eq!(nodes.admin(owner).environment("review-2").await.ok().data()["lock"]["sessionId"], claimed.session());
    let audit = admin.get("/audit").await.ok();
    assert_eq!(audit.data()["intact"], true, "{audit:?}");
}

#[tokio::test]
async fn a_frozen_owner_shows_nothing_old_and_ends() {
    let Some(mut nodes) = Nodes::start(2, 1).await else { return };
    let (owner, other) = (nodes.owner(), nodes.other());
    let first = nodes.admin(owner).claim("review-1", json!({})).await.created();
    nodes.nodes[owner].signal("-STOP");
    let admin = nodes.admin(other);
    // Through a node that waits for the other to take over.
    let taken = admin.post_with_key(&format!("{}/force-claim", at("review-1")), "k1", json!({})).await;
    let second = taken.created();
    assert!(second.data()["fencingToken"].as_u64() > first.data()["fencingToken"].as_u64());
    // A request to the frozen node is answered when it continues, but not with the old lock.
    let zombie = nodes.admin(owner);
    let asked =
        tokio::spawn(async move { zombie.try_send(zombie.request(Method::GET, &zombie.path(&at("review-1")))).await });
    nodes.nodes[owner].signal("-CONT");
    if let Ok(answer) = asked.await.unwrap() {
        let shows_new = answer.status == 200 && answer.data()["lock"]["sessionId"] == second.session();
        assert!(shows_new || answer.status == 503, "{answer:?}");
    }
    assert_eq!(nodes.nodes[owner].wait().code(), Some(EXIT_DEPOSED));
    assert_eq!(admin.environment("review-1").await.ok().data()["lock"]["sessionId"], second.session());
}

#[tokio::test]
async fn a_node_that_is_stopped_hands_its_shards_over() {
    let Some(mut nodes) = Nodes::start(2, 1).await else { return };
    let (owner, other) = (nodes.owner(), nodes.other());
    let held = nodes.admin(owner).claim("review-1", json!({})).await.created();
    assert!(nodes.nodes[owner].terminate().success());
    assert!(nodes.nodes[owner].log().contains("left the shard"));
    nodes.until_ready(other).await;
    assert_eq!(nodes.admin(other).environment("review-1").await.ok().data()["lock"]["sessionId"], held.session());
}

#[tokio::test]
async fn without_its_engine_nothing_is_answered_and_no_lock_ages() {
    let Some(nodes) = Nodes::start(1, 1).await else { return };
    let admin = nodes.admin(0);
    let held = admin.claim("review-1", json!({ "ttlSeconds": 10 })).await.created();
    nodes.etcd.signal(0, "-STOP");
    let until = async |status: u16| {
        until("the status", async || admin.environment("review-1").await.status == status).await;
    };
    until(503).await;
    admin.environment("review-1").await.refused(503, "engine_unavailable");
    let probe = admin.send(admin.request(Method::GET, "/readyz")).await;
    assert_eq!(probe.status, 503);
    // Longer than the lease of the lock.
    tokio::time::sleep(Duration::from_secs(10)).await;
    nodes.etcd.signal(0, "-CONT");
    until(200).await;
    admin.heartbeat("review-1", &held.session()).await.ok();
}

#[tokio::test]
async fn members_of_the_engine_that_die_lose_nothing() {
    let Some(mut nodes) = Nodes::start(2, 3).await else { return };
    let admin = nodes.admin(nodes.other());
    for member in 0..3 {
        nodes.etcd.kill(member);
        let environment = format!("review-{}", member + 1);
        let claim = format!("{}/sessions", at(&environment));
        // The engine may need longer to elect a leader than a lease lasts; then the client tries again.
        let claimed = until_found("the engine has a leader", async || {
            let answer = admin.post_with_key(&claim, &environment, json!({})).await;
            (answer.status != 503).then(|| answer.created())
        })
        .await;
        nodes.etcd.restart(member);
        assert_eq!(admin.environment(&environment).await.ok().data()["lock"]["sessionId"], claimed.session());
    }
}

#[tokio::test]
async fn without_a_majority_nothing_is_answered_and_with_it_everything_is_there() {
    let Some(mut nodes) = Nodes::start(2, 3).await else { return };
    let admin = nodes.admin(nodes.other());
    let held = admin.claim("review-1", json!({})).await.created();
    nodes.etcd.kill(0);
    nodes.etcd.kill(1);
    let until = async |status: u16| {
        until("the status", async || admin.environment("review-1").await.status == status).await;
    };
    until(503).await;
    nodes.etcd.restart_all(&[0, 1]);
    until(200).await;
    assert_eq!(admin.environment("review-1").await.ok().data()["lock"]["sessionId"], held.session());
    let next = admin.post_with_key(&format!("{}/sessions", at("review-2")), "k1", json!({})).await.created();
    assert_eq!(admin.environment("review-2").await.ok().data()["lock"]["sessionId"], next.session());
}

#[tokio::test]
async fn a_node_that_does_not_fit_is_refused_and_disturbs_nobody() {
    let Some(nodes) = Nodes::start(1, 1).await else { return };
    let held = nodes.admin(0).claim("review-1", json!({})).await.created();
    let home = tempfile::tempdir().unwrap();
    let stranger = nodes::setup(&nodes.etcd, "n2", "").variable("LOCKKEEPER_MASTER_KEY", &"2".repeat(64));
    let (code, said) = refusal(&stranger, home.path());
    assert!(code == 1 && said.contains("is not the key of this cluster"), "{code}: {said}");
    // A data directory of a single machine, and one of a node.
    let alone = Server::start();
    let (code, said) = refusal_at(&nodes::setup(&nodes.etcd, "n2", ""), alone);
    assert!(code == 1 && said.contains("has the data of a server on one machine"), "{code}: {said}");
    let (code, said) = refusal(&Setup::default(), nodes.nodes[0].home());
    assert!(code == 1 && said.contains("belongs to a node of a cluster"), "{code}: {said}");
    assert_eq!(nodes.admin(0).environment("review-1").await.ok().data()["lock"]["sessionId"], held.session());
}

/// The refusal of a start in the home of a stopped server.
fn refusal_at(setup: &Setup, mut server: Server) -> (i32, String) {
    server.kill();
    refusal(setup, server.home())
}

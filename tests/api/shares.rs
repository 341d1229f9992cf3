//! Two organizations, one of which takes all it can get: the other still gets a place. The same holds for the other
//! members and admins of an organization if one member does that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Method;
use serde_json::json;

use crate::events::offline;
use crate::support::tenants::acme_and_beta;
use crate::support::wire::{Wire, head};
use crate::support::{Client, Server, Setup, at};

/// A metric of acme's share, 0 if it is not shown.
async fn share(server: &Server, name: &str, resource: &str) -> u64 {
    let anonymous = server.anonymous();
    let metrics = anonymous.send(anonymous.request(Method::GET, "/metrics")).await.ok().text;
    assert!(!metrics.contains("acme") && !metrics.contains("beta"), "everybody may read it: {metrics}");
    // The first organization in the settings.
    let labels = format!("{name}{{resource=\"{resource}\",organization=\"1\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&labels)).map_or(0, |value| value.parse().unwrap())
}

fn says(answer: &crate::support::Answer, text: &str) {
    assert!(answer.json()["detail"].as_str().unwrap().contains(text), "{}", answer.text);
}

#[tokio::test]
async fn a_list_does_not_wait_for_the_long_lists_of_another_organization() {
    const LISTS: usize = 30;
    let (mut server, bea) = acme_and_beta(Setup::default).await;
    assert!(server.terminate().success());
    offline::record(server.home(), 20_000, 200);
    server.start_again();
    let (admin, bea) = (server.admin(), bea.at(&server));
    // With this filter, each of them reads everything.
    let ask = format!("{}\r\n", head("GET", &admin.path("/events?type=secret.deleted")));
    let answered = Arc::new(AtomicUsize::new(0));
    let mut lists = Vec::new();
    for _ in 0..LISTS {
        let mut wire = Wire::open(&server).await;
        wire.send(&ask).await;
        let answered = answered.clone();
        lists.push(tokio::spawn(async move {
            wire.answer().await.unwrap().ok();
            answered.fetch_add(1, Ordering::SeqCst);
        }));
    }
    while share(&server, "lockkeeper_share_used", "list_reads").await == 0 {
        assert!(answered.load(Ordering::SeqCst) < LISTS, "no list was seen to be read");
    }
    bea.get("/events?type=secret.deleted").await.ok();
    bea.get("/pipelines/web/ephemeral-environments").await.ok();
    let before = answered.load(Ordering::SeqCst);
    assert!(before < LISTS / 2, "{before} of {LISTS} lists went first");
    for list in lists {
        list.await.unwrap();
    }
}

#[tokio::test]
async fn claims_that_wait_leave_places_to_wait_to_another_organization() {
    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[environments]\nmax_waiting = 10\n";
    let (server, bea) = acme_and_beta(|| Setup::default().settings(settings)).await;
    let admin = server.admin();
    for client in [&admin, &bea] {
        client.claim("review-1", json!({})).await.created();
    }
    let waiting = admin.wait_in_line("review-1", json!({ "waitSeconds": 300 }), 1).await;
    for _ in 0..4 {
        admin.enqueue("review-1", json!({})).await;
    }
    for body in [json!({ "queue": true }), json!({ "waitSeconds": 300 })] {
        let refused = admin.claim("review-1", body.clone()).await.refused(503, "queue_full");
        says(&refused, "your organization already has its share, 5");
        assert_eq!(refused.header("retry-after"), "5");
        let session = admin.claim("review-2", body).await.created().session();
        admin.release("review-2", &session).await.ok();
    }
    assert_eq!(share(&server, "lockkeeper_share_refused_total", "waiting_claims").await, 4);
    assert_eq!(share(&server, "lockkeeper_share_used", "waiting_claims").await, 5);
    bea.enqueue("review-1", json!({})).await;
    bea.enqueue("review-1", json!({})).await;
    waiting.abort();
    admin.until_queue_is("review-1", 4).await;
}

#[tokio::test]
async fn requests_that_wait_on_their_connections_leave_connections_to_another_organization() {
    let settings = "workers = 1\n[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[http]\nmax_connections = 40\n";
    let (server, bea) = acme_and_beta(|| Setup::default().settings(settings)).await;
    let admin = server.admin();
    let session = admin.claim("review-1", json!({})).await.created().session();
    let etag = admin.session("review-1", &session).await.ok().header("etag").to_owned();
    let path = format!("{}/sessions/{session}?waitSeconds=300", at("review-1"));
    let ask = format!("{}If-None-Match: {etag}\r\n\r\n", head("GET", &admin.path(&path)));
    let mut polls = Vec::new();
    while share(&server, "lockkeeper_share_used", "held_connections").await < 20 {
        let mut wire = Wire::open(&server).await;
        wire.send(&ask).await;
        polls.push(wire);
        assert!(polls.len() <= 30, "twenty of the forty connections are held");
    }
    let mut wire = Wire::open(&server).await;
    wire.send(&ask).await;
    let refused = wire.answer().await.unwrap().refused(503, "overloaded");
    says(&refused, "your organization already has its share, 20");
    let waiting = bea.claim("review-1", json!({ "waitSeconds": 300 })).await.created().session();
    let streamed = bea.request(Method::GET, &bea.path("/events/stream")).send().await.unwrap();
    assert_eq!(streamed.status(), 200);
    bea.release("review-1", &waiting).await.ok();
    admin.release("review-1", &session).await.ok();
    for mut poll in polls {
        poll.answer().await.unwrap();
    }
}

#[tokio::test]
async fn clients_that_follow_logs_leave_places_to_another_organization() {
    let (server, bea) = acme_and_beta(Setup::default).await;
    let admin = server.admin();
    let mut followers = Vec::new();
    let follow = awaiting_approval(&admin).await;
    // Half of a thousand are for acme, and half of those for one member.
    for _ in 0..250 {
        let mut wire = Wire::open(&server).await;
        wire.send(format!("{}\r\n", head("GET", &admin.path(&follow)))).await;
        wire.answer().await.unwrap().ok();
        followers.push(wire);
    }
    says(
        &admin.get(&follow).await.refused(503, "overloaded"),
        "one member has 250 of the organization's 500 already, and the rest is kept for the others",
    );
    let follow = awaiting_approval(&bea).await;
    let answer = bea.request(Method::GET, &bea.path(&follow)).send().await.unwrap();
    assert_eq!(answer.status(), 200);
}

/// A deployment that waits for an approval, and the path to follow its log.
async fn awaiting_approval(client: &Client) -> String {
    let stages = json!([{ "name": "gate", "approval": "always", "steps": [{ "run": ["true"] }] }]);
    client.put("/pipelines/web", json!({ "stages": stages })).await.ok();
    let session = client.claim("review-1", json!({})).await.created().session();
    let deployment = client.deploy("review-1", &session, json!({ "commitId": "c0ffee1" })).await.has_status(202).data();
    format!("/deployments/{}/logs?follow=true", deployment["deploymentId"].as_str().unwrap())
}

/// A member takes all they can get: the others and the admin are still served.
#[tokio::test]
async fn a_member_who_makes_tokens_in_a_loop_leaves_some_to_others_and_to_the_admin() {
    const HALF: usize = 5_000;
    let server = Server::start();
    let (admin, ana, vic) = (server.admin(), server.as_user("ana").await, server.as_user("vic").await);
    let (mut made, mut refused) = (1, None);
    while refused.is_none() {
        let together = (0..100).map(|_| vic.post("/tokens", json!({ "name": "one of many" })));
        let answers = futures_util::future::join_all(together).await;
        made += answers.iter().filter(|answer| answer.status == 201).count();
        refused = answers.into_iter().find(|answer| answer.status != 201);
        assert!(made <= HALF, "{made} were made");
    }
    let refused = refused.unwrap().refused(409, "token_limit_reached");
    says(&refused, &format!("one member has {made} of the organization's 10000 already"));
    assert!(made > HALF - 10, "{made} of nearly all");
    says(&refused, "GET /tokens?mine=true");
    // Including the admin's and ana's.
    assert_eq!(admin.get("/tokens?limit=1").await.ok().json()["pagination"]["total"], made + 2);
    admin.post("/tokens", json!({ "name": "mine" })).await.created();
    ana.post("/tokens", json!({ "name": "mine" })).await.created();
    let session = ana.claim("review-1", json!({})).await.created().session();
    ana.release("review-1", &session).await.ok();
    let first = vic.get("/tokens?mine=true&limit=1").await.ok().data()[0]["tokenId"].as_str().unwrap().to_owned();
    vic.delete(&format!("/tokens/{first}")).await.has_status(204);
}

#[tokio::test]
async fn a_member_who_opens_streams_in_a_loop_leaves_some_to_others_and_to_the_admin() {
    let settings = "workers = 1\n[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[http]\nmax_connections = 100\n";
    let server = Setup::default().settings(settings).start();
    let (admin, ana, vic) = (server.admin(), server.as_user("ana").await, server.as_user("vic").await);
    let mut open = Vec::new();
    let refused = loop {
        let stream = vic.request(Method::GET, &vic.path("/events/stream")).send().await.unwrap();
        if stream.status() != 200 {
            break stream;
        }
        open.push(stream);
        assert!(open.len() <= 50, "half of the connections are one member's");
    };
    assert_eq!((refused.status().as_u16(), open.len()), (503, 50));
    let problem: serde_json::Value = refused.json().await.unwrap();
    assert_eq!(problem["code"], "overloaded");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("one member has 50 of the organization's 100 already"), "{detail}");
    for client in [&admin, &ana] {
        let stream = client.request(Method::GET, &client.path("/events/stream")).send().await.unwrap();
        assert_eq!(stream.status(), 200);
        let session = client.claim("review-1", json!({ "waitSeconds": 300 })).await.created().session();
        client.release("review-1", &session).await.ok();
    }
}

#[tokio::test]
async fn a_member_who_queues_in_a_loop_with_several_tokens_leaves_places_to_others_and_to_the_admin() {
    const LENGTH: usize = 64;
    let server = Server::start();
    let admin = server.admin();
    admin.put(&at("narrow"), json!({ "maxQueueLength": LENGTH, "labels": { "is": "narrow" } })).await.created();
    admin.claim("narrow", json!({})).await.created();
    let mut tokens = Vec::new();
    for _ in 0..3 {
        tokens.push(server.as_user("ana").await);
    }
    let mut queued = Vec::new();
    let refused = loop {
        let answer = tokens[queued.len() % 3].claim("narrow", json!({ "queue": true })).await;
        if answer.status != 202 {
            break answer;
        }
        queued.push(answer.session());
        assert!(queued.len() <= LENGTH / 2, "half of the queue is one member's");
    };
    let refused = refused.refused(503, "queue_full");
    says(&refused, "one member has 32 of the organization's 64 already");
    assert!(!refused.header("retry-after").is_empty());
    server.as_user("ben").await.enqueue("narrow", json!({})).await;
    admin.enqueue("narrow", json!({})).await;
    for session in &queued[..3] {
        tokens[0].release("narrow", session).await.ok();
    }
    tokens[1].enqueue("narrow", json!({})).await;
}

//! A client keeps its place in the queue while it polls, and also a lock granted while it was away.
//!
//! This takes a minute, the time for which no poll is needed; so everything is tested at the same time.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::support::waiting::ANY;
use crate::support::{Answer, Client, Server, assert_has, at};

#[tokio::test]
async fn what_nobody_asks_about_is_lost_and_what_its_client_asks_about_is_kept() {
    let server = Server::start();
    for environment in ["review-1", "review-2"] {
        server.without_ttl(environment).await;
    }
    tokio::join!(
        a_place_is_kept_by_its_clients_asking_and_by_nothing_else(&server),
        a_lock_that_nobody_comes_for_goes_to_the_next_in_line(&server),
    );
}

async fn a_place_is_kept_by_its_clients_asking_and_by_nothing_else(server: &Server) {
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let held = ben.claim("review-1", json!({})).await.created().session();
    let forgotten = ana.enqueue("review-1", json!({})).await.session();
    let looked_at = ana.enqueue("review-1", json!({})).await.session();
    let asked_about = ana.enqueue("review-1", json!({})).await.session();
    let (looking_on, asking) =
        (ask_once(&ben, "review-1", &looked_at).await, ask_once(&ana, "review-1", &asked_about).await);
    // The same applies when waiting for any environment.
    ben.claim("review-3", json!({})).await.created();
    let large = json!({ "queue": true, "labels": { "size": "large" } });
    let any = ana.claim_any(large).await.has_status(202).session();

    ben.until_queue_is("review-1", 1).await;
    let seen_to_end = looking_on.await.unwrap().ok().data();
    for lost in [seen_to_end, ben.session("review-1", &forgotten).await.ok().data()] {
        assert_has(
            &lost,
            json!({ "lockStatus": "expired", "endReason": "unasked", "endedBy": null, "claimedAt": null }),
        );
    }
    let lost = ben.until(&format!("{ANY}/{any}"), |found| found["lockStatus"] == "expired").await;
    assert_has(&lost, json!({ "endReason": "unasked", "envName": null }));
    assert!(!asking.is_finished());
    ben.release("review-1", &held).await.ok();
    let active = asking.await.unwrap().ok().data();
    assert_has(&active, json!({ "sessionId": asked_about, "lockStatus": "active", "expiresAt": null }));
}

async fn a_lock_that_nobody_comes_for_goes_to_the_next_in_line(server: &Server) {
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let held = ben.claim("review-2", json!({})).await.created().session();
    let away = ana.enqueue("review-2", json!({})).await.session();
    let next = ben.enqueue("review-2", json!({})).await.session();
    let asking = ask_once(&ben, "review-2", &next).await;
    ben.release("review-2", &held).await.ok();
    let lock = ben.environment("review-2").await.ok().data()["lock"].clone();
    assert_eq!(lock["sessionId"], away);
    assert!(!lock["expiresAt"].is_null(), "until its client asks: {lock:#}");
    let active = asking.await.unwrap().ok().data();
    assert_has(&active, json!({ "sessionId": next, "lockStatus": "active", "expiresAt": null }));
    let ended = ana.session("review-2", &away).await.ok().data();
    assert_has(&ended, json!({ "lockStatus": "expired", "endReason": "unasked", "endedAt": active["claimedAt"] }));
}

/// Polls a session once, in a separate task, until it changes.
async fn ask_once(client: &Client, environment: &str, session: &str) -> JoinHandle<Answer> {
    let place = format!("{}/sessions/{session}", at(environment));
    let etag = client.get(&place).await.ok().header("etag").to_owned();
    let request = client.request(Method::GET, &client.path(&format!("{place}?waitSeconds=300")));
    let request = request.header("If-None-Match", etag).timeout(Duration::from_secs(150));
    let client = client.clone();
    tokio::spawn(async move { client.send(request).await })
}

//! Reads that are held open until the resource changes: `waitSeconds`, with and without `If-None-Match`.

use futures_util::future::join_all;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::support::waiting::{ANY, until};
use crate::support::wire::{Wire, head};
use crate::support::{Answer, Client, Server, Setup, assert_has, at};

/// Longer than any change here takes: a client that gets 304 has missed it.
const LONG: u64 = 50;

#[tokio::test]
async fn who_does_not_have_the_present_state_gets_it_at_once() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let session = ana.claim("review-1", json!({})).await.created().session();
    let queued = ana.enqueue("review-1", json!({})).await.session();
    for place in [
        at("review-1"),
        format!("{}/sessions/{session}", at("review-1")),
        format!("{}/sessions/{queued}", at("review-1")),
        format!("{ANY}/{}", queued_for_any(&ana).await),
    ] {
        let read = ana.get(&place).await.ok();
        for other in ["\"other\"", "\"other\", W/\"another\"", ""] {
            let answer = ana.read_unless(&place, other, 300).await.ok();
            assert_eq!(answer.header("etag"), read.header("etag"));
        }
        for known in [read.header("etag"), "*"] {
            let unchanged = ana.read_unless(&place, known, 0).await.has_status(304);
            assert_eq!((unchanged.header("etag"), &*unchanged.text), (read.header("etag"), ""));
        }
    }
}

#[tokio::test]
async fn what_does_not_change_is_told_so_when_the_wait_is_over() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let session = ana.claim("review-1", json!({})).await.created().session();
    let queued = ana.enqueue("review-1", json!({})).await.session();
    let places = [
        at("review-1"),
        format!("{}/sessions/{session}", at("review-1")),
        format!("{}/sessions/{queued}", at("review-1")),
        format!("{ANY}/{}", queued_for_any(&ana).await),
    ];
    join_all(places.iter().map(async |place| {
        let etag = ana.get(place).await.ok().header("etag").to_owned();
        let unchanged = ana.read_unless(place, &etag, 1).await.has_status(304);
        assert_eq!((unchanged.header("etag"), &*unchanged.text), (&*etag, ""));
        let unsaid = ana.get(&format!("{place}?waitSeconds=1")).await.ok();
        assert_eq!(unsaid.header("etag"), etag, "without If-None-Match it is told the state");
    }))
    .await;
}

#[tokio::test]
async fn who_does_not_say_what_it_has_waits_for_the_next_change() {
    // With one worker, an answered client knows that all earlier requests have been read.
    let settings = "workers = 1\n[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n";
    let server = Setup::default().settings(settings).start();
    let admin = server.admin();
    let held = admin.claim("review-1", json!({})).await.created().session();
    let queued = admin.enqueue("review-1", json!({})).await.session();
    let places = [
        at("review-1"),
        format!("{}/sessions/{held}", at("review-1")),
        format!("{}/sessions/{queued}", at("review-1")),
    ];
    let mut watching = Vec::new();
    for place in &places {
        let mut wire = Wire::open(&server).await;
        // A worker reads a connection only after another thread has accepted it.
        wire.send(format!("{}\r\n", head("GET", &admin.path(place)))).await;
        wire.answer().await.unwrap().ok();
        wire.send(format!("{}\r\n", head("GET", &admin.path(&format!("{place}?waitSeconds=300"))))).await;
        watching.push(wire);
    }
    admin.environment("review-2").await.ok();
    admin.release("review-1", &held).await.ok();
    let statuses = ["locked", "released", "active"];
    for ((mut wire, place), status) in watching.into_iter().zip(&places).zip(statuses) {
        let changed = wire.answer().await.unwrap().ok();
        assert_eq!(changed.data()["lockStatus"], status, "{place}");
    }
}

#[tokio::test]
async fn whoever_watches_an_environment_hears_of_every_change() {
    let server = Server::start();
    let admin = server.admin();
    let mut session = String::new();
    let mut queued = String::new();
    for change in 0..8 {
        let watching = watch(&admin, &at("review-1")).await;
        match change {
            0 => session = admin.claim("review-1", json!({ "ttlSeconds": 600 })).await.created().session(),
            1 => queued = admin.enqueue("review-1", json!({})).await.session(),
            2 => _ = admin.heartbeat("review-1", &session).await.ok(),
            3 => _ = admin.deploy("review-1", &session, json!({ "commitId": "c0ffee1" })).await.has_status(202),
            4 => _ = admin.put(&at("review-1"), json!({ "description": "new" })).await.ok(),
            5 => session = admin.force_claim("review-1", json!({})).await.created().session(),
            6 => _ = admin.release("review-1", &session).await.ok(),
            _ => _ = admin.release("review-1", &queued).await.ok(),
        }
        let changed = watching.await.unwrap().ok();
        let now = admin.environment("review-1").await.ok();
        assert_eq!((changed.header("etag"), changed.data()), (now.header("etag"), now.data()), "change {change}");
    }
    let watching = watch(&admin, &at("review-1")).await;
    admin.delete(&at("review-1")).await.has_status(204);
    watching.await.unwrap().refused(404, "environment_not_found");
}

#[tokio::test]
async fn whoever_watches_a_session_hears_of_every_change() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let held = ana.claim("review-1", json!({})).await.created().session();
    let session = ben.enqueue("review-1", json!({ "ttlSeconds": 600 })).await.session();
    let place = format!("{}/sessions/{session}", at("review-1"));
    for (change, status) in ["active", "active", "active", "overridden"].into_iter().enumerate() {
        let watching = watch(&ana, &place).await;
        match change {
            0 => _ = ana.release("review-1", &held).await.ok(),
            1 => _ = ben.heartbeat("review-1", &session).await.ok(),
            2 => _ = ben.deploy("review-1", &session, json!({ "commitId": "c0ffee1" })).await.has_status(202),
            _ => _ = ana.force_claim("review-1", json!({})).await.created(),
        }
        let changed = watching.await.unwrap().ok();
        assert_eq!(changed.data()["lockStatus"], status);
        assert_eq!(changed.data(), ana.get(&place).await.ok().data());
    }
}

#[tokio::test]
async fn all_who_watch_are_told() {
    const WATCHERS: usize = 60;
    let server = Server::start();
    let admin = server.admin();
    let held = admin.claim("review-1", json!({})).await.created().session();
    let queued = admin.enqueue("review-1", json!({})).await.session();
    let places = [
        at("review-1"),
        format!("{}/sessions/{queued}", at("review-1")),
        format!("{}/sessions/{held}", at("review-1")),
    ];
    let mut watching = Vec::new();
    for place in places.iter().cycle().take(WATCHERS) {
        watching.push(watch(&admin, place).await);
    }
    admin.release("review-1", &held).await.ok();
    for watcher in watching {
        watcher.await.unwrap().ok();
    }
}

#[tokio::test]
async fn whoever_watches_a_session_for_any_environment_hears_of_its_grant_and_of_its_end() {
    const ROUNDS: usize = 20;
    let server = Server::start();
    let admin = server.admin();
    admin.put(&at("only"), json!({ "labels": { "only": "one" } })).await.created();
    let body = json!({ "queue": true, "labels": { "only": "one" } });
    for _ in 0..ROUNDS {
        let held = admin.claim("only", json!({ "waitSeconds": LONG })).await.created().session();
        let granted = admin.claim_any(body.clone()).await.has_status(202).session();
        let leaving = admin.claim_any(body.clone()).await.has_status(202).session();
        let watch_granted = watch(&admin, &format!("{ANY}/{granted}")).await;
        let watch_leaving = watch(&admin, &format!("{ANY}/{leaving}")).await;
        let left = admin.release_any(&leaving).await.ok().data();
        assert_eq!(watch_leaving.await.unwrap().ok().data(), left);
        admin.release("only", &held).await.ok();
        let active = watch_granted.await.unwrap().ok().data();
        assert_has(&active, json!({ "envName": "only", "lockStatus": "active", "expiresAt": null }));
        admin.release("only", &granted).await.ok();
    }
}

#[tokio::test]
async fn a_session_can_be_read_at_any_moment_of_its_leaving() {
    const ROUNDS: usize = 30;
    let server = Server::start();
    let admin = server.admin();
    admin.put(&at("only"), json!({ "labels": { "only": "one" } })).await.created();
    admin.claim("only", json!({})).await.created();
    let body = json!({ "queue": true, "labels": { "only": "one" } });
    for _ in 0..ROUNDS {
        let by_any = admin.claim_any(body.clone()).await.has_status(202).session();
        let by_name = admin.enqueue("only", json!({})).await.session();
        let places = [format!("{ANY}/{by_any}"), format!("{}/sessions/{by_name}", at("only"))];
        let reading = join_all(places.iter().map(|place| async {
            // Until it has ended; at no moment is it unknown.
            until("it has ended", async || admin.get(place).await.ok().data()["lockStatus"] != "queued").await;
        }));
        let (_, by_any, by_name) = tokio::join!(reading, admin.release_any(&by_any), admin.release("only", &by_name));
        assert_eq!((by_any.status.as_u16(), by_name.status.as_u16()), (200, 200));
    }
}

#[tokio::test]
async fn a_server_that_ends_answers_all_who_watch() {
    // With one worker, an answered client knows that all earlier requests have been read.
    let settings = "workers = 1\n[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n";
    let mut server = Setup::default().settings(settings).start();
    let admin = server.admin();
    let held = admin.claim("review-1", json!({})).await.created().session();
    let queued = admin.enqueue("review-1", json!({})).await.session();
    let any = queued_for_any(&admin).await;
    let places = [
        at("review-1"),
        format!("{}/sessions/{held}", at("review-1")),
        format!("{}/sessions/{queued}", at("review-1")),
        format!("{ANY}/{any}"),
    ];
    let mut watching = Vec::new();
    for place in &places {
        let etag = admin.get(place).await.ok().header("etag").to_owned();
        let path = admin.path(&format!("{place}?waitSeconds=300"));
        let mut wire = Wire::open(&server).await;
        wire.send(format!("{}If-None-Match: {etag}\r\n\r\n", head("GET", &path))).await;
        watching.push(wire);
    }
    admin.environment("review-2").await.ok();
    server.signal("-TERM");
    for mut wire in watching {
        wire.answer().await.unwrap().has_status(304);
    }
    assert!(server.wait().success());
    assert!(!server.log().contains("raise http.drain_seconds"), "{}", server.log());
    server.start_again();
    for place in [&places[2], &places[3]] {
        assert_eq!(server.admin().get(place).await.ok().data()["queuePosition"], 1, "{place}");
    }
}

/// A session that waits for any large environment.
async fn queued_for_any(client: &Client) -> String {
    client.claim("review-3", json!({})).await.created();
    let body = json!({ "queue": true, "labels": { "size": "large" } });
    client.claim_any(body).await.has_status(202).session()
}

/// A read that is held open, in a separate task.
async fn watch(client: &Client, place: &str) -> JoinHandle<Answer> {
    let etag = client.get(place).await.ok().header("etag").to_owned();
    let (client, place) = (client.clone(), place.to_owned());
    tokio::spawn(async move { client.read_unless(&place, &etag, LONG).await })
}

//! Waiters while the server is killed or stopped: polling clients keep their places, and everything continues
//! unchanged.

use serde_json::{Value, json};

use crate::support::waiting::{ANY, column};
use crate::support::{Client, Server, assert_has, at};

#[tokio::test]
async fn queued_sessions_keep_their_order_through_a_kill() {
    let mut server = Server::start();
    server.without_ttl("review-1").await;
    let mia = server.as_user("mia").await;
    let mut holder = mia.claim("review-1", json!({})).await.created().session();
    let mut line = Vec::new();
    for (number, priority) in [0, 0, 7, -7, 0, 7].into_iter().enumerate() {
        if number == 3 {
            server.kill();
            server.start_again();
        }
        let mia = mia.clone().at(&server);
        let body = json!({ "context": format!("{number}"), "priority": priority, "commitId": "c0ffee1" });
        line.push(mia.enqueue("review-1", body).await.session());
    }
    let before = mia.clone().at(&server).queue("review-1").await.ok();
    assert_eq!(column(&before, "context"), ["2", "5", "0", "1", "4", "3"]);
    for stop in ["-KILL", "-TERM"] {
        server.signal(stop);
        server.wait();
        server.start_again();
        let mia = mia.clone().at(&server);
        // State that is read before anything is claimed, and lists.
        let list = mia.get("/pipelines/web/ephemeral-environments").await.ok();
        assert_eq!(column(&list, "queueLength"), [6, 0, 0]);
        assert_eq!(mia.environment("review-1").await.data()["queueLength"], 6);
        assert_eq!(mia.queue("review-1").await.ok().data(), before.data());
    }
    for place in [2, 5, 0, 1, 4, 3] {
        // New claims do not overtake those from before the restarts.
        let mia = mia.clone().at(&server);
        mia.claim("review-1", json!({ "priority": 7 })).await.refused(409, "environment_locked");
        mia.release("review-1", &holder).await.ok();
        let active = mia.until_session_is("review-1", &line[place], "active").await;
        assert_has(&active, json!({ "context": format!("{place}"), "deploymentCount": 1, "expiresAt": null }));
        line[place].clone_into(&mut holder);
        if place == 1 {
            server.kill();
            server.start_again();
        }
    }
}

#[tokio::test]
async fn places_that_their_clients_cannot_come_back_to_are_gone_after_a_kill() {
    for body in [json!({ "waitSeconds": 50 }), json!({ "queue": true, "waitSeconds": 30 })] {
        let mut server = Server::start();
        let ana = server.as_user("ana").await;
        let held = ana.claim("review-1", json!({})).await.created().session();
        let lost = {
            let ana = ana.clone();
            let request = ana.request(reqwest::Method::POST, &ana.path(&format!("{}/sessions", at("review-1"))));
            tokio::spawn(async move { ana.try_send(request.json(&body)).await })
        };
        ana.until_queue_is("review-1", 1).await;
        server.kill();
        assert!(lost.await.unwrap().is_err());
        server.start_again();
        let ana = ana.at(&server);
        assert_eq!(ana.environment("review-1").await.data()["queueLength"], 0, "the first read shows it");
        ana.release("review-1", &held).await.ok();
        assert_eq!(ana.environment("review-1").await.data()["lockStatus"], "unlocked");
    }
}

#[tokio::test]
async fn a_session_for_any_environment_goes_on_through_kills() {
    let mut server = Server::start();
    let ana = server.as_user("ana").await;
    let mut held = Vec::new();
    for name in ["review-1", "review-2", "review-3"] {
        held.push(ana.claim(name, json!({})).await.created().session());
    }
    let any = |labels: Value, context: &str| json!({ "queue": true, "labels": labels, "context": context });
    let first = ana.claim_any(any(json!({ "size": "large" }), "first")).await.has_status(202).session();
    let second = ana.claim_any(any(json!({}), "second")).await.has_status(202).session();
    let left = ana.claim_any(any(json!({}), "left")).await.has_status(202).session();
    let left_as = ana.release_any(&left).await.ok().data();
    let ana = killed(&mut server, ana).await;
    for session in [&first, &second] {
        let queued = ana.any_session(session).await.ok().data();
        let expected = json!({ "envName": null, "lockStatus": "queued", "queuePosition": 1 });
        assert_has(&queued, expected);
    }
    assert_eq!(column(&ana.queue("review-3").await.ok(), "context"), ["first", "second"]);
    assert_eq!(ana.any_session(&left).await.ok().data(), left_as);
    let third = ana.claim_any(any(json!({}), "third")).await.has_status(202);
    assert_eq!(third.data()["queuePosition"], 2, "behind who wants the same");

    // The first wants a large one; the others accept any.
    ana.release("review-1", &held[0]).await.ok();
    assert_eq!(ana.until_any_session_is(&second, "active").await["envName"], "review-1");
    ana.release("review-3", &held[2]).await.ok();
    let granted = ana.until_any_session_is(&first, "active").await;
    let ana = killed(&mut server, ana).await;
    assert_eq!(ana.any_session(&first).await.ok().data(), granted);
    assert_eq!(ana.session("review-3", &first).await.ok().data(), granted);
    ana.deploy("review-3", &first, json!({ "commitId": "c0ffee1" })).await.has_status(202);
    let released = ana.release_any(&first).await.ok().data();
    assert_eq!(released["lockStatus"], "released");
    assert_eq!(ana.until_any_session_is(&third.session(), "active").await["envName"], "review-3");
    ana.release("review-1", &second).await.ok();
    let ana = killed(&mut server, ana).await;
    assert_eq!(ana.any_session(&first).await.ok().data(), released);
    assert_eq!(ana.any_session(&second).await.ok().data()["lockStatus"], "released");
    assert_eq!(ana.environment("review-1").await.data()["lockStatus"], "unlocked");
    ana.release_any(&third.session()).await.ok();
}

#[tokio::test]
async fn whoever_waits_for_any_environment_gets_one_that_is_free_after_the_start() {
    let mut server = Server::start();
    let admin = server.admin();
    admin.put(&at("only"), json!({ "labels": { "only": "one" } })).await.created();
    admin.claim("only", json!({ "ttlSeconds": 1 })).await.created();
    let queued = admin.post(ANY, json!({ "queue": true, "labels": { "only": "one" } })).await.has_status(202);
    server.kill();
    server.start_again();
    let granted = server.admin().until_any_session_is(&queued.session(), "active").await;
    assert_has(&granted, json!({ "envName": "only", "fencingToken": 2 }));
}

#[tokio::test]
async fn sessions_that_ended_in_the_queue_are_remembered() {
    let mut server = Server::start();
    let ana = server.as_user("ana").await;
    ana.claim("review-1", json!({})).await.created();
    let session = ana.enqueue("review-1", json!({ "context": "PR 7" })).await.session();
    let left = ana.release("review-1", &session).await.ok().data();
    let ana = killed(&mut server, ana).await;
    assert_eq!(ana.session("review-1", &session).await.ok().data(), left);
    assert_eq!(ana.any_session(&session).await.ok().data(), left);
    assert_eq!(ana.release("review-1", &session).await.ok().data(), left);
    assert_eq!(ana.environment("review-1").await.data()["queueLength"], 0);
}

async fn killed(server: &mut Server, client: Client) -> Client {
    server.kill();
    server.start_again();
    client.at(server)
}

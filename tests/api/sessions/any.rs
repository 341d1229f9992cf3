//! Claiming any free environment with certain labels: immediately, after a wait, or as a queued session.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use store::{Batch, LoggedStore, Options, Store};

use crate::support::waiting::{ANY, column, millis, now_millis};
use crate::support::{Client, Server, assert_has, at};

#[tokio::test]
async fn the_environment_that_has_been_unused_for_longest_is_taken_first() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    for name in ["review-3", "review-1"] {
        use_once(&ana, name).await;
    }
    let mut sessions = Vec::new();
    for expected in ["review-2", "review-3", "review-1"] {
        let claimed = ana.claim_any(json!({ "commitId": "c0ffee1", "context": "any" })).await.created();
        let session = claimed.data();
        assert_has(
            &session,
            json!({ "envName": expected, "lockStatus": "active", "context": "any", "deploymentCount": 1 }),
        );
        let place = ana.path(&format!("{}/sessions/{}", at(expected), claimed.session()));
        assert_eq!(claimed.header("location"), place);
        assert_eq!(ana.environment(expected).await.data()["lock"]["sessionId"], session["sessionId"]);
        sessions.push((expected, claimed.session()));
    }
    for (name, session) in sessions.into_iter().rev() {
        release_for_good(&ana, name, &session).await;
    }
    let claimed = ana.claim_any(json!({})).await.created();
    assert_eq!(claimed.data()["envName"], "review-1");
}

#[tokio::test]
async fn an_environment_must_have_all_the_labels() {
    let server = Server::start();
    let admin = server.admin();
    for (name, labels) in [
        ("gpu", json!({ "size": "large", "gpu": "a100" })),
        ("gpu-small", json!({ "size": "small", "gpu": "a100" })),
        ("off", json!({ "size": "huge" })),
    ] {
        admin.put(&at(name), json!({ "labels": labels, "disabled": name == "off" })).await.created();
    }
    let large_gpu = json!({ "labels": { "gpu": "a100", "size": "large" } });
    assert_eq!(admin.claim_any(large_gpu.clone()).await.created().data()["envName"], "gpu");
    let refused = admin.claim_any(large_gpu).await.refused(409, "environment_locked");
    assert_has(&refused.json(), json!({ "holder": null, "queueLength": 0 }));
    assert_eq!(refused.header("retry-after"), refused.json()["retryAfterSeconds"].to_string());
    let any_gpu = json!({ "labels": { "gpu": "a100" } });
    assert_eq!(admin.claim_any(any_gpu).await.created().data()["envName"], "gpu-small");
    for labels in [json!({ "gpu": "h100" }), json!({ "size": "large", "gpu": "none" }), json!({ "cpu": "a100" })] {
        for patience in [json!({}), json!({ "waitSeconds": 50 }), json!({ "queue": true })] {
            let mut body = patience;
            body["labels"] = labels.clone();
            admin.claim_any(body).await.refused(404, "environment_not_found");
        }
    }
    let refused = admin.claim_any(json!({ "labels": { "size": "huge" }, "queue": true })).await;
    refused.refused(409, "environment_disabled");
    let elsewhere = ANY.replace("web", "nowhere");
    admin.post(&elsewhere, json!({})).await.refused(404, "pipeline_not_found");
    // Environments of another pipeline do not count.
    let elsewhere = admin.post(&ANY.replace("web", "shop"), json!({})).await.created();
    assert_eq!(elsewhere.data()["envName"], "staging-1");
}

#[tokio::test]
async fn whoever_waits_gets_the_first_that_is_free() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let held = take_all(&ana).await;
    let refused = ben.claim_any(json!({ "waitSeconds": 1 })).await.refused(409, "environment_locked");
    assert_eq!(refused.json()["queueLength"], 0, "without the one who is told");
    let waiting = { tokio::spawn(async move { ben.claim_any(json!({ "waitSeconds": 50 })).await }) };
    until_any_are_waiting(&ana, 1).await;
    ana.release("review-2", &held[1]).await.ok();
    let granted = waiting.await.unwrap().created();
    assert_has(&granted.data(), json!({ "envName": "review-2", "fencingToken": 2, "queuePosition": null }));
    let place = ana.path(&format!("{}/sessions/{}", at("review-2"), granted.session()));
    assert_eq!(granted.header("location"), place);
}

#[tokio::test]
async fn a_queued_session_has_no_environment_until_it_has_the_lock() {
    let server = Server::start();
    server.without_ttl("review-3").await;
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let held = take_all(&ana).await;
    let answer = ben.claim_any(json!({ "queue": true, "context": "PR 7" })).await.has_status(202);
    let (id, queued) = (answer.session(), answer.data());
    assert_has(
        &queued,
        json!({
            "envName": null, "lockStatus": "queued", "queuePosition": 1, "fencingToken": null, "claimedAt": null,
            "context": "PR 7",
        }),
    );
    let location = ben.path(&format!("/pipelines/web/sessions/{id}"));
    assert_eq!(answer.header("location"), location);
    for reading in [ben.path(&format!("{ANY}/{id}")), ben.path(&format!("{ANY}/{id}/"))] {
        for path in [reading.as_str(), reading.trim_start_matches("/api/v1"), location.as_str()] {
            let mut asked = ben.send(ben.request(Method::GET, path)).await.ok().data();
            assert!(millis(&asked["expiresAt"]) >= millis(&queued["expiresAt"]), "its client asks");
            asked["expiresAt"] = queued["expiresAt"].clone();
            assert_eq!(asked, queued);
        }
    }
    let waits = json!({ "queue": true, "waitSeconds": 1 });
    assert_eq!(ben.claim_any(waits).await.has_status(202).data()["queuePosition"], 2);
    let line = ben.queue("review-3").await.ok();
    assert_eq!(column(&line, "any"), [true, true], "whoever waits for this one sees who comes before");
    assert_eq!(line.data()[0]["sessionId"], id);
    assert_eq!(ben.environment("review-3").await.data()["queueLength"], 0, "none waits for this one alone");
    let refused = ben.session("review-3", &id).await;
    refused.refused(404, "session_not_found");

    ana.release("review-3", &held[2]).await.ok();
    let active = ben.until_any_session_is(&id, "active").await;
    assert_has(
        &active,
        json!({ "envName": "review-3", "queuePosition": null, "createdAt": queued["createdAt"], "expiresAt": null }),
    );
    assert_eq!(ben.session("review-3", &id).await.ok().data(), active, "it is the same by both ways");
    assert_eq!(ben.environment("review-3").await.data()["lock"]["sessionId"], id);
    ben.heartbeat("review-3", &id).await.ok();
    let released = ben.release_any(&id).await.ok().data();
    assert_has(&released, json!({ "envName": "review-3", "lockStatus": "released" }));
    for again in [ben.release("review-3", &id).await, ben.release_any(&id).await, ben.any_session(&id).await] {
        assert_eq!(again.ok().data(), released);
    }
    let elsewhere = ana.session("review-1", &id).await;
    elsewhere.refused(404, "session_not_found");
}

#[tokio::test]
async fn one_that_has_an_environment_is_released_where_the_others_are_too() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let held = take_all(&ana).await;
    let id = ben.claim_any(json!({ "queue": true })).await.has_status(202).session();
    ana.release("review-1", &held[0]).await.ok();
    ben.until_any_session_is(&id, "active").await;
    for refused in [ana.release("review-1", &id).await, ana.release_any(&id).await] {
        refused.refused(403, "not_session_holder");
    }
    let released = ben.release("review-1", &id).await.ok().data();
    assert_eq!(ben.any_session(&id).await.ok().data(), released);
    assert_eq!(ben.environment("review-1").await.data()["lockStatus"], "unlocked");
}

#[tokio::test]
async fn leaving_is_a_release_and_nobody_leaves_for_others() {
    let server = Server::start();
    let (ana, ben, mia) = (server.as_user("ana").await, server.as_user("ben").await, server.as_user("mia").await);
    let held = take_all(&ana).await;
    let first = ben.claim_any(json!({ "queue": true })).await.has_status(202).session();
    let second = ben.claim_any(json!({ "queue": true })).await.has_status(202).session();
    let refused = ana.release_any(&first).await.refused(403, "not_session_holder");
    assert_eq!(refused.json()["holder"]["user"]["name"], "ben");
    let left = ben.release_any(&first).await.ok().data();
    assert_has(&left, json!({ "envName": null, "lockStatus": "released", "claimedAt": null, "endReason": null }));
    assert_eq!(left["endedBy"]["name"], "ben");
    assert_eq!(ben.any_session(&second).await.ok().data()["queuePosition"], 1);
    for again in [ben.release_any(&first).await, mia.release_any(&first).await, ana.any_session(&first).await] {
        assert_eq!(again.ok().data(), left);
    }
    // Its end does not make it available to others either.
    ana.release_any(&first).await.refused(403, "not_session_holder");
    assert_eq!(mia.release_any(&second).await.ok().data()["endedBy"]["name"], "mia");
    ana.release("review-1", &held[0]).await.ok();
    assert_eq!(ana.environment("review-1").await.data()["lockStatus"], "unlocked");
    for unknown in ["ses_0199f3c2a4b07f3e9d2c5a1bq2a", "ses_x", &held[0]] {
        for answer in [ana.any_session(unknown).await, ana.release_any(unknown).await] {
            answer.refused(404, "session_not_found");
        }
    }
}

#[tokio::test]
async fn those_who_want_any_and_those_who_want_one_are_in_one_line() {
    let server = Server::start();
    let admin = server.admin();
    admin.put(&at("only"), json!({ "labels": { "only": "one" } })).await.created();
    let any = json!({ "queue": true, "labels": { "only": "one" } });
    let urgent = json!({ "queue": true, "labels": { "only": "one" }, "priority": 5 });
    let mut holder = admin.claim("only", json!({})).await.created().session();
    let line = [
        admin.claim_any(any.clone()).await.has_status(202).session(),
        admin.enqueue("only", json!({})).await.session(),
        admin.claim_any(any.clone()).await.has_status(202).session(),
        admin.enqueue("only", json!({})).await.session(),
        admin.enqueue("only", json!({ "priority": 5 })).await.session(),
        admin.claim_any(urgent).await.has_status(202).session(),
        admin.enqueue("only", json!({ "priority": 5 })).await.session(),
        admin.claim_any(any).await.has_status(202).session(),
    ];
    let in_order = [4, 5, 6, 0, 1, 2, 3, 7];
    let queue = admin.queue("only").await.ok();
    assert_eq!(column(&queue, "sessionId"), in_order.map(|place| line[place].clone()));
    assert_eq!(column(&queue, "any"), [false, true, false, true, false, true, false, true]);
    for place in in_order {
        admin.release("only", &holder).await.ok();
        let found = admin.until_environment("only", |found| found["lock"]["sessionId"] != holder).await;
        assert_eq!(found["lock"]["sessionId"], line[place]);
        line[place].clone_into(&mut holder);
    }
}

#[tokio::test]
async fn one_claim_never_gets_two_locks_however_many_are_freed_at_once() {
    let server = Server::start();
    let admin = server.admin();
    let many = make_many(&admin).await;
    let with = |patience: &str, value: Value| {
        let mut body = json!({ "labels": { "kind": "many" } });
        body[patience] = value;
        body
    };
    for _ in 0..12 {
        let patient = with("waitSeconds", json!(50));
        let held = join_all((0..many).map(async |_| admin.claim_any(patient.clone()).await.created())).await;
        let queued = admin.claim_any(with("queue", json!(true))).await.has_status(202).session();
        let (line, _) = tokio::join!(
            join_all((0..3).map(|_| admin.claim_any(patient.clone()))),
            join_all(held.iter().map(|claimed| release_where_it_is(&admin, claimed.data()))),
        );
        let mut mine = vec![admin.until_any_session_is(&queued, "active").await];
        mine.extend(line.into_iter().map(|granted| granted.created().data()));
        let locked = admin.get("/pipelines/web/ephemeral-environments?lockStatus=locked").await.ok();
        let mut expected: Vec<_> = mine.iter().map(|session| session["envName"].as_str().unwrap()).collect();
        expected.sort_unstable();
        assert_eq!(column(&locked, "envName"), expected, "one for each, and each another one");
        join_all(mine.into_iter().map(|session| release_where_it_is(&admin, session))).await;
    }
}

#[tokio::test]
async fn as_many_as_are_free_can_be_had_at_once() {
    let server = Server::start();
    let admin = server.admin();
    let many = make_many(&admin).await;
    let body = json!({ "labels": { "kind": "many" } });
    for _ in 0..25 {
        // Nobody has to wait, and no claim is refused as if all were taken.
        let held = join_all((0..many).map(async |_| admin.claim_any(body.clone()).await.created())).await;
        admin.claim_any(body.clone()).await.refused(409, "environment_locked");
        // Claims that arrive while they are released leave nothing behind that blocks later ones.
        let (_, meanwhile) = tokio::join!(
            join_all(held.iter().map(|claimed| release_where_it_is(&admin, claimed.data()))),
            join_all((0..many).map(|_| admin.claim_any(body.clone()))),
        );
        let granted = meanwhile.into_iter().filter(|answer| answer.status == 201);
        join_all(granted.map(|granted| release_where_it_is(&admin, granted.data()))).await;
    }
}

#[tokio::test]
async fn whoever_leaves_in_the_moment_of_the_grant_has_left() {
    const ROUNDS: usize = 60;
    let server = Server::start();
    let admin = server.admin();
    admin.put(&at("only"), json!({ "labels": { "only": "one" } })).await.created();
    for round in 0..ROUNDS {
        let held = admin.claim("only", json!({ "waitSeconds": 50 })).await.created().session();
        let queued = admin.claim_any(json!({ "queue": true, "labels": { "only": "one" } })).await;
        let queued = queued.has_status(202).session();
        let (released, left) = tokio::join!(admin.release("only", &held), admin.release_any(&queued));
        released.ok();
        let left = left.ok().data();
        assert_eq!(left["lockStatus"], "released", "round {round}: {left:#}");
        assert_eq!(admin.any_session(&queued).await.ok().data(), left);
    }
    assert_eq!(admin.environment("only").await.data()["lock"], Value::Null);
}

#[tokio::test]
async fn whoever_waits_gets_one_that_is_made_enabled_or_labelled_meanwhile() {
    let server = Server::start();
    let admin = server.admin();
    let labels = json!({ "kind": "new" });
    admin.put(&at("taken"), json!({ "labels": labels })).await.created();
    admin.put(&at("off"), json!({ "labels": labels, "disabled": true })).await.created();
    admin.claim("taken", json!({})).await.created();
    for (name, configuration) in [
        ("made", json!({ "labels": labels })),
        ("off", json!({ "labels": labels, "disabled": false })),
        ("review-1", json!({ "labels": labels })),
    ] {
        let queued = admin.claim_any(json!({ "queue": true, "labels": labels })).await.has_status(202).session();
        let put = admin.put(&at(name), configuration).await;
        assert!(put.status.is_success(), "{put:?}");
        assert_eq!(admin.until_any_session_is(&queued, "active").await["envName"], name);
    }
}

#[tokio::test]
async fn no_environment_is_called_sessions() {
    let server = Server::start();
    let admin = server.admin();
    for path in [at("sessions"), at("%73essions"), at("sessions/")] {
        let refused = admin.put(&path, json!({})).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), ["envName"], "{path}");
        for refused in [admin.get(&path).await, admin.delete(&path).await] {
            assert_eq!(refused.refused(405, "method_not_allowed").header("allow"), "POST");
        }
    }
    admin.claim("sessions", json!({})).await.refused(404, "environment_not_found");
}

#[tokio::test]
async fn an_environment_called_sessions_by_an_older_version_can_be_used_up_and_deleted() {
    let mut server = Server::start();
    server.admin().put(&at("old"), json!({ "labels": { "odd": "name" } })).await.created();
    server.terminate();
    let options = Options { segment_bytes: 4 << 20, min_free_bytes: 0, ..Options::default() };
    let store = LoggedStore::open(&server.data_dir(), options).unwrap();
    let mut batch = Batch::default();
    batch.put(b"e/acme/web/sessions", store.get(b"e/acme/web/old").unwrap().unwrap());
    batch.delete(b"e/acme/web/old");
    store.commit(batch).unwrap();
    store.close();
    drop(store);
    server.start_again();
    assert!(server.log().contains("reserved name `sessions`"), "{}", server.log());

    let admin = server.admin();
    let held = admin.claim_any(json!({ "labels": { "odd": "name" } })).await.created();
    assert_eq!(held.data()["envName"], "sessions");
    assert_eq!(admin.session("sessions", &held.session()).await.ok().data()["lockStatus"], "active");
    admin.put(&at("sessions"), json!({})).await.refused(422, "invalid_request");
    admin.delete(&at("sessions")).await.refused(409, "environment_locked");
    admin.release("sessions", &held.session()).await.ok();
    admin.delete(&at("sessions")).await.has_status(204);
    admin.delete(&at("sessions")).await.refused(405, "method_not_allowed");
}

/// Environments of the same kind, and how many.
async fn make_many(client: &Client) -> usize {
    const MANY: usize = 8;
    for number in 0..MANY {
        client.put(&at(&format!("e{number}")), json!({ "labels": { "kind": "many" } })).await.created();
    }
    MANY
}

async fn release_where_it_is(client: &Client, session: Value) {
    let (name, id) = (session["envName"].as_str().unwrap(), session["sessionId"].as_str().unwrap());
    client.release(name, id).await.ok();
}

/// All environments of the pipeline, claimed in the order of their names.
async fn take_all(client: &Client) -> Vec<String> {
    let mut held = Vec::new();
    for name in ["review-1", "review-2", "review-3"] {
        held.push(client.claim(name, json!({})).await.created().session());
    }
    held
}

/// Waits until this many wait for any environment, as shown by a place behind them.
async fn until_any_are_waiting(client: &Client, count: usize) {
    loop {
        let queued = client.claim_any(json!({ "queue": true })).await.has_status(202);
        client.release_any(&queued.session()).await.ok();
        if queued.data()["queuePosition"] == count + 1 {
            return;
        }
    }
}

async fn use_once(client: &Client, environment: &str) {
    let session = client.claim(environment, json!({})).await.created().session();
    release_for_good(client, environment, &session).await;
}

/// Releases it, and waits until the clock changes, since the order of last use has a resolution of milliseconds.
async fn release_for_good(client: &Client, environment: &str, session: &str) {
    let ended = client.release(environment, session).await.ok().data();
    while now_millis() <= millis(&ended["endedAt"]) {
        tokio::task::yield_now().await;
    }
}

//! `Idempotency-Key`: a repeated request is executed once, and gets its first answer again.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::tenants::acme_and_beta;
use crate::support::waiting::{ANY, until};
use crate::support::{Answer, Client, Server, Setup, assert_has, at};

#[tokio::test]
async fn a_retry_gets_the_first_answer_byte_for_byte_also_after_a_kill() {
    let mut server = Server::start();
    let admin = server.admin();
    let session = admin.claim("review-1", json!({ "ttlSeconds": 600 })).await.created().session();
    let place = format!("{}/sessions/{session}", at("review-1"));
    let requests = [
        (format!("{place}/deploy"), json!({ "commitId": "c0ffee1" }), 202),
        (format!("{place}/heartbeat"), json!({}), 200),
        (format!("{}/force-claim", at("review-1")), json!({ "context": "forced" }), 201),
        (format!("{}/sessions", at("review-2")), json!({ "commitId": "c0ffee1", "ttlSeconds": 600 }), 201),
        (format!("{}/sessions", at("review-2")), json!({ "queue": true, "context": "queued" }), 202),
        (ANY.to_owned(), json!({ "labels": { "size": "large" } }), 201),
        (ANY.to_owned(), json!({ "labels": { "size": "large" }, "queue": true }), 202),
    ];
    let mut answers = Vec::new();
    for (number, (path, body, status)) in requests.iter().enumerate() {
        let first = admin.post_with_key(path, &format!("key-{number}"), body.clone()).await.has_status(*status);
        assert_eq!(first.header("idempotency-replayed"), "");
        answers.push(first);
    }
    let before = state(&admin).await;
    for killed in [false, true, true] {
        if killed {
            server.kill();
            server.start_again();
        }
        let admin = server.admin();
        for (number, (path, body, _)) in requests.iter().enumerate() {
            let again = admin.post_with_key(path, &format!("key-{number}"), body.clone()).await;
            assert_is_replay(&again, &answers[number]);
        }
        assert_eq!(state(&admin).await, before, "nothing is done again");
    }
    // Even if it would be refused by now, or answered differently: the queued one has the lock, and has ended.
    let admin = server.admin();
    let (holder, queued) = (answers[3].session(), answers[4].session());
    admin.release("review-2", &holder).await.ok();
    admin.until_session_is("review-2", &queued, "active").await;
    admin.release("review-2", &queued).await.ok();
    admin.put(&at("review-2"), json!({ "disabled": true })).await.ok();
    for number in [3, 4] {
        let (path, body, _) = &requests[number];
        let again = admin.post_with_key(path, &format!("key-{number}"), body.clone()).await;
        assert_is_replay(&again, &answers[number]);
    }
}

#[tokio::test]
async fn a_key_is_for_one_request() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let sessions = format!("{}/sessions", at("review-1"));
    let body = json!({ "context": "mine" });
    let first = ana.post_with_key(&sessions, "key", body.clone()).await.created();
    for (path, body) in [
        (sessions.clone(), json!({ "context": "other" })),
        (sessions.clone(), json!({})),
        (format!("{}/sessions", at("review-2")), body.clone()),
        (format!("{}/force-claim", at("review-1")), body.clone()),
        (ANY.to_owned(), body.clone()),
        (format!("{sessions}/{}/heartbeat", first.session()), body.clone()),
    ] {
        let refused = ana.post_with_key(&path, "key", body).await;
        refused.refused(422, "idempotency_key_reused");
    }
    assert_is_replay(&ana.post_with_key(&sessions, "key", body.clone()).await, &first);
    // Each token has separate keys.
    let refused = ben.post_with_key(&sessions, "key", body).await;
    refused.refused(409, "environment_locked");
}

#[tokio::test]
async fn however_many_send_a_claim_at_once_it_is_executed_once() {
    let server = Server::start();
    let admin = server.admin();
    for (round, path) in [format!("{}/sessions", at("review-1")), format!("{}/force-claim", at("review-1")), ANY.into()]
        .iter()
        .enumerate()
    {
        let key = format!("round-{round}");
        let claims = (0..16).map(|_| {
            let (admin, key) = (server.admin(), key.clone());
            async move { admin.post_with_key(path, &key, json!({})).await }
        });
        let answers = join_all(claims).await;
        let fresh = answers.iter().filter(|a| a.status == 201 && a.header("idempotency-replayed").is_empty()).count();
        assert_eq!(fresh, 1);
        for answer in answers.iter().filter(|answer| answer.status != 201) {
            let told = answer.clone().refused(409, "idempotency_key_in_flight");
            assert_eq!(told.header("retry-after"), "1");
        }
        let again = admin.post_with_key(path, &key, json!({})).await.created();
        assert_eq!(again.header("idempotency-replayed"), "true");
        let history = admin.get(&format!("{}/history", at("review-1"))).await.ok();
        assert_eq!(history.json()["pagination"]["total"], (round + 1).min(2));
    }
    let locked = admin.get("/pipelines/web/ephemeral-environments?lockStatus=locked").await.ok();
    assert_eq!(locked.json()["pagination"]["total"], 2);
}

#[tokio::test]
async fn an_organization_with_many_keys_makes_no_retry_of_another_execute_twice() {
    let few_keys = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[idempotency]\nmax_keys = 1000\n";
    let setup = || Setup::default().settings(few_keys).variable("LOCKKEEPER_RATE_LIMIT", "off");
    let (mut server, bea) = acme_and_beta(setup).await;
    let sessions = format!("{}/sessions", at("review-1"));
    let first = bea.post_with_key(&sessions, "mine", json!({})).await.created();

    let admin = server.admin();
    let session = admin.claim("review-1", json!({ "ttlSeconds": 600 })).await.created().session();
    let heartbeat = format!("{sessions}/{session}/heartbeat");
    let mut accepted = 0;
    let refused = loop {
        let answer = admin.post_with_key(&heartbeat, &format!("beat-{accepted}"), json!({})).await;
        if answer.status != 200 {
            break answer;
        }
        accepted += 1;
        assert!(accepted < 1_500, "the number of keys is not bounded");
    };
    assert!(accepted >= 1_100, "{accepted}");
    let refused = refused.refused(503, "overloaded");
    assert!(refused.json()["detail"].as_str().unwrap().contains("your organization"), "{refused:?}");
    assert!(!refused.header("retry-after").is_empty());
    admin.post(&heartbeat, json!({})).await.ok();
    let replayed = admin.post_with_key(&heartbeat, "beat-0", json!({})).await.ok();
    assert_eq!(replayed.header("idempotency-replayed"), "true", "what was promised is kept");

    assert_is_replay(&bea.post_with_key(&sessions, "mine", json!({})).await, &first);
    let beats = format!("{sessions}/{}/heartbeat", first.session());
    bea.post_with_key(&beats, "another", json!({})).await.ok();
    // A start begins with a cleanup.
    server.kill();
    server.start_again();
    let bea = bea.at(&server);
    for _ in 0..3 {
        assert_is_replay(&bea.post_with_key(&sessions, "mine", json!({})).await, &first);
    }
}

#[tokio::test]
async fn a_refusal_frees_the_key() {
    let server = Server::start();
    let (ana, mia) = (server.as_user("ana").await, server.as_user("mia").await);
    let held = mia.claim("review-1", json!({})).await.created().session();
    let sessions = format!("{}/sessions", at("review-1"));
    let wait = json!({ "waitSeconds": 1 });
    let refused = ana.post_with_key(&sessions, "key", wait.clone()).await;
    refused.refused(409, "environment_locked");
    let refused = ana.post_with_key(&sessions, "key", json!({ "priority": 1 })).await;
    refused.refused(403, "permission_denied");
    let refused = ana.post_with_key(&sessions, "key", json!({ "ttlSeconds": 999_999 })).await;
    refused.refused(422, "invalid_request");
    let refused = ana.post_with_key(&format!("{sessions}/{held}/heartbeat"), "key", json!({})).await;
    refused.refused(403, "not_session_holder");
    let refused = ana.post_with_key(ANY, "key", json!({ "labels": { "no": "such" } })).await;
    refused.refused(404, "environment_not_found");
    mia.release("review-1", &held).await.ok();
    let claimed = ana.post_with_key(&sessions, "key", wait).await.created();
    assert_eq!(claimed.header("idempotency-replayed"), "");
}

#[tokio::test]
async fn a_malformed_key_is_refused_on_every_post() {
    let server = Server::start();
    let admin = server.admin();
    let session = admin.claim("review-1", json!({})).await.created().session();
    let place = format!("{}/sessions/{session}", at("review-1"));
    let long = "k".repeat(129);
    for path in [
        format!("{}/sessions", at("review-2")),
        format!("{}/force-claim", at("review-2")),
        ANY.to_owned(),
        format!("{place}/deploy"),
        format!("{place}/heartbeat"),
    ] {
        for key in ["", "two words", &long] {
            let refused = admin.post_with_key(&path, key, json!({ "commitId": "c0ffee1" })).await;
            assert_eq!(refused.refused(422, "invalid_request").faulty_fields(), ["Idempotency-Key"], "{path}");
        }
    }
    let environment = admin.environment("review-2").await.ok().data();
    assert_has(&environment, json!({ "lock": null, "lastDeployment": null }));
}

#[tokio::test]
async fn while_a_claim_waits_its_key_is_in_flight_and_its_grant_is_kept() {
    let mut server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let held = ana.claim("review-1", json!({})).await.created().session();
    let sessions = format!("{}/sessions", at("review-1"));
    let body = json!({ "waitSeconds": 50 });
    let waiting = keyed(&ben, &sessions, &body);
    ben.until_queue_is("review-1", 1).await;
    let refused = ben.post_with_key(&sessions, "key", body.clone()).await;
    refused.refused(409, "idempotency_key_in_flight");
    ana.release("review-1", &held).await.ok();
    let granted = waiting.await.unwrap().created();
    for killed in [false, true] {
        if killed {
            server.kill();
            server.start_again();
        }
        let again = ben.clone().at(&server).post_with_key(&sessions, "key", body.clone()).await;
        assert_is_replay(&again, &granted);
    }
    let history = server.admin().get(&format!("{}/history", at("review-1"))).await.ok();
    assert_eq!(history.json()["pagination"]["total"], 2);
}

#[tokio::test]
async fn a_server_that_ends_sends_waiters_away_and_their_keys_bring_them_back_to_their_places() {
    let mut server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let held = ana.claim("review-1", json!({})).await.created().session();
    let sessions = format!("{}/sessions", at("review-1"));
    let body = json!({ "waitSeconds": 50, "context": "first" });
    let first = keyed(&ben, &sessions, &body);
    ben.until_queue_is("review-1", 1).await;
    let keyless = ben.wait_in_line("review-1", json!({ "waitSeconds": 50 }), 2).await;
    let later = ana.enqueue("review-1", json!({ "context": "later" })).await.session();
    let both = json!({ "waitSeconds": 50, "queue": true, "context": "both" });
    let both = ana.wait_in_line("review-1", both, 4).await;

    server.signal("-TERM");
    for waiter in [first, keyless] {
        let told = waiter.await.unwrap().refused(503, "shutting_down");
        assert_eq!(told.header("retry-after"), told.json()["retryAfterSeconds"].to_string());
    }
    let queued = both.await.unwrap().has_status(202).session();
    assert!(server.wait().success());
    server.start_again();
    let (ana, ben) = (ana.at(&server), ben.at(&server));
    // The waiter without a key has lost its place; disconnected waiters with keys keep theirs for a while.
    let queue = ana.queue("review-1").await.ok().data();
    let contexts: Vec<_> = queue.as_array().unwrap().iter().map(|waiter| waiter["context"].clone()).collect();
    assert_eq!(contexts, ["first", "later", "both"]);
    for other in [json!({ "waitSeconds": 50 }), json!({})] {
        let refused = ben.post_with_key(&sessions, "key", other).await;
        refused.refused(422, "idempotency_key_reused");
    }
    let first = keyed(&ben, &sessions, &body);
    until_back(&ben, &sessions).await;
    ana.heartbeat("review-1", &held).await.ok();
    ana.release("review-1", &held).await.ok();
    let granted = first.await.unwrap().created();
    assert_has(&granted.data(), json!({ "context": "first", "fencingToken": 2 }));
    ben.release("review-1", &granted.session()).await.ok();
    ana.until_session_is("review-1", &later, "active").await;
    ana.release("review-1", &later).await.ok();
    ana.until_session_is("review-1", &queued, "active").await;
}

#[tokio::test]
async fn the_same_holds_for_those_who_wait_for_any_environment_and_through_a_kill() {
    let mut server = Server::start();
    let admin = server.admin();
    admin.put(&at("only"), json!({ "labels": { "only": "one" } })).await.created();
    let held = admin.claim("only", json!({})).await.created().session();
    let body = json!({ "waitSeconds": 50, "labels": { "only": "one" }, "context": "first" });
    let first = keyed(&admin, ANY, &body);
    let later = loop {
        let queued = admin.claim_any(json!({ "queue": true, "labels": { "only": "one" } })).await.has_status(202);
        if queued.data()["queuePosition"] == 2 {
            break queued.session();
        }
        admin.release_any(&queued.session()).await.ok();
    };
    for kill in [false, true] {
        if kill {
            server.kill();
        } else {
            server.signal("-TERM");
        }
        server.wait();
        server.start_again();
        let queued = server.admin().any_session(&later).await.ok().data();
        assert_eq!(queued["queuePosition"], 2, "behind the one that may come back");
    }
    first.await.unwrap().refused(503, "shutting_down");
    let admin = server.admin();
    let refused = admin.post_with_key(ANY, "key", json!({ "waitSeconds": 50 })).await;
    refused.refused(422, "idempotency_key_reused");
    let first = keyed(&admin, ANY, &body);
    until_back(&admin, ANY).await;
    admin.heartbeat("only", &held).await.ok();
    admin.release("only", &held).await.ok();
    let granted = first.await.unwrap().created();
    assert_has(&granted.data(), json!({ "envName": "only", "context": "first", "fencingToken": 2 }));
    assert_is_replay(&admin.post_with_key(ANY, "key", body).await, &granted);
    admin.release("only", &granted.session()).await.ok();
    admin.until_any_session_is(&later, "active").await;
}

/// A request with a key, in a separate task; repeated while another one with that key is in progress.
fn keyed(client: &Client, path: &str, body: &Value) -> JoinHandle<Answer> {
    let (client, path, body) = (client.clone(), path.to_owned(), body.clone());
    tokio::spawn(async move {
        loop {
            let answer = client.post_with_key(&path, "key", body.clone()).await;
            if answer.status != 409 || answer.problem().1 != "idempotency_key_in_flight" {
                return answer;
            }
        }
    })
}

/// Waits until the client with the kept place is back, by sending a request that would otherwise be refused.
async fn until_back(client: &Client, path: &str) {
    let another = json!({ "context": "another" });
    let is_kept =
        async || client.post_with_key(path, "key", another.clone()).await.problem().1 == "idempotency_key_reused";
    until("it is back", async || !is_kept().await).await;
}

/// The publicly visible state of the environments.
async fn state(client: &Client) -> Value {
    let mut all = Vec::new();
    for name in ["review-1", "review-2", "review-3"] {
        all.push(client.environment(name).await.ok().data());
        all.push(client.get(&format!("{}/history", at(name))).await.ok().data());
        all.push(client.queue(name).await.ok().data());
    }
    json!(all)
}

fn assert_is_replay(again: &Answer, first: &Answer) {
    assert_eq!(again.header("idempotency-replayed"), "true", "{again:?}");
    assert_eq!((again.status, &again.text), (first.status, &first.text));
    for header in ["location", "content-type"] {
        assert_eq!(again.header(header), first.header(header));
    }
}

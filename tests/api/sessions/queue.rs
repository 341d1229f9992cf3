//! Waiting for a locked environment: on the connection with `waitSeconds`, or as a queued session with `queue`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::waiting::{column, millis};
use crate::support::{Server, assert_fields, assert_has, assert_is_time, at};

#[tokio::test]
async fn those_who_wait_get_the_lock_in_the_order_in_which_they_came() {
    let server = Server::start();
    let clients = [server.as_user("ana").await, server.as_user("ben").await];
    let mut holder = clients[0].claim("review-1", json!({})).await.created().session();
    let mut line = Vec::new();
    for place in 1..=6 {
        let body = json!({ "context": format!("{place}"), "waitSeconds": 50 });
        line.push(clients[place % 2].wait_in_line("review-1", body, place).await);
    }
    let queue = clients[0].queue("review-1").await.ok();
    assert_eq!(column(&queue, "context"), ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(column(&queue, "position"), [1, 2, 3, 4, 5, 6]);
    let mut line = line.into_iter();
    let mut place = 0;
    while let Some(next) = line.next() {
        place += 1;
        server.admin().release("review-1", &holder).await.ok();
        let granted = next.await.unwrap().created();
        let expected = json!({
            "lockStatus": "active", "context": format!("{place}"), "fencingToken": place + 1, "queuePosition": null,
        });
        assert_has(&granted.data(), expected);
        let location = clients[0].path(&format!("{}/sessions/{}", at("review-1"), granted.session()));
        assert_eq!(granted.header("location"), location);
        assert!(line.as_slice().iter().all(|later| !later.is_finished()));
        holder = granted.session();
    }
}

#[tokio::test]
async fn a_higher_priority_goes_first_and_equal_ones_as_they_came() {
    let server = Server::start();
    let (ana, mia) = (server.as_user("ana").await, server.as_user("mia").await);
    let mut holder = ana.claim("review-1", json!({})).await.created().session();
    for (client, context, priority) in [
        (&ana, "a", json!(0)),
        (&ana, "b", json!(-100)),
        (&mia, "c", json!(10)),
        (&mia, "d", json!(10)),
        (&ana, "e", Value::Null),
        (&mia, "f", json!(100)),
        (&ana, "g", json!(-1)),
    ] {
        let queued = client.enqueue("review-1", json!({ "context": context, "priority": priority })).await.data();
        assert_eq!(queued["priority"], priority.as_i64().unwrap_or(0));
    }
    let queue = ana.queue("review-1").await.ok();
    assert_eq!(column(&queue, "context"), ["f", "c", "d", "a", "e", "g", "b"]);
    assert_eq!(column(&queue, "priority"), [100, 10, 10, 0, 0, -1, -100]);
    for (place, session) in column(&queue, "sessionId").iter().enumerate() {
        let session = session.as_str().unwrap();
        assert_eq!(ana.session("review-1", session).await.ok().data()["queuePosition"], 1);
        mia.release("review-1", &holder).await.ok();
        let active = ana.until_session_is("review-1", session, "active").await;
        assert_has(&active, json!({ "fencingToken": place + 2, "queuePosition": null }));
        session.clone_into(&mut holder);
    }
}

#[tokio::test]
async fn only_a_maintainer_goes_before_others() {
    let server = Server::start();
    let (ana, mia) = (server.as_user("ana").await, server.as_user("mia").await);
    let body = json!({ "priority": 1 });
    for refused in [ana.claim("review-1", body.clone()).await, ana.claim_any(body.clone()).await] {
        let told = refused.refused(403, "permission_denied").json();
        assert_eq!(told["requiredRole"], "maintainer");
    }
    for (environment, body) in [("review-1", json!({ "priority": -100 })), ("review-2", json!({ "priority": 0 }))] {
        let claimed = ana.claim(environment, body.clone()).await.created();
        assert_eq!(claimed.data()["priority"], body["priority"]);
    }
    let claimed = mia.claim("review-3", json!({ "priority": 100 })).await.created();
    assert_eq!(claimed.data()["priority"], 100);
    for beyond in [101, -101] {
        let refused = mia.claim("review-1", json!({ "priority": beyond, "queue": true })).await;
        assert_eq!(refused.refused(422, "invalid_request").faulty_fields(), ["priority"]);
    }
}

#[tokio::test]
async fn a_wait_in_vain_ends_with_who_has_the_lock_and_how_many_wait() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let held = ana.claim("review-1", json!({ "context": "PR 412" })).await.created().data();
    ana.enqueue("review-1", json!({})).await;
    for wait in [json!(1), json!(0), Value::Null] {
        let refused = ben.claim("review-1", json!({ "waitSeconds": wait, "queue": null })).await;
        let told = refused.refused(409, "environment_locked");
        assert_eq!(told.json()["queueLength"], 1, "without the one who is told");
        assert_has(
            &told.json()["holder"],
            json!({ "sessionId": held["sessionId"], "user": held["user"], "context": "PR 412", "fencingToken": 1 }),
        );
        assert_eq!(told.header("retry-after"), told.json()["retryAfterSeconds"].to_string());
        assert_eq!(column(&ana.queue("review-1").await.ok(), "position"), [1]);
    }
}

#[tokio::test]
async fn a_free_environment_is_had_at_once_whatever_one_would_do_else() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    for body in [json!({ "waitSeconds": 300 }), json!({ "queue": true }), json!({ "queue": true, "waitSeconds": 300 })]
    {
        let session = ana.claim("review-1", body).await.created().session();
        ana.release("review-1", &session).await.ok();
    }
}

#[tokio::test]
async fn a_queued_session_is_asked_about_until_it_has_the_lock() {
    let server = Server::start();
    server.without_ttl("review-1").await;
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let held = ana.claim("review-1", json!({})).await.created().session();
    let answer = ben.enqueue("review-1", json!({ "commitId": "c0ffee1", "context": "PR 7" })).await;
    let queued = answer.data();
    let id = answer.session();
    assert_has(
        &queued,
        json!({
            "envName": "review-1", "lockStatus": "queued", "overridden": false, "commitId": "c0ffee1",
            "context": "PR 7", "queuePosition": 1, "fencingToken": null, "claimedAt": null, "endedAt": null,
            "endedBy": null, "endReason": null, "deployments": [], "deploymentCount": 0,
        }),
    );
    assert_is_time(&queued["createdAt"]);
    assert_eq!(millis(&queued["expiresAt"]) - millis(&queued["createdAt"]), 60_000, "unless its client asks");
    let place = answer.header("location").to_owned();
    assert_eq!(place, ben.path(&format!("{}/sessions/{id}", at("review-1"))));
    // A read by another member does not count as a poll of its client.
    let looked_at = ana.send(ana.request(Method::GET, &place)).await.ok().data();
    assert_has(&looked_at, json!({ "sessionId": id, "lockStatus": "queued", "queuePosition": 1 }));
    let mut asked = ben.send(ben.request(Method::GET, &place)).await.ok().data();
    assert!(millis(&looked_at["expiresAt"]) <= millis(&asked["expiresAt"]));
    asked["expiresAt"] = queued["expiresAt"].clone();
    assert_eq!(asked, queued);
    let second = ana.enqueue("review-1", json!({})).await.data();
    assert_eq!(second["queuePosition"], 2);

    ana.release("review-1", &held).await.ok();
    let active = ben.until_session_is("review-1", &id, "active").await;
    assert_has(
        &active,
        json!({
            "sessionId": id, "createdAt": queued["createdAt"], "queuePosition": null, "fencingToken": 2,
            "expiresAt": null, "deploymentCount": 1,
        }),
    );
    assert_eq!(active["deployments"][0]["commitId"], "c0ffee1", "it is deployed with the grant");
    assert_eq!(ben.environment("review-1").await.data()["lock"]["sessionId"], id);
    ben.deploy("review-1", &id, json!({ "commitId": "decade2" })).await.has_status(202);
    let history = ben.get(&format!("{}/history", at("review-1"))).await.ok();
    assert_eq!(column(&history, "sessionId"), [id.as_str(), &held]);
    ben.release("review-1", &id).await.ok();
    let next = second["sessionId"].as_str().unwrap();
    ana.until_session_is("review-1", next, "active").await;
}

#[tokio::test]
async fn whoever_waits_and_queues_gets_the_lock_on_the_line_or_a_place() {
    let server = Server::start();
    server.without_ttl("review-1").await;
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let held = ana.claim("review-1", json!({})).await.created().session();
    let patient = ben.wait_in_line("review-1", json!({ "queue": true, "waitSeconds": 50 }), 1).await;
    let known = ben.queue("review-1").await.ok().data()[0]["sessionId"].clone();
    let impatient = ben.claim("review-1", json!({ "queue": true, "waitSeconds": 1 })).await.has_status(202);
    assert_has(&impatient.data(), json!({ "lockStatus": "queued", "queuePosition": 2 }));
    ana.release("review-1", &held).await.ok();
    let granted = patient.await.unwrap().created().data();
    assert_has(&granted, json!({ "sessionId": known, "lockStatus": "active", "fencingToken": 2, "expiresAt": null }));
    assert_eq!(ben.session("review-1", &impatient.session()).await.ok().data()["queuePosition"], 1);
}

#[tokio::test]
async fn leaving_the_queue_is_a_release_and_nobody_leaves_for_others() {
    let server = Server::start();
    let (ana, ben, mia) = (server.as_user("ana").await, server.as_user("ben").await, server.as_user("mia").await);
    let held = ana.claim("review-1", json!({})).await.created().session();
    let (first, second) = (ben.enqueue("review-1", json!({})).await, ben.enqueue("review-1", json!({})).await);
    let refused = ana.release("review-1", &first.session()).await.refused(403, "not_session_holder");
    assert_eq!(refused.json()["holder"]["user"]["name"], "ben");
    let left = ben.release("review-1", &first.session()).await.ok().data();
    let by = json!({ "userId": left["user"]["userId"], "name": "ben", "sessionId": null });
    assert_has(
        &left,
        json!({ "lockStatus": "released", "endedBy": by, "endReason": null, "claimedAt": null, "queuePosition": null }),
    );
    assert_is_time(&left["endedAt"]);
    assert_eq!(ben.session("review-1", &second.session()).await.ok().data()["queuePosition"], 1);
    for again in [ben.release("review-1", &first.session()).await, mia.release("review-1", &first.session()).await] {
        assert_eq!(again.ok().data(), left);
    }
    assert_eq!(ben.session("review-1", &first.session()).await.ok().data(), left);
    ana.release("review-1", &first.session()).await.refused(403, "not_session_holder");
    let left = mia.release("review-1", &second.session()).await.ok().data();
    assert_eq!(left["endedBy"]["name"], "mia");
    ana.release("review-1", &held).await.ok();
    assert_has(&ana.environment("review-1").await.data(), json!({ "lockStatus": "unlocked", "queueLength": 0 }));
    for body in [json!({ "commitId": "c0ffee1" }), json!({})] {
        let late = ben.deploy("review-1", &first.session(), body.clone()).await;
        assert_eq!(late.status, if body == json!({}) { 422 } else { 409 });
    }
    ben.heartbeat("review-1", &first.session()).await.refused(409, "session_released");
}

#[tokio::test]
async fn as_many_wait_as_the_environment_allows() {
    let server = Server::start();
    let admin = server.admin();
    let waiting = [json!({ "queue": true }), json!({ "waitSeconds": 50 }), json!({ "queue": true, "waitSeconds": 50 })];
    for allowed in [0, 2] {
        let environment = format!("narrow-{allowed}");
        admin.put(&at(&environment), json!({ "maxQueueLength": allowed })).await.created();
        let held = admin.claim(&environment, json!({})).await.created().session();
        for _ in 0..allowed {
            admin.enqueue(&environment, json!({})).await;
        }
        for body in waiting.clone() {
            let refused = admin.claim(&environment, body).await.refused(503, "queue_full");
            assert_eq!(refused.json()["queueLength"], allowed);
            assert_eq!(refused.header("retry-after"), refused.json()["retryAfterSeconds"].to_string());
        }
        let refused = admin.claim(&environment, json!({})).await;
        refused.refused(409, "environment_locked");
        admin.release(&environment, &held).await.ok();
        if allowed > 0 {
            admin.enqueue(&environment, json!({})).await;
        } else {
            admin.claim(&environment, waiting[0].clone()).await.created();
        }
    }
}

#[tokio::test]
async fn the_queue_is_listed_in_pages() {
    let server = Server::start();
    let (ana, vic) = (server.as_user("ana").await, server.as_user("vic").await);
    assert_eq!(vic.queue("review-1").await.ok().data(), json!([]));
    ana.claim("review-1", json!({})).await.created();
    let body = json!({ "waitSeconds": 50, "commitId": "c0ffee1" });
    let on_the_line = ana.wait_in_line("review-1", body, 1).await;
    let mut ids = vec![Value::Null];
    for _ in 0..4 {
        ids.push(ana.enqueue("review-1", json!({ "context": "PR 7" })).await.data()["sessionId"].clone());
    }
    let whole = vic.queue("review-1").await.ok();
    assert_eq!(column(&whole, "sessionId"), ids, "a claim that waits on the line has no session yet");
    assert_eq!(whole.json()["pagination"], json!({ "limit": 50, "offset": 0, "total": 5 }));
    for waiter in whole.data().as_array().unwrap() {
        assert_fields(waiter, "position sessionId any user commitId context priority createdAt");
        assert_eq!(waiter["user"]["name"], "ana");
        assert_is_time(&waiter["createdAt"]);
    }
    let expected = json!({ "position": 1, "any": false, "commitId": "c0ffee1", "context": null, "priority": 0 });
    assert_has(&whole.data()[0], expected);
    let mut path = vic.path(&format!("{}/queue?limit=2", at("review-1")));
    for (page, expected) in ids.chunks(2).enumerate() {
        let answer = vic.send(vic.request(Method::GET, &path)).await.ok();
        assert_eq!(column(&answer, "sessionId"), expected);
        assert_eq!(answer.data()[0]["position"], page * 2 + 1);
        assert_eq!(answer.json()["pagination"], json!({ "limit": 2, "offset": page * 2, "total": 5 }));
        path = answer.link("next").unwrap_or_default();
    }
    assert_eq!(path, "", "the last page has no next one");
    let nowhere = vic.queue("nowhere").await;
    nowhere.refused(404, "environment_not_found");
    on_the_line.abort();
}

#[tokio::test]
async fn a_queued_session_cannot_act_as_if_it_had_the_lock() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    ana.claim("review-1", json!({})).await.created();
    ana.enqueue("review-1", json!({})).await;
    let queued = ben.enqueue("review-1", json!({ "commitId": "c0ffee1" })).await.session();
    for refused in [
        ben.deploy("review-1", &queued, json!({ "commitId": "c0ffee1" })).await,
        ben.heartbeat("review-1", &queued).await,
    ] {
        assert_eq!(refused.refused(409, "session_queued").json()["queuePosition"], 2);
    }
    let refused = ana.heartbeat("review-1", &queued).await;
    refused.refused(403, "not_session_holder");
    assert_eq!(ben.environment("review-1").await.data()["lastDeployment"], Value::Null);
}

#[tokio::test]
async fn a_force_claim_goes_before_the_queue_and_the_queue_keeps_waiting() {
    let server = Server::start();
    let (ana, ben, mia) = (server.as_user("ana").await, server.as_user("ben").await, server.as_user("mia").await);
    ana.claim("review-1", json!({})).await.created();
    let on_the_line = ben.wait_in_line("review-1", json!({ "waitSeconds": 50 }), 1).await;
    let queued = ben.enqueue("review-1", json!({})).await.session();
    let forced = mia.force_claim("review-1", json!({})).await.created().session();
    assert_has(&ana.environment("review-1").await.data(), json!({ "lockStatus": "locked", "queueLength": 2 }));
    assert_eq!(ben.session("review-1", &queued).await.ok().data()["queuePosition"], 2);
    assert!(!on_the_line.is_finished());
    mia.release("review-1", &forced).await.ok();
    assert_eq!(on_the_line.await.unwrap().created().data()["fencingToken"], 3);
}

#[tokio::test]
async fn nobody_slips_in_between_a_release_and_the_next_in_line() {
    const LINE: usize = 25;
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let mut holder = ana.claim("review-1", json!({})).await.created().session();
    let mut line = Vec::new();
    for _ in 0..LINE {
        line.push(ana.enqueue("review-1", json!({})).await.session());
    }
    let going_on = Arc::new(AtomicBool::new(true));
    let newcomers: Vec<_> = (0..4)
        .map(|_| {
            let (ben, going_on) = (ben.clone(), going_on.clone());
            tokio::spawn(async move {
                let mut refused = 0;
                while going_on.load(Ordering::Relaxed) {
                    ben.claim("review-1", json!({})).await.refused(409, "environment_locked");
                    refused += 1;
                }
                refused
            })
        })
        .collect();
    for next in line {
        let ended = ana.release("review-1", &holder).await.ok().data();
        let granted = ana.until_session_is("review-1", &next, "active").await;
        assert_eq!(granted["claimedAt"], ended["endedAt"], "it is one step");
        holder = next;
    }
    going_on.store(false, Ordering::Relaxed);
    for newcomer in newcomers {
        assert!(newcomer.await.unwrap() > 0);
    }
}

#[tokio::test]
async fn those_who_wait_for_a_disabled_environment_stay_until_it_is_enabled() {
    let server = Server::start();
    let (ana, ben, mia) = (server.as_user("ana").await, server.as_user("ben").await, server.as_user("mia").await);
    let held = ana.claim("review-1", json!({})).await.created().session();
    let on_the_line = ben.wait_in_line("review-1", json!({ "waitSeconds": 50 }), 1).await;
    let queued = ben.enqueue("review-1", json!({})).await.session();
    mia.put(&at("review-1"), json!({ "disabled": true })).await.ok();
    for body in [json!({}), json!({ "waitSeconds": 50 }), json!({ "queue": true })] {
        let refused = ana.claim("review-1", body).await;
        refused.refused(409, "environment_disabled");
    }
    ana.release("review-1", &held).await.ok();
    let found = ana.environment("review-1").await.data();
    assert_has(&found, json!({ "lockStatus": "disabled", "lock": null, "queueLength": 2 }));
    assert!(!on_the_line.is_finished());
    let refused = mia.delete(&at("review-1")).await.refused(409, "environment_in_use");
    assert_eq!(refused.json()["queueLength"], 2);

    let enabled = mia.put(&at("review-1"), json!({})).await.ok().data();
    assert_has(&enabled, json!({ "lockStatus": "locked", "queueLength": 1 }));
    let granted = on_the_line.await.unwrap().created();
    assert_eq!(enabled["lock"]["sessionId"], granted.session());
    let refused = mia.delete(&at("review-1")).await;
    refused.refused(409, "environment_locked");
    ben.release("review-1", &queued).await.ok();
    ben.release("review-1", &granted.session()).await.ok();
    mia.delete(&at("review-1")).await.has_status(204);
}

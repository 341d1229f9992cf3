//! Sessions that end automatically: their TTL, how it is restarted, the maximum hold, and who is next.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::waiting::{millis, now_millis};
use crate::support::{Answer, Server, assert_has, assert_is_time, at};

#[tokio::test]
async fn every_answer_about_a_session_says_when_it_ends_by_itself() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let claimed = ana.claim("review-1", json!({ "ttlSeconds": 600 })).await.created();
    let session = claimed.data();
    let expires_at = &session["expiresAt"];
    assert_is_time(expires_at);
    assert_eq!(millis(expires_at) - millis(&session["claimedAt"]), 600_000);
    assert_eq!(ana.session("review-1", &claimed.session()).await.ok().data(), session);
    assert_eq!(&ana.environment("review-1").await.data()["lock"]["expiresAt"], expires_at);
    let list = ana.get("/pipelines/web/ephemeral-environments").await.ok();
    assert_eq!(&list.data()[0]["lock"]["expiresAt"], expires_at);
    let history = ana.get(&format!("{}/history", at("review-1"))).await.ok();
    assert_eq!(&history.data()[0]["expiresAt"], expires_at);
    let refused = ben.claim("review-1", json!({})).await.refused(409, "environment_locked");
    assert_eq!(&refused.json()["holder"]["expiresAt"], expires_at);

    let forced = ben.force_claim("review-1", json!({ "ttlSeconds": 60 })).await.created().data();
    assert_eq!(millis(&forced["expiresAt"]) - millis(&forced["claimedAt"]), 60_000);
    let overridden = ana.session("review-1", &claimed.session()).await.ok().data();
    assert_eq!(overridden["expiresAt"], Value::Null, "what has ended does not end again");
    let released = ben.release("review-1", forced["sessionId"].as_str().unwrap()).await.ok().data();
    assert_eq!(released["expiresAt"], Value::Null);
}

#[tokio::test]
async fn a_heartbeat_and_a_deployment_put_the_end_off() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let claimed = ana.claim("review-1", json!({ "ttlSeconds": 600 })).await.created();
    let id = claimed.session();
    let mut last = claimed.data()["expiresAt"].clone();
    let mut put_off = |session: Value| {
        assert_has(&session, json!({ "lockStatus": "active", "fencingToken": 1 }));
        assert!(millis(&session["expiresAt"]) > millis(&last), "{session:#} after {last}");
        last = session["expiresAt"].clone();
    };
    the_clock_moves().await;
    put_off(ana.heartbeat("review-1", &id).await.ok().data());
    put_off({
        the_clock_moves().await;
        let deployed = ana.deploy("review-1", &id, json!({ "commitId": "c0ffee1" })).await.has_status(202);
        let session = ana.session("review-1", &id).await.ok().data();
        assert_eq!(millis(&session["expiresAt"]) - millis(&deployed.data()["createdAt"]), 600_000);
        session
    });
    // Reading does not: a reader is not the holder.
    the_clock_moves().await;
    assert_eq!(ana.session("review-1", &id).await.ok().data()["expiresAt"], last);
}

#[tokio::test]
async fn a_session_without_activity_expires_and_the_next_in_line_has_the_lock() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let held = ana.claim("review-1", json!({ "ttlSeconds": 1 })).await.created();
    let next = ben.wait_in_line("review-1", json!({ "waitSeconds": 50, "ttlSeconds": 600 }), 1).await;
    let granted = next.await.unwrap().created().data();
    let expired = ana.session("review-1", &held.session()).await.ok().data();
    assert_has(
        &expired,
        json!({
            "lockStatus": "expired", "overridden": false, "endReason": "ttl", "endedBy": null, "expiresAt": null,
            "claimedAt": held.data()["claimedAt"],
        }),
    );
    assert!(millis(&expired["endedAt"]) >= millis(&held.data()["expiresAt"]));
    assert_eq!(granted["claimedAt"], expired["endedAt"], "it is one step");
    assert_eq!(granted["fencingToken"], 2);
    assert_eq!(millis(&granted["expiresAt"]) - millis(&granted["claimedAt"]), 600_000, "from when it has the lock");

    for refused in [
        ana.heartbeat("review-1", &held.session()).await,
        ana.deploy("review-1", &held.session(), json!({ "commitId": "c0ffee1" })).await,
    ] {
        let told = refused.refused(409, "session_expired").json();
        assert_has(&told, json!({ "endReason": "ttl", "endedAt": expired["endedAt"], "endedBy": null }));
    }
    assert_eq!(ana.release("review-1", &held.session()).await.ok().data(), expired);
    assert_eq!(ana.environment("review-1").await.data()["lock"]["sessionId"], granted["sessionId"]);
}

#[tokio::test]
async fn one_that_expires_with_nobody_in_line_leaves_the_environment_free() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let held = ana.claim("review-1", json!({ "ttlSeconds": 1 })).await.created().session();
    let free = ana.until_environment("review-1", |found| found["lockStatus"] == "unlocked").await;
    assert_eq!(free["lock"], Value::Null);
    assert_eq!(ana.session("review-1", &held).await.ok().data()["lockStatus"], "expired");
    ana.claim("review-1", json!({})).await.created();
}

#[tokio::test]
async fn a_session_lives_on_past_its_ttl_as_long_as_its_holder_sends_heartbeats() {
    const TTL: i64 = 3;
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let claimed = ana.claim("review-1", json!({ "ttlSeconds": TTL })).await.created();
    let claimed_at = millis(&claimed.data()["claimedAt"]);
    loop {
        let alive = ana.heartbeat("review-1", &claimed.session()).await.ok().data();
        assert_eq!(alive["lockStatus"], "active");
        if millis(&alive["expiresAt"]) > claimed_at + 2 * TTL * 1000 {
            break;
        }
    }
    let expired = ana.until_session_is("review-1", &claimed.session(), "expired").await;
    assert_eq!(expired["endReason"], "ttl");
}

#[tokio::test]
async fn a_heartbeat_is_the_holders_alone_and_needs_no_ttl() {
    let server = Server::start();
    server.without_ttl("review-1").await;
    let (ana, mia) = (server.as_user("ana").await, server.as_user("mia").await);
    let id = ana.claim("review-1", json!({})).await.created().session();
    let alive = ana.heartbeat("review-1", &id).await.ok().data();
    assert_has(&alive, json!({ "lockStatus": "active", "expiresAt": null, "fencingToken": 1 }));
    let refused = mia.heartbeat("review-1", &id).await;
    assert_eq!(refused.refused(403, "not_session_holder").json()["holder"]["user"]["name"], "ana");
    let refused = server.as_user("vic").await.heartbeat("review-1", &id).await;
    refused.refused(403, "permission_denied");
    mia.force_claim("review-1", json!({})).await.created();
    let refused = ana.heartbeat("review-1", &id).await.refused(409, "session_overridden");
    assert_eq!(refused.json()["endedBy"]["name"], "mia");
    let nowhere = ana.heartbeat("review-2", &id).await;
    nowhere.refused(404, "session_not_found");
}

#[tokio::test]
async fn a_ttl_is_at_most_what_the_environment_allows_and_its_default_applies() {
    let server = Server::start();
    let admin = server.admin();
    let configuration = json!({ "maxTtlSeconds": 60, "defaultTtlSeconds": 30 });
    admin.put(&at("short"), configuration).await.created();
    for body in [json!({ "ttlSeconds": 61 }), json!({ "ttlSeconds": 61, "waitSeconds": 50, "queue": true })] {
        let refused = admin.claim("short", body).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), ["ttlSeconds"]);
    }
    let refused = admin.force_claim("short", json!({ "ttlSeconds": 61 })).await;
    assert_eq!(refused.refused(422, "invalid_request").faulty_fields(), ["ttlSeconds"]);
    for (asked, seconds) in [(json!(60), 60), (json!(1), 1), (Value::Null, 30)] {
        let claimed = admin.claim("short", json!({ "ttlSeconds": asked })).await.created();
        assert_eq!(lease_seconds(&claimed), seconds);
        let forced = admin.force_claim("short", json!({ "ttlSeconds": asked })).await.created();
        assert_eq!(lease_seconds(&forced), seconds);
        admin.release("short", &forced.session()).await.ok();
    }
    let refused = admin.put(&at("short"), json!({ "maxTtlSeconds": 60, "defaultTtlSeconds": 61 })).await;
    assert_eq!(refused.refused(422, "invalid_request").faulty_fields(), ["defaultTtlSeconds"]);
    // Not above the default maximum TTL either.
    let refused = admin.put(&at("short"), json!({ "defaultTtlSeconds": 86_401 })).await;
    assert_eq!(refused.refused(422, "invalid_request").faulty_fields(), ["defaultTtlSeconds"]);
}

#[tokio::test]
async fn the_longest_hold_ends_a_session_despite_its_heartbeats() {
    let server = Server::start();
    let admin = server.admin();
    admin.put(&at("brief"), json!({ "maxHoldSeconds": 1 })).await.created();
    let claimed = admin.claim("brief", json!({ "ttlSeconds": 600 })).await.created();
    assert_eq!(lease_seconds(&claimed), 1, "whichever is sooner");
    let refused = loop {
        let answer = admin.heartbeat("brief", &claimed.session()).await;
        if answer.status != 200 {
            break answer;
        }
        assert_eq!(answer.data()["expiresAt"], claimed.data()["expiresAt"]);
    };
    assert_eq!(refused.refused(409, "session_expired").json()["endReason"], "max_hold");
    let ended = admin.session("brief", &claimed.session()).await.ok().data();
    assert_has(&ended, json!({ "lockStatus": "expired", "endReason": "max_hold", "endedBy": null }));
}

#[tokio::test]
async fn a_longest_hold_set_later_holds_for_who_has_the_lock_already() {
    let server = Server::start();
    server.without_ttl("review-1").await;
    let (ana, mia) = (server.as_user("ana").await, server.as_user("mia").await);
    let claimed = ana.claim("review-1", json!({})).await.created();
    assert_eq!(claimed.data()["expiresAt"], Value::Null);
    let next = ana.enqueue("review-1", json!({})).await.session();
    mia.put(&at("review-1"), json!({ "maxHoldSeconds": 1 })).await.ok();
    let ended = ana.until_session_is("review-1", &claimed.session(), "expired").await;
    assert_eq!(ended["endReason"], "max_hold");
    // The next one holds it as long, and no longer.
    let ended = ana.until_session_is("review-1", &next, "expired").await;
    assert_eq!(ended["endReason"], "max_hold");
    assert!(millis(&ended["endedAt"]) - millis(&ended["claimedAt"]) >= 1_000);
}

#[tokio::test]
async fn a_lease_does_not_run_out_because_the_server_was_down() {
    let mut server = Server::start();
    let admin = server.admin();
    let short = admin.claim("review-1", json!({ "ttlSeconds": 2 })).await.created();
    let middling = admin.claim("review-2", json!({ "ttlSeconds": 31 })).await.created();
    let long = admin.claim("review-3", json!({ "ttlSeconds": 600 })).await.created();
    let next = admin.enqueue("review-1", json!({})).await.session();
    server.kill();
    while now_millis() <= millis(&short.data()["expiresAt"]) {
        the_clock_moves().await;
    }
    let started = now_millis();
    server.start_again();
    let admin = server.admin();
    let kept = admin.session("review-3", &long.session()).await.ok().data();
    assert_eq!(kept["expiresAt"], long.data()["expiresAt"], "there is enough left of it");
    let kept = admin.session("review-2", &middling.session()).await.ok().data();
    assert!(millis(&kept["expiresAt"]) >= started + 30_000, "at least half a minute");
    let alive = admin.heartbeat("review-2", &middling.session()).await.ok().data();
    assert!(millis(&alive["expiresAt"]) >= started + 31_000);
    // The rest of the lease expires, with all its consequences.
    let ended = admin.until_session_is("review-1", &short.session(), "expired").await;
    assert!(millis(&ended["endedAt"]) >= started + 2_000, "its whole TTL: {ended:#}");
    let active = admin.until_session_is("review-1", &next, "active").await;
    assert_eq!(active["claimedAt"], ended["endedAt"]);
}

#[tokio::test]
async fn the_longest_hold_goes_on_through_a_restart() {
    let mut server = Server::start();
    let admin = server.admin();
    admin.put(&at("brief"), json!({ "maxHoldSeconds": 3 })).await.created();
    let claimed = admin.claim("brief", json!({})).await.created().session();
    server.kill();
    server.start_again();
    let ended = server.admin().until_session_is("brief", &claimed, "expired").await;
    assert_eq!(ended["endReason"], "max_hold");
}

fn lease_seconds(claimed: &Answer) -> i64 {
    (millis(&claimed.data()["expiresAt"]) - millis(&claimed.data()["claimedAt"])) / 1000
}

/// Ensures that the next event has a later time.
async fn the_clock_moves() {
    let before = now_millis();
    while now_millis() <= before + 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

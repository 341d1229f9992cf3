//! Environments and pipelines: listed, read, created, changed and deleted, with their history.

mod listing;
mod one_moment;
mod past;

use crate::support::{Answer, Server, assert_has, assert_is_time, at};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const LIST: &str = "/pipelines/web/ephemeral-environments";

#[tokio::test]
async fn an_environment_shows_every_field_of_the_contract() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let body = json!({ "commitId": "c0ffee1", "context": "PR 412" });
    let session = ana.claim("review-1", body).await.created().data();
    let environment = ana.environment("review-1").await.ok().data();
    let deployment = &session["deployments"][0];
    let expected = json!({
        "envName": "review-1", "pipelineId": "web", "labels": { "size": "small" }, "lockStatus": "locked",
        "lock": {
            "sessionId": session["sessionId"], "user": session["user"], "commitId": "c0ffee1", "context": "PR 412",
            "claimedAt": session["claimedAt"], "expiresAt": session["expiresAt"], "fencingToken": 1,
        },
        "queueLength": 0, "disabledReason": null, "currentDeployment": null,
        "lastDeployment": {
            "deploymentId": deployment["deploymentId"], "commitId": "c0ffee1", "status": "succeeded",
            "finishedAt": deployment["finishedAt"],
        },
        "configuration": {
            "description": "For looking at a pull request", "labels": { "size": "small" }, "deployOnClaim": true,
            "defaultTtlSeconds": 3600, "maxTtlSeconds": 86400, "maxHoldSeconds": null, "maxQueueLength": 10000,
            "forceClaimRole": "developer", "onRelease": null, "disabled": false, "variables": { "TIER": "review" },
        },
    });
    assert_eq!(environment, expected);
    assert_is_time(&environment["lastDeployment"]["finishedAt"]);
}

#[tokio::test]
async fn an_environment_is_made_by_put_and_changed_by_the_next() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let configuration = json!({
        "description": "for the demo\nof Ægir", "labels": { "size": "large" }, "deployOnClaim": false,
        "defaultTtlSeconds": 600, "maxTtlSeconds": 3600, "maxHoldSeconds": 7200, "maxQueueLength": 5,
        "forceClaimRole": "admin", "onRelease": { "commitId": "main" }, "variables": { "TIER": "demo" },
    });
    let made = mia.put(&at("demo"), configuration.clone()).await.created();
    assert_eq!(made.header("location"), mia.path(&at("demo")));
    assert_has(&made.data(), json!({ "envName": "demo", "lockStatus": "unlocked", "lock": null }));
    assert_has(&made.data()["configuration"], configuration.clone());
    let found = mia.environment("demo").await.ok();
    assert_eq!((found.data(), found.header("etag")), (made.data(), made.header("etag")));

    let same = mia.put(&at("demo"), configuration).await.ok();
    assert_eq!(same.header("etag"), made.header("etag"), "nothing has changed");
    // Missing fields get their defaults: the whole configuration is replaced.
    let changed = mia.put(&at("demo"), json!({ "disabled": true })).await.ok();
    assert_ne!(changed.header("etag"), made.header("etag"));
    assert_has(
        &changed.data()["configuration"],
        json!({
            "disabled": true, "description": "", "labels": {}, "deployOnClaim": true, "variables": {},
            "defaultTtlSeconds": null, "maxTtlSeconds": 86400, "maxHoldSeconds": null, "maxQueueLength": 10000,
            "onRelease": null,
        }),
    );
    assert_eq!(changed.data()["lockStatus"], "disabled");
    assert_eq!(mia.environment("demo").await.ok().data(), changed.data());
    let request = mia.request(Method::PUT, &mia.path(&at("plain")));
    let plain = mia.send(request).await.created();
    assert_eq!(plain.data()["configuration"]["deployOnClaim"], true, "no body: all defaults");
}

#[tokio::test]
async fn an_update_that_rests_on_an_older_configuration_is_refused() {
    let server = Server::start();
    let admin = server.admin();
    let path = admin.path(&at("review-1"));
    let update = async |method: Method, etag: &str, body: Value| {
        let request = admin.request(method, &path).header("If-Match", etag);
        admin.send(request.json(&body)).await
    };
    let read = admin.environment("review-1").await.ok().header("etag").to_owned();
    // The lock is not part of the configuration, so its changes do not conflict.
    let session = admin.claim("review-1", json!({})).await.created().session();
    let first = update(Method::PUT, &read, json!({ "description": "first" })).await.ok();
    admin.release("review-1", &session).await.ok();
    for stale in [&read, "\"nonsense\"", ""] {
        for method in [Method::PUT, Method::DELETE] {
            let refused = update(method, stale, json!({ "description": "second" })).await;
            refused.refused(412, "precondition_failed");
        }
    }
    assert_eq!(admin.environment("review-1").await.data()["configuration"]["description"], "first");
    update(Method::PUT, "*", json!({ "description": "third" })).await.ok();
    let stale = first.header("etag");
    update(Method::DELETE, stale, json!({})).await.refused(412, "precondition_failed");
    let latest = admin.environment("review-1").await.ok().header("etag").to_owned();
    let either = format!("{read}, {latest}");
    update(Method::PUT, &either, json!({ "description": "third" })).await.ok();
    update(Method::DELETE, &latest, json!({})).await.has_status(204);
    // Nothing matches a missing environment.
    for etag in [latest.as_str(), "*"] {
        update(Method::PUT, etag, json!({})).await.refused(412, "precondition_failed");
    }
    admin.environment("review-1").await.refused(404, "environment_not_found");
}

#[tokio::test]
async fn whoever_asks_to_make_an_environment_does_not_overwrite_one() {
    let server = Server::start();
    let admin = server.admin();
    let make = async |name: &str| {
        let request = admin.request(Method::PUT, &admin.path(&at(name))).header("If-None-Match", "*");
        admin.send(request.json(&json!({ "description": "new" }))).await
    };
    make("review-1").await.refused(412, "precondition_failed");
    assert_ne!(admin.environment("review-1").await.ok().data()["configuration"]["description"], "new");
    make("brand-new").await.created();
}

#[tokio::test]
async fn a_configuration_that_was_read_can_be_written_back() {
    let server = Server::start();
    let admin = server.admin();
    let read = admin.environment("review-3").await.ok();
    let configuration = &read.data()["configuration"];
    for body in [configuration.clone(), json!({ "configuration": configuration })] {
        let written = admin.put(&at("review-3"), body.clone()).await.ok();
        assert_eq!(written.data(), read.data());
        assert_eq!(written.header("etag"), read.header("etag"));
        let copy = admin.put(&at("copy"), body).await;
        assert_eq!(&copy.data()["configuration"], configuration);
    }
}

#[tokio::test]
async fn every_fault_of_a_configuration_is_named_at_once_and_nothing_is_made() {
    let server = Server::start();
    let admin = server.admin();
    let faulty = json!({
        "description": 7, "labels": { "-bad": "x", "good": 3 }, "deployOnClaim": "yes", "forceClaimRole": "boss",
        "disabled": null, "variables": { "LOCKKEEPER_X": "x", "1A": "x" }, "colour": "red",
        "defaultTtlSeconds": 0, "maxTtlSeconds": null, "maxHoldSeconds": 1.5, "maxQueueLength": -1, "onRelease": "c0ffee1",
    });
    for body in [faulty.clone(), json!({ "configuration": faulty })] {
        let refused = admin.put(&at("-bad"), body).await.refused(422, "invalid_request");
        let mut fields = refused.faulty_fields();
        fields.sort_unstable();
        let expected = "colour defaultTtlSeconds deployOnClaim description disabled envName forceClaimRole labels.-bad \
                        labels.good maxHoldSeconds maxQueueLength maxTtlSeconds onRelease variables.1A \
                        variables.LOCKKEEPER_X";
        assert_eq!(fields.join(" "), expected);
    }
    let many = |count: usize| -> Value { (0..count).map(|n| (format!("L{n}"), json!("x"))).collect() };
    let body = json!({ "labels": many(33), "variables": many(65) });
    assert_eq!(admin.put(&at("new"), body).await.faulty_fields(), ["labels", "variables"]);
    admin.environment("new").await.refused(404, "environment_not_found");
    let body = json!({ "labels": many(32), "variables": many(64) });
    admin.put(&at("new"), body).await.created();
}

#[tokio::test]
async fn a_name_out_of_its_bounds_cannot_be_made_and_is_not_found() {
    let server = Server::start();
    let admin = server.admin();
    let longest = "x".repeat(63);
    for good in [longest.as_str(), "7", "A.b_c-d", "session"] {
        admin.put(&at(good), json!({})).await.created();
        admin.environment(good).await.ok();
    }
    for bad in [&*(longest + "x"), "-a", ".a", "_a", "a b", "a%2Fb", "ä", "%00", "%FF", "%252e"] {
        let refused = admin.put(&at(bad), json!({})).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), ["envName"], "{bad}");
        for answer in [admin.environment(bad).await, admin.delete(&at(bad)).await] {
            answer.refused(404, "environment_not_found");
        }
    }
}

#[tokio::test]
async fn a_free_environment_can_be_deleted_and_a_locked_one_cannot() {
    let server = Server::start();
    let (mia, ana) = (server.as_user("mia").await, server.as_user("ana").await);
    let session = ana.claim("review-1", json!({})).await.created().session();
    let refused = mia.delete(&at("review-1")).await.refused(409, "environment_locked");
    assert_eq!(refused.json()["holder"]["sessionId"], session);
    ana.release("review-1", &session).await.ok();
    let deleted = mia.delete(&at("review-1")).await.has_status(204);
    assert_eq!(deleted.text, "");
    for answer in [
        mia.delete(&at("review-1")).await,
        mia.environment("review-1").await,
        mia.get(&format!("{}/history", at("review-1"))).await,
        ana.claim("review-1", json!({})).await,
        ana.session("review-1", &session).await,
    ] {
        answer.refused(404, "environment_not_found");
    }
    assert_eq!(names(&mia.get(LIST).await), ["review-2", "review-3"]);
}

#[tokio::test]
async fn an_environment_that_has_not_changed_is_not_sent_again() {
    let server = Server::start();
    let admin = server.admin();
    let unless = async |etag: &str| {
        let request = admin.request(Method::GET, &admin.path(&at("review-1")));
        admin.send(request.header("If-None-Match", etag)).await
    };
    let mut etag = admin.environment("review-1").await.ok().header("etag").to_owned();
    for change in 0..3 {
        let unchanged = unless(&etag).await;
        assert_eq!((unchanged.status, &*unchanged.text), (StatusCode::NOT_MODIFIED, ""));
        match change {
            0 => admin.claim("review-1", json!({})).await.created(),
            1 => admin.force_claim("review-1", json!({ "commitId": "c0ffee1" })).await.created(),
            _ => admin.put(&at("review-1"), json!({ "description": "new" })).await.ok(),
        };
        let changed = unless(&etag).await.ok();
        assert_ne!(changed.header("etag"), etag);
        changed.header("etag").clone_into(&mut etag);
    }
}

fn names(list: &Answer) -> Vec<String> {
    texts(list, "envName")
}

fn texts(list: &Answer, field: &str) -> Vec<String> {
    let data = list.data();
    let items = data.as_array().unwrap().iter();
    items.map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

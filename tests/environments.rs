//! Environments and pipelines: listed, looked at, made, changed and deleted, with their history.

#![allow(clippy::unwrap_used)]

mod support;

use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use support::{Answer, Client, Server, Setup, assert_fields, assert_has, assert_is_time, at};

const LIST: &str = "/pipelines/web/ephemeral-environments";

#[tokio::test]
async fn the_list_has_every_environment_by_name_and_none_of_the_configurations() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let held = ana.claim("review-2", json!({ "context": "PR 412" })).await.created();
    let list = ana.get(LIST).await.ok();
    assert_eq!(names(&list), ["review-1", "review-2", "review-3"]);
    assert_eq!(list.json()["pagination"]["total"], 3);
    let data = list.data();
    for item in data.as_array().unwrap() {
        assert_fields(
            item,
            "envName pipelineId lockStatus lock queueLength currentDeployment lastDeployment",
        );
    }
    assert_has(
        &data[0],
        json!({ "lockStatus": "unlocked", "lock": null, "pipelineId": "web" }),
    );
    assert_eq!(data[1]["lockStatus"], "locked");
    assert_has(
        &data[1]["lock"],
        json!({ "sessionId": held.session(), "context": "PR 412", "fencingToken": 1 }),
    );
}

#[tokio::test]
async fn the_pages_of_the_list_link_to_each_other() {
    let server = Server::start();
    let admin = server.admin();
    for name in ["a", "b", "c", "d"] {
        admin
            .put(&at(name), json!({ "labels": { "kind": "letter" } }))
            .await
            .created();
    }
    let query = "?label=kind:letter&limit=2";
    let first = admin.get(&format!("{LIST}{query}")).await.ok();
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(
        first.json()["pagination"],
        json!({ "limit": 2, "offset": 0, "total": 4 })
    );
    assert_eq!((first.link("prev"), first.link("last")), (None, first.link("next")));
    let next = first.link("next").unwrap();
    let second = admin.send(admin.request(Method::GET, &next)).await.ok();
    assert_eq!(names(&second), ["c", "d"], "{next} keeps the filter");
    assert_eq!(
        second.json()["pagination"],
        json!({ "limit": 2, "offset": 2, "total": 4 })
    );
    assert_eq!((second.link("next"), second.link("prev")), (None, second.link("first")));
    let beyond = admin.get(&format!("{LIST}?offset=99")).await.ok();
    assert_eq!(beyond.json()["data"], json!([]));
    assert_eq!(
        beyond.json()["pagination"],
        json!({ "limit": 50, "offset": 99, "total": 7 })
    );
}

#[tokio::test]
async fn the_list_is_filtered_by_status_and_by_every_label_given() {
    let server = Server::start();
    let admin = server.admin();
    let labels = json!({ "size": "large", "gpu": "a:b" });
    admin.put(&at("big"), json!({ "labels": labels })).await.created();
    admin.put(&at("off"), json!({ "disabled": true })).await.created();
    admin.claim("review-1", json!({})).await.created();
    let everything = ["big", "off", "review-1", "review-2", "review-3"];
    let cases: [(&str, &[&str]); 9] = [
        ("", &everything),
        ("?lockStatus=unlocked", &["big", "review-2", "review-3"]),
        ("?lockStatus=locked", &["review-1"]),
        ("?lockStatus=disabled", &["off"]),
        ("?lockStatus=resetting", &[]),
        ("?label=size:large", &["big", "review-3"]),
        ("?label=size:large&label=gpu:a:b", &["big"]),
        ("?label=size:large&lockStatus=locked", &[]),
        ("?label=size%3Asmall&limit=1&offset=1", &["review-2"]),
    ];
    for (query, expected) in cases {
        assert_eq!(
            names(&admin.get(&format!("{LIST}{query}")).await.ok()),
            expected,
            "{query}"
        );
    }
}

#[tokio::test]
async fn an_environment_shows_every_field_of_the_contract() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let body = json!({ "commitId": "c0ffee1", "context": "PR 412" });
    let session = ana.claim("review-1", body).await.created().data();
    let environment = ana.environment("review-1").await.ok().data();
    let deployment = &session["deployments"][0];
    let expected = json!({
        "envName": "review-1", "pipelineId": "web", "lockStatus": "locked",
        "lock": {
            "sessionId": session["sessionId"], "user": session["user"], "commitId": "c0ffee1", "context": "PR 412",
            "claimedAt": session["claimedAt"], "expiresAt": null, "fencingToken": 1,
        },
        "queueLength": 0, "currentDeployment": null,
        "lastDeployment": {
            "deploymentId": deployment["deploymentId"], "commitId": "c0ffee1", "status": "succeeded",
            "finishedAt": deployment["finishedAt"],
        },
        "configuration": {
            "description": "For looking at a pull request", "labels": { "size": "small" }, "deployOnClaim": true,
            "defaultTtlSeconds": null, "maxTtlSeconds": 86400, "maxHoldSeconds": null, "maxQueueLength": 10000,
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
        "forceClaimRole": "admin", "variables": { "TIER": "demo" },
    });
    let made = mia.put(&at("demo"), configuration.clone()).await.created();
    assert_eq!(made.header("location"), mia.path(&at("demo")));
    assert_has(
        &made.data(),
        json!({ "envName": "demo", "lockStatus": "unlocked", "lock": null }),
    );
    assert_has(&made.data()["configuration"], configuration.clone());
    let found = mia.environment("demo").await.ok();
    assert_eq!((found.data(), found.header("etag")), (made.data(), made.header("etag")));

    let same = mia.put(&at("demo"), configuration).await.ok();
    assert_eq!(same.header("etag"), made.header("etag"), "nothing has changed");
    // What is left out has its default: the whole configuration is replaced.
    let changed = mia.put(&at("demo"), json!({ "disabled": true })).await.ok();
    assert_ne!(changed.header("etag"), made.header("etag"));
    assert_has(
        &changed.data()["configuration"],
        json!({ "disabled": true, "description": "", "labels": {}, "deployOnClaim": true, "variables": {} }),
    );
    assert_eq!(changed.data()["lockStatus"], "disabled");
    assert_eq!(mia.environment("demo").await.ok().data(), changed.data());
    let request = mia.request(Method::PUT, &mia.path(&at("plain")));
    let plain = mia.send(request).await.created();
    assert_eq!(
        plain.data()["configuration"]["deployOnClaim"],
        true,
        "no body: all defaults"
    );
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
    // The lock is not part of the configuration: its changes stand in nobody's way.
    let session = admin.claim("review-1", json!({})).await.created().session();
    let first = update(Method::PUT, &read, json!({ "description": "first" })).await.ok();
    admin.release("review-1", &session).await.ok();
    for stale in [&read, "\"nonsense\"", ""] {
        for method in [Method::PUT, Method::DELETE] {
            let refused = update(method, stale, json!({ "description": "second" })).await;
            refused.refused(412, "precondition_failed");
        }
    }
    assert_eq!(
        admin.environment("review-1").await.data()["configuration"]["description"],
        "first"
    );
    update(Method::PUT, "*", json!({ "description": "third" })).await.ok();
    let stale = first.header("etag");
    update(Method::DELETE, stale, json!({}))
        .await
        .refused(412, "precondition_failed");
    let latest = admin.environment("review-1").await.ok().header("etag").to_owned();
    update(Method::DELETE, &latest, json!({})).await.has_status(204);
    // Nothing matches what is not there.
    for etag in [latest.as_str(), "*"] {
        update(Method::PUT, etag, json!({}))
            .await
            .refused(412, "precondition_failed");
    }
    admin
        .environment("review-1")
        .await
        .refused(404, "environment_not_found");
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
        "defaultTtlSeconds": 60, "maxTtlSeconds": 60, "maxHoldSeconds": 60, "maxQueueLength": 5, "onRelease": "c0ffee1",
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
    assert_eq!(
        admin.put(&at("new"), body).await.faulty_fields(),
        ["labels", "variables"]
    );
    admin.environment("new").await.refused(404, "environment_not_found");
    let body = json!({ "labels": many(32), "variables": many(64) });
    admin.put(&at("new"), body).await.created();
}

#[tokio::test]
async fn a_name_out_of_its_bounds_cannot_be_made_and_is_not_found() {
    let server = Server::start();
    let admin = server.admin();
    let longest = "x".repeat(63);
    for good in [longest.as_str(), "7", "A.b_c-d", "sessions"] {
        admin.put(&at(good), json!({})).await.created();
        admin.environment(good).await.ok();
    }
    for bad in [
        &*(longest + "x"),
        "-a",
        ".a",
        "_a",
        "a b",
        "a%2Fb",
        "ä",
        "%00",
        "%FF",
        "%252e",
    ] {
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
async fn history_has_one_entry_a_session_newest_first_in_pages() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let mut sessions = Vec::new();
    for number in 0..4 {
        sessions.push(used(&ana, &format!("c{number}")).await);
    }
    let held = ana.claim("review-1", json!({ "commitId": "c4" })).await.created();
    sessions.push(held.session());
    sessions.reverse();

    let history = format!("{}/history", at("review-1"));
    let whole = ana.get(&history).await.ok();
    assert_eq!(ids(&whole), sessions);
    let pagination = json!({ "page": 1, "limit": 50, "total": 5, "totalPages": 1 });
    assert_eq!(whole.json()["pagination"], pagination);
    assert_eq!(whole.data()[0], held.data(), "the present holder is the newest");
    let oldest = ana.session("review-1", &sessions[4]).await.ok().data();
    assert_eq!(whole.data()[4], oldest, "an entry is the session");

    let mut path = ana.path(&format!("{history}?limit=2"));
    for (page, expected) in sessions.chunks(2).enumerate() {
        let answer = ana.send(ana.request(Method::GET, &path)).await.ok();
        assert_eq!(ids(&answer), expected);
        let pagination = json!({ "page": page + 1, "limit": 2, "total": 5, "totalPages": 3 });
        assert_eq!(answer.json()["pagination"], pagination);
        assert_eq!(answer.link("prev").is_some(), page > 0);
        assert!(answer.link("first").unwrap().ends_with("limit=2&page=1"));
        assert!(answer.link("last").unwrap().ends_with("limit=2&page=3"));
        path = answer.link("next").unwrap_or_default();
    }
    assert_eq!(path, "", "the last page has no next one");
    let beyond = ana.get(&format!("{history}?page=9")).await.ok();
    assert_eq!(beyond.data(), json!([]));
}

#[tokio::test]
async fn history_reaches_back_as_far_as_it_is_kept_and_no_further() {
    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\nhistory_retention = 5\n";
    let mut server = Setup::default().settings(settings).start();
    let admin = server.admin();
    let mut sessions = Vec::new();
    for number in 0..8 {
        sessions.push(used(&admin, &format!("c{number}")).await);
    }
    sessions.push(admin.claim("review-1", json!({})).await.created().session());
    for restarted in [false, true] {
        if restarted {
            assert!(server.terminate().success());
            server.start_again();
        }
        let admin = server.admin();
        for (number, session) in sessions.iter().enumerate() {
            let found = admin.session("review-1", session).await;
            let again = if number < 8 {
                admin.release("review-1", session).await
            } else {
                found.clone()
            };
            // Five that have ended, and the one that has not.
            if number < 3 {
                found.refused(404, "session_not_found");
                again.refused(404, "session_not_found");
            } else {
                assert_eq!(found.ok().data(), again.ok().data());
            }
        }
        let history = admin.get(&format!("{}/history", at("review-1"))).await.ok();
        let expected: Vec<_> = sessions[3..].iter().rev().cloned().collect();
        assert_eq!(ids(&history), expected);
        assert_eq!(history.json()["pagination"]["total"], 6);
    }
}

#[tokio::test]
async fn an_environment_made_again_under_an_old_name_has_no_history() {
    let server = Server::start();
    let admin = server.admin();
    let session = used(&admin, "c0ffee1").await;
    admin.delete(&at("review-1")).await.has_status(204);
    let made = admin.put(&at("review-1"), json!({})).await.created();
    assert_has(&made.data(), json!({ "lock": null, "lastDeployment": null }));
    let history = admin.get(&format!("{}/history", at("review-1"))).await.ok();
    assert_has(&history.json()["pagination"], json!({ "total": 0, "totalPages": 0 }));
    assert_eq!(history.data(), json!([]));
    admin
        .session("review-1", &session)
        .await
        .refused(404, "session_not_found");
    let anew = used(&admin, "decade2").await;
    let history = admin.get(&format!("{}/history", at("review-1"))).await.ok();
    assert_eq!(ids(&history), [anew]);
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
            1 => admin
                .force_claim("review-1", json!({ "commitId": "c0ffee1" }))
                .await
                .created(),
            _ => admin.put(&at("review-1"), json!({ "description": "new" })).await.ok(),
        };
        let changed = unless(&etag).await.ok();
        assert_ne!(changed.header("etag"), etag);
        changed.header("etag").clone_into(&mut etag);
    }
}

#[tokio::test]
async fn every_wrong_parameter_is_named() {
    let server = Server::start();
    let admin = server.admin();
    let history = format!("{}/history", at("review-1"));
    let sessions = format!("{}/sessions/ses_x", at("review-1"));
    let cases: [(&str, &str, &[&str]); 16] = [
        (LIST, "limit=0", &["limit"]),
        (LIST, "limit=101", &["limit"]),
        (LIST, "limit=", &["limit"]),
        (LIST, "limit=%2B1&offset=-1", &["limit", "offset"]),
        (LIST, "offset=99999999999999999999", &["offset"]),
        (LIST, "limit=1&limit=2", &["limit"]),
        (
            LIST,
            "lockStatus=open&label=size&label=:x",
            &["lockStatus", "label", "label"],
        ),
        (LIST, "page=1", &["page"]),
        (LIST, "a=1&b=2&a=3", &["a", "b"]),
        (&history, "page=0&limit=x", &["page", "limit"]),
        (&history, "page=1.5&offset=1", &["page", "offset"]),
        (&at("review-1"), "verbose=true", &["verbose"]),
        (&sessions, "waitSeconds=5", &["waitSeconds"]),
        ("/pipelines", "limit=0", &["limit"]),
        ("/pipelines/web", "x", &["x"]),
        ("/tokens", "offset=x", &["offset"]),
    ];
    for (path, query, expected) in cases {
        let refused = admin.get(&format!("{path}?{query}")).await;
        assert_eq!(
            refused.refused(400, "invalid_parameter").faulty_fields(),
            expected,
            "{query}"
        );
    }
    let sessions = format!("{}/sessions?force=true", at("review-1"));
    admin.post(&sessions, json!({})).await.refused(400, "invalid_parameter");
    assert_eq!(admin.environment("review-1").await.data()["lock"], Value::Null);
    let last = admin.get(&format!("{history}?page={}", u64::MAX)).await.ok();
    assert_eq!(last.data(), json!([]));
}

#[tokio::test]
async fn pipelines_are_listed_and_looked_at_with_what_they_have() {
    let server = Server::start();
    let vic = server.as_user("vic").await;
    let list = vic.get("/pipelines").await.ok();
    assert_eq!(
        list.json()["pagination"],
        json!({ "limit": 50, "offset": 0, "total": 2 })
    );
    let ids: Vec<_> = list
        .data()
        .as_array()
        .unwrap()
        .iter()
        .map(|pipeline| pipeline["id"].clone())
        .collect();
    assert_eq!(ids, ["shop", "web"]);
    let web = vic.get("/pipelines/web").await.ok().data();
    assert_eq!(
        web,
        json!({
            "id": "web", "name": "Web shop", "slug": "web", "status": "running", "stoppedBy": null, "stoppedAt": null,
            "stopReason": null, "stages": [], "environmentCount": 3, "repository": null,
        })
    );
    assert_eq!(list.data()[1], web);
    server.admin().put(&at("fourth"), json!({})).await.created();
    assert_eq!(vic.get("/pipelines/web/").await.ok().data()["environmentCount"], 4);
    let second = vic.get("/pipelines/?limit=1&offset=1").await.ok();
    assert_eq!(
        (second.data()[0]["id"].as_str(), second.link("next")),
        (Some("web"), None)
    );
    for path in [
        "/pipelines/nowhere",
        "/pipelines/nowhere/ephemeral-environments",
        "/pipelines/%00",
    ] {
        vic.get(path).await.refused(404, "pipeline_not_found");
    }
}

#[tokio::test]
async fn a_crowd_that_lists_at_once_is_answered_to_the_last() {
    let server = Server::start();
    let admin = server.admin();
    let history = format!("{}/history", at("review-1"));
    let crowd = (0..150).map(|number| {
        let path = [LIST, &history, "/pipelines"][number % 3];
        let admin = admin.clone();
        async move { admin.get(path).await }
    });
    for answer in join_all(crowd).await {
        answer.ok();
    }
}

/// A session that has come and gone.
async fn used(client: &Client, commit: &str) -> String {
    let claimed = client.claim("review-1", json!({ "commitId": commit })).await.created();
    client.release("review-1", &claimed.session()).await.ok();
    claimed.session()
}

fn names(list: &Answer) -> Vec<String> {
    texts(list, "envName")
}

fn ids(history: &Answer) -> Vec<String> {
    texts(history, "sessionId")
}

fn texts(list: &Answer, field: &str) -> Vec<String> {
    let data = list.data();
    let items = data.as_array().unwrap().iter();
    items.map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

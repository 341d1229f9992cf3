//! Lists and histories: complete, in pages, filtered, and for many clients.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{LIST, names, texts};
use crate::support::{Answer, Client, Server, Setup, assert_fields, assert_has, at};

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
            "envName pipelineId labels lockStatus lock queueLength disabledReason currentDeployment lastDeployment",
        );
    }
    let labels = json!({ "size": "small" });
    assert_has(&data[0], json!({ "lockStatus": "unlocked", "lock": null, "pipelineId": "web", "labels": labels }));
    assert_eq!(data[1]["lockStatus"], "locked");
    assert_has(&data[1]["lock"], json!({ "sessionId": held.session(), "context": "PR 412", "fencingToken": 1 }));
}

#[tokio::test]
async fn the_pages_of_the_list_link_to_each_other() {
    let server = Server::start();
    let admin = server.admin();
    for name in ["a", "b", "c", "d"] {
        admin.put(&at(name), json!({ "labels": { "kind": "letter" } })).await.created();
    }
    let query = "?label=kind:letter&limit=2";
    let first = admin.get(&format!("{LIST}{query}")).await.ok();
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first.json()["pagination"], json!({ "limit": 2, "offset": 0, "total": 4 }));
    assert_eq!((first.link("prev"), first.link("last")), (None, first.link("next")));
    let next = first.link("next").unwrap();
    let second = admin.send(admin.request(Method::GET, &next)).await.ok();
    assert_eq!(names(&second), ["c", "d"], "{next} keeps the filter");
    assert_eq!(second.json()["pagination"], json!({ "limit": 2, "offset": 2, "total": 4 }));
    assert_eq!((second.link("next"), second.link("prev")), (None, second.link("first")));
    let beyond = admin.get(&format!("{LIST}?offset=99")).await.ok();
    assert_eq!(beyond.json()["data"], json!([]));
    assert_eq!(beyond.json()["pagination"], json!({ "limit": 50, "offset": 99, "total": 7 }));
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
        assert_eq!(names(&admin.get(&format!("{LIST}{query}")).await.ok()), expected, "{query}");
    }
}

#[tokio::test]
async fn the_list_is_asked_for_some_environments_by_their_names() {
    let server = Server::start();
    let admin = server.admin();
    admin.claim("review-1", json!({})).await.created();
    // The current sessions, even while one of them waits for the next.
    admin.claim("review-1", json!({ "queue": true })).await.has_status(202);
    let cases: [(&str, &[&str]); 6] = [
        ("envName=review-3&envName=review-1", &["review-1", "review-3"]),
        ("envName=review-1&envName=review-1", &["review-1"]),
        ("envName=nowhere&envName=review-2", &["review-2"]),
        ("envName=nowhere", &[]),
        ("envName=review-1&envName=review-2&lockStatus=locked", &["review-1"]),
        ("envName=review-1&envName=review-2&envName=review-3&limit=1&offset=1", &["review-2"]),
    ];
    let whole = admin.get(LIST).await.ok().data();
    for (query, expected) in cases {
        let list = admin.get(&format!("{LIST}?{query}")).await.ok();
        assert_eq!(names(&list), expected, "{query}");
        for item in list.data().as_array().unwrap() {
            assert!(whole.as_array().unwrap().contains(item), "{item}");
        }
    }
    assert_eq!(admin.get(&format!("{LIST}?envName=review-1")).await.ok().data()[0]["queueLength"], 1);
    for (query, times) in [("&envName=review-1", 100), ("&envName=review-1", 101), ("&envName=No%20Name", 1)] {
        let answer = admin.get(&format!("{LIST}?{}", query.repeat(times).trim_start_matches('&'))).await;
        match times {
            100 => assert_eq!(names(&answer.ok()), ["review-1"]),
            _ => assert_eq!(answer.refused(400, "invalid_parameter").faulty_fields(), ["envName"]),
        }
    }
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
    let pagination = json!({ "page": 1, "limit": 50, "offset": 0, "total": 5, "totalPages": 1 });
    assert_eq!(whole.json()["pagination"], pagination);
    assert_eq!(whole.data()[0], held.data(), "the present holder is the newest");
    let oldest = ana.session("review-1", &sessions[4]).await.ok().data();
    assert_eq!(whole.data()[4], oldest, "an entry is the session");

    let mut path = ana.path(&format!("{history}?limit=2"));
    for (page, expected) in sessions.chunks(2).enumerate() {
        let answer = ana.send(ana.request(Method::GET, &path)).await.ok();
        assert_eq!(ids(&answer), expected);
        let pagination = json!({ "page": page + 1, "limit": 2, "offset": page * 2, "total": 5, "totalPages": 3 });
        assert_eq!(answer.json()["pagination"], pagination);
        assert_eq!(answer.link("prev").is_some(), page > 0);
        assert!(answer.link("first").unwrap().ends_with("limit=2&page=1"));
        assert!(answer.link("last").unwrap().ends_with("limit=2&page=3"));
        path = answer.link("next").unwrap_or_default();
    }
    assert_eq!(path, "", "the last page has no next one");
    let beyond = ana.get(&format!("{history}?page=9")).await.ok();
    assert_eq!(beyond.data(), json!([]));

    let mut path = ana.path(&format!("{history}?limit=2&offset=1"));
    for expected in sessions[1..].chunks(2) {
        let answer = ana.send(ana.request(Method::GET, &path)).await.ok();
        assert_eq!(ids(&answer), expected);
        assert!(answer.link("first").unwrap().ends_with("limit=2&offset=0"));
        path = answer.link("next").unwrap_or_default();
    }
    assert_eq!(path, "", "the last one has no next one");
    let pagination = json!({ "page": 2, "limit": 2, "offset": 3, "total": 5, "totalPages": 3 });
    assert_eq!(ana.get(&format!("{history}?limit=2&offset=3")).await.ok().json()["pagination"], pagination);
    let both = ana.get(&format!("{history}?page=1&offset=1")).await.refused(400, "invalid_parameter");
    assert!(both.text.contains("must not be combined with `page`"), "{}", both.text);
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
            let again = if number < 8 { admin.release("review-1", session).await } else { found.clone() };
            // Five ended ones, and the current one.
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
    admin.session("review-1", &session).await.refused(404, "session_not_found");
    let anew = used(&admin, "decade2").await;
    let history = admin.get(&format!("{}/history", at("review-1"))).await.ok();
    assert_eq!(ids(&history), [anew]);
}

#[tokio::test]
async fn every_wrong_parameter_is_named() {
    let server = Server::start();
    let admin = server.admin();
    let history = format!("{}/history", at("review-1"));
    let sessions = format!("{}/sessions/ses_0199f3c2a4b07f3e9d2c5a1b2a", at("review-1"));
    let queue = format!("{}/queue", at("review-1"));
    let any = format!("{LIST}/sessions/ses_0199f3c2a4b07f3e9d2c5a1bq2a");
    let cases: [(&str, &str, &[&str]); 22] = [
        (LIST, "limit=0", &["limit"]),
        (LIST, "limit=101", &["limit"]),
        (LIST, "limit=", &["limit"]),
        (LIST, "limit=%2B1&offset=-1", &["limit", "offset"]),
        (LIST, "offset=99999999999999999999", &["offset"]),
        (LIST, "limit=1&limit=2", &["limit"]),
        (LIST, "lockStatus=open&label=size&label=:x", &["lockStatus", "label", "label"]),
        (LIST, "page=1", &["page"]),
        (LIST, "a=1&b=2&a=3", &["a", "b"]),
        (&history, "page=0&limit=x", &["page", "limit"]),
        (&history, "page=1.5&offset=1", &["page", "offset"]),
        (&at("review-1"), "verbose=true", &["verbose"]),
        (&at("review-1"), "waitSeconds=301", &["waitSeconds"]),
        (&sessions, "waitSeconds=-1", &["waitSeconds"]),
        (&sessions, "waitSeconds=1.5&force=true", &["waitSeconds", "force"]),
        (&any, "waitSeconds=1&waitSeconds=2", &["waitSeconds"]),
        (&queue, "limit=0&offset=x", &["limit", "offset"]),
        (&queue, "page=1", &["page"]),
        (&queue, "waitSeconds=1", &["waitSeconds"]),
        ("/pipelines", "limit=0", &["limit"]),
        ("/pipelines/web", "x", &["x"]),
        ("/tokens", "offset=x", &["offset"]),
    ];
    for (path, query, expected) in cases {
        let refused = admin.get(&format!("{path}?{query}")).await;
        assert_eq!(refused.refused(400, "invalid_parameter").faulty_fields(), expected, "{query}");
    }
    let sessions = format!("{}/sessions?force=true", at("review-1"));
    admin.post(&sessions, json!({})).await.refused(400, "invalid_parameter");
    assert_eq!(admin.environment("review-1").await.data()["lock"], Value::Null);
    let last = admin.get(&format!("{history}?page=9007199254740991")).await.ok();
    assert_eq!(last.data(), json!([]));
}

#[tokio::test]
async fn pipelines_are_listed_and_looked_at_with_what_they_have() {
    let server = Server::start();
    let vic = server.as_user("vic").await;
    let list = vic.get("/pipelines").await.ok();
    assert_eq!(list.json()["pagination"], json!({ "limit": 50, "offset": 0, "total": 2 }));
    let ids: Vec<_> = list.data().as_array().unwrap().iter().map(|pipeline| pipeline["id"].clone()).collect();
    assert_eq!(ids, ["shop", "web"]);
    let web = vic.get("/pipelines/web").await.ok().data();
    assert_eq!(
        web,
        json!({
            "id": "web", "name": "Web shop", "slug": "web", "status": "running", "stoppedBy": null, "stoppedAt": null,
            "stopReason": null, "stages": [], "variables": {}, "selfApproval": true, "environmentCount": 3,
            "repository": null,
        })
    );
    assert_eq!(list.data()[1], web);
    server.admin().put(&at("fourth"), json!({})).await.created();
    assert_eq!(vic.get("/pipelines/web/").await.ok().data()["environmentCount"], 4);
    let second = vic.get("/pipelines/?limit=1&offset=1").await.ok();
    assert_eq!((second.data()[0]["id"].as_str(), second.link("next")), (Some("web"), None));
    for path in ["/pipelines/nowhere", "/pipelines/nowhere/ephemeral-environments", "/pipelines/%00"] {
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

#[tokio::test]
async fn a_list_of_thousands_comes_whole_and_in_order() {
    let mut organization =
        "organization = { id = \"acme\" }\nmembers = [{ name = \"admin\", role = \"admin\" }]\n".to_owned();
    for (pipeline, count) in [("none", 0), ("round", 1_000), ("web", 2_500)] {
        organization += &format!("[[pipelines]]\nid = \"{pipeline}\"\nenvironments = [\n");
        for number in 0..count {
            let parity = if number % 2 == 0 { "even" } else { "odd" };
            organization += &format!("{{ name = \"e{number:04}\", labels = {{ parity = \"{parity}\" }} }},\n");
        }
        organization += "]\n";
    }
    let server = Setup::default().organization(&organization).start();
    let admin = server.admin();
    let numbered = |numbers: &mut dyn Iterator<Item = u32>| numbers.map(|n| format!("e{n:04}")).collect::<Vec<_>>();
    for (query, expected) in [
        ("none/ephemeral-environments", numbered(&mut (0..0))),
        ("round/ephemeral-environments", numbered(&mut (0..1_000))),
        ("web/ephemeral-environments", numbered(&mut (0..2_500))),
        ("web/ephemeral-environments?label=parity:odd", numbered(&mut (0..2_500).skip(1).step_by(2))),
        ("web/ephemeral-environments?limit=100&offset=2450", numbered(&mut (2_450..2_500))),
    ] {
        let list = admin.get(&format!("/pipelines/{query}")).await.ok();
        assert_eq!(names(&list), expected, "{query}");
        if !query.contains("limit") {
            assert_eq!(list.json()["pagination"]["total"], expected.len(), "{query}");
        }
    }
}

/// A session that has ended.
async fn used(client: &Client, commit: &str) -> String {
    let claimed = client.claim("review-1", json!({ "commitId": commit })).await.created();
    client.release("review-1", &claimed.session()).await.ok();
    claimed.session()
}

fn ids(history: &Answer) -> Vec<String> {
    texts(history, "sessionId")
}

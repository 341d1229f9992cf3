//! The list of events: filters, pages, and invalid requests.

use serde_json::json;

use super::{all_events, cycle, text};
use crate::support::{Server, Setup, assert_fields, assert_has, assert_is_time, at};

const BETA: &str = r#"
organization = { id = "beta" }
members = [{ name = "bea", role = "admin" }]
[[pipelines]]
id = "web"
environments = [{ name = "review-1" }]
"#;

#[tokio::test]
async fn an_event_says_what_happened_when_where_and_by_whom() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let path = ana.path(&format!("{}/sessions", at("review-1")));
    let request = ana.request(reqwest::Method::POST, &path).header("X-Request-Id", "my-own-7");
    let session = ana.send(request.json(&json!({ "commitId": "c0ffee1" }))).await.created().session();
    let list = ana.get("/events?type=session.claimed").await.ok().json();
    assert_eq!(list["pagination"], json!({ "limit": 50, "offset": 0, "total": 1 }));
    let event = &list["data"][0];
    let fields = "eventId type at actor requestId pipelineId envName sessionId deploymentId data hash";
    assert_fields(event, fields);
    assert_has(event, json!({ "type": "session.claimed", "pipelineId": "web", "envName": "review-1" }));
    assert_has(event, json!({ "sessionId": session, "deploymentId": null, "requestId": "my-own-7" }));
    assert_eq!(event["data"], json!({ "fencingToken": 1, "commitId": "c0ffee1" }));
    assert_is_time(&event["at"]);
    assert_fields(&event["actor"], "kind userId name tokenId");
    assert_has(&event["actor"], json!({ "kind": "user", "name": "ana" }));
    assert!(
        text(&event["actor"], "userId").starts_with("usr_") && text(&event["actor"], "tokenId").starts_with("tok_")
    );

    let id = text(event, "eventId");
    assert_eq!(ana.get(&format!("/events/{id}")).await.ok().data(), *event);
    for unknown in ["evt_000000000000002a9d2c5a1b", "evt_", "nonsense", &format!("{id}0"), &id.replace("evt_", "ses_")]
    {
        ana.get(&format!("/events/{unknown}")).await.refused(404, "event_not_found");
    }
    ana.get(&format!("/events/{id}?x=1")).await.refused(400, "invalid_parameter");
}

#[tokio::test]
async fn each_filter_shows_what_it_names_and_nothing_else() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let first = cycle(&ana, "review-1").await;
    let session = ben.claim("review-2", json!({})).await.created().session();
    let deployed =
        ben.deploy("review-2", &session, json!({ "commitId": "c0ffee1", "waitSeconds": 30 })).await.ok().data();
    let all = all_events(&ana, "").await;
    let numbers: Vec<_> = all.iter().map(|event| text(event, "eventId").to_owned()).collect();
    assert!(numbers.is_sorted() && all.len() >= 6, "{all:#?}");
    let ben_id = all.iter().find(|event| event["actor"]["name"] == "ben").unwrap()["actor"]["userId"].clone();
    let deployment = text(&deployed, "deploymentId");
    let middle = text(&all[all.len() / 2], "at").to_owned();
    let wanted = |query: &str| -> Vec<_> {
        let is = |field: &'static str, value: &str| {
            let value = value.to_owned();
            all.iter().filter(move |event| event[field] == value).cloned().collect::<Vec<_>>()
        };
        match query.split_once('=').unwrap() {
            ("type", "session.*") => all.iter().filter(|e| text(e, "type").starts_with("session.")).cloned().collect(),
            ("type", types) => all.iter().filter(|e| types.split(',').any(|t| e["type"] == t)).cloned().collect(),
            ("actor", "system") => all.iter().filter(|e| e["actor"]["kind"] == "system").cloned().collect(),
            ("actor", id) => all.iter().filter(|e| e["actor"]["userId"] == id).cloned().collect(),
            ("since", time) => all.iter().filter(|e| text(e, "at") >= time).cloned().collect(),
            ("until", time) => all.iter().filter(|e| text(e, "at") < time).cloned().collect(),
            ("pipelineId", id) => is("pipelineId", id),
            ("envName", name) => is("envName", name),
            ("sessionId", id) => is("sessionId", id),
            ("deploymentId", id) => is("deploymentId", id),
            other => panic!("{other:?}"),
        }
    };
    for query in [
        "type=session.*".to_owned(),
        "type=session.claimed,deployment.succeeded".to_owned(),
        "actor=system".to_owned(),
        format!("actor={}", ben_id.as_str().unwrap()),
        "pipelineId=web".to_owned(),
        "pipelineId=shop".to_owned(),
        "envName=review-2".to_owned(),
        format!("sessionId={first}"),
        format!("deploymentId={deployment}"),
        format!("since={middle}"),
        format!("until={middle}"),
    ] {
        let expected = wanted(&query);
        assert!(!expected.is_empty() && expected.len() < all.len(), "{query} divides nothing");
        assert_eq!(all_events(&ana, &format!("&{query}")).await, expected, "{query}");
    }
    let both = format!("&type=session.claimed&type=session.released&sessionId={first}");
    assert_eq!(all_events(&ana, &both).await.len(), 2);
    assert_eq!(all_events(&ana, "&since=2999-01-01T00:00:00Z").await.len(), 0);
}

#[tokio::test]
async fn pages_of_the_list_are_linked_and_counted() {
    let server = Server::start();
    let admin = server.admin();
    for _ in 0..4 {
        cycle(&admin, "review-1").await;
    }
    let query = "type=session.*&limit=3";
    let first = admin.get(&format!("/events?{query}")).await.ok();
    assert_eq!(first.json()["pagination"], json!({ "limit": 3, "offset": 0, "total": 8 }));
    assert_eq!(first.link("prev"), None);
    let base = admin.path("/events?type=session.*&limit=3");
    assert_eq!(first.link("next"), Some(format!("{base}&offset=3")));
    assert_eq!(first.link("last"), Some(format!("{base}&offset=6")));
    let kinds: Vec<_> = first.data().as_array().unwrap().iter().map(|event| event["type"].clone()).collect();
    assert_eq!(kinds, ["session.released", "session.claimed", "session.released"], "newest first");
    let beyond = admin.get("/events?offset=1000000").await.ok().json();
    assert_eq!(beyond["data"], json!([]));
    assert!(beyond["pagination"]["total"].as_u64().unwrap() >= 8);
}

#[tokio::test]
async fn what_cannot_be_asked_for_is_refused_with_what_can() {
    let server = Server::start();
    let admin = server.admin();
    for (query, field) in [
        ("type=session.claim", "type"),
        ("type=", "type"),
        ("actor=ana", "actor"),
        ("sessionId=7", "sessionId"),
        ("deploymentId=dep_1", "deploymentId"),
        ("pipelineId=/", "pipelineId"),
        ("envName=", "envName"),
        ("since=yesterday", "since"),
        ("until=2026-11-15", "until"),
        ("since=2026-11-15T00:00:00Z&since=2026-11-15T00:00:00Z", "since"),
        ("limit=101", "limit"),
        ("before=1", "before"),
    ] {
        for path in ["/events", "/events/stream"] {
            if path == "/events/stream" && field == "limit" {
                continue;
            }
            let refused = admin.get(&format!("{path}?{query}")).await.refused(400, "invalid_parameter");
            assert_eq!(refused.faulty_fields(), [field], "{path}?{query}");
        }
    }
    let refused = admin.get("/events?type=session.claim&limit=0").await.refused(400, "invalid_parameter");
    assert_eq!(refused.faulty_fields(), ["type", "limit"], "all at once");
    assert!(refused.json()["detail"].as_str().unwrap().contains("session.claimed"), "{refused:?}");
}

#[tokio::test]
async fn another_organization_sees_nothing_of_it() {
    let acme = include_str!("../../../config/acme.toml");
    let mut server = Setup::default().organization(BETA).organization(acme).start();
    let bea = server.admin().in_organization("beta");
    let made = bea.post("/tokens", json!({ "name": "x" })).await.created();
    let token = made.data()["token"].as_str().unwrap().to_owned();
    cycle(&bea, "review-1").await;
    assert!(server.terminate().success());
    server.change_setup(|_| Setup::default().organization(acme).organization(BETA));
    server.start_again();
    cycle(&server.admin(), "review-1").await;
    let bea = server.with_token(&token).in_organization("beta");
    let (ours, theirs) = (all_events(&bea, "").await, all_events(&server.admin(), "").await);
    let ids = |events: &[serde_json::Value]| -> Vec<String> {
        events.iter().map(|e| text(e, "eventId").to_owned()).collect()
    };
    assert!(!ours.is_empty() && ids(&ours).iter().all(|id| !ids(&theirs).contains(id)));
    for id in ids(&theirs) {
        bea.get(&format!("/events/{id}")).await.refused(404, "event_not_found");
    }
    assert_eq!(all_events(&bea, "&type=session.claimed").await.len(), 1);
}

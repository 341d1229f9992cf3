//! Pipelines: created, changed, deleted, stopped and resumed, and what survives a restart.

mod bodies;
mod restarts;
mod stopping;

use crate::support::{Answer, Client, Server, assert_fields, assert_has};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const WEB: &str = "/pipelines/web";

/// A pipeline with all fields, as sent.
fn full() -> Value {
    json!({
        "name": "Ægir's shop", "slug": "aegir", "selfApproval": false, "variables": { "TIER": "review" },
        "stages": [
            { "name": "build", "timeoutSeconds": 60, "idempotent": true,
              "steps": [{ "run": ["echo", "hello", ""] }, { "name": "again", "run": ["true"] }] },
            { "name": "deploy", "approval": "always",
              "steps": [
                  { "http": { "url": "https://deploy.example/${TIER}", "body": "{}", "headers": { "X-Tier": "${TIER}" },
                              "expectStatus": 204 } },
                  { "http": { "url": "http://deploy.example", "method": "HEAD", "expectStatus": [200, 301] } },
                  { "http": { "url": "http://deploy.example" } },
              ] },
        ],
        "repository": { "provider": "github", "url": "https://github.example/acme/shop" },
    })
}

/// The same pipeline as returned, with every default.
fn full_as_shown() -> Value {
    json!({
        "name": "Ægir's shop", "slug": "aegir", "selfApproval": false, "variables": { "TIER": "review" },
        "stages": [
            { "name": "build", "approval": "never", "timeoutSeconds": 60, "idempotent": true,
              "steps": [{ "name": "step-1", "run": ["echo", "hello", ""] }, { "name": "again", "run": ["true"] }] },
            { "name": "deploy", "approval": "always", "timeoutSeconds": 3600, "idempotent": false,
              "steps": [
                  { "name": "step-1",
                    "http": { "method": "POST", "url": "https://deploy.example/${TIER}", "body": "{}",
                              "headers": { "X-Tier": "${TIER}" }, "expectStatus": [204] } },
                  { "name": "step-2",
                    "http": { "method": "HEAD", "url": "http://deploy.example", "body": null, "headers": {},
                              "expectStatus": [200, 301] } },
                  { "name": "step-3",
                    "http": { "method": "GET", "url": "http://deploy.example", "body": null, "headers": {},
                              "expectStatus": [] } },
              ] },
        ],
        "repository": { "provider": "github", "url": "https://github.example/acme/shop", "defaultBranch": "main",
                        "credential": null, "apiUrl": null },
    })
}

#[tokio::test]
async fn a_pipeline_is_made_by_put_and_changed_by_the_next() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let made = mia.put("/pipelines/new", full()).await.created();
    assert_eq!(made.header("location"), mia.path("/pipelines/new"));
    assert_has(&made.data(), full_as_shown());
    assert_has(&made.data(), json!({ "id": "new", "status": "running", "environmentCount": 0 }));
    let found = mia.get("/pipelines/new").await.ok();
    assert_eq!((found.data(), found.header("etag")), (made.data(), made.header("etag")));
    let same = mia.put("/pipelines/new", full_as_shown()).await.ok();
    assert_eq!((same.data(), same.header("etag")), (made.data(), made.header("etag")), "what is shown can be sent");
    assert_eq!(same.header("location"), "");

    // Missing fields get their defaults: the whole pipeline is replaced.
    let changed = mia.put("/pipelines/new", json!({})).await.ok();
    assert_ne!(changed.header("etag"), made.header("etag"));
    assert_eq!(
        changed.data(),
        json!({
            "id": "new", "name": "new", "slug": "new", "status": "running", "stoppedBy": null, "stoppedAt": null,
            "stopReason": null, "stages": [], "variables": {}, "selfApproval": true, "environmentCount": 0,
            "repository": null,
        })
    );
    let listed = mia.get("/pipelines").await.ok().data();
    assert_eq!(listed[0], changed.data(), "by id");
    let environment = "/pipelines/new/ephemeral-environments/one";
    mia.put(environment, json!({})).await.created();
    let session = mia.post(&format!("{environment}/sessions"), json!({ "commitId": "c0ffee1" })).await.created();
    assert_eq!(session.data()["lockStatus"], "active");
}

#[tokio::test]
async fn a_sample_pipeline_shows_its_stages() {
    let server = Server::start();
    let shop = server.as_user("vic").await.get("/pipelines/shop").await.ok().data();
    assert_fields(
        &shop,
        "id name slug status stoppedBy stoppedAt stopReason stages variables selfApproval environmentCount repository",
    );
    let stages = shop["stages"].as_array().unwrap();
    let names: Vec<_> = stages.iter().map(|stage| (stage["name"].as_str().unwrap(), &stage["approval"])).collect();
    assert_eq!(names.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["build", "test", "deploy", "smoke"]);
    assert_eq!(names[2].1, "always");
    assert_fields(&stages[0], "name approval timeoutSeconds idempotent steps");
    assert_fields(&stages[0]["steps"][0], "name run");
}

#[tokio::test]
async fn an_etag_changes_with_all_that_is_shown_and_nothing_else() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let read = async || mia.get(WEB).await.ok().header("etag").to_owned();
    let first = read().await;
    assert_eq!(first, read().await);
    let known = |tag: &str| mia.request(Method::GET, &mia.path(WEB)).header("If-None-Match", tag);
    let unchanged = mia.send(known(&first)).await.has_status(304);
    assert_eq!((unchanged.header("etag"), unchanged.text.as_str()), (first.as_str(), ""));

    let mut before = first.clone();
    let changes: [(&str, &str, Value); 4] = [
        ("PUT", WEB, json!({ "name": "other" })),
        ("POST", "/pipelines/web/stop", json!({})),
        ("POST", "/pipelines/web/resume", json!({})),
        ("PUT", "/pipelines/web/ephemeral-environments/fourth", json!({})),
    ];
    for (method, path, body) in changes {
        let request = mia.request(method.parse().unwrap(), &mia.path(path)).json(&body);
        assert!(mia.send(request).await.status.is_success());
        mia.send(known(&before)).await.ok();
        let after = read().await;
        assert_ne!(before, after, "{method} {path}");
        before = after;
    }
    mia.get("/pipelines/shop").await.ok();
    assert_eq!(before, read().await);
}

#[tokio::test]
async fn a_precondition_that_does_not_hold_changes_nothing() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let etag = mia.get(WEB).await.ok().header("etag").to_owned();
    let put = |path: &str, header: &'static str, tag: &str, name: &str| {
        let request = mia.request(Method::PUT, &mia.path(path)).header(header, tag);
        mia.send(request.json(&json!({ "name": name })))
    };
    put("/pipelines/new", "If-Match", "*", "x").await.refused(412, "precondition_failed");
    put("/pipelines/new", "If-Match", &etag, "x").await.refused(412, "precondition_failed");
    put(WEB, "If-None-Match", "*", "x").await.refused(412, "precondition_failed");
    put(WEB, "If-Match", "\"1.1\"", "x").await.refused(412, "precondition_failed");
    put("/pipelines/new", "If-None-Match", "*", "made").await.created();
    // An additional environment does not change the definition.
    mia.put("/pipelines/web/ephemeral-environments/fourth", json!({})).await.created();
    let changed = put(WEB, "If-Match", &etag, "changed").await.ok();
    put(WEB, "If-Match", &etag, "x").await.refused(412, "precondition_failed");
    assert_eq!(mia.get(WEB).await.data()["name"], "changed");
    assert_eq!(mia.get("/pipelines/new").await.data()["name"], "made");

    let delete = |tag: &str| mia.send(mia.request(Method::DELETE, &mia.path("/pipelines/new")).header("If-Match", tag));
    delete(changed.header("etag")).await.refused(412, "precondition_failed");
    delete("*").await.has_status(204);
}

#[tokio::test]
async fn of_many_who_change_the_same_revision_at_once_one_does() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let mut etag = mia.get(WEB).await.ok().header("etag").to_owned();
    for round in 0..5 {
        let attempts = (0..8).map(|number| {
            let request = mia.request(Method::PUT, &mia.path(WEB)).header("If-Match", &etag);
            let (mia, body) = (mia.clone(), json!({ "name": format!("{round}-{number}") }));
            tokio::spawn(async move { mia.send(request.json(&body)).await })
        });
        let mut won: Vec<Answer> = Vec::new();
        for attempt in attempts.collect::<Vec<_>>() {
            let answer = attempt.await.unwrap();
            match answer.status {
                StatusCode::OK => won.push(answer),
                _ => _ = answer.refused(412, "precondition_failed"),
            }
        }
        let [winner] = won.as_slice() else { panic!("{} changed it", won.len()) };
        assert_eq!(mia.get(WEB).await.data(), winner.data());
        winner.header("etag").clone_into(&mut etag);
    }
}

#[tokio::test]
async fn a_pipeline_with_environments_is_not_deleted() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let refused = mia.delete(WEB).await.refused(409, "pipeline_in_use").json();
    assert_eq!(refused["environmentCount"], 3);
    assert!(refused["detail"].as_str().unwrap().contains("3 environments"), "{refused}");
    for name in ["review-1", "review-2", "review-3"] {
        mia.delete(&format!("{WEB}/ephemeral-environments/{name}")).await.has_status(204);
    }
    mia.delete(WEB).await.has_status(204);
    for path in [WEB, "/pipelines/web/ephemeral-environments", "/pipelines/web/ephemeral-environments/review-1"] {
        mia.get(path).await.refused(404, "pipeline_not_found");
    }
    mia.delete(WEB).await.refused(404, "pipeline_not_found");
    mia.put(&format!("{WEB}/ephemeral-environments/new"), json!({})).await.refused(404, "pipeline_not_found");
    mia.post("/pipelines/web/stop", json!({})).await.refused(404, "pipeline_not_found");
    assert_eq!(mia.get("/pipelines").await.json()["pagination"]["total"], 1);
    mia.put(WEB, json!({})).await.created();
    assert_eq!(mia.get(WEB).await.data()["environmentCount"], 0);
}

#[tokio::test]
async fn no_environment_is_left_behind_by_a_deletion_at_the_same_time() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    for round in 0..10 {
        mia.put("/pipelines/busy", json!({})).await;
        let path = format!("/pipelines/busy/ephemeral-environments/e{round}");
        let (made, deleted) = tokio::join!(mia.put(&path, json!({})), mia.delete("/pipelines/busy"));
        match made.status {
            StatusCode::CREATED => {
                deleted.refused(409, "pipeline_in_use");
                mia.delete(&path).await.has_status(204);
            }
            _ => {
                made.refused(404, "pipeline_not_found");
                deleted.has_status(204);
            }
        }
    }
}

#[tokio::test]
async fn a_pipeline_of_another_organization_cannot_be_told_from_none() {
    const BETA: &str = "organization = { id = \"beta\" }\nmembers = [{ name = \"bea\", role = \"admin\" }]\n";
    let acme = include_str!("../../config/acme.toml");
    let server = crate::support::Setup::default().organization(BETA).organization(acme).start();
    let bea = server.admin().in_organization("beta");
    assert_eq!(bea.get("/pipelines").await.ok().json()["pagination"]["total"], 0);
    for (method, path) in [("GET", WEB), ("DELETE", WEB), ("POST", "/pipelines/web/stop")] {
        let sent = async |client: &Client| {
            let request = client.request(method.parse().unwrap(), &client.path(path));
            client.send(request).await
        };
        sent(&bea).await.refused(404, "pipeline_not_found");
        sent(&server.admin()).await.refused(404, "organization_not_found");
    }
    bea.put(WEB, json!({ "name": "ours" })).await.created();
    assert_eq!(bea.get(WEB).await.ok().data()["name"], "ours");
}

#[tokio::test]
async fn an_organization_that_has_as_many_pipelines_as_it_can_is_told_so() {
    let mut organization = include_str!("../../config/acme.toml").to_owned();
    organization.extend((3..1_000).map(|number| format!("\n[[pipelines]]\nid = \"p{number}\"\n")));
    let server = crate::support::Setup::default().organization(&organization).start();
    let admin = server.admin();
    admin.put("/pipelines/last", json!({})).await.created();
    admin.put("/pipelines/one-too-many", json!({})).await.refused(409, "pipeline_limit_reached");
    admin.put("/pipelines/last", json!({ "name": "changed" })).await.ok();
    admin.delete("/pipelines/p7").await.has_status(204);
    admin.put("/pipelines/one-too-many", json!({})).await.created();
}

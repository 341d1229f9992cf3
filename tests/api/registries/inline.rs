//! Registries whose steps are in the request.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::registries::{greeting, make, place, steps, sync, using};
use crate::support::{Server, assert_fields, assert_has, assert_is_time};

#[tokio::test]
async fn a_registry_is_made_changed_listed_and_deleted() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let made = make(&mia, json!({ "name": "tools", "steps": [greeting("1", "hello"), greeting("2", "hi")] })).await;
    let registry = made.data();
    assert_fields(&registry, "registryId name git status syncedAt error errors stepCount createdAt updatedAt");
    let expected =
        json!({ "name": "tools", "git": null, "status": "ready", "syncedAt": null, "error": null, "stepCount": 2 });
    assert_has(&registry, expected);
    assert_is_time(&registry["createdAt"]);
    assert_eq!(made.header("location"), mia.path(&place(&registry)));
    let shown = mia.get(&place(&registry)).await.ok();
    assert_eq!((shown.data(), shown.header("etag")), (registry.clone(), made.header("etag")));
    let known = mia.request(Method::GET, &mia.path(&place(&registry))).header("If-None-Match", shown.header("etag"));
    mia.send(known).await.has_status(304);
    assert_eq!(steps(&mia, &registry).await, ["greet@1", "greet@2"]);
    let first = mia.get(&format!("{}/steps?limit=1&offset=1", place(&registry))).await.ok();
    assert_eq!(first.json()["pagination"], json!({ "limit": 1, "offset": 1, "total": 2 }));
    let step = &first.data()[0];
    assert_fields(step, "name version description uses inputs run");
    assert_has(step, json!({ "uses": "tools/greet@2", "description": "Greets" }));
    assert_eq!(step["inputs"]["TIMES"], json!({ "type": "number", "required": false, "default": 1 }));
    assert_eq!(step["inputs"]["WHOM"], json!({ "type": "string", "required": true, "default": null }));

    let call = json!({ "name": "call", "version": "1", "http": { "url": "https://x.example/${WHAT}" },
                       "inputs": { "WHAT": { "type": "boolean" } } });
    let changed = mia.put(&place(&registry), json!({ "name": "more", "steps": [call] })).await.ok();
    assert_has(&changed.data(), json!({ "name": "more", "stepCount": 1, "createdAt": registry["createdAt"] }));
    assert_ne!(changed.header("etag"), made.header("etag"));
    assert_eq!(steps(&mia, &registry).await, ["call@1"]);
    make(&mia, json!({ "name": "empty", "steps": [] })).await;
    let list = mia.get("/step-registries?limit=1").await.ok();
    assert_eq!((list.data()[0]["name"].as_str(), list.json()["pagination"]["total"].as_u64()), (Some("more"), Some(2)));

    mia.delete(&place(&registry)).await.has_status(204);
    for answer in [mia.get(&place(&registry)).await, mia.delete(&place(&registry)).await, sync(&mia, &registry).await] {
        answer.refused(404, "registry_not_found");
    }
    mia.get("/step-registries/nonsense").await.refused(404, "registry_not_found");
}

#[tokio::test]
async fn a_name_is_unique_and_a_change_on_an_old_version_is_refused() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let tools = make(&mia, json!({ "name": "tools", "steps": [] })).await;
    let other = make(&mia, json!({ "name": "other", "steps": [] })).await.data();
    mia.post("/step-registries", json!({ "name": "tools", "steps": [] })).await.refused(409, "registry_exists");
    mia.put(&place(&other), json!({ "name": "tools", "steps": [] })).await.refused(409, "registry_exists");
    sync(&mia, &other).await.refused(409, "registry_has_no_repository");

    let at = mia.path(&place(&tools.data()));
    let newer = mia.put(&place(&tools.data()), json!({ "name": "tools", "steps": [greeting("1", "x")] })).await.ok();
    let with = |method: Method, tag: &str| {
        let request = mia.request(method, &at).header("If-Match", tag);
        mia.send(request.json(&json!({ "name": "tools", "steps": [] })))
    };
    for tag in [tools.header("etag"), "\"nonsense\"", "\"\""] {
        with(Method::PUT, tag).await.refused(412, "precondition_failed");
        with(Method::DELETE, tag).await.refused(412, "precondition_failed");
    }
    let newest = with(Method::PUT, newer.header("etag")).await.ok();
    with(Method::DELETE, newest.header("etag")).await.has_status(204);
}

#[tokio::test]
async fn of_two_changes_at_once_the_later_holds() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let at = place(&make(&mia, json!({ "name": "tools", "steps": [] })).await.data());
    for _ in 0..10 {
        let body = |version: &str| json!({ "name": "tools", "steps": [greeting(version, "x")] });
        let (one, two) = tokio::join!(mia.put(&at, body("1")), mia.put(&at, body("2")));
        let tags = [one.ok(), two.ok()].map(|answer| answer.header("etag").to_owned());
        assert!(tags.contains(&mia.get(&at).await.ok().header("etag").to_owned()));
    }
}

#[tokio::test]
async fn all_that_is_wrong_is_told_at_once() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let bad_step = json!({
        "name": "a b", "description": 7, "colour": "red", "run": [""], "http": { "url": "ftp://x" },
        "inputs": { "1A": { "type": "text" }, "B": { "type": "number", "default": "4", "required": true }, "C": 7 },
    });
    let cases: [(Value, &[&str]); 9] = [
        (json!({}), &["name", "steps"]),
        (json!({ "name": "tools" }), &["steps"]),
        (json!({ "name": "tools", "git": null }), &["git"]),
        (json!({ "name": "tools", "steps": [], "git": { "url": "https://x.example/y", "ref": "main" } }), &["steps"]),
        (
            json!({ "name": "-", "git": { "url": "http://x.example/y", "ref": "-x", "credential": "1", "depth": 1 } }),
            &["git.credential", "git.depth", "git.ref", "git.url", "name"],
        ),
        (json!({ "name": "tools", "git": { "url": "ext::sh -c id" } }), &["git.ref", "git.url"]),
        (
            json!({ "name": "tools", "git": { "url": "git@x.example:y", "ref": "main", "credential": "TOKEN" } }),
            &["git.credential"],
        ),
        (
            json!({ "name": "tools", "steps": [greeting("1", "x"), bad_step, 7] }),
            &[
                "steps[1].colour",
                "steps[1].description",
                "steps[1].http.url",
                "steps[1].inputs.1A",
                "steps[1].inputs.1A.type",
                "steps[1].inputs.B.default",
                "steps[1].inputs.B.default",
                "steps[1].inputs.C",
                "steps[1].name",
                "steps[1].run",
                "steps[1].run[0]",
                "steps[1].version",
                "steps[2]",
            ],
        ),
        (json!({ "name": "tools", "steps": [greeting("1", "x"), greeting("1", "y")] }), &["steps[1]"]),
    ];
    for (body, fields) in cases {
        let refused = mia.post("/step-registries", body.clone()).await;
        let mut told = refused.faulty_fields();
        told.sort();
        assert_eq!(told, fields, "{body}: {refused:?}");
    }
    let credentials = json!({ "name": "tools", "git": { "url": "https://me:hunter2@x.example/y", "ref": "main" } });
    let refused = mia.post("/step-registries", credentials).await.refused(422, "invalid_request");
    assert!(refused.text.contains("credential") && !refused.text.contains("hunter2"), "{refused:?}");
    assert_eq!(mia.get("/step-registries").await.ok().data(), json!([]));
}

#[tokio::test]
async fn a_retry_makes_no_second_registry_and_all_of_it_survives_a_crash() {
    let mut server = Server::start();
    let mia = server.as_user("mia").await;
    let body = json!({ "name": "tools", "steps": [greeting("1", "hello")] });
    let made = mia.post_with_key("/step-registries", "k1", body.clone()).await.created();
    let again = mia.post_with_key("/step-registries", "k1", body).await.created();
    assert_eq!((again.data(), again.header("idempotency-replayed")), (made.data(), "true"));
    mia.put("/pipelines/web", using("tools/greet@1", json!({ "WHOM": "you" }))).await.ok();
    server.kill();
    server.start_again();
    let mia = mia.at(&server);
    assert_eq!(mia.get(&place(&made.data())).await.ok().data(), made.data());
    assert_eq!(steps(&mia, &made.data()).await, ["greet@1"]);
    let refused = mia.delete(&place(&made.data())).await.refused(409, "registry_in_use");
    assert_eq!(refused.json()["usedBy"], json!(["web"]));
}

//! Invalid bodies for the PUT of a pipeline: all faults are reported at once, each with its location.

use serde_json::{Value, json};

use crate::support::Server;

fn step(step: Value) -> Value {
    json!({ "stages": [{ "name": "build", "steps": [step] }] })
}

fn call(call: Value) -> Value {
    step(json!({ "http": call }))
}

#[tokio::test]
async fn every_fault_is_named_by_its_place() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let hello = json!([{ "run": ["echo", "hello"] }]);
    let url = "https://deploy.example";
    let cases: Vec<(Value, &[&str])> = vec![
        (json!({ "name": "", "slug": "a/b", "colour": "red" }), &["name", "slug", "colour"]),
        (json!({ "stages": {} }), &["stages"]),
        (json!({ "stages": null }), &["stages"]),
        (json!({ "stages": [7] }), &["stages[0]"]),
        (json!({ "stages": [{}] }), &["stages[0].name", "stages[0].steps"]),
        (json!({ "stages": [{ "name": "a", "steps": [] }] }), &["stages[0].steps"]),
        (json!({ "stages": [{ "name": "a", "steps": hello }, { "name": "a", "steps": hello }] }), &["stages[1].name"]),
        (
            json!({ "stages": [{ "name": "a", "approval": "maybe", "timeoutSeconds": 86401, "idempotent": 1,
                                 "retries": 3, "steps": hello }] }),
            &["stages[0].approval", "stages[0].timeoutSeconds", "stages[0].idempotent", "stages[0].retries"],
        ),
        (step(json!({})), &["stages[0].steps[0].run"]),
        (step(json!({ "run": "make" })), &["stages[0].steps[0].run"]),
        (step(json!({ "run": [] })), &["stages[0].steps[0].run"]),
        (
            step(json!({ "run": ["", "x", 7, "\u{0}"] })),
            &["stages[0].steps[0].run[0]", "stages[0].steps[0].run[2]", "stages[0].steps[0].run[3]"],
        ),
        (step(json!({ "run": ["x"], "http": { "url": url } })), &["stages[0].steps[0].run"]),
        (step(json!({ "uses": "registry/step@1" })), &["stages[0].steps[0].uses"]),
        (
            json!({ "stages": [{ "name": "a", "steps": [{ "name": "step-2", "run": ["x"] }, { "run": ["x"] }] }] }),
            &["stages[0].steps[1].name"],
        ),
        (call(json!({})), &["stages[0].steps[0].http.url"]),
        (
            call(json!({ "url": "ftp://x", "method": "get" })),
            &["stages[0].steps[0].http.method", "stages[0].steps[0].http.url"],
        ),
        (call(json!({ "url": url, "headers": { "Host": "x" } })), &["stages[0].steps[0].http.headers.Host"]),
        (call(json!({ "url": url, "expectStatus": 99 })), &["stages[0].steps[0].http.expectStatus"]),
        (call(json!({ "url": url, "expectStatus": [200, 600] })), &["stages[0].steps[0].http.expectStatus[1]"]),
        (json!({ "variables": { "LOCKKEEPER_X": "1" } }), &["variables.LOCKKEEPER_X"]),
        (json!({ "selfApproval": "no" }), &["selfApproval"]),
        (json!({ "repository": {} }), &["repository.provider", "repository.url"]),
        (
            json!({ "repository": { "provider": "svn", "url": "http://x", "defaultBranch": "-x" } }),
            &["repository.provider", "repository.url", "repository.defaultBranch"],
        ),
        (
            json!({ "repository": { "provider": "github", "url": "https://git.example/a/b", "credential": "a b",
                                    "apiUrl": "http://git.example/api/v3", "branch": "x" } }),
            &["repository.credential", "repository.apiUrl", "repository.branch"],
        ),
        (
            json!({ "repository": { "provider": "git", "url": "https://bot:hunter2@git.example/x" } }),
            &["repository.url"],
        ),
        (
            json!({ "stages": [{ "name": "a", "steps": [{ "run": ["x"] }, { "run": [1] }] }, { "name": "-" }],
                    "slug": 1 }),
            &["slug", "stages[0].steps[1].run[0]", "stages[1].name", "stages[1].steps"],
        ),
    ];
    for (body, expected) in cases {
        let refused = mia.put("/pipelines/web", body.clone()).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), expected, "{body}");
    }
    let uses = mia.put("/pipelines/web", step(json!({ "uses": "registry/step@1" }))).await.json();
    assert!(uses["detail"].as_str().unwrap().contains("there is no registry `registry`"), "{uses}");
    assert_eq!(mia.put("/pipelines/-x", json!({})).await.faulty_fields(), ["pipelineId"]);
    assert_eq!(mia.get("/pipelines/web").await.ok().data()["name"], "Web shop", "nothing was changed");
}

#[tokio::test]
async fn there_is_a_bound_to_everything_that_is_listed() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let stages = |count: usize| {
        let stage = |number| json!({ "name": format!("s{number}"), "steps": [{ "run": ["true"] }] });
        json!({ "stages": (0..count).map(stage).collect::<Vec<_>>() })
    };
    let steps = |count: usize| json!({ "stages": [{ "name": "a", "steps": vec![json!({ "run": ["true"] }); count] }] });
    let arguments = |count: usize| step(json!({ "run": vec!["x"; count] }));
    let variables = |count: usize| {
        let variables: serde_json::Map<_, _> = (0..count).map(|number| (format!("V{number}"), json!("x"))).collect();
        json!({ "variables": variables })
    };
    // The names `build` and `step-1` count too, and each argument for one byte more.
    let bytes = |count: usize| step(json!({ "run": ["x".repeat(32_000), "x".repeat(count - 32_000 - 11 - 2)] }));
    type Body<'a> = &'a dyn Fn(usize) -> Value;
    let bounds: [(usize, Body, &str); 5] = [
        (32, &stages, "stages"),
        (32, &steps, "stages[0].steps"),
        (64, &arguments, "stages[0].steps[0].run"),
        (64, &variables, "variables"),
        (61_440, &bytes, "stages"),
    ];
    for (most, body, field) in bounds {
        let taken = mia.put("/pipelines/new", body(most)).await;
        assert!(taken.status.is_success(), "{field}: {taken:?}");
        let refused = mia.put("/pipelines/new", body(most + 1)).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), [field]);
    }
}

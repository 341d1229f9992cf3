//! External systems: webhooks, step repositories, analyses and the resulting fixes.

use serde_json::{Value, json};

use super::users::{Expected, Users, system};
use crate::events::sse::Stream;
use crate::events::text;
use crate::support::recorded::{Recorded, Response};

pub async fn webhooks(users: &Users) -> Vec<Expected> {
    let gone = Recorded::start(|_| std::future::ready(Response::json(410, &Value::Null))).await;
    let made = users.admin.act("POST", "/webhooks", json!({ "url": gone.address, "events": ["secret.*"] })).await;
    let id = text(&made.answer.data(), "webhookId").to_owned();
    let place = format!("/webhooks/{id}");
    let changed = users.admin.act("PATCH", &place, json!({ "description": "told of" })).await;
    let mut disabled = Stream::open(&users.admin.client, "?type=webhook.disabled", "").await;
    users.mia.act("POST", "/secrets", json!({ "name": "SENT", "value": "correct-horse" })).await;
    assert_eq!(disabled.event().await.expect("the stream goes on").data["data"]["webhookId"], id);
    let deleted = users.admin.act("DELETE", &place, Value::Null).await;
    let of = |event: Expected| event.having(json!({ "webhookId": id }));
    vec![
        of(made.by("webhook.created")),
        of(changed.by("webhook.updated")),
        of(system("webhook.disabled")),
        of(deleted.by("webhook.deleted")),
    ]
}

pub async fn registries(users: &Users) -> Vec<Expected> {
    let home = repository();
    let url = format!("file://{}/remote.git", home.path().display());
    let step = json!({ "name": "greet", "version": "1", "run": ["true"] });
    let made = users.mia.act("POST", "/step-registries", json!({ "name": "told", "steps": [step] })).await;
    let place = |act: &super::users::Change| format!("/step-registries/{}", text(&act.answer.data(), "registryId"));
    let changed = users.mia.act("PUT", &place(&made), json!({ "name": "told-of", "steps": [step] })).await;
    let fetched = json!({ "name": "fetched", "git": { "url": url, "ref": "main" } });
    let fetched = users.mia.act("POST", "/step-registries", fetched).await;
    let synced = users.mia.act("POST", &format!("{}/sync", place(&fetched)), json!({})).await;
    let deleted = users.mia.act("DELETE", &place(&made), Value::Null).await;
    vec![
        made.by("registry.created").having(json!({ "name": "told", "stepCount": 1 })),
        changed.by("registry.updated").having(json!({ "name": "told-of" })),
        fetched.by("registry.created").having(json!({ "name": "fetched", "status": "ready" })),
        synced.by("registry.synced").having(json!({ "name": "fetched", "status": "ready" })),
        deleted.by("registry.deleted").having(json!({ "name": "told-of" })),
    ]
}

pub async fn fixes(users: &Users) -> Vec<Expected> {
    let home = repository();
    let repository = json!({ "provider": "git", "url": format!("file://{}/remote.git", home.path().display()),
                             "defaultBranch": "main" });
    let stages = json!([{ "name": "build", "steps": [{ "run": ["sh", "-c", "frobnicate --all"] }] }]);
    let definition = json!({ "stages": stages, "repository": repository });
    users.mia.client.put("/pipelines/broken", definition).await.created();
    let place = "/pipelines/broken/ephemeral-environments/one";
    users.mia.client.put(place, json!({})).await.created();
    let claimed = users.ana.act("POST", &format!("{place}/sessions"), json!({ "commitId": "c0ffee1" })).await;
    let deployment = text(&claimed.answer.data()["deployments"][0], "deploymentId").to_owned();
    users.ana.client.until(&format!("/deployments/{deployment}"), |found| found["status"] == "failed").await;

    let path = format!("/deployments/{deployment}/analyses");
    let asked = users.ana.act("POST", &path, json!({ "waitSeconds": 60 })).await;
    let analysis = text(&asked.answer.data(), "analysisId").to_owned();
    let proposed = users.ana.act("POST", &format!("/analyses/{analysis}/fix-pull-request"), json!({})).await;
    let of = |event: Expected| event.at("broken", "one").of_deployment(&deployment);
    vec![
        of(asked.by("analysis.completed")).having(json!({ "analysisId": analysis, "category": "missing_command" })),
        of(proposed.by("pull_request.created")).having(json!({ "analysisId": analysis })),
    ]
}

/// A bare repository with one step, created by the real git.
fn repository() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let script = "git init -q --bare -b main remote.git && git clone -q remote.git clone 2>/dev/null && cd clone \
                  && mkdir steps && printf 'name = \"greet\"\\nversion = \"1\"\\nrun = [\"true\"]\\n' >steps/greet.toml \
                  && git add -A && git -c user.name=t -c user.email=t@example.com commit -qm first \
                  && git push -q origin HEAD:main";
    let made = std::process::Command::new("sh").args(["-c", script]).current_dir(home.path()).status().unwrap();
    assert!(made.success());
    home
}

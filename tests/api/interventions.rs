//! Actions on deployments before any of their steps runs: read, wait, decide, cancel, retry; and their logs.

mod approvals;
mod logs;

use crate::support::waiting::column;
use crate::support::{Answer, Client, Server, Setup, assert_fields, assert_has, assert_is_time};
use serde_json::{Value, json};

const ACME: &str = include_str!("../../config/acme.toml");
const BETA: &str = r#"
organization = { id = "beta" }
members = [{ name = "bea", role = "admin" }]
[[pipelines]]
id = "web"
environments = [{ name = "review-1" }]
"#;
const NOBODYS: &str = "/deployments/dep_0199f3c2a4b07f3e9d2c5a1b";
/// Longer than anything here takes: an answer after this time has missed its event.
const LONG: u64 = 50;

/// A pipeline with one environment, whose deployments wait for an approval before anything runs.
pub async fn gated(server: &Server, self_approval: bool) {
    let admin = server.admin();
    let stages = json!([
        { "name": "gate", "approval": "always", "steps": [{ "run": ["true"] }] },
        { "name": "after", "steps": [{ "name": "only", "run": ["true"] }] },
    ]);
    let pipeline = json!({ "stages": stages, "selfApproval": self_approval });
    admin.put("/pipelines/gated", pipeline).await.created();
    admin.put(GATED, json!({})).await.created();
}

const GATED: &str = "/pipelines/gated/ephemeral-environments/one";

/// A session in that environment.
async fn session_of(client: &Client) -> String {
    client.post(&format!("{GATED}/sessions"), json!({})).await.created().session()
}

async fn deploy(client: &Client, session: &str, body: Value) -> Answer {
    client.post(&format!("{GATED}/sessions/{session}/deploy"), body).await
}

/// A deployment that waits for an approval: its path, its session and its approval's path.
pub async fn waiting(client: &Client) -> (String, String, String) {
    let session = session_of(client).await;
    let made = deploy(client, &session, json!({ "commitId": "c0ffee1" })).await.has_status(202).data();
    assert_eq!(made["status"], "awaiting_approval");
    (path_of(&made), session, approval_of(&made))
}

fn path_of(deployment: &Value) -> String {
    format!("/deployments/{}", deployment["deploymentId"].as_str().unwrap())
}

fn approval_of(deployment: &Value) -> String {
    format!("/approvals/{}", deployment["stages"][0]["approvalId"].as_str().unwrap())
}

#[tokio::test]
async fn a_deployment_is_found_where_location_says() {
    let server = Server::start();
    gated(&server, true).await;
    let ana = server.as_user("ana").await;
    let session = session_of(&ana).await;
    let made = deploy(&ana, &session, json!({ "commitId": "c0ffee1" })).await.has_status(202);
    let deployment = made.data();
    assert_fields(
        &deployment,
        "deploymentId pipelineId envName sessionId commitId fencingToken user status stages retriedBy createdAt startedAt \
         finishedAt error",
    );
    assert_has(
        &deployment,
        json!({ "pipelineId": "gated", "envName": "one", "sessionId": session, "commitId": "c0ffee1", "fencingToken": 1,
                "status": "awaiting_approval", "retriedBy": null, "finishedAt": null, "error": null }),
    );
    assert_eq!(deployment["user"]["name"], "ana");
    assert_is_time(&deployment["createdAt"]);
    let stage = &deployment["stages"][0];
    assert_fields(stage, "name status attempt approvalId approval steps");
    assert_has(stage, json!({ "name": "gate", "status": "awaiting_approval", "attempt": 1 }));
    assert_eq!(stage["approval"], json!({ "approvalId": stage["approvalId"], "status": "pending" }));
    assert_has(&deployment["stages"][1], json!({ "status": "pending", "attempt": 0, "approval": null }));
    let step = json!({ "name": "only", "status": "pending", "exitCode": null, "startedAt": null, "finishedAt": null, "uses": null });
    assert_eq!(deployment["stages"][1]["steps"], json!([step]));

    assert_eq!(made.header("location"), ana.path(&path_of(&deployment)));
    let found = ana.get(&path_of(&deployment)).await.ok();
    assert_eq!(found.data(), deployment);
    ana.read_unless(&path_of(&deployment), found.header("etag"), 0).await.has_status(304);
    for unknown in [NOBODYS, "/deployments/nonsense", &path_of(&deployment)[..20]] {
        ana.get(unknown).await.refused(404, "deployment_not_found");
    }
}

#[tokio::test]
async fn without_stages_a_deployment_has_succeeded_when_it_is_answered() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let session = ana.claim("review-1", json!({})).await.created().session();
    let body = |wait: u64| json!({ "commitId": "c0ffee1", "waitSeconds": wait });
    let made = ana.deploy("review-1", &session, body(0)).await.has_status(202).data();
    assert_has(&made, json!({ "status": "succeeded", "stages": [] }));
    assert_eq!(ana.get(&path_of(&made)).await.ok().data(), made);
    ana.deploy("review-1", &session, body(1)).await.ok();
}

#[tokio::test]
async fn the_newest_come_first_and_filters_choose() {
    let server = Server::start();
    gated(&server, true).await;
    let ana = server.as_user("ana").await;
    let mut made = Vec::new();
    let mut sessions = Vec::new();
    for name in ["review-1", "review-2"] {
        let session = ana.claim(name, json!({})).await.created().session();
        for commit in ["c0ffee1", "decade2"] {
            made.push(ana.deploy(name, &session, json!({ "commitId": commit })).await.has_status(202).data());
        }
        sessions.push(session);
    }
    let (path, ..) = waiting(&ana).await;
    made.push(ana.get(&path).await.ok().data());
    made.reverse();
    let all = ana.get("/deployments").await.ok();
    assert_eq!((all.data(), &all.json()["pagination"]["total"]), (json!(made), &json!(5)));
    for (query, expected) in [
        ("status=awaiting_approval".to_owned(), &made[..1]),
        ("status=failed".to_owned(), &[]),
        ("pipelineId=gated".to_owned(), &made[..1]),
        ("pipelineId=nowhere".to_owned(), &[]),
        ("envName=review-1".to_owned(), &made[3..]),
        (format!("sessionId={}", sessions[1]), &made[1..3]),
        (format!("sessionId={}&status=succeeded&pipelineId=web&envName=review-2", sessions[1]), &made[1..3]),
        (format!("sessionId={}&envName=review-1", sessions[1]), &[]),
        ("pipelineId=web&limit=2&offset=1".to_owned(), &made[2..4]),
    ] {
        assert_eq!(ana.get(&format!("/deployments?{query}")).await.ok().data(), json!(expected), "{query}");
    }
    let page = ana.get("/deployments?pipelineId=web&limit=2&offset=1").await.ok();
    assert_eq!(page.json()["pagination"], json!({ "limit": 2, "offset": 1, "total": 4 }));
    assert!(page.link("next").unwrap().contains("pipelineId=web&limit=2&offset=3"));
    for wrong in ["status=broken", "sessionId=x", "pipelineId=/", "envName=", "limit=0", "colour=red"] {
        ana.get(&format!("/deployments?{wrong}")).await.refused(400, "invalid_parameter");
    }
}

#[tokio::test]
async fn a_read_is_held_until_the_deployment_changes() {
    let server = Server::start();
    gated(&server, true).await;
    let ana = server.as_user("ana").await;
    let (path, _, approval) = waiting(&ana).await;
    let etag = ana.get(&path).await.ok().header("etag").to_owned();
    let held = tokio::spawn({
        let (ana, path) = (ana.clone(), path.clone());
        async move { ana.read_unless(&path, &etag, LONG).await }
    });
    server.admin().post(&format!("{approval}/reject"), json!({})).await.ok();
    assert_eq!(held.await.unwrap().ok().data()["status"], "failed");
}

#[tokio::test]
async fn who_deploys_and_waits_is_answered_when_it_has_finished() {
    let server = Server::start();
    gated(&server, true).await;
    let ana = server.as_user("ana").await;
    let session = session_of(&ana).await;
    let body = json!({ "commitId": "c0ffee1", "waitSeconds": LONG });
    let place = format!("{GATED}/sessions/{session}/deploy");
    let waiting = tokio::spawn({
        let (ana, place, body) = (ana.clone(), place.clone(), body.clone());
        async move { ana.post_with_key(&place, "once", body).await }
    });
    ana.until(GATED, |environment| environment["currentDeployment"] != Value::Null).await;
    let pending = ana.get("/approvals?status=pending").await.ok().data();
    let approval = format!("/approvals/{}", pending[0]["approvalId"].as_str().unwrap());
    server.admin().post(&format!("{approval}/reject"), json!({ "reason": "not today" })).await.ok();
    let finished = waiting.await.unwrap().ok();
    assert_eq!(finished.data()["status"], "failed");
    assert!(finished.data()["error"].as_str().unwrap().contains("not today"));
    let again = ana.post_with_key(&place, "once", body).await.ok();
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!((again.header("location"), again.data()), (finished.header("location"), finished.data()));
    let impatient = deploy(&ana, &session, json!({ "commitId": "c0ffee1", "waitSeconds": 1 })).await.has_status(202);
    assert_eq!(impatient.data()["status"], "awaiting_approval");
}

#[tokio::test]
async fn the_stage_that_a_deployment_is_at_is_cancelled_and_the_rest_skipped() {
    let server = Server::start();
    gated(&server, true).await;
    let ana = server.as_user("ana").await;
    let (path, _, approval) = waiting(&ana).await;
    let cancel = format!("{path}/stages/gate/cancel");
    let ben = server.as_user("ben").await;
    let refused = ben.post(&cancel, json!({})).await.refused(403, "not_session_holder").json();
    assert_eq!(refused["holder"]["user"]["name"], "ana");
    let refused = ana.post(&format!("{path}/stages/after/cancel"), json!({})).await.refused(409, "stage_not_running");
    assert_eq!(refused.json()["stageStatus"], "pending");
    for unknown in ["none", "-"] {
        ana.post(&format!("{path}/stages/{unknown}/cancel"), json!({})).await.refused(404, "stage_not_found");
    }
    ana.post(&format!("{NOBODYS}/stages/gate/cancel"), json!({})).await.refused(404, "deployment_not_found");
    ana.post(&cancel, json!({ "force": true })).await.refused(422, "invalid_request");

    let cancelled = ana.post_with_key(&cancel, "once", json!({})).await.ok();
    assert_eq!(cancelled.data()["status"], "cancelled");
    assert_eq!(cancelled.header("location"), ana.path(&path));
    let statuses: Vec<_> = (0..2).map(|place| cancelled.data()["stages"][place]["status"].clone()).collect();
    assert_eq!(statuses, ["cancelled", "skipped"]);
    assert_eq!(ana.get(&approval).await.ok().data()["status"], "cancelled");
    let again = ana.post_with_key(&cancel, "once", json!({})).await.ok();
    assert_eq!((again.header("idempotency-replayed"), &again.text), ("true", &cancelled.text));
    assert_eq!(ana.post(&cancel, json!({})).await.ok().data(), cancelled.data(), "repeating it is no fault");
    let refused = ana.post(&format!("{path}/stages/after/cancel"), json!({})).await.refused(409, "stage_not_running");
    assert_eq!(refused.json()["stageStatus"], "skipped");
}

#[tokio::test]
async fn a_maintainer_cancels_what_others_deploy() {
    let server = Server::start();
    gated(&server, true).await;
    let (path, ..) = waiting(&server.as_user("ana").await).await;
    server.as_user("mia").await.post(&format!("{path}/stages/gate/cancel"), json!({})).await.ok();
}

#[tokio::test]
async fn a_stage_is_retried_while_its_session_has_the_lock() {
    let server = Server::start();
    gated(&server, true).await;
    let (ana, mia) = (server.as_user("ana").await, server.as_user("mia").await);
    let (path, session, approval) = waiting(&ana).await;
    let retry = format!("{path}/stages/gate/retry");
    let refused = ana.post(&retry, json!({})).await.refused(409, "stage_not_retryable").json();
    assert_eq!(refused["stageStatus"], "awaiting_approval");
    mia.post(&format!("{approval}/reject"), json!({})).await.ok();
    let refused = ana.post(&format!("{path}/stages/after/retry"), json!({})).await.refused(409, "stage_not_retryable");
    assert_eq!(refused.json()["stageStatus"], "skipped");
    ana.post(&format!("{path}/stages/none/retry"), json!({})).await.refused(404, "stage_not_found");
    server.as_user("ben").await.post(&retry, json!({})).await.refused(403, "not_session_holder");

    let retried = mia.post(&retry, json!({})).await.has_status(202).data();
    assert_has(&retried, json!({ "status": "awaiting_approval", "finishedAt": null, "error": null }));
    assert_eq!((&retried["stages"][0]["attempt"], &retried["retriedBy"]["name"]), (&json!(2), &json!("mia")));
    assert_ne!(approval_of(&retried), approval, "it is asked for again");
    assert_eq!(ana.post(&retry, json!({})).await.has_status(202).data(), retried, "asked twice, done once");

    ana.delete(&format!("{GATED}/sessions/{session}")).await.ok();
    assert_eq!(ana.get(&path).await.ok().data()["status"], "cancelled");
    ana.post(&retry, json!({})).await.refused(409, "session_released");
}

#[tokio::test]
async fn what_resets_an_environment_is_in_no_session() {
    let server = Server::start();
    gated(&server, true).await;
    let (ana, mia) = (server.as_user("ana").await, server.as_user("mia").await);
    mia.put(GATED, json!({ "onRelease": { "commitId": "main" } })).await.ok();
    let session = session_of(&ana).await;
    ana.delete(&format!("{GATED}/sessions/{session}")).await.ok();
    let reset = ana.get("/deployments").await.ok().data()[0].clone();
    assert_has(&reset, json!({ "sessionId": null, "user": null, "commitId": "main", "status": "awaiting_approval" }));
    let stage = format!("{}/stages/gate", path_of(&reset));
    let refused = ana.post(&format!("{stage}/cancel"), json!({})).await.refused(403, "permission_denied").json();
    assert_eq!(refused["requiredRole"], "maintainer");
    mia.post(&format!("{stage}/cancel"), json!({})).await.ok();
    let refused = mia.post(&format!("{stage}/retry"), json!({})).await.refused(409, "stage_not_retryable").json();
    assert!(refused["detail"].as_str().unwrap().contains("in no session"), "{refused}");
}

#[tokio::test]
async fn deployments_approvals_and_logs_stay_in_their_organization() {
    let server = Setup::default().organization(ACME).organization(BETA).start();
    gated(&server, true).await;
    let acme = server.admin();
    let (path, _, approval) = waiting(&acme).await;
    let beta = acme.clone().in_organization("beta");
    for refused in [
        beta.get("/deployments").await,
        beta.get(&path).await,
        beta.get(&format!("{path}/logs")).await,
        beta.get("/approvals").await,
        beta.get(&approval).await,
        beta.post(&format!("{approval}/approve"), json!({})).await,
        beta.post(&format!("{path}/stages/gate/cancel"), json!({})).await,
    ] {
        refused.refused(404, "organization_not_found");
    }
    assert_eq!(column(&acme.get("/approvals").await.ok(), "status"), ["pending"]);
}

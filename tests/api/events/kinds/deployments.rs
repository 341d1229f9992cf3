//! Deployments, their stages and approvals.

use serde_json::{Value, json};

use super::users::{Change, Expected, Users, system};
use crate::events::text;
use crate::support::at;

/// A pipeline with one environment, and ana's session in it.
struct Site<'a> {
    users: &'a Users,
    pipeline: &'static str,
    session: String,
}

const ENVIRONMENT: &str = "site";

impl<'a> Site<'a> {
    async fn with(users: &'a Users, pipeline: &'static str, stages: Value) -> Self {
        users.mia.client.put(&format!("/pipelines/{pipeline}"), json!({ "stages": stages })).await.created();
        let place = format!("/pipelines/{pipeline}/ephemeral-environments/{ENVIRONMENT}");
        users.mia.client.put(&place, json!({})).await.created();
        let claimed = users.ana.act("POST", &format!("{place}/sessions"), json!({})).await;
        Self { users, pipeline, session: claimed.session() }
    }

    async fn deploy(&self) -> Change {
        let place = format!("/pipelines/{}/ephemeral-environments/{ENVIRONMENT}", self.pipeline);
        let path = format!("{place}/sessions/{}/deploy", self.session);
        self.users.ana.act("POST", &path, json!({ "commitId": "c0ffee1" })).await
    }

    async fn until(&self, deployment: &str, status: &str) -> Value {
        self.users.ana.client.until(&format!("/deployments/{deployment}"), |found| found["status"] == status).await
    }

    /// The approval that a deployment waits for, once it does.
    async fn approval(&self, deployment: &str) -> String {
        self.until(deployment, "awaiting_approval").await;
        let list =
            self.users.mia.client.get(&format!("/approvals?status=pending&deploymentId={deployment}")).await.ok();
        text(&list.data()[0], "approvalId").to_owned()
    }

    fn of(&self, event: Expected, deployment: &str) -> Expected {
        event.at(self.pipeline, ENVIRONMENT).of_session(&self.session).of_deployment(deployment)
    }
}

fn stage(name: &str, script: &str, approval: &str) -> Value {
    json!({ "name": name, "approval": approval, "steps": [{ "run": ["sh", "-c", script] }] })
}

fn commit() -> Value {
    json!({ "commitId": "c0ffee1" })
}

fn attempt(stage: &str, number: u32) -> Value {
    json!({ "stage": stage, "attempt": number })
}

/// A claim that names a commit deploys it.
pub async fn without_stages(users: &Users) -> Vec<Expected> {
    users.mia.client.put(&at("plain"), json!({})).await.created();
    let claimed = users.ana.act("POST", &format!("{}/sessions", at("plain")), commit()).await;
    let session = claimed.session();
    let found = users.ana.client.session("plain", &session).await.ok().data();
    let deployment = text(&found["deployments"][0], "deploymentId").to_owned();
    users.ana.client.until(&format!("/deployments/{deployment}"), |found| found["status"] == "succeeded").await;
    let of = |event: Expected| event.at("web", "plain").of_session(&session).of_deployment(&deployment).with(commit());
    let data = json!({ "fencingToken": 1, "commitId": "c0ffee1" });
    vec![
        claimed.by("session.claimed").at("web", "plain").of_session(&session).with(data),
        of(claimed.by("deployment.queued")),
        of(system("deployment.started")),
        of(system("deployment.succeeded")),
    ]
}

pub async fn approved(users: &Users) -> Vec<Expected> {
    let stages = json!([stage("build", "true", "never"), stage("gate", "true", "always")]);
    let site = Site::with(users, "approved", stages).await;
    let deploy = site.deploy().await;
    let id = deploy.deployment();
    let approval = site.approval(&id).await;
    let path = format!("/approvals/{approval}/approve");
    let approve = users.mia.act("POST", &path, json!({ "comment": "looks good" })).await;
    site.until(&id, "succeeded").await;
    let asked = json!({ "stage": "gate", "attempt": 1, "approvalId": approval });
    let decided = json!({ "stage": "gate", "attempt": 1, "approvalId": approval, "comment": "looks good" });
    vec![
        site.of(deploy.by("deployment.queued"), &id).with(commit()),
        site.of(system("deployment.started"), &id).with(commit()),
        site.of(system("stage.started"), &id).with(attempt("build", 1)),
        site.of(system("stage.succeeded"), &id).with(attempt("build", 1)),
        site.of(system("approval.requested"), &id).with(asked),
        site.of(approve.by("approval.approved"), &id).with(decided),
        site.of(system("stage.started"), &id).with(attempt("gate", 1)),
        site.of(system("stage.succeeded"), &id).with(attempt("gate", 1)),
        site.of(system("deployment.succeeded"), &id).with(commit()),
    ]
}

pub async fn rejected_and_retried(users: &Users) -> Vec<Expected> {
    let stages = json!([stage("gate", "exit 3", "always")]);
    let site = Site::with(users, "rejected", stages).await;
    let deploy = site.deploy().await;
    let id = deploy.deployment();
    let approval = site.approval(&id).await;
    let path = format!("/approvals/{approval}/reject");
    let reject = users.mia.act("POST", &path, json!({ "reason": "not today" })).await;
    let first = site.until(&id, "failed").await;
    let retry = users.ana.act("POST", &format!("/deployments/{id}/stages/gate/retry"), json!({})).await;
    let second = site.approval(&id).await;
    users.mia.act("POST", &format!("/approvals/{second}/approve"), json!({})).await;
    let last = site.until(&id, "failed").await;
    let decided = json!({ "stage": "gate", "attempt": 1, "approvalId": approval, "comment": "not today" });
    let failed = |found: &Value| json!({ "commitId": "c0ffee1", "error": found["error"] });
    vec![
        site.of(reject.by("approval.rejected"), &id).with(decided),
        site.of(system("stage.failed"), &id).with(attempt("gate", 1)),
        site.of(system("deployment.failed"), &id).with(failed(&first)),
        // It names the attempt, which is no longer the last.
        site.of(retry.by("stage.retried"), &id).with(attempt("gate", 2)),
        site.of(system("stage.failed"), &id).with(attempt("gate", 2)),
        site.of(system("deployment.failed"), &id).with(failed(&last)),
    ]
}

pub async fn cancelled(users: &Users) -> Vec<Expected> {
    let stages = json!([stage("long", "sleep 600", "never"), stage("gate", "true", "always")]);
    let site = Site::with(users, "cancelled", stages).await;
    let id = site.deploy().await.deployment();
    let running = |found: &Value| found["stages"][0]["status"] == "running";
    users.ana.client.until(&format!("/deployments/{id}"), running).await;
    let cancel = users.mia.act("POST", &format!("/deployments/{id}/stages/long/cancel"), json!({})).await;
    site.until(&id, "cancelled").await;

    let gated = Site::with(users, "gated", json!([stage("gate", "true", "always")])).await;
    let waiting = gated.deploy().await.deployment();
    gated.approval(&waiting).await;
    let at_once = users.mia.act("POST", &format!("/deployments/{waiting}/stages/gate/cancel"), json!({})).await;
    vec![
        site.of(cancel.by("deployment.cancelling"), &id).with(commit()),
        // Recorded when its processes have ended.
        site.of(system("stage.cancelled"), &id).with(attempt("long", 1)),
        site.of(system("deployment.cancelled"), &id).with(commit()),
        gated.of(at_once.by("stage.cancelled"), &waiting).with(attempt("gate", 1)),
        gated.of(at_once.by("deployment.cancelled"), &waiting).with(commit()),
    ]
}

//! A stage that needs an approval first.

use serde_json::{Value, json};

use crate::site::{ENVIRONMENT, Site, id, stage, stage_with};
use crate::support::{Client, assert_fields, assert_has, assert_is_time};

async fn site() -> Site {
    let always = json!({ "approval": "always" });
    Site::with(json!([
        stage("build", "echo built"),
        stage_with("deploy", "echo deployed", always),
        stage("smoke", "echo smoke")
    ]))
    .await
}

async fn pending(client: &Client) -> Vec<Value> {
    client.get("/approvals?status=pending").await.ok().data().as_array().unwrap().clone()
}

#[tokio::test]
async fn an_approval_in_the_middle_lets_the_rest_run_and_says_who_gave_it() {
    let site = site().await;
    let (ana, mia) = (site.server.as_user("ana").await, site.server.as_user("mia").await);
    let session = ana.claim(ENVIRONMENT, json!({})).await.created().session();
    let deployment = id(&ana.deploy(ENVIRONMENT, &session, json!({ "commitId": "c0ffee1" })).await.has_status(202));
    let waiting = site.until_status(&deployment, "awaiting_approval").await;
    assert_eq!(waiting["stages"][1]["status"], "awaiting_approval");
    assert_eq!(site.log(&deployment).await, "built\n");
    let current = site.admin.environment(ENVIRONMENT).await.data()["currentDeployment"].clone();
    assert_eq!(current["status"], "awaiting_approval", "nothing else is deployed meanwhile");
    assert_has(&current, json!({ "stage": "deploy", "stagesDone": 1, "stagesTotal": 3 }));

    let asked = pending(&mia).await;
    assert_eq!(asked.len(), 1);
    assert_fields(
        &asked[0],
        "approvalId status deploymentId pipelineId envName sessionId commitId stage attempt requestedAt requestedBy \
         decidedAt decidedBy comment",
    );
    assert_has(&asked[0], json!({ "deploymentId": deployment, "stage": "deploy", "status": "pending", "attempt": 1 }));
    assert_eq!(asked[0]["requestedBy"]["name"], "ana");
    let path = format!("/approvals/{}", asked[0]["approvalId"].as_str().unwrap());
    ana.post(&format!("{path}/approve"), json!({})).await.refused(403, "permission_denied");
    let approved = mia.post(&format!("{path}/approve"), json!({ "comment": "go" })).await.ok().data();
    assert_has(&approved, json!({ "status": "approved", "comment": "go" }));
    assert_eq!(approved["decidedBy"]["name"], "mia");
    assert_is_time(&approved["decidedAt"]);

    let done = site.finished(&deployment).await;
    assert_eq!(done["status"], "succeeded");
    assert_eq!(site.log(&deployment).await, "built\ndeployed\nsmoke\n");
    assert_eq!(mia.get(&path).await.ok().data(), approved);
    assert_eq!(pending(&mia).await, Vec::<Value>::new());
    // Repeating the decision is idempotent; the opposite decision is refused.
    assert_eq!(mia.post(&format!("{path}/approve"), json!({ "comment": "go" })).await.ok().data(), approved);
    mia.post(&format!("{path}/reject"), json!({})).await.refused(409, "approval_not_pending");
    mia.get("/approvals/apr_000000000000000000000000").await.refused(404, "approval_not_found");
}

#[tokio::test]
async fn a_rejection_fails_the_deployment_and_the_stage_can_be_asked_for_again() {
    let site = site().await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    site.until_status(&deployment, "awaiting_approval").await;
    let first = pending(&site.admin).await[0]["approvalId"].as_str().unwrap().to_owned();
    let reject = format!("/approvals/{first}/reject");
    let rejected = site.admin.post(&reject, json!({ "reason": "not on a Friday" })).await.ok().data();
    assert_has(&rejected, json!({ "status": "rejected", "comment": "not on a Friday" }));
    let failed = site.finished(&deployment).await;
    let error = "stage `deploy` was rejected by admin: not on a Friday";
    assert_has(&failed, json!({ "status": "failed", "error": error }));
    assert_eq!(failed["stages"][2]["status"], "skipped");

    site.stage(&deployment, "deploy", "retry").await.has_status(202);
    site.until_status(&deployment, "awaiting_approval").await;
    let second = pending(&site.admin).await[0].clone();
    assert_ne!(second["approvalId"], json!(first));
    assert_eq!(second["attempt"], 2);
    let approve = format!("/approvals/{}/approve", second["approvalId"].as_str().unwrap());
    site.admin.post(&approve, json!({})).await.ok();
    assert_eq!(site.finished(&deployment).await["status"], "succeeded");
    assert_eq!(site.log(&deployment).await, "built\ndeployed\nsmoke\n", "the build was not run again");
}

#[tokio::test]
async fn nobody_approves_what_they_triggered_where_the_pipeline_says_so() {
    let site = site().await;
    let stages = site.admin.get("/pipelines/web").await.data()["stages"].clone();
    site.admin.put("/pipelines/web", json!({ "stages": stages, "selfApproval": false })).await.ok();
    let mia = site.server.as_user("mia").await;
    let session = mia.claim(ENVIRONMENT, json!({})).await.created().session();
    let deployment = id(&mia.deploy(ENVIRONMENT, &session, json!({ "commitId": "c0ffee1" })).await.has_status(202));
    site.until_status(&deployment, "awaiting_approval").await;
    let path = format!("/approvals/{}/approve", pending(&mia).await[0]["approvalId"].as_str().unwrap());
    mia.post(&path, json!({})).await.refused(403, "self_approval_denied");
    site.admin.post(&path, json!({})).await.ok();
    assert_eq!(site.finished(&deployment).await["status"], "succeeded");
}

#[tokio::test]
async fn a_release_and_a_force_claim_end_a_pending_approval() {
    let site = site().await;
    for forced in [false, true] {
        let session = site.claim().await;
        let deployment = site.deploy(&session).await;
        site.until_status(&deployment, "awaiting_approval").await;
        let approval = format!("/approvals/{}", pending(&site.admin).await[0]["approvalId"].as_str().unwrap());
        if forced {
            site.admin.force_claim(ENVIRONMENT, json!({})).await.created();
        } else {
            site.admin.release(ENVIRONMENT, &session).await.ok();
        }
        assert_eq!(site.deployment(&deployment).await["status"], "cancelled", "at once: nothing of it runs");
        assert_eq!(site.admin.get(&approval).await.ok().data()["status"], "cancelled");
        site.admin.post(&format!("{approval}/approve"), json!({})).await.refused(409, "approval_not_pending");
        if !forced {
            assert_eq!(site.admin.environment(ENVIRONMENT).await.data()["lockStatus"], "unlocked");
        }
    }
}

#[tokio::test]
async fn a_stage_that_waits_for_its_approval_can_be_cancelled() {
    let site = site().await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    site.until_status(&deployment, "awaiting_approval").await;
    let cancelled = site.stage(&deployment, "deploy", "cancel").await.has_status(200).data();
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(pending(&site.admin).await, Vec::<Value>::new());
}

//! Retrying a stage.

use serde_json::json;

use crate::site::{ENVIRONMENT, Site, stage};
use crate::support::assert_has;

/// Fails only the first time.
const SECOND_TIME: &str = "echo trying; if [ -e been-here ]; then exit 0; fi; touch been-here; exit 7";

#[tokio::test]
async fn a_retry_reruns_the_failed_stage_and_goes_on_from_there() {
    let site =
        Site::with(json!([stage("build", "echo built"), stage("flaky", SECOND_TIME), stage("last", "echo last")]))
            .await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    let failed = site.finished(&deployment).await;
    assert_has(&failed, json!({ "status": "failed", "error": "stage `flaky`: step `step-1` exited with code 7" }));
    site.stage(&deployment, "build", "retry").await.refused(409, "stage_not_retryable");
    site.stage(&deployment, "last", "retry").await.refused(409, "stage_not_retryable");
    let retried = site.stage(&deployment, "flaky", "retry").await.has_status(202).data();
    assert_has(&retried, json!({ "error": null, "finishedAt": null }));
    let done = site.finished(&deployment).await;
    assert_has(
        &done,
        json!({ "status": "succeeded", "createdAt": failed["createdAt"], "startedAt": failed["startedAt"] }),
    );
    let attempts: Vec<_> = done["stages"].as_array().unwrap().iter().map(|stage| stage["attempt"].clone()).collect();
    assert_eq!(attempts, [1, 2, 1]);
    let log = "built\ntrying\nlockkeeper: the step exited with code 7\ntrying\nlast\n";
    assert_eq!(site.log(&deployment).await, log);
    site.stage(&deployment, "flaky", "retry").await.refused(409, "stage_not_retryable");
    assert_eq!(site.admin.environment(ENVIRONMENT).await.data()["lastDeployment"]["status"], "succeeded");
}

#[tokio::test]
async fn a_retry_that_is_asked_for_twice_runs_once() {
    let wait = format!("{}; exit 1", "[ -e again ] && while [ ! -e $TRACE ]; do sleep 0.05; done; touch again");
    let site = Site::with(json!([stage("only", &wait)])).await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    site.finished(&deployment).await;
    site.stage(&deployment, "only", "retry").await.has_status(202);
    site.stage(&deployment, "only", "retry").await.has_status(202);
    std::fs::write(&site.trace, "").unwrap();
    assert_eq!(site.finished(&deployment).await["stages"][0]["attempt"], 2);
}

#[tokio::test]
async fn a_retry_is_refused_once_the_session_has_ended() {
    let site = Site::with(json!([stage("fails", "exit 1")])).await;
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    site.finished(&deployment).await;
    site.admin.release(ENVIRONMENT, &session).await.ok();
    site.stage(&deployment, "fails", "retry").await.refused(409, "session_released");
    let session = site.claim().await;
    let deployment = site.deploy(&session).await;
    site.finished(&deployment).await;
    site.server.as_user("ben").await.force_claim(ENVIRONMENT, json!({})).await.created();
    site.stage(&deployment, "fails", "retry").await.refused(409, "session_overridden");
}

#[tokio::test]
async fn a_cancelled_stage_can_be_run_again_and_waits_for_its_turn() {
    let script = "[ -e $TRACE.go ] && exit 0; echo ready; sleep 600";
    let site = Site::with(json!([stage("long", script)])).await;
    let session = site.claim().await;
    let first = site.deploy(&session).await;
    site.until_printed(&first, "ready").await;
    let second = site.deploy(&session).await;
    site.stage(&first, "long", "cancel").await.has_status(202);
    site.finished(&first).await;
    site.until_printed(&second, "ready").await;
    let waits = site.stage(&first, "long", "retry").await.has_status(202).data();
    assert_eq!(waits["status"], "queued", "the second has begun");
    std::fs::write(site.trace.with_extension("go"), "").unwrap();
    site.stage(&second, "long", "cancel").await.has_status(202);
    assert_eq!(site.finished(&first).await["status"], "succeeded");
    assert_eq!(site.deployment(&second).await["status"], "cancelled");
}

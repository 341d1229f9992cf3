//! A stopped pipeline: running deployments continue, new ones wait, and a resume starts them in order.

use serde_json::json;

use crate::site::{ENVIRONMENT, Site, is_finished, stage};
use crate::support::assert_has;

#[tokio::test]
async fn what_runs_goes_on_and_what_is_new_waits_until_the_pipeline_is_resumed() {
    let script = "echo $LOCKKEEPER_COMMIT >> $TRACE; while [ ! -e $TRACE.go ]; do sleep 0.05; done";
    let mut site = Site::with(json!([stage("first", script), stage("second", "true")])).await;
    let session = site.claim().await;
    let running = site.deploy(&session).await;
    site.until(&running, |found| found["stages"][0]["status"] == "running").await;
    let stopped = site.admin.post("/pipelines/web/stop", json!({ "reason": "freeze" })).await.ok().data();
    assert_has(&stopped, json!({ "status": "stopped", "stopReason": "freeze" }));
    std::fs::write(site.trace.with_extension("go"), "").unwrap();
    assert_eq!(site.finished(&running).await["status"], "succeeded", "all its stages");

    // Claims still work; their deployments wait, also through a restart.
    let other = site.admin.claim("review-2", json!({ "commitId": "other" })).await.created();
    let mut waiting = vec![other.data()["deployments"][0]["deploymentId"].as_str().unwrap().to_owned()];
    for commit in ["next-1", "next-2"] {
        let deployed = site.admin.deploy(ENVIRONMENT, &session, json!({ "commitId": commit })).await.has_status(202);
        waiting.push(crate::site::id(&deployed));
    }
    site.server.kill();
    site.start_again();
    assert_eq!(site.admin.get("/pipelines/web").await.data()["status"], "stopped");
    for deployment in &waiting {
        assert_eq!(site.deployment(deployment).await["status"], "queued");
    }
    assert_eq!(site.traced(), ["c0ffee1"]);

    assert_eq!(site.admin.post("/pipelines/web/resume", json!({})).await.ok().data()["status"], "running");
    for deployment in &waiting {
        assert_eq!(site.until(deployment, is_finished).await["status"], "succeeded");
    }
    let traced = site.traced();
    let place = |commit: &str| traced.iter().position(|line| line == commit).unwrap();
    assert!(place("next-1") < place("next-2"), "{traced:?}");
}

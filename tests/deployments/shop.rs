//! The sample pipeline `shop`, as used in the README.

use serde_json::json;

use crate::site::is_finished;
use crate::support::Server;

#[tokio::test]
async fn the_sample_shop_is_claimed_watched_approved_and_succeeds() {
    let server = Server::start();
    let admin = server.admin();
    let staging = "/pipelines/shop/ephemeral-environments/staging-1";
    let claimed = admin.post(&format!("{staging}/sessions"), json!({ "commitId": "c0ffee1" })).await.created().data();
    let deployment = claimed["deployments"][0]["deploymentId"].as_str().unwrap();
    let path = format!("/deployments/{deployment}");
    admin.until(&path, |found| found["status"] == "awaiting_approval").await;
    let approvals = admin.get("/approvals?status=pending").await.ok().data();
    assert_eq!(approvals[0]["deploymentId"], deployment);
    let approve = format!("/approvals/{}/approve", approvals[0]["approvalId"].as_str().unwrap());
    admin.post(&approve, json!({ "comment": "looks good" })).await.ok();
    let done = admin.until(&path, is_finished).await;
    assert_eq!(done["status"], "succeeded", "{done:#}");
    let log = admin.get(&format!("{path}/logs")).await.ok().text;
    assert!(log.contains("c0ffee1"), "{log}");
}

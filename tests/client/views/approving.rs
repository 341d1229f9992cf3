//! `approvals`, `approve` and `reject`.

use serde_json::json;

use super::{deploy, finished, put_stages};
use crate::program::User;
use crate::support::Server;

#[tokio::test]
async fn a_stage_that_waits_is_listed_approved_and_rejected() {
    let server = Server::start();
    let (admin, user) = (server.admin(), User::admin(&server));
    user.run(&["approvals"]).ok().complains("nothing waits for an approval");
    user.run(&["approve", "review-1"]).with_code(66);
    let stages = json!([{ "name": "ship", "approval": "always", "steps": [{ "run": ["true"] }] }]);
    put_stages(&server, stages).await;
    let deployment = deploy(&admin, "c0ffee1").await;
    admin.until(&format!("/deployments/{deployment}"), |found| found["status"] == "awaiting_approval").await;
    let listed = user.json(&["approvals"]);
    let approval = listed[0]["approvalId"].as_str().unwrap().to_owned();
    assert_eq!((&listed[0]["stage"], listed.as_array().unwrap().len()), (&json!("ship"), 1));
    user.run(&["approvals"]).ok().says(&approval).says("web/review-1");
    user.run(&["approvals", "--pipeline", "shop"]).ok().complains("nothing waits");
    let vic = User::member(&server, "vic").await;
    vic.run(&["approve", &approval]).with_code(77);
    user.run(&["approve", &deployment, "--comment", "looks good"])
        .ok()
        .says("approved: stage ship of c0ffee1 in web/review-1");
    assert_eq!(finished(&admin, &deployment).await["status"], "succeeded");
    user.run(&["approve", &deployment]).with_code(66).complains("does not wait for an approval");
    user.run(&["reject", &approval]).with_code(1);
    user.run(&["approvals", "--status", "all"]).ok().says("by admin: looks good");
    user.run(&["approvals", "--status", "nope"]).with_code(2);
    user.run(&["approve", "apr_000000000000000000000000"]).with_code(66);
}

#[tokio::test]
async fn a_rejection_fails_the_deployment() {
    let server = Server::start();
    let (admin, user) = (server.admin(), User::admin(&server));
    let stages = json!([{ "name": "ship", "approval": "always", "steps": [{ "run": ["true"] }] }]);
    put_stages(&server, stages).await;
    let deployment = deploy(&admin, "c0ffee1").await;
    admin.until(&format!("/deployments/{deployment}"), |found| found["status"] == "awaiting_approval").await;
    let rejected = user.json(&["reject", "web/review-1", "--reason", "not today"]);
    assert_eq!((&rejected["status"], &rejected["comment"]), (&json!("rejected"), &json!("not today")));
    assert_eq!(finished(&admin, &deployment).await["status"], "failed");
}

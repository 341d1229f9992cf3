//! Approvals: who may decide, the consequences, and that each is decided only once.

use serde_json::{Value, json};

use super::{GATED, gated, path_of, waiting};
use crate::support::waiting::column;
use crate::support::{Server, assert_fields, assert_has, assert_is_time};

#[tokio::test]
async fn an_approval_says_what_it_is_for_and_who_decided() {
    let server = Server::start();
    gated(&server, true).await;
    let (ana, mia) = (server.as_user("ana").await, server.as_user("mia").await);
    let (path, session, approval) = waiting(&ana).await;
    let pending = ana.get(&approval).await.ok().data();
    assert_fields(
        &pending,
        "approvalId status deploymentId pipelineId envName sessionId commitId stage attempt requestedAt requestedBy \
         decidedAt decidedBy comment",
    );
    assert_has(
        &pending,
        json!({ "status": "pending", "pipelineId": "gated", "envName": "one", "sessionId": session, "stage": "gate",
                "commitId": "c0ffee1", "attempt": 1, "decidedAt": null, "decidedBy": null, "comment": null }),
    );
    assert_eq!(path, path_of(&pending));
    assert_eq!(pending["requestedBy"]["name"], "ana");

    let comment = json!({ "comment": "looks good\nto me" });
    let approved = mia.post_with_key(&format!("{approval}/approve"), "once", comment.clone()).await.ok();
    assert_has(&approved.data(), json!({ "status": "approved", "comment": "looks good\nto me" }));
    assert_eq!(approved.data()["decidedBy"]["name"], "mia");
    assert_is_time(&approved.data()["decidedAt"]);
    assert_eq!(ana.get(&approval).await.ok().data(), approved.data());
    let stage = ana.get(&path).await.ok().data()["stages"][0].clone();
    assert_eq!(stage["approval"]["status"], "approved");
    assert_ne!(stage["status"], "awaiting_approval");
    let again = mia.post_with_key(&format!("{approval}/approve"), "once", comment).await.ok();
    assert_eq!((again.header("idempotency-replayed"), again.data()), ("true", approved.data()));
}

#[tokio::test]
async fn an_approval_is_decided_once() {
    let server = Server::start();
    gated(&server, true).await;
    let (ana, mia) = (server.as_user("ana").await, server.as_user("mia").await);
    let (_, _, approval) = waiting(&ana).await;
    let approved = mia.post(&format!("{approval}/approve"), json!({ "comment": "first" })).await.ok().data();
    let twice = mia.post(&format!("{approval}/approve"), json!({ "comment": "second" })).await.ok().data();
    assert_eq!(twice, approved, "whoever approves twice has approved");
    for (client, decision) in [(&mia, "reject"), (&server.admin(), "approve"), (&server.admin(), "reject")] {
        let refused = client.post(&format!("{approval}/{decision}"), json!({})).await;
        let refused = refused.refused(409, "approval_not_pending").json();
        assert_has(&refused, json!({ "approvalStatus": "approved", "decidedAt": approved["decidedAt"] }));
        assert_eq!(refused["decidedBy"]["name"], "mia");
        assert!(refused["detail"].as_str().unwrap().contains("mia"), "{refused}");
    }
}

#[tokio::test]
async fn of_many_who_decide_at_once_one_does() {
    let server = Server::start();
    gated(&server, true).await;
    let (path, _, approval) = waiting(&server.as_user("ana").await).await;
    let (mia, admin) = (server.as_user("mia").await, server.admin());
    let decide = |client: &super::Client, how: &str| {
        let (client, place) = (client.clone(), format!("{approval}/{how}"));
        async move { client.post(&place, json!({})).await }
    };
    let (approved, rejected) = tokio::join!(decide(&mia, "approve"), decide(&admin, "reject"));
    let (won, lost) = if approved.status == 200 { (approved, rejected) } else { (rejected, approved) };
    let status = won.ok().data()["status"].clone();
    assert_eq!(lost.refused(409, "approval_not_pending").json()["approvalStatus"], status);
    assert_eq!(admin.get(&path).await.ok().data()["stages"][0]["approval"]["status"], status);
}

#[tokio::test]
async fn a_rejection_fails_the_deployment_and_says_why() {
    let server = Server::start();
    gated(&server, true).await;
    let mia = server.as_user("mia").await;
    let (path, _, approval) = waiting(&server.as_user("ana").await).await;
    let rejected = mia.post(&format!("{approval}/reject"), json!({ "reason": "a freeze" })).await.ok().data();
    assert_has(&rejected, json!({ "status": "rejected", "comment": "a freeze" }));
    let deployment = mia.get(&path).await.ok().data();
    assert_eq!(deployment["status"], "failed");
    let error = deployment["error"].as_str().unwrap();
    assert!(error.contains("mia") && error.contains("a freeze"), "{error}");
    assert_eq!(
        (&deployment["stages"][0]["status"], &deployment["stages"][1]["status"]),
        (&json!("failed"), &json!("skipped"))
    );
    mia.post(&format!("{approval}/reject"), json!({})).await.ok();
    mia.post(&format!("{approval}/approve"), json!({})).await.refused(409, "approval_not_pending");
}

#[tokio::test]
async fn nobody_approves_what_they_triggered_where_the_pipeline_says_so() {
    let server = Server::start();
    gated(&server, false).await;
    let (mia, admin) = (server.as_user("mia").await, server.admin());
    let (path, _, approval) = waiting(&mia).await;
    mia.post(&format!("{approval}/approve"), json!({})).await.refused(403, "self_approval_denied");
    admin.post(&format!("{approval}/reject"), json!({})).await.ok();
    // A member who retries it has triggered it too.
    let retried = admin.post(&format!("{path}/stages/gate/retry"), json!({})).await.has_status(202).data();
    let approval = super::approval_of(&retried);
    admin.post(&format!("{approval}/approve"), json!({})).await.refused(403, "self_approval_denied");
    mia.post(&format!("{approval}/approve"), json!({})).await.refused(403, "self_approval_denied");
    mia.post(&format!("{approval}/reject"), json!({})).await.ok();
}

#[tokio::test]
async fn approvals_are_listed_newest_first_and_filtered() {
    let server = Server::start();
    gated(&server, true).await;
    let admin = server.admin();
    let (first, session, approval) = waiting(&admin).await;
    admin.post(&format!("{approval}/reject"), json!({})).await.ok();
    let body = json!({ "commitId": "decade2" });
    let second = super::deploy(&admin, &session, body).await.has_status(202).data();
    let list = |query: &str| {
        let (admin, path) = (admin.clone(), format!("/approvals?{query}"));
        async move { column(&admin.get(&path).await.ok(), "commitId") }
    };
    assert_eq!(list("").await, ["decade2", "c0ffee1"]);
    assert_eq!(list("status=pending").await, ["decade2"]);
    assert_eq!(list("status=rejected&pipelineId=gated&envName=one").await, ["c0ffee1"]);
    assert_eq!(list(&format!("deploymentId={}", second["deploymentId"].as_str().unwrap())).await, ["decade2"]);
    assert_eq!(list(&format!("deploymentId={}&limit=1", first.rsplit('/').next().unwrap())).await, ["c0ffee1"]);
    assert_eq!(list("offset=1").await, ["c0ffee1"]);
    assert_eq!(list("pipelineId=web").await, [Value::Null; 0]);
    for wrong in ["status=open", "deploymentId=x", "pipelineId=/", "sessionId=x"] {
        admin.get(&format!("/approvals?{wrong}")).await.refused(400, "invalid_parameter");
    }
    admin.delete(&format!("{GATED}/sessions/{session}")).await.ok();
    assert_eq!(list("status=cancelled").await, ["decade2"]);
    let ended = super::approval_of(&second);
    let refused = admin.post(&format!("{ended}/approve"), json!({})).await.refused(409, "approval_not_pending").json();
    assert_has(&refused, json!({ "approvalStatus": "cancelled", "decidedBy": null }));
}

#[tokio::test]
async fn only_maintainers_decide_and_only_within_bounds() {
    let server = Server::start();
    gated(&server, true).await;
    let (ana, mia) = (server.as_user("ana").await, server.as_user("mia").await);
    let (_, _, approval) = waiting(&ana).await;
    for decision in ["approve", "reject"] {
        let refused = ana.post(&format!("{approval}/{decision}"), json!({})).await.refused(403, "permission_denied");
        assert_eq!(refused.json()["requiredRole"], "maintainer");
        let nowhere = format!("/approvals/apr_0199f3c2a4b07f3e9d2c5a1b/{decision}");
        mia.post(&nowhere, json!({})).await.refused(404, "approval_not_found");
        mia.post(&format!("/approvals/x/{decision}"), json!({})).await.refused(404, "approval_not_found");
    }
    for (decision, body) in [
        ("approve", json!({ "comment": "x".repeat(1025) })),
        ("approve", json!({ "comment": "\u{1b}" })),
        ("approve", json!({ "reason": "x" })),
        ("reject", json!({ "reason": 7 })),
        ("reject", json!({ "comment": "x" })),
    ] {
        mia.post(&format!("{approval}/{decision}"), body).await.refused(422, "invalid_request");
    }
    mia.get("/approvals/apr_0199f3c2a4b07f3e9d2c5a1b").await.refused(404, "approval_not_found");
    // None of this has ended its session.
    mia.post(&format!("{approval}/approve"), json!({ "comment": null })).await.ok();
    assert_eq!(ana.get(GATED).await.ok().data()["lockStatus"], "locked");
}

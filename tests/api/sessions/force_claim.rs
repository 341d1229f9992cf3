//! Taking the lock from its holder, and the displaced holder's view.

use serde_json::{Value, json};

use crate::support::{Server, assert_has, assert_is_time, at};

#[tokio::test]
async fn a_displaced_holder_cannot_deploy() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let old = ana.claim("review-1", json!({})).await.created().session();
    let new = ben.force_claim("review-1", json!({})).await.created().session();
    let refused = ana.deploy("review-1", &old, json!({ "commitId": "c0ffee1" })).await;
    let told = refused.refused(409, "session_overridden").json();
    assert_has(&told["endedBy"], json!({ "name": "ben", "sessionId": new }));
    assert_is_time(&told["endedAt"]);
    // The session's status agrees.
    let overridden = ana.session("review-1", &old).await.ok().data();
    assert_has(
        &overridden,
        json!({ "lockStatus": "overridden", "overridden": true, "endedAt": told["endedAt"], "endedBy": told["endedBy"] }),
    );
    let deployed = ben.deploy("review-1", &new, json!({ "commitId": "decade2" })).await;
    deployed.has_status(202);
}

#[tokio::test]
async fn releasing_an_overridden_session_says_so_and_leaves_the_lock_alone() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let old = ana.claim("review-1", json!({})).await.created().session();
    let new = ben.force_claim("review-1", json!({})).await.created().session();
    let released = ana.release("review-1", &old).await.ok().data();
    assert_has(&released, json!({ "lockStatus": "overridden", "overridden": true }));
    assert_has(&released["endedBy"], json!({ "name": "ben", "sessionId": new }));
    assert_eq!(ana.environment("review-1").await.data()["lock"]["sessionId"], new);
}

#[tokio::test]
async fn a_force_claim_names_whom_it_overrode() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let body = json!({ "commitId": "c0ffee1", "context": "mine" });
    let first = ana.force_claim("review-1", body).await.created().data();
    assert_eq!(first["overrode"], Value::Null, "it was free");
    let forced = ben.force_claim("review-1", json!({ "context": "hotfix" })).await.created();
    let second = forced.data();
    let overrode = json!({
        "sessionId": first["sessionId"], "user": first["user"], "commitId": "c0ffee1", "context": "mine",
        "claimedAt": first["claimedAt"], "expiresAt": first["expiresAt"], "fencingToken": 1,
    });
    assert_has(&second, json!({ "lockStatus": "active", "context": "hotfix", "overrode": overrode }));
    let place = ben.path(&format!("{}/sessions/{}", at("review-1"), forced.session()));
    assert_eq!(forced.header("location"), place);
    // A member can override their own session too.
    let third = ben.force_claim("review-1", json!({})).await.created().data();
    assert_eq!(third["overrode"]["sessionId"], second["sessionId"]);
}

#[tokio::test]
async fn an_environment_for_maintainers_refuses_a_developers_force_claim() {
    let server = Server::start();
    let (mia, ana) = (server.as_user("mia").await, server.as_user("ana").await);
    let configuration = json!({ "forceClaimRole": "maintainer" });
    mia.put(&at("prod"), configuration).await.created();
    let held = mia.claim("prod", json!({})).await.created().session();
    let refused = ana.force_claim("prod", json!({})).await;
    assert_eq!(refused.refused(403, "permission_denied").json()["requiredRole"], "maintainer");
    assert_eq!(ana.environment("prod").await.data()["lock"]["sessionId"], held);
    mia.force_claim("prod", json!({})).await.created();
}

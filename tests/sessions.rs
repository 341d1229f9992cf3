//! Claim, deploy, release and force-claim, as clients see them.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::json;
use support::Server;

#[tokio::test]
async fn a_claim_takes_the_lock_and_says_where_the_session_is() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let claimed = ana
        .claim("review-1", json!({ "commitId": "c0ffee1", "context": "PR 412" }))
        .await
        .created();
    let session = claimed.data();
    assert_eq!(
        claimed.header("location"),
        ana.path(&format!("{}/sessions/{}", support::at("review-1"), claimed.session()))
    );
    assert_eq!(
        (&session["lockStatus"], &session["fencingToken"]),
        (&json!("active"), &json!(1))
    );
    let environment = ana.environment("review-1").await.ok().data();
    assert_eq!(environment["lock"]["sessionId"], session["sessionId"]);
}

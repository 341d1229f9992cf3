//! Fencing tokens: they count the grants of an environment, and an action with a token other than the session's is
//! refused.

use serde_json::{Value, json};

use crate::support::waiting::column;
use crate::support::{Server, at};

#[tokio::test]
async fn every_way_to_get_the_lock_takes_the_next_fencing_token() {
    let server = Server::start();
    let admin = server.admin();
    admin.put(&at("only"), json!({ "labels": { "only": "one" } })).await.created();
    let any = |rest: Value| {
        let mut body = rest;
        body["labels"] = json!({ "only": "one" });
        body
    };
    let first = admin.claim("only", json!({ "ttlSeconds": 1 })).await.created();
    let line = [
        admin.enqueue("only", json!({})).await.session(),
        admin.claim_any(any(json!({ "queue": true }))).await.has_status(202).session(),
        admin.enqueue("only", json!({})).await.session(),
    ];
    admin.until_session_is("only", &first.session(), "expired").await;
    for session in &line {
        admin.until_any_session_is(session, "active").await;
        // Claims that leave the queue, or find it locked, use no token.
        let left = admin.enqueue("only", json!({})).await.session();
        admin.release("only", &left).await.ok();
        admin.claim("only", json!({})).await.refused(409, "environment_locked");
        admin.claim_any(any(json!({}))).await.refused(409, "environment_locked");
        if *session != line[2] {
            admin.release("only", session).await.ok();
        }
    }
    let forced = admin.force_claim("only", json!({})).await.created().session();
    admin.release("only", &forced).await.ok();
    let last = admin.claim_any(any(json!({}))).await.created();
    let history = admin.get(&format!("{}/history", at("only"))).await.ok();
    assert_eq!(column(&history, "fencingToken"), [6, 5, 4, 3, 2, 1]);
    let [second, third, fourth] = line;
    let newest_first = [last.session(), forced, fourth, third, second, first.session()];
    assert_eq!(column(&history, "sessionId"), newest_first);
}

#[tokio::test]
async fn whoever_acts_with_another_fencing_token_is_refused() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let old = ana.claim("review-1", json!({})).await.created().session();
    ana.release("review-1", &old).await.ok();
    let id = ana.claim("review-1", json!({})).await.created().session();
    let at = format!("{}/sessions/{id}", at("review-1"));
    let heartbeat = async |token: Value| ana.post(&format!("{at}/heartbeat"), json!({ "fencingToken": token })).await;
    let deploy = async |token: Value| {
        let body = json!({ "commitId": "c0ffee1", "fencingToken": token });
        ana.post(&format!("{at}/deploy"), body).await
    };
    for stale in [0, 1, 3, i64::MAX] {
        for refused in [heartbeat(json!(stale)).await, deploy(json!(stale)).await] {
            assert_eq!(refused.refused(409, "stale_fencing_token").json()["fencingToken"], 2);
        }
    }
    assert_eq!(ana.get(&at).await.ok().data()["deploymentCount"], 0, "none of them has done anything");
    for right in [json!(2), Value::Null] {
        heartbeat(right.clone()).await.ok();
        deploy(right).await.has_status(202);
    }
    assert_eq!(ana.get(&at).await.ok().data()["deploymentCount"], 2);
    // An ended session is reported, whatever the token.
    ana.force_claim("review-1", json!({})).await.created();
    for token in [json!(1), json!(2)] {
        let late = heartbeat(token.clone()).await;
        late.refused(409, "session_overridden");
        deploy(token).await.refused(409, "session_overridden");
    }
}

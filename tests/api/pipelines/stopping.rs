//! Stopping and resuming: idempotent, and a retry gets the first answer again.

use serde_json::{Value, json};

use super::WEB;
use crate::support::{Server, assert_has, assert_is_time};

#[tokio::test]
async fn a_stopped_pipeline_says_by_whom_when_and_why() {
    let server = Server::start();
    let (mia, vic) = (server.as_user("mia").await, server.as_user("vic").await);
    let stopped = mia.post("/pipelines/web/stop", json!({ "reason": "the database\nis moved" })).await.ok().data();
    assert_has(&stopped, json!({ "id": "web", "status": "stopped", "stopReason": "the database\nis moved" }));
    assert_eq!(stopped["stoppedBy"]["name"], "mia");
    assert!(stopped["stoppedBy"]["userId"].as_str().unwrap().starts_with("usr_"));
    assert_is_time(&stopped["stoppedAt"]);
    assert_eq!(stopped["environmentCount"], 3);
    assert_eq!(vic.get(WEB).await.ok().data(), stopped);

    let again = server.admin().post("/pipelines/web/stop", json!({ "reason": "again" })).await.ok().data();
    assert_eq!(again, stopped, "as it was stopped first");
    mia.put(WEB, json!({ "name": "other" })).await.ok();
    assert_eq!(vic.get(WEB).await.data()["stopReason"], stopped["stopReason"], "a PUT does not resume it");

    let resumed = mia.post("/pipelines/web/resume", json!({})).await.ok().data();
    let running = json!({ "status": "running", "stoppedBy": null, "stoppedAt": null, "stopReason": null });
    assert_has(&resumed, running);
    assert_eq!(mia.post("/pipelines/web/resume", json!({})).await.ok().data(), resumed);
    let bare = mia.send(mia.request(reqwest::Method::POST, &mia.path("/pipelines/web/stop"))).await.ok().data();
    assert_has(&bare, json!({ "status": "stopped", "stopReason": null }));
}

#[tokio::test]
async fn claims_work_while_a_pipeline_is_stopped() {
    let server = Server::start();
    server.admin().post("/pipelines/web/stop", json!({})).await.ok();
    server.as_user("ana").await.claim("review-1", json!({})).await.created();
}

#[tokio::test]
async fn what_is_wrong_with_a_stop_is_told() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let cases: [(&str, Value, &[&str]); 4] = [
        ("stop", json!({ "reason": 7 }), &["reason"]),
        ("stop", json!({ "reason": "x".repeat(1025) }), &["reason"]),
        ("stop", json!({ "why": "x" }), &["why"]),
        ("resume", json!({ "reason": "x" }), &["reason"]),
    ];
    for (operation, body, fields) in cases {
        let refused = mia.post(&format!("/pipelines/web/{operation}"), body).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), fields);
    }
    mia.post("/pipelines/nowhere/stop", json!({})).await.refused(404, "pipeline_not_found");
    mia.post("/pipelines/nowhere/resume", json!({})).await.refused(404, "pipeline_not_found");
    mia.get("/pipelines/web/stop").await.refused(405, "method_not_allowed");
    assert_eq!(mia.get(WEB).await.data()["status"], "running");
}

#[tokio::test]
async fn a_retry_gets_the_first_answer_and_stops_nothing_again() {
    let mut server = Server::start();
    let mia = server.as_user("mia").await;
    let stop = json!({ "reason": "moving" });
    let first = mia.post_with_key("/pipelines/web/stop", "k1", stop.clone()).await.ok();
    assert_eq!(first.header("idempotency-replayed"), "");
    let resumed = mia.post_with_key("/pipelines/web/resume", "k2", json!({})).await.ok();
    server.kill();
    server.start_again();
    let mia = mia.at(&server);
    let replayed = mia.post_with_key("/pipelines/web/stop", "k1", stop).await.ok();
    assert_eq!((replayed.data(), replayed.header("idempotency-replayed")), (first.data(), "true"));
    assert_eq!(mia.get(WEB).await.data()["status"], "running", "it was resumed since");
    let replayed = mia.post_with_key("/pipelines/web/resume", "k2", json!({})).await.ok();
    assert_eq!((replayed.data(), replayed.header("idempotency-replayed")), (resumed.data(), "true"));
    mia.post_with_key("/pipelines/web/resume", "k1", json!({})).await.refused(422, "idempotency_key_reused");

    let nothing = mia.post_with_key("/pipelines/web/resume", "k3", json!({})).await.ok();
    let replayed = mia.post_with_key("/pipelines/web/resume", "k3", json!({})).await.ok();
    assert_eq!((replayed.data(), replayed.header("idempotency-replayed")), (nothing.data(), "true"));
}

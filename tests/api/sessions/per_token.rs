//! The limit on waiting claims per token.

use serde_json::json;

use crate::support::{Server, Setup, at};

fn limited(most: usize) -> Server {
    let limit = most.to_string();
    Setup::default().variable("LOCKKEEPER_ENVIRONMENTS_MAX_WAITING_PER_TOKEN", &limit).start()
}

#[tokio::test]
async fn one_token_cannot_fill_the_queue_and_is_told_which_setting_says_so() {
    let server = limited(3);
    let (ana, also_ana, ben) = (server.as_user("ana").await, server.as_user("ana").await, server.as_user("ben").await);
    let held = ben.claim("review-1", json!({})).await.created().session();
    let waiting = ana.wait_in_line("review-1", json!({ "waitSeconds": 300 }), 1).await;
    let queued = ana.enqueue("review-1", json!({})).await.session();
    ben.claim("review-2", json!({})).await.created();
    ben.claim("review-3", json!({})).await.created();
    let any = ana.claim_any(json!({ "queue": true, "labels": { "size": "small" } })).await.has_status(202).session();
    for body in [json!({ "queue": true }), json!({ "waitSeconds": 300 })] {
        for refused in [ana.claim("review-1", body.clone()).await, ana.claim_any(body.clone()).await] {
            let refused = refused.refused(503, "queue_full");
            let detail = refused.json()["detail"].as_str().unwrap().to_owned();
            assert!(
                detail.contains("3 claims of this token") && detail.contains("environments.max_waiting_per_token"),
                "{detail}"
            );
            assert_eq!(refused.header("retry-after"), "5");
        }
    }
    // A claim without waiting gets the usual answer, another token has separate places, and a free lock is granted.
    ana.claim("review-1", json!({})).await.refused(409, "environment_locked");
    also_ana.enqueue("review-1", json!({})).await;
    server.admin().put(&at("free"), json!({})).await.created();
    ana.claim("free", json!({ "waitSeconds": 300 })).await.created();

    ana.release("review-1", &queued).await.ok();
    let queued = ana.enqueue("review-1", json!({})).await.session();
    ana.claim("review-1", json!({ "queue": true })).await.refused(503, "queue_full");
    ben.release("review-1", &held).await.ok();
    waiting.await.unwrap().created();
    ana.enqueue("review-1", json!({})).await;
    ana.claim("review-1", json!({ "queue": true })).await.refused(503, "queue_full");
    ana.release_any(&any).await.ok();
    ana.session("review-1", &queued).await.ok();
    ana.enqueue("review-1", json!({})).await;
}

#[tokio::test]
async fn after_a_restart_the_queued_sessions_count_again() {
    let mut server = limited(2);
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    ben.claim("review-1", json!({})).await.created();
    let first = ana.enqueue("review-1", json!({})).await.session();
    ana.enqueue("review-1", json!({})).await;
    server.kill();
    server.start_again();
    let ana = ana.at(&server);
    ana.claim("review-1", json!({ "queue": true })).await.refused(503, "queue_full");
    ana.release("review-1", &first).await.ok();
    ana.enqueue("review-1", json!({})).await;
}

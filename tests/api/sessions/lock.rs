//! Releasing the lock without the id of its session.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Client, Server, assert_has, at};

impl Client {
    async fn release_lock(&self, environment: &str) -> Answer {
        self.delete(&format!("{}/lock", at(environment))).await
    }
}

#[tokio::test]
async fn the_caller_s_own_lock_is_released_and_the_answer_is_the_session() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    for token in 1..=3 {
        let session = ana.claim("review-1", json!({ "context": "cycle" })).await.created().session();
        let released = ana.release_lock("review-1").await.ok().data();
        assert_has(
            &released,
            json!({ "sessionId": session, "lockStatus": "released", "fencingToken": token, "context": "cycle" }),
        );
        assert_eq!(released["endedBy"]["name"], "ana");
        assert_eq!(ana.session("review-1", &session).await.ok().data(), released);
    }
    let refused = ana.release_lock("review-1").await.refused(404, "lock_not_found");
    assert!(refused.json()["detail"].as_str().unwrap().contains("nobody holds the lock"), "{refused:?}");
    let events = ana.get("/events?type=session.released").await.ok().data();
    assert_eq!(events.as_array().unwrap().len(), 3, "the usual event, and none for what was refused");
}

#[tokio::test]
async fn another_token_of_the_same_member_may_and_another_member_may_not() {
    let server = Server::start();
    let (ana, also_ana, ben) = (server.as_user("ana").await, server.as_user("ana").await, server.as_user("ben").await);
    let session = ana.claim("review-1", json!({})).await.created().session();
    let refused = ben.release_lock("review-1").await.refused(403, "not_session_holder");
    assert_eq!(refused.json()["holder"]["user"]["name"], "ana");
    assert_eq!(ana.environment("review-1").await.data()["lock"]["sessionId"], session);
    assert_eq!(also_ana.release_lock("review-1").await.ok().session(), session);
}

#[tokio::test]
async fn a_maintainer_releases_anybody_s_and_the_next_in_the_queue_gets_it() {
    let server = Server::start();
    let (ana, ben, mia) = (server.as_user("ana").await, server.as_user("ben").await, server.as_user("mia").await);
    let first = ana.claim("review-1", json!({})).await.created().session();
    let queued = ben.claim("review-1", json!({ "queue": true })).await.has_status(202).session();
    ben.release_lock("review-1").await.refused(403, "not_session_holder");
    let released = mia.release_lock("review-1").await.ok().data();
    assert_has(&released, json!({ "sessionId": first, "lockStatus": "released" }));
    assert_eq!(released["endedBy"]["name"], "mia");
    assert_eq!(ben.session("review-1", &queued).await.ok().data()["lockStatus"], "active");
    // The previous holder no longer has a lock, and cannot release another one's.
    ana.release_lock("review-1").await.refused(403, "not_session_holder");
}

#[tokio::test]
async fn what_is_not_there_or_not_held_is_said_as_it_is() {
    let server = Server::start();
    let (ana, mia) = (server.as_user("ana").await, server.as_user("mia").await);
    ana.release_lock("nowhere").await.refused(404, "environment_not_found");
    ana.delete("/pipelines/none/ephemeral-environments/review-1/lock").await.refused(404, "pipeline_not_found");
    ana.delete(&format!("{}/lock?force=1", at("review-1"))).await.refused(400, "invalid_parameter");
    mia.put(&at("off"), json!({ "disabled": true })).await.created();
    ana.release_lock("off").await.refused(404, "lock_not_found");
    let path = ana.path(&format!("{}/lock", at("review-1")));
    let refused = ana.send(ana.request(Method::GET, &path)).await.refused(405, "method_not_allowed");
    assert_eq!(refused.header("allow"), "DELETE");
    // The older form of the path, and the page of the problem.
    let old = path.strip_prefix("/api/v1").unwrap().to_owned();
    ana.claim("review-1", json!({})).await.created();
    ana.send(ana.request(Method::DELETE, &old)).await.ok();
    let page = ana.send(ana.request(Method::GET, "/problems/lock_not_found")).await.ok();
    assert!(page.text.contains("lock"), "{page:?}");
}

#[tokio::test]
async fn of_many_releases_at_once_one_is_the_release() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    for _ in 0..10 {
        let session = ana.claim("review-1", json!({})).await.created().session();
        let releases = futures_util::future::join_all((0..8).map(|_| ana.release_lock("review-1"))).await;
        let (done, refused): (Vec<_>, Vec<_>) = releases.into_iter().partition(|answer| answer.status == 200);
        assert_eq!(done.iter().map(Answer::session).collect::<Vec<_>>(), [session]);
        assert!(refused.into_iter().all(|answer| answer.problem() == (404, "lock_not_found".to_owned())));
    }
}

#[tokio::test]
async fn a_released_lock_stays_released_when_the_server_is_killed() {
    let mut server = Server::start();
    let ana = server.as_user("ana").await;
    let session = ana.claim("review-1", json!({})).await.created().session();
    ana.release_lock("review-1").await.ok();
    server.kill();
    server.start_again();
    let ana = ana.at(&server);
    assert_eq!(ana.environment("review-1").await.ok().data()["lockStatus"], "unlocked");
    assert_eq!(ana.session("review-1", &session).await.ok().data()["lockStatus"], "released");
    ana.release_lock("review-1").await.refused(404, "lock_not_found");
}

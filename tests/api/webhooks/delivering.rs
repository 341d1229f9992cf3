//! Successful and failed deliveries.

use serde_json::{Value, json};

use super::receiver::{OTHER_SECRET, Receiver, event_ids};
use super::{cycle, deliveries, make, only_delivery, server, setup, until, webhook};
use crate::support::{assert_fields, assert_has, assert_is_time};

const OK: &str = r#"{ "status": 200 }"#;

fn ok() -> Value {
    serde_json::from_str(OK).unwrap()
}

#[tokio::test]
async fn what_happens_arrives_signed_and_only_where_it_is_wanted() {
    let Some(receiver) = Receiver::start() else { return };
    let server = server("[0]");
    let admin = server.admin();
    for path in ["/sessions", "/releases"] {
        receiver.plan(path, json!([]), ok()).await;
    }
    let sessions = make(&admin, &receiver.url("/sessions?key=value"), json!(["session.*"])).await;
    make(&admin, &receiver.url("/releases"), json!(["session.released"])).await;
    let ana = server.as_user("ana").await;
    for _ in 0..5 {
        cycle(&ana, "review-1").await;
    }
    let seen = receiver.seen("/sessions", 10).await;
    let mut ids = event_ids(&seen);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 10, "each once");
    let claimed = seen.iter().find(|entry| entry["body"]["type"] == "session.claimed").unwrap();
    assert_eq!((&claimed["path"], &claimed["signatures"]), (&json!("/sessions?key=value"), &json!(1)));
    assert_fields(&claimed["body"], "type timestamp data");
    let event = &claimed["body"]["data"];
    assert_eq!(event["at"], claimed["body"]["timestamp"]);
    assert_is_time(&event["at"]);
    assert_has(event, json!({ "pipelineId": "web", "envName": "review-1", "type": "session.claimed" }));
    assert_has(&event["actor"], json!({ "kind": "user", "name": "ana" }));
    let released = receiver.seen("/releases", 5).await;
    assert!(released.iter().all(|entry| entry["body"]["type"] == "session.released"), "{released:#?}");
    event_ids(&released);

    let log =
        until(|| deliveries(&admin, &sessions), |log| log.iter().all(|entry| entry["status"] == "delivered")).await;
    assert_eq!(log.len(), 10);
    let events: Vec<_> = log.iter().map(|entry| entry["eventId"].as_str().unwrap()).collect();
    assert!(events.is_sorted_by(|newer, older| newer > older), "newest first: {events:?}");
    assert_fields(&log[0], "deliveryId eventId type status attempts nextAttemptAt createdAt");
    let [attempt] = log[0]["attempts"].as_array().unwrap().as_slice() else { panic!("{:#}", log[0]) };
    assert_fields(attempt, "at durationMs statusCode error responseExcerpt");
    assert_has(attempt, json!({ "statusCode": 200, "error": null }));
    let one = admin.get(&format!("/webhooks/{sessions}/deliveries/{}", log[0]["deliveryId"].as_str().unwrap())).await;
    assert_eq!(one.ok().data(), log[0]);
    let shown = webhook(&admin, &sessions).await;
    assert_has(&shown["lastDelivery"], json!({ "status": "delivered", "statusCode": 200 }));
    assert_has(&shown, json!({ "pendingDeliveries": 0, "failingSince": null, "missedEvents": 0 }));
    let page = admin.get(&format!("/webhooks/{sessions}/deliveries?status=delivered&limit=3&offset=9")).await.ok();
    assert_eq!(page.json()["pagination"], json!({ "limit": 3, "offset": 9, "total": 10 }));
    assert_eq!(page.data().as_array().unwrap().len(), 1);
    let none = admin.get(&format!("/webhooks/{sessions}/deliveries?status=failed")).await.ok();
    assert_eq!(none.data(), json!([]));
}

#[tokio::test]
async fn what_fails_is_tried_again_under_the_same_id_until_it_arrives() {
    let Some(receiver) = Receiver::start() else { return };
    let server = server("[0, 0, 0]");
    let admin = server.admin();
    let failures = json!([{ "status": 500, "body": "no \u{1b}[31mdatabase" }, { "status": 404 }]);
    receiver.plan("/hook", failures, ok()).await;
    let id = make(&admin, &receiver.url("/hook"), json!(["session.claimed"])).await;
    admin.claim("review-1", json!({})).await.created();
    let seen = receiver.seen("/hook", 3).await;
    let mut ids = event_ids(&seen);
    ids.dedup();
    assert_eq!((seen.len(), ids.len()), (3, 1));
    assert!(seen.iter().all(|entry| entry["body"] == seen[0]["body"]), "always the same");
    let delivery = only_delivery(&admin, &id, |delivery| delivery["status"] == "delivered").await;
    let codes: Vec<_> = delivery["attempts"].as_array().unwrap().iter().map(|a| a["statusCode"].clone()).collect();
    assert_eq!(codes, [500, 404, 200]);
    let first = &delivery["attempts"][0];
    assert_has(first, json!({ "error": "it was answered with status 500", "responseExcerpt": "no  [31mdatabase" }));
    assert_eq!((&delivery["eventId"], &delivery["nextAttemptAt"]), (&json!(ids[0]), &Value::Null));
    assert_eq!(webhook(&admin, &id).await["failingSince"], Value::Null);
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_not_followed() {
    let Some(receiver) = Receiver::start() else { return };
    let server = server("[]");
    let admin = server.admin();
    let redirect = |status| json!({ "status": status, "headers": { "location": receiver.url("/inside") } });
    for status in [301, 302, 303, 307, 308] {
        let path = format!("/redirect-{status}");
        receiver.plan(&path, json!([]), redirect(status)).await;
        let id = make(&admin, &receiver.url(&path), json!(["session.claimed"])).await;
        cycle(&admin, "review-1").await;
        let delivery = only_delivery(&admin, &id, |delivery| delivery["status"] == "failed").await;
        let error = delivery["attempts"][0]["error"].as_str().unwrap();
        assert!(error.contains("redirect") && error.contains(&status.to_string()), "{error}");
        admin.delete(&format!("/webhooks/{id}")).await.has_status(204);
    }
    assert!(receiver.seen_by_now("/inside").await.is_empty());
}

#[tokio::test]
async fn a_receiver_can_ask_for_time() {
    let Some(receiver) = Receiver::start() else { return };
    let server = server("[0]");
    let admin = server.admin();
    for (status, path) in [(429, "/limited"), (503, "/unavailable")] {
        let later = json!([{ "status": status, "headers": { "retry-after": "900" } }]);
        receiver.plan(path, later, ok()).await;
        let id = make(&admin, &receiver.url(path), json!(["session.claimed"])).await;
        cycle(&admin, "review-1").await;
        let delivery = only_delivery(&admin, &id, |delivery| delivery["attempts"] != json!([])).await;
        assert_eq!(delivery["status"], "pending");
        let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second();
        let wait = time(&delivery["nextAttemptAt"]) - time(&delivery["attempts"][0]["at"]);
        assert!((899..=910).contains(&wait), "{wait} s");
        // A member may want it sooner.
        let again = format!("/webhooks/{id}/deliveries/{}/redeliver", delivery["deliveryId"].as_str().unwrap());
        assert_eq!(admin.post(&again, json!({})).await.has_status(202).data()["status"], "pending");
        only_delivery(&admin, &id, |delivery| delivery["status"] == "delivered").await;
        assert_eq!(event_ids(&receiver.seen(path, 2).await).len(), 2);
        admin.delete(&format!("/webhooks/{id}")).await.has_status(204);
    }
}

#[tokio::test]
async fn a_receiver_that_hangs_holds_up_nobody_else() {
    let Some(receiver) = Receiver::start() else { return };
    let server = setup("[0]", "timeout_seconds = 60\n").start();
    let admin = server.admin();
    receiver.plan("/hangs", json!([]), json!({ "hang": true, "status": 200 })).await;
    receiver.plan("/works", json!([]), ok()).await;
    let hangs = make(&admin, &receiver.url("/hangs"), json!(["session.*"])).await;
    make(&admin, &receiver.url("/works"), json!(["session.*"])).await;
    for _ in 0..20 {
        cycle(&admin, "review-1").await;
    }
    assert_eq!(event_ids(&receiver.distinct("/works", 200, 40).await).len(), 40);
    let waiting = deliveries(&admin, &hangs).await;
    assert!(waiting.len() == 40 && waiting.iter().all(|delivery| delivery["attempts"] == json!([])), "{waiting:#?}");
    let under_way = receiver.seen_by_now("/hangs").await.len();
    assert!((1..=4).contains(&under_way), "{under_way} at once");
    receiver.release().await;
    until(|| webhook(&admin, &hangs), |shown| shown["pendingDeliveries"] == 0).await;
    assert_eq!(event_ids(&receiver.seen("/hangs", 40).await).len(), 40);
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_in_time_has_failed() {
    let Some(receiver) = Receiver::start() else { return };
    let server = setup("[0, 0]", "timeout_seconds = 1\n").start();
    let admin = server.admin();
    receiver.plan("/hook", json!([{ "hang": true }]), ok()).await;
    let id = make(&admin, &receiver.url("/hook"), json!(["session.claimed"])).await;
    admin.claim("review-1", json!({})).await.created();
    let delivery = only_delivery(&admin, &id, |delivery| delivery["status"] == "delivered").await;
    let first = &delivery["attempts"][0];
    assert_eq!(first["statusCode"], Value::Null);
    assert!(first["error"].as_str().unwrap().contains(" does not answer, or has no public address"), "{first}");
}

#[tokio::test]
async fn what_counts_is_the_status_however_long_its_body_takes_or_is() {
    let Some(receiver) = Receiver::start() else { return };
    let server = server("[]");
    let admin = server.admin();
    let slow = json!({ "status": 202, "body": "begun", "slow_body": 100 });
    for (path, answer) in [("/slow", slow), ("/huge", json!({ "status": 200, "huge": 8_000_000 }))] {
        receiver.plan(path, json!([]), answer).await;
        let id = make(&admin, &receiver.url(path), json!(["session.claimed"])).await;
        cycle(&admin, "review-1").await;
        let delivery = only_delivery(&admin, &id, |delivery| delivery["status"] == "delivered").await;
        let excerpt = delivery["attempts"][0]["responseExcerpt"].as_str().unwrap();
        assert!(excerpt == "begun" || excerpt == "x".repeat(1_024), "{path}: {excerpt}");
        admin.delete(&format!("/webhooks/{id}")).await.has_status(204);
    }
}

#[tokio::test]
async fn while_a_secret_is_replaced_both_sign_and_then_only_the_new_one() {
    let Some(receiver) = Receiver::start() else { return };
    let server = server("[0]");
    let admin = server.admin();
    receiver.plan("/hook", json!([]), ok()).await;
    let id = make(&admin, &receiver.url("/hook"), json!(["session.claimed"])).await;
    cycle(&admin, "review-1").await;
    event_ids(&receiver.seen("/hook", 1).await);
    let rotate = format!("/webhooks/{id}/rotate-secret");
    let rotated = admin.post(&rotate, json!({ "secret": OTHER_SECRET })).await.ok().data();
    assert_eq!(rotated["secret"], OTHER_SECRET);
    assert_is_time(&rotated["previousSecretExpiresAt"]);
    // Both signatures are verified from now on.
    receiver.plan_with("/hook", &[super::SECRET, OTHER_SECRET], json!([]), ok()).await;
    cycle(&admin, "review-1").await;
    let seen = receiver.seen("/hook", 2).await;
    event_ids(&seen);
    assert_eq!(seen[1]["signatures"], 2);
    let newest = admin.post(&rotate, json!({ "graceSeconds": 0 })).await.ok().data()["secret"].clone();
    let newest = newest.as_str().unwrap();
    receiver.plan_with("/hook", &[super::SECRET, OTHER_SECRET, newest], json!([]), ok()).await;
    cycle(&admin, "review-1").await;
    let seen = receiver.seen("/hook", 3).await;
    assert_eq!((&seen[2]["verified"], &seen[2]["signatures"]), (&json!([false, false, true]), &json!(1)));
}

#[tokio::test]
async fn a_webhook_can_be_tried_out() {
    let Some(receiver) = Receiver::start() else { return };
    let server = server("[0, 0]");
    let admin = server.admin();
    receiver.plan("/hook", json!([{ "status": 418, "body": "teapot" }]), ok()).await;
    let id = make(&admin, &receiver.url("/hook"), json!(["session.claimed"])).await;
    let test = format!("/webhooks/{id}/test");
    let failed = admin.post(&test, json!({})).await.ok().data();
    assert_fields(&failed, "at durationMs statusCode error responseExcerpt");
    assert_has(&failed, json!({ "statusCode": 418, "responseExcerpt": "teapot" }));
    super::patch(&admin, &format!("/webhooks/{id}"), json!({ "enabled": false })).await.ok();
    let passed = admin.post_with_key(&test, "once", json!({})).await.ok();
    assert_has(&passed.data(), json!({ "statusCode": 200, "error": null }));
    let replayed = admin.post_with_key(&test, "once", json!({})).await.ok();
    assert_eq!((replayed.data(), replayed.header("idempotency-replayed")), (passed.data(), "true"));
    let seen = receiver.seen_by_now("/hook").await;
    assert_eq!(seen.len(), 2, "neither retried nor repeated");
    for entry in &seen {
        assert_eq!(entry["verified"], json!([true]));
        assert_has(&entry["body"], json!({ "type": "webhook.test", "data": { "webhookId": id } }));
    }
    assert!(deliveries(&admin, &id).await.is_empty());
}

#[tokio::test]
async fn what_arrived_can_be_sent_again() {
    let Some(receiver) = Receiver::start() else { return };
    let server = server("[0]");
    let admin = server.admin();
    receiver.plan("/hook", json!([]), ok()).await;
    let id = make(&admin, &receiver.url("/hook"), json!(["session.claimed"])).await;
    cycle(&admin, "review-1").await;
    let delivery = only_delivery(&admin, &id, |delivery| delivery["status"] == "delivered").await;
    let again = format!("/webhooks/{id}/deliveries/{}/redeliver", delivery["deliveryId"].as_str().unwrap());
    let asked = admin.post_with_key(&again, "once", json!({})).await.has_status(202);
    let replayed = admin.post_with_key(&again, "once", json!({})).await.has_status(202);
    assert_eq!((&replayed.text, replayed.header("idempotency-replayed")), (&asked.text, "true"));
    let mut ids = event_ids(&receiver.seen("/hook", 2).await);
    ids.dedup();
    assert_eq!(ids.len(), 1, "under the same id");
    let twice = |delivery: &Value| delivery["attempts"].as_array().unwrap().len() == 2;
    assert_eq!(only_delivery(&admin, &id, twice).await["status"], "delivered");
    assert_eq!(webhook(&admin, &id).await["pendingDeliveries"], 0);
}

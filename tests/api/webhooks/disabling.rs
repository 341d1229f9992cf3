//! Receivers that are gone or fail for long, and the consequences for their webhooks.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::receiver::{Receiver, event_ids};
use super::{cycle, make, only_delivery, patch, server, setup, until, webhook};
use crate::support::assert_has;

#[tokio::test]
async fn a_receiver_that_is_gone_is_sent_nothing_more_until_somebody_enables_it_again() {
    let Some(receiver) = Receiver::start() else { return };
    let server = server("[0, 0, 0]");
    let admin = server.admin();
    receiver.plan("/gone", json!([{ "status": 410 }]), json!({ "status": 200 })).await;
    receiver.plan("/audit", json!([]), json!({ "status": 200 })).await;
    make(&admin, &receiver.url("/audit"), json!(["webhook.disabled"])).await;
    let id = make(&admin, &receiver.url("/gone"), json!(["session.claimed"])).await;
    cycle(&admin, "review-1").await;
    let disabled = until(|| webhook(&admin, &id), |shown| shown["enabled"] == false).await;
    assert_has(&disabled, json!({ "disabledReason": "its receiver answered 410 Gone", "pendingDeliveries": 0 }));
    let told = receiver.seen("/audit", 1).await[0]["body"]["data"].clone();
    assert_has(&told, json!({ "type": "webhook.disabled" }));
    assert_has(&told["actor"], json!({ "kind": "system", "userId": null }));
    assert_eq!(told["data"]["webhookId"], id.as_str());
    assert!(server.log().contains("a webhook was disabled") && server.log().contains(&id));

    let delivery = only_delivery(&admin, &id, |delivery| delivery["status"] == "failed").await;
    let again = format!("/webhooks/{id}/deliveries/{}/redeliver", delivery["deliveryId"].as_str().unwrap());
    admin.post(&again, json!({})).await.refused(409, "webhook_disabled");
    cycle(&admin, "review-2").await;
    cycle(&admin, "review-3").await;
    assert_eq!(receiver.seen_by_now("/gone").await.len(), 1);

    patch(&admin, &format!("/webhooks/{id}"), json!({ "enabled": true })).await.ok();
    let seen = receiver.seen("/gone", 3).await;
    let caught_up: Vec<_> = seen[1..].iter().map(|entry| &entry["body"]["data"]["envName"]).collect();
    assert_eq!(caught_up.len(), 2);
    assert!(["review-2", "review-3"].iter().all(|name| caught_up.contains(&&json!(name))), "{caught_up:?}");
    admin.post(&again, json!({})).await.has_status(202);
    assert_eq!(event_ids(&receiver.seen("/gone", 4).await)[3], delivery["eventId"]);
}

#[tokio::test]
async fn what_nobody_takes_is_given_up_and_its_webhook_disabled_in_the_end() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = setup("[0, 0]", "disable_after_hours = 0\n").start();
    let admin = server.admin();
    let id = make(&admin, &format!("http://127.0.0.1:{port}/T0P?key=s3cret"), json!(["session.claimed"])).await;
    cycle(&admin, "review-1").await;
    let delivery = only_delivery(&admin, &id, |delivery| delivery["status"] == "failed").await;
    let attempts = delivery["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 3);
    for attempt in attempts {
        assert_eq!(attempt["statusCode"], Value::Null);
        let error = attempt["error"].as_str().unwrap();
        assert!(error.contains(" does not answer, or has no public address") && !error.contains("s3cret"), "{error}");
    }
    let shown = until(|| webhook(&admin, &id), |shown| shown["enabled"] == false).await;
    assert_has(&shown, json!({ "disabledReason": "no delivery had arrived for too long", "pendingDeliveries": 0 }));
    assert_has(&shown["lastDelivery"], json!({ "status": "failed", "statusCode": null }));
    assert!(!server.log().contains("s3cret") && !server.log().contains("T0P"), "{}", server.log());
    let metrics = admin.send(admin.request(reqwest::Method::GET, "/metrics")).await.ok().text;
    for line in ["attempts_total{outcome=\"failed\"} 2", "attempts_total{outcome=\"given_up\"} 1"] {
        assert!(metrics.contains(&format!("lockkeeper_webhook_{line}")), "{metrics}");
    }
}

#[tokio::test]
async fn one_that_failed_for_a_while_and_works_again_is_not_disabled() {
    let Some(receiver) = Receiver::start() else { return };
    let server = server("[]");
    let admin = server.admin();
    receiver.plan("/hook", json!([{ "status": 500 }, { "status": 500 }]), json!({ "status": 200 })).await;
    let id = make(&admin, &receiver.url("/hook"), json!(["session.claimed"])).await;
    cycle(&admin, "review-1").await;
    let failing = until(|| webhook(&admin, &id), |shown| shown["failingSince"] != Value::Null).await;
    assert_eq!(failing["enabled"], true);
    cycle(&admin, "review-1").await;
    let still = until(|| webhook(&admin, &id), |shown| shown["lastDelivery"] != failing["lastDelivery"]).await;
    assert_eq!(still["failingSince"], failing["failingSince"]);
    cycle(&admin, "review-1").await;
    until(|| webhook(&admin, &id), |shown| shown["failingSince"] == Value::Null && shown["enabled"] == true).await;
}

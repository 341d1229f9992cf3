//! Addresses that deliveries must not reach unless the operator allows it.

use serde_json::{Value, json};

use super::receiver::{Receiver, SECRET};
use super::{cycle, make, only_delivery, patch};
use crate::support::{Server, Setup};

/// With the operator's defaults, except for the waits.
fn guarded() -> Server {
    Setup::default().variable("LOCKKEEPER_WEBHOOKS_RETRY_SECONDS", "").start()
}

#[tokio::test]
async fn an_address_that_is_not_public_is_refused_in_all_its_spellings() {
    let server = guarded();
    let admin = server.admin();
    let id = make(&admin, "https://receiver.invalid/", json!([])).await;
    for url in [
        "http://127.0.0.1:9/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://0/",
        "http://[::1]:9/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[fd00::1]/",
        "http://[fe80::1]/",
        "http://10.0.0.1/",
        "http://100.64.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "https://192.168.1.1/",
    ] {
        let refused = admin.post("/webhooks", json!({ "url": url })).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), ["url"], "{url}");
        assert!(refused.text.contains("webhooks.allow_private"), "{}", refused.text);
        let changed = patch(&admin, &format!("/webhooks/{id}"), json!({ "url": url })).await;
        assert_eq!(changed.refused(422, "invalid_request").faulty_fields(), ["url"], "{url}");
    }
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_found_out_when_it_is_connected_to() {
    let Some(receiver) = Receiver::start() else { return };
    let server = guarded();
    let admin = server.admin();
    let url = receiver.url("/hook").replace("127.0.0.1", "localhost");
    let id = make(&admin, &url, json!(["session.claimed"])).await;
    cycle(&admin, "review-1").await;
    let delivery = only_delivery(&admin, &id, |delivery| delivery["status"] == "failed").await;
    let tried = admin.post(&format!("/webhooks/{id}/test"), json!({})).await.ok().data();
    for attempt in [&delivery["attempts"][0], &tried] {
        assert_eq!(attempt["statusCode"], Value::Null);
        let error = attempt["error"].as_str().unwrap();
        assert!(error.contains("localhost") && error.contains("no public address"), "{error}");
    }
    assert!(receiver.seen_by_now("/hook").await.is_empty());
}

#[tokio::test]
async fn what_was_allowed_once_is_refused_when_it_no_longer_is() {
    let Some(receiver) = Receiver::start() else { return };
    let allowing = |allowed| {
        let setup = Setup::default().variable("LOCKKEEPER_WEBHOOKS_ALLOW_PRIVATE", allowed);
        setup.variable("LOCKKEEPER_WEBHOOKS_RETRY_SECONDS", "")
    };
    let mut server = allowing("true").start();
    receiver.plan("/hook", json!([]), json!({ "status": 200 })).await;
    let body = json!({ "url": receiver.url("/hook"), "events": ["session.claimed"], "secret": SECRET });
    let id = server.admin().post("/webhooks", body).await.created().data()["webhookId"].as_str().unwrap().to_owned();
    cycle(&server.admin(), "review-1").await;
    receiver.seen("/hook", 1).await;
    assert!(server.terminate().success());
    server.change_setup(|_| allowing("false"));
    server.start_again();
    let admin = server.admin();
    cycle(&admin, "review-1").await;
    let newest = super::until(|| super::deliveries(&admin, &id), |found| found[0]["status"] == "failed").await;
    assert!(newest[0]["attempts"][0]["error"].as_str().unwrap().contains("no public address"), "{newest:#?}");
    assert_eq!(receiver.seen_by_now("/hook").await.len(), 1);
}

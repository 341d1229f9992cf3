//! Creating, changing and deleting webhooks.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use super::receiver::{Receiver, SECRET};
use super::{make, patch, server, webhook};
use crate::support::{Server, assert_fields, assert_has, assert_is_time};

const FIELDS: &str = "webhookId url events description enabled disabledReason disabledAt failingSince pendingDeliveries \
                      missedEvents previousSecretExpiresAt createdAt updatedAt lastDelivery";

#[tokio::test]
async fn a_webhook_is_made_listed_changed_and_deleted() {
    let server = Server::start();
    let admin = server.admin();
    let url = "https://receiver.invalid/hook?a=b";
    let body =
        json!({ "url": url, "events": ["session.*", "deployment.failed"], "description": "chat", "enabled": false });
    let answer = admin.post("/webhooks", body).await.created();
    let made = answer.data();
    assert_fields(&made, &format!("{FIELDS} secret"));
    let id = made["webhookId"].as_str().unwrap();
    assert!(id.starts_with("whk_") && id.len() == 28, "{id}");
    assert_eq!(answer.header("location"), format!("/api/v1/organizations/acme/webhooks/{id}"));
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_is_time(&made["createdAt"]);
    assert_has(
        &made,
        json!({ "url": url, "events": ["session.*", "deployment.failed"], "description": "chat", "enabled": false,
                "disabledReason": "a member disabled it", "lastDelivery": null, "pendingDeliveries": 0 }),
    );
    let shown = webhook(&admin, id).await;
    assert_fields(&shown, FIELDS);
    let second = make(&admin, "https://second.invalid/", json!([])).await;
    let list = admin.get("/webhooks?limit=1&offset=1").await.ok().json();
    assert_eq!((&list["data"][0]["webhookId"], &list["pagination"]["total"]), (&json!(second), &json!(2)));

    let changed = patch(&admin, &format!("/webhooks/{id}"), json!({ "events": [], "enabled": true })).await.ok().data();
    assert_fields(&changed, FIELDS);
    assert_has(
        &changed,
        json!({ "url": url, "events": [], "enabled": true, "disabledReason": null, "disabledAt": null }),
    );

    admin.delete(&format!("/webhooks/{id}")).await.has_status(204);
    for (method, rest) in [
        (Method::GET, ""),
        (Method::DELETE, ""),
        (Method::POST, "/test"),
        (Method::POST, "/rotate-secret"),
        (Method::GET, "/deliveries"),
        (Method::GET, "/deliveries/dlv_0199f3c2a4b07f3e9d2c5a1b"),
        (Method::POST, "/deliveries/dlv_0199f3c2a4b07f3e9d2c5a1b/redeliver"),
    ] {
        let request = admin.request(method, &admin.path(&format!("/webhooks/{id}{rest}")));
        admin.send(request).await.refused(404, "webhook_not_found");
    }
    patch(&admin, &format!("/webhooks/{id}"), json!({ "enabled": true })).await.refused(404, "webhook_not_found");
    let unknown = format!("/webhooks/{second}/deliveries/dlv_0199f3c2a4b07f3e9d2c5a1b");
    admin.get(&unknown).await.refused(404, "delivery_not_found");
    admin.post(&format!("{unknown}/redeliver"), json!({})).await.refused(404, "delivery_not_found");
}

#[tokio::test]
async fn all_faults_of_a_webhook_are_told_at_once() {
    let server = Server::start();
    let admin = server.admin();
    let body =
        json!({ "url": "ftp://x", "events": ["session.*", "sessions.*", 7], "enabled": "yes", "secret": "s", "x": 1 });
    let mut told = admin.post("/webhooks", body).await.refused(422, "invalid_request").faulty_fields();
    told.sort_unstable();
    assert_eq!(told, ["enabled", "events[1]", "events[2]", "secret", "url", "x"]);
    assert_eq!(admin.post("/webhooks", json!({})).await.faulty_fields(), ["url"]);
    for url in
        ["https://u:p@receiver.invalid/", "https://receiver.invalid/#x", "javascript:alert(1)", "//receiver.invalid"]
    {
        assert_eq!(admin.post("/webhooks", json!({ "url": url })).await.faulty_fields(), ["url"], "{url}");
    }
    let id = make(&admin, "https://receiver.invalid/", json!([])).await;
    let path = format!("/webhooks/{id}");
    patch(&admin, &path, json!({})).await.refused(422, "invalid_request");
    patch(&admin, &path, json!({ "secret": SECRET })).await.refused(422, "invalid_request");
    let rotate = admin.post(&format!("{path}/rotate-secret"), json!({ "graceSeconds": 604_801 })).await;
    assert_eq!(rotate.faulty_fields(), ["graceSeconds"]);
    admin.post(&format!("{path}/test"), json!({ "x": 1 })).await.refused(422, "invalid_request");
    admin.get(&format!("{path}/deliveries?status=lost")).await.refused(400, "invalid_parameter");
}

#[tokio::test]
async fn an_organization_has_fifty_webhooks_at_most() {
    let server = Server::start();
    let admin = server.admin();
    for number in 0..50 {
        let body = json!({ "url": format!("https://receiver.invalid/{number}"), "enabled": false });
        admin.post("/webhooks", body).await.created();
    }
    let body = json!({ "url": "https://receiver.invalid/50" });
    admin.post("/webhooks", body).await.refused(409, "webhook_limit_reached");
}

#[tokio::test]
async fn a_secret_is_shown_once_and_lies_nowhere_in_the_clear() {
    let mut server = server("[]");
    let admin = server.admin();
    let body = json!({ "url": "https://receiver.invalid/T0P-PATH", "secret": SECRET });
    let made = admin.post_with_key("/webhooks", "once", body.clone()).await.created();
    assert_eq!(made.data()["secret"], SECRET);
    let again = admin.post_with_key("/webhooks", "once", body).await.created();
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!((&again.data()["secret"], &again.data()["webhookId"]), (&Value::Null, &made.data()["webhookId"]));
    let path = format!("/webhooks/{}", made.data()["webhookId"].as_str().unwrap());
    let rotated = admin.post_with_key(&format!("{path}/rotate-secret"), "twice", json!({})).await.ok().data();
    let rotated = rotated["secret"].as_str().unwrap().to_owned();
    assert_ne!(rotated, SECRET);
    let again = admin.post_with_key(&format!("{path}/rotate-secret"), "twice", json!({})).await.ok();
    assert_eq!((again.header("idempotency-replayed"), &again.data()["secret"]), ("true", &Value::Null));
    let list = admin.get("/webhooks").await.ok().text;
    assert!(!list.contains("whsec_"), "{list}");
    assert!(server.terminate().success());
    for text in [SECRET, &rotated] {
        let encoded = text.strip_prefix("whsec_").unwrap();
        let raw: Vec<u8> = decode(encoded);
        for part in [encoded.as_bytes(), &raw] {
            assert!(!contains(server.home(), part), "a secret lies in the clear");
        }
    }
    assert!(!server.log().contains("T0P-PATH"), "a log has the host alone");
}

fn decode(text: &str) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

fn contains(folder: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return contains(&path, bytes);
        }
        std::fs::read(&path).unwrap().windows(bytes.len()).any(|window| window == bytes)
    })
}

#[tokio::test]
async fn whatever_is_done_to_a_webhook_is_an_event() {
    let Some(receiver) = Receiver::start() else { return };
    let server = server("[]");
    let admin = server.admin();
    receiver.plan("/all", json!([]), json!({ "status": 200 })).await;
    let watching = make(&admin, &receiver.url("/all"), json!(["webhook.*"])).await;
    let other = make(&admin, "https://other.invalid:8443/secret-path", json!([])).await;
    let path = format!("/webhooks/{other}");
    patch(&admin, &path, json!({ "enabled": false, "description": "x" })).await.ok();
    admin.post(&format!("{path}/rotate-secret"), json!({})).await.ok();
    admin.delete(&path).await.has_status(204);
    let seen = receiver.seen("/all", 5).await;
    let told: Vec<_> = seen.iter().map(|entry| entry["body"]["data"].clone()).collect();
    let mut expected = vec![
        ("webhook.created", &watching, Value::Null),
        ("webhook.created", &other, Value::Null),
        ("webhook.updated", &other, json!("description enabled")),
        ("webhook.updated", &other, json!("secret")),
        ("webhook.deleted", &other, Value::Null),
    ];
    for event in &told {
        let place = expected.iter().position(|(kind, id, changed)| {
            event["type"] == *kind && event["data"]["webhookId"] == **id && event["data"]["changed"] == *changed
        });
        expected.remove(place.unwrap_or_else(|| panic!("not expected: {event:#}")));
        assert_has(&event["actor"], json!({ "kind": "user", "name": "admin" }));
        assert!(!event.to_string().contains("secret-path"), "{event}");
    }
    assert!(expected.is_empty(), "{expected:?}");
}

//! Fields for waiting, leases, labels and limits: each with every kind of invalid value.

use reqwest::Method;
use serde_json::{Value, json};

use super::{assert_untouched, send};
use crate::support::waiting::ANY;
use crate::support::{Client, Server, at};

#[tokio::test]
async fn every_wrong_field_of_a_request_is_named_at_once() {
    let server = Server::start();
    let admin = server.admin();
    let session = format!("{}/sessions/ses_0199f3c2a4b07f3e9d2c5a1b2a", at("review-1"));
    let claim = json!({
        "commitId": 5, "context": [], "ttlSeconds": "60", "waitSeconds": -1, "queue": "yes", "priority": 1.5,
        "labels": {}, "fencingToken": 1,
    });
    let any = json!({
        "commitId": "", "context": "\u{0}", "ttlSeconds": 0, "waitSeconds": 301, "queue": 1, "priority": 101,
        "labels": { "-bad": "x", "good": 3, "empty": "" }, "envName": "review-1",
    });
    let force = json!({ "ttlSeconds": [], "waitSeconds": 5, "queue": true, "priority": 1, "labels": {} });
    let deploy = json!({ "waitSeconds": {}, "fencingToken": -1, "ttlSeconds": 60 });
    let heartbeat = json!({ "fencingToken": "1", "ttlSeconds": 60, "commitId": "c0ffee1" });
    let cases = [
        (
            format!("{}/sessions", at("review-1")),
            claim,
            "commitId context fencingToken labels priority queue ttlSeconds waitSeconds",
        ),
        (
            ANY.to_owned(),
            any,
            "commitId context envName labels.-bad labels.empty labels.good priority queue ttlSeconds waitSeconds",
        ),
        (format!("{}/force-claim", at("review-1")), force, "labels priority queue ttlSeconds waitSeconds"),
        (format!("{session}/deploy"), deploy, "commitId fencingToken ttlSeconds waitSeconds"),
        (format!("{session}/heartbeat"), heartbeat, "commitId fencingToken ttlSeconds"),
    ];
    for (path, body, expected) in cases {
        let refused = admin.post(&path, body).await.refused(422, "invalid_request");
        let mut fields = refused.faulty_fields();
        fields.sort_unstable();
        assert_eq!(fields.join(" "), expected, "{path}");
    }
    let configuration = json!({
        "defaultTtlSeconds": 31_622_401, "maxTtlSeconds": 0, "maxHoldSeconds": "1", "maxQueueLength": 100_001,
        "onRelease": { "commitId": 5, "x": 1 }, "ttlSeconds": 5,
    });
    let refused = admin.put(&at("review-1"), configuration).await.refused(422, "invalid_request");
    let mut fields = refused.faulty_fields();
    fields.sort_unstable();
    let expected =
        "defaultTtlSeconds maxHoldSeconds maxQueueLength maxTtlSeconds onRelease.commitId onRelease.x ttlSeconds";
    assert_eq!(fields.join(" "), expected);
    assert_untouched(&admin).await;
}

#[tokio::test]
async fn a_body_full_of_unknown_fields_gets_a_short_answer() {
    let server = Server::start();
    let body: serde_json::Map<_, _> = (0..5_000).map(|number| (format!("f{number}"), json!(0))).collect();
    let refused = server.admin().claim("review-1", Value::Object(body)).await.refused(422, "invalid_request");
    assert_eq!(refused.faulty_fields().len(), 100);
    assert!(refused.json()["detail"].as_str().unwrap().ends_with("; and 4995 more"), "{}", refused.text);
}

#[tokio::test]
async fn a_field_takes_no_value_of_another_kind() {
    let server = Server::start();
    let admin = server.admin();
    let claims = format!("{}/sessions", at("review-1"));
    let heartbeat = format!("{claims}/ses_0199f3c2a4b07f3e9d2c5a1b2a/heartbeat");
    for (path, field, below, above) in [
        (&*claims, "ttlSeconds", "0", "31622401"),
        (&claims, "waitSeconds", "-1", "301"),
        (&claims, "priority", "-101", "101"),
        (ANY, "ttlSeconds", "0", "31622401"),
        (ANY, "waitSeconds", "-1", "301"),
        (ANY, "priority", "-101", "101"),
        (&heartbeat, "fencingToken", "-1", "9223372036854775808"),
    ] {
        let unfit = [
            below,
            above,
            "0.5",
            "1e308",
            "-1e308",
            "1e-300",
            "123456789012345678901234567890",
            "-9223372036854775809",
            "\"5\"",
            "\"\"",
            "true",
            "[]",
            "[5]",
            "{}",
        ];
        for value in unfit {
            let body = format!(r#"{{"{field}": {value}}}"#);
            let refused = send(&admin, Method::POST, &admin.path(path), body.as_bytes()).await;
            assert_eq!(refused.refused(422, "invalid_request").faulty_fields(), [field], "{body}");
        }
    }
    for (path, field, values) in [
        (&*claims, "queue", ["1", "\"true\"", "[]", "{}"]),
        (ANY, "queue", ["0", "\"\"", "[true]", "{}"]),
        (ANY, "labels", ["null", "[]", "\"size:large\"", "true"]),
    ] {
        for value in values {
            let body = format!(r#"{{"{field}": {value}}}"#);
            let refused = send(&admin, Method::POST, &admin.path(path), body.as_bytes()).await;
            assert_eq!(refused.refused(422, "invalid_request").faulty_fields(), [field], "{body}");
        }
    }
    assert_untouched(&admin).await;
}

#[tokio::test]
async fn a_whole_number_may_be_written_in_any_way() {
    let server = Server::start();
    let admin = server.admin();
    let bodies = [
        r#"{"ttlSeconds": 60.0, "waitSeconds": 0.0, "priority": -0}"#,
        r#"{"ttlSeconds": 6e1, "waitSeconds": -0, "priority": 1e2}"#,
        r#"{"ttlSeconds": null, "waitSeconds": null, "priority": null, "queue": null, "commitId": null, "context": null}"#,
    ];
    for body in bodies {
        for path in [format!("{}/sessions", at("review-1")), ANY.to_owned()] {
            let claimed = send(&admin, Method::POST, &admin.path(&path), body.as_bytes()).await.created();
            release(&admin, &claimed.data()).await;
        }
    }
}

#[tokio::test]
async fn labels_have_bounds_and_unknown_ones_match_nothing() {
    let server = Server::start();
    let admin = server.admin();
    let many = |count: usize| -> Value { (0..count).map(|n| (format!("l{n}"), json!("x"))).collect() };
    let refused = admin.claim_any(json!({ "labels": many(33) })).await;
    assert_eq!(refused.refused(422, "invalid_request").faulty_fields(), ["labels"]);
    let long = "x".repeat(64);
    for (key, value) in [
        ("", "x"),
        ("a b", "x"),
        ("ä", "x"),
        (&*long, "x"),
        (".x", "x"),
        ("x", ""),
        ("x", "a b"),
        ("x", "ä"),
        ("x", &long),
    ] {
        let mut labels = json!({ "size": "large" });
        labels[key] = json!(value);
        let refused = admin.claim_any(json!({ "labels": labels })).await;
        let field = format!("labels.{key}");
        assert_eq!(refused.refused(422, "invalid_request").faulty_fields(), [field]);
    }
    for labels in [many(32), json!({ "SIZE": "large" }), json!({ "size": "LARGE" }), json!({ "x".repeat(63): "x" })] {
        let refused = admin.claim_any(json!({ "labels": labels })).await;
        refused.refused(404, "environment_not_found");
    }
    assert_untouched(&admin).await;
}

async fn release(client: &Client, session: &Value) {
    let (name, id) = (session["envName"].as_str().unwrap(), session["sessionId"].as_str().unwrap());
    client.delete(&format!("{}/sessions/{id}", at(name))).await.ok();
}

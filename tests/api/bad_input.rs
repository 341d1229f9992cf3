//! Malformed and wrong input: every fault is reported as a problem, nothing causes a 5xx, and the server continues to
//! serve.

mod bare_http;
mod fields;

use crate::support::waiting::ANY;
use crate::support::wire::{Wire, head};
use crate::support::{Answer, Client, Server, at};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn a_body_that_is_no_json_is_told_where_it_breaks() {
    let server = Server::start();
    let admin = server.admin();
    let deep_array = "[".repeat(60_000);
    let deep_object = r#"{"a":"#.repeat(10_000);
    let bodies: [&[u8]; 15] = [
        b"{",
        b"  ",
        b"commitId=c0ffee1",
        b"{} {}",
        b"{'commitId': 'x'}",
        br#"{"commitId": "a",}"#,
        br#"{"commitId": "a", "commitId": "b"}"#,
        br#"{"commitId": "a", "commit\u0049d": "b"}"#,
        br#"{"context": "\ud800"}"#,
        b"{\"context\": \"\xff\xfe\"}",
        b"{\"context\": \"\xed\xa0\x80\"}",
        b"{\"context\": \"\0\"}",
        br#"{"context": 1e999}"#,
        deep_array.as_bytes(),
        deep_object.as_bytes(),
    ];
    for (method, path) in bodied(&admin) {
        for body in bodies {
            let shown = String::from_utf8_lossy(&body[..body.len().min(40)]);
            let refused = send(&admin, method.clone(), &path, body).await;
            assert_eq!(refused.problem(), (400, "malformed_json".to_owned()), "{shown} to {path}");
        }
    }
    assert_untouched(&admin).await;
}

#[tokio::test]
async fn a_body_with_wrong_fields_is_told_all_of_them_at_once() {
    let server = Server::start();
    let admin = server.admin();
    let long = "f".repeat(129);
    let cases: [(Value, &[&str]); 12] = [
        (
            json!({ "commitId": 5, "context": [], "colour": "red", "ttlSeconds": 0 }),
            &["commitId", "context", "ttlSeconds", "colour"],
        ),
        (json!({ "commitId": "" }), &["commitId"]),
        (json!({ "commitId": "-rf" }), &["commitId"]),
        (json!({ "commitId": "a b" }), &["commitId"]),
        (json!({ "commitId": "ä" }), &["commitId"]),
        (json!({ "commitId": long }), &["commitId"]),
        (json!({ "context": "\u{0}" }), &["context"]),
        (json!({ "context": "bell\u{7}" }), &["context"]),
        (json!({ "context": "\u{85}", "CommitId": "x" }), &["context", "CommitId"]),
        (json!([]), &["body"]),
        (Value::Null, &["body"]),
        (json!("x"), &["body"]),
    ];
    for (body, expected) in cases {
        for refused in [admin.claim("review-1", body.clone()).await, admin.force_claim("review-1", body.clone()).await]
        {
            let fields = refused.refused(422, "invalid_request").faulty_fields();
            assert_eq!(fields, expected, "{body}");
        }
    }
    let refused = admin.post("/tokens", json!({ "name": "", "expiresAt": 1, "x": 1 })).await;
    assert_eq!(refused.faulty_fields(), ["name", "expiresAt", "x"]);
    assert_untouched(&admin).await;
}

#[tokio::test]
async fn a_body_over_64_kib_is_refused_with_and_without_its_length() {
    let server = Server::start();
    let admin = server.admin();
    let fits = format!(r#"{{"commitId": "c0ffee1"{}}}"#, " ".repeat(64 * 1024 - 23));
    assert_eq!(fits.len(), 64 * 1024);
    for (method, path) in bodied(&admin) {
        let too_large = format!("{fits} ").into_bytes();
        let announced = send(&admin, method.clone(), &path, &too_large).await;
        announced.refused(413, "body_too_large");
        let mut wire = Wire::open(&server).await;
        let head = head(method.as_str(), &path);
        wire.send(format!("{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")).await;
        for chunk in too_large.chunks(0x8000) {
            wire.send(format!("{:x}\r\n", chunk.len())).await;
            wire.send(chunk).await;
            wire.send("\r\n").await;
        }
        wire.answer().await.unwrap().refused(413, "body_too_large");
    }
    assert_untouched(&admin).await;
    let path = admin.path(&format!("{}/sessions", at("review-1")));
    send(&admin, Method::POST, &path, fits.as_bytes()).await.created();
}

#[tokio::test]
async fn a_body_of_another_media_type_is_refused() {
    let server = Server::start();
    let admin = server.admin();
    let unfit: [&[(&str, &str)]; 6] = [
        &[],
        &[("content-type", "text/plain")],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[("content-type", "application/json; charset=latin1")],
        &[("content-type", "application/jsonx")],
        &[("content-type", "application/json"), ("content-encoding", "gzip")],
    ];
    for (method, path) in bodied(&admin) {
        for headers in unfit {
            let request = admin.request(method.clone(), &path).body("{}");
            let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            admin.send(request).await.refused(415, "unsupported_media_type");
        }
    }
    assert_untouched(&admin).await;
    for (environment, fit) in [("review-1", "application/json; charset=\"UTF-8\""), ("review-2", "APPLICATION/JSON")] {
        let path = admin.path(&format!("{}/sessions", at(environment)));
        let request = admin.request(Method::POST, &path).header("content-type", fit).body("{}");
        admin.send(request).await.created();
    }
}

#[tokio::test]
async fn a_method_that_a_path_does_not_have_is_told_which_it_has() {
    let server = Server::start();
    let admin = server.admin();
    let document = admin.send(admin.request(Method::GET, "/api/v1/openapi.json")).await.ok().json();
    let mut paths: Vec<(String, Vec<String>)> = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().keys().filter(|key| *key != "parameters");
        let mut allowed: Vec<_> = methods.map(|method| method.to_uppercase()).collect();
        if allowed.contains(&"GET".to_owned()) {
            allowed.push("HEAD".to_owned());
        }
        let path = path.replace("{sessionId}", "ses_x").replace(['{', '}'], "");
        if let Some(short) = path.strip_prefix("/api/v1").filter(|short| short.contains("ephemeral")) {
            paths.push((short.to_owned(), allowed.clone()));
        }
        paths.push((path, allowed));
    }
    assert!(paths.len() > 20, "{paths:?}");
    paths.push(("/".to_owned(), vec!["GET".to_owned(), "HEAD".to_owned()]));
    paths.push(("/docs".to_owned(), vec!["GET".to_owned(), "HEAD".to_owned()]));
    paths.push(("/docs/".to_owned(), vec!["GET".to_owned(), "HEAD".to_owned()]));
    for (path, mut allowed) in paths {
        allowed.sort_unstable();
        for method in ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"] {
            // A PUT there explains why no environment can have this name, and a DELETE removes one from an older
            // version.
            let is_reserved = path.ends_with("/ephemeral-environments/sessions");
            if allowed.contains(&method.to_owned()) || is_reserved && ["PUT", "DELETE"].contains(&method) {
                continue;
            }
            let request = admin.request(method.parse().unwrap(), &path);
            let refused = admin.send(request).await;
            assert_eq!(refused.problem(), (405, "method_not_allowed".to_owned()), "{method} {path}");
            let mut told: Vec<_> = refused.header("allow").split(", ").collect();
            told.sort_unstable();
            assert_eq!(told, allowed, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn every_answer_carries_a_request_id_and_a_sane_one_of_the_clients_is_kept() {
    let server = Server::start();
    let admin = server.admin();
    let claim = admin.path(&format!("{}/sessions", at("review-1")));
    let claim_nowhere = claim.replace("review-1", "nowhere");
    let cases = [
        (Method::GET, "/healthz", "", 200),
        (Method::HEAD, "/healthz", "", 200),
        (Method::GET, "/docs/", "", 200),
        (Method::GET, "/docs/nothing.js", "", 404),
        (Method::GET, "/nowhere", "", 404),
        (Method::PATCH, "/healthz", "", 405),
        (Method::POST, &claim, "{", 400),
        (Method::POST, &claim, "[]", 422),
        (Method::POST, &claim_nowhere, "{}", 404),
        (Method::POST, &claim, "{}", 201),
        (Method::POST, &claim, "{}", 409),
    ];
    let longest = "i".repeat(128);
    for (method, path, body, status) in cases {
        let request = || admin.request(method.clone(), path).header("content-type", "application/json");
        let kept: &[&str] = if status == 201 { &[] } else { &["CI-run/42:7#retry", &longest] };
        for id in kept {
            let answer = admin.send(request().header("X-Request-Id", *id).body(body)).await;
            assert_eq!((answer.status.as_u16(), answer.header("x-request-id")), (status, *id), "{path}");
        }
        let unfit: &[&str] = if status == 201 { &[""] } else { &["", "two words", "tab\there", &"i".repeat(129)] };
        let mut seen = Vec::new();
        for id in unfit {
            let answer = admin.send(request().header("X-Request-Id", *id).body(body)).await;
            assert_eq!(answer.status.as_u16(), status, "{path}");
            let made = answer.header("x-request-id").to_owned();
            assert!(made.starts_with("req_") && !seen.contains(&made), "{path}: {made}");
            if answer.status.is_client_error() && method != Method::HEAD {
                assert_eq!(answer.json()["requestId"], made);
            }
            seen.push(made);
        }
    }
}

#[tokio::test]
async fn thousands_of_random_bodies_never_make_a_fault_of_the_servers_own() {
    const SEED: u64 = 0x10C4_4EE9;
    let server = Server::start();
    let admin = server.admin();
    let mut random = StdRng::seed_from_u64(SEED);
    for round in 0..3_000 {
        let targets = bodied(&admin);
        let (method, path) = targets[random.random_range(0..targets.len())].clone();
        let body = random_body(&mut random);
        let answer = send(&admin, method, &path, &body).await;
        let status = answer.status.as_u16();
        let shown = String::from_utf8_lossy(&body);
        assert!((200..500).contains(&status), "seed {SEED:#x}, round {round}: {status} for {shown}");
        if status >= 400 {
            answer.problem();
        }
    }
    admin.environment("review-1").await.ok();
}

/// Noise, a valid body with some bytes changed, or JSON tokens in any order.
fn random_body(random: &mut StdRng) -> Vec<u8> {
    const GOOD: &[u8] = br#"{"commitId": "c0ffee1", "context": "PR \u0034", "labels": {"a": "b"}, "name": "t"}"#;
    const WORDS: [&str; 26] = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"commitId\"",
        "\"context\"",
        "\"configuration\"",
        "\"labels\"",
        "\"priority\"",
        "\"queue\"",
        "\"ttlSeconds\"",
        "\"waitSeconds\"",
        "\"fencingToken\"",
        "\"onRelease\"",
        "\"name\"",
        "null",
        "true",
        "-1e5",
        "\"\"",
        "\"x\"",
        "\"\\u0000\"",
        "\"\\ud83d\\ude80\"",
        "{\"commitId\":",
        "{\"name\":\"x\",",
    ];
    match random.random_range(0..3) {
        0 => (0..random.random_range(1..200)).map(|_| random.random()).collect(),
        1 => {
            let mut body = GOOD.to_vec();
            for _ in 0..random.random_range(0..4) {
                let place = random.random_range(0..body.len());
                body[place] = random.random();
            }
            body.truncate(random.random_range(1..=GOOD.len() * 2));
            body
        }
        _ => {
            let words = (0..random.random_range(1..12)).map(|_| WORDS[random.random_range(0..WORDS.len())]);
            words.collect::<String>().into_bytes()
        }
    }
}

/// Every operation that reads a body.
fn bodied(client: &Client) -> Vec<(Method, String)> {
    let environment = client.path(&at("review-1"));
    vec![
        (Method::POST, format!("{environment}/sessions")),
        (Method::POST, format!("{environment}/force-claim")),
        (Method::POST, client.path(ANY)),
        (Method::POST, format!("{environment}/sessions/ses_0199f3c2a4b07f3e9d2c5a1b2a/deploy")),
        (Method::POST, format!("{environment}/sessions/ses_0199f3c2a4b07f3e9d2c5a1b2a/heartbeat")),
        (Method::PUT, environment),
        (Method::POST, client.path("/step-registries")),
        (Method::POST, client.path("/tokens")),
        (Method::POST, client.path("/deployments/dep_0199f3c2a4b07f3e9d2c5a1b/analyses")),
        (Method::POST, client.path("/analyses/anl_0199f3c2a4b07f3e9d2c5a1b/fix-pull-request")),
        (Method::POST, client.path("/members")),
        (Method::PATCH, client.path("/members/usr_0199f3c2a4b07f3e9d2c5a1b")),
    ]
}

async fn send(client: &Client, method: Method, path: &str, body: &[u8]) -> Answer {
    let request = client.request(method, path).header("content-type", "application/json");
    client.send(request.body(body.to_vec())).await
}

/// No refused request has left a trace.
async fn assert_untouched(admin: &Client) {
    let environment = admin.environment("review-1").await.ok();
    assert_eq!(environment.header("etag"), "\"1.1.0\"", "{environment:?}");
    assert_eq!(admin.get("/tokens").await.ok().json()["pagination"]["total"], 1);
    assert_eq!(admin.get("/members").await.ok().json()["pagination"]["total"], 5);
}

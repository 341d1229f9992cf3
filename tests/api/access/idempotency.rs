//! `Idempotency-Key` for creating tokens: a retry gets the first answer again, and creates nothing.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Client, Server};

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";

#[tokio::test]
async fn a_retry_gets_the_first_answer_again_without_the_tokens_text() {
    let server = Server::start();
    let admin = server.admin();
    let first = make(&admin, KEY, "ci").await.created();
    assert_eq!(first.header("idempotency-replayed"), "");
    let text = first.data()["token"].as_str().unwrap().to_owned();
    let again = make(&admin, KEY, "ci").await;
    assert_is_replay(&again, &first);
    assert!(!again.text.contains(&text[3..35]));
    assert_eq!(make(&admin, KEY, "ci").await.text, again.text);
    assert_ne!(again.header("x-request-id"), first.header("x-request-id"));
    assert_eq!(tokens(&admin).await, 2, "the bootstrap token and this one");
    server.with_token(&text).get("/pipelines").await.ok();

    let other = make(&admin, "another-key", "ci").await.created();
    assert_ne!(other.header("location"), first.header("location"));
    let unkeyed = admin.post("/tokens", json!({ "name": "ci" })).await.created();
    assert_eq!((unkeyed.header("idempotency-replayed"), tokens(&admin).await), ("", 4));
}

#[tokio::test]
async fn an_answer_that_was_kept_survives_a_kill() {
    let mut server = Server::start();
    let first = make(&server.admin(), KEY, "ci").await.created();
    for _ in 0..2 {
        server.kill();
        server.start_again();
        let admin = server.admin();
        assert_is_replay(&make(&admin, KEY, "ci").await, &first);
        make(&admin, KEY, "other").await.refused(422, "idempotency_key_reused");
        assert_eq!(tokens(&admin).await, 2);
    }
    // Keys kept after a restart do not replace those kept before.
    make(&server.admin(), "another-key", "ci").await.created();
    assert_is_replay(&make(&server.admin(), KEY, "ci").await, &first);
}

#[tokio::test]
async fn a_key_is_for_one_request_of_one_token() {
    let server = Server::start();
    let admin = server.admin();
    let first = make(&admin, KEY, "ci").await.created();
    let refused = make(&admin, KEY, "other").await.refused(422, "idempotency_key_reused");
    assert!(refused.json()["detail"].as_str().unwrap().contains("Idempotency-Key"), "{refused:?}");
    // The server treats it as the same request, but its text differs from the first one.
    let respelled = admin.request(Method::POST, &admin.path("/tokens/")).json(&json!({ "name": "ci" }));
    let refused = admin.send(respelled.header("Idempotency-Key", KEY)).await;
    refused.refused(422, "idempotency_key_reused");
    assert_is_replay(&make(&admin, KEY, "ci").await, &first);

    let second = server.with_token(first.data()["token"].as_str().unwrap());
    let made = make(&second, KEY, "ci").await.created();
    assert_eq!(made.header("idempotency-replayed"), "");
    assert_ne!(made.header("location"), first.header("location"));
}

#[tokio::test]
async fn a_refused_request_frees_its_key() {
    let server = Server::start();
    let admin = server.admin();
    let wrong = admin.post_with_key("/tokens", KEY, json!({ "name": "" })).await;
    assert_eq!(wrong.refused(422, "invalid_request").faulty_fields(), ["name"]);
    let mended = make(&admin, KEY, "ci").await.created();
    assert_eq!(mended.header("idempotency-replayed"), "");
}

#[tokio::test]
async fn a_malformed_key_is_refused_by_name() {
    let server = Server::start();
    let admin = server.admin();
    let post = || admin.request(Method::POST, &admin.path("/tokens")).json(&json!({ "name": "ci" }));
    let long = "k".repeat(129);
    for keys in [&[""][..], &["a b"], &[&long], &["clé"], &["once", "once"]] {
        let request = keys.iter().fold(post(), |request, key| request.header("Idempotency-Key", *key));
        let refused = admin.send(request).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), ["Idempotency-Key"], "{keys:?}");
    }
    assert_eq!(tokens(&admin).await, 1);
    make(&admin, &"~".repeat(128), "ci").await.created();
    // It is ignored for requests that can be repeated anyway.
    let read = admin.request(Method::GET, &admin.path("/tokens")).header("Idempotency-Key", "a b");
    admin.send(read).await.ok();
}

#[tokio::test]
async fn however_many_send_a_request_at_once_it_is_executed_once() {
    let server = Server::start();
    let clients: Vec<Client> = (0..16).map(|_| server.admin()).collect();
    let answers = futures_util::future::join_all(clients.iter().map(|client| make(client, KEY, "ci"))).await;
    let mut fresh = 0;
    for answer in &answers {
        if answer.status == 201 {
            fresh += usize::from(answer.header("idempotency-replayed").is_empty());
        } else {
            let told = answer.clone().refused(409, "idempotency_key_in_flight");
            assert_eq!((told.header("retry-after"), &told.json()["retryAfterSeconds"]), ("1", &json!(1)));
        }
    }
    assert_eq!((fresh, tokens(&clients[0]).await), (1, 2));
    make(&clients[0], KEY, "ci").await.created();
}

async fn make(client: &Client, key: &str, name: &str) -> Answer {
    client.post_with_key("/tokens", key, json!({ "name": name })).await
}

async fn tokens(admin: &Client) -> u64 {
    admin.get("/tokens").await.ok().json()["pagination"]["total"].as_u64().unwrap()
}

/// The whole first answer, except the token's text.
fn assert_is_replay(again: &Answer, first: &Answer) {
    assert_eq!((again.status, again.header("idempotency-replayed")), (first.status, "true"), "{again:?}");
    for header in ["location", "content-type"] {
        assert_eq!(again.header(header), first.header(header));
    }
    let mut expected = first.json();
    expected["data"]["token"] = Value::Null;
    assert_eq!(again.json(), expected);
}

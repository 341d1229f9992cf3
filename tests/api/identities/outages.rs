//! Issuers that rotate their keys, are down, or lie about their identity.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{exchange, serve};
use crate::support::Setup;
use crate::support::issuer::{Issuer, JobKey};

#[tokio::test]
async fn a_new_key_is_read_when_a_token_names_it_and_a_withdrawn_one_is_gone_then() {
    let issuer = Issuer::start().await;
    let server = serve(&issuer);
    exchange(&server, &issuer.token(json!({}))).await.ok();
    let next = JobKey::ed25519("second");
    issuer.publish(&[next.public()]);
    exchange(&server, &next.sign(&issuer.claims())).await.ok();
    assert_eq!(issuer.keys_read(), 2);
    exchange(&server, &issuer.token(json!({}))).await.refused(400, "invalid_grant");
}

#[tokio::test]
async fn tokens_with_made_up_keys_do_not_make_the_server_ask_at_will() {
    let issuer = Issuer::start().await;
    let server = serve(&issuer);
    for number in 0..10 {
        let unknown = JobKey::ed25519(&format!("made-up-{number}"));
        exchange(&server, &unknown.sign(&issuer.claims())).await.refused(400, "invalid_grant");
    }
    assert_eq!(issuer.keys_read(), 2, "once at first, and once for an unknown key");
    exchange(&server, &issuer.token(json!({}))).await.ok();
}

#[tokio::test]
async fn while_an_issuer_is_out_its_known_keys_are_used_and_unknown_ones_are_worth_a_retry() {
    let issuer = Issuer::start().await;
    let server = serve(&issuer);
    exchange(&server, &issuer.token(json!({}))).await.ok();
    issuer.answer_with(500);
    exchange(&server, &issuer.token(json!({}))).await.ok();
    let next = JobKey::ed25519("second");
    let answer = exchange(&server, &next.sign(&issuer.claims())).await.refused(503, "issuer_unavailable");
    assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
}

#[tokio::test]
async fn a_server_that_has_never_read_the_keys_says_that_it_cannot() {
    let issuer = Issuer::start().await;
    issuer.answer_with(503);
    let server = serve(&issuer);
    let token = issuer.token(json!({}));
    exchange(&server, &token).await.refused(503, "issuer_unavailable");
    issuer.answer_with(200);
    let deadline = Instant::now() + Duration::from_secs(60);
    while exchange(&server, &token).await.status != 200 {
        assert!(Instant::now() < deadline, "the keys are not read again");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn keys_of_an_issuer_that_calls_itself_otherwise_are_not_used() {
    let issuer = Issuer::start().await;
    issuer.claim_to_be("https://other.example");
    let server = serve(&issuer);
    exchange(&server, &issuer.token(json!({}))).await.refused(503, "issuer_unavailable");
    assert!(server.log().contains("its description is of another issuer"));
    assert_eq!(issuer.keys_read(), 0);
}

#[tokio::test]
async fn keys_are_read_from_where_the_file_says() {
    let (issuer, keys) = (Issuer::start().await, Issuer::start().await);
    let organization = issuer.organization("acme", "");
    let organization = organization.replace("audience", &format!("jwks_url = '{}/keys'\naudience", keys.url()));
    let server = Setup::default().organization(&organization).start();
    exchange(&server, &keys.key.sign(&issuer.claims())).await.ok();
    assert_eq!((issuer.keys_read(), keys.keys_read()), (0, 1));
}

//! An identity token that is exchanged repeatedly.

use serde_json::json;

use super::{exchange, exchanged, serve};
use crate::support::issuer::{Issuer, JobKey};

/// The documented limit.
const EXCHANGES_MAX: usize = 20;

#[tokio::test]
async fn an_identity_token_works_twenty_times_also_across_a_kill_and_after_its_member_was_removed() {
    let issuer = Issuer::start().await;
    let mut server = serve(&issuer);
    let token = issuer.token(json!({}));
    for _ in 0..EXCHANGES_MAX - 1 {
        exchange(&server, &token).await.ok();
    }
    server.kill();
    server.start_again();
    let id = exchanged(&server).await[0]["data"]["userId"].as_str().unwrap().to_owned();
    server.admin().delete(&format!("/members/{id}")).await.has_status(204);
    exchange(&server, &token).await.ok();
    exchange(&server, &token).await.refused(400, "invalid_grant");
    server.kill();
    server.start_again();
    exchange(&server, &token).await.refused(400, "invalid_grant");
    assert!(server.log().contains("has been exchanged 20 times"));
    exchange(&server, &issuer.token(json!({}))).await.ok();
}

#[tokio::test]
async fn many_at_once_count_as_many() {
    let issuer = Issuer::start().await;
    let server = serve(&issuer);
    let token = issuer.token(json!({}));
    let all = futures_util::future::join_all((0..EXCHANGES_MAX + 10).map(|_| exchange(&server, &token))).await;
    assert_eq!(all.iter().filter(|answer| answer.status == 200).count(), EXCHANGES_MAX);
    assert_eq!(exchanged(&server).await.len(), EXCHANGES_MAX);
}

#[tokio::test]
async fn another_spelling_of_the_signature_is_the_same_token() {
    let issuer = Issuer::start().await;
    let key = JobKey::ecdsa("second");
    issuer.publish(&[key.public()]);
    let server = serve(&issuer);
    let claims = issuer.claims();
    // The signatures differ, but the signed part is the same.
    for _ in 0..EXCHANGES_MAX {
        exchange(&server, &key.sign(&claims)).await.ok();
    }
    exchange(&server, &key.sign(&claims)).await.refused(400, "invalid_grant");
}

//! Suggestions for an unknown name, and for an `Authorization` header without a token.

use reqwest::Method;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use serde_json::json;

use crate::support::tenants::acme_and_beta;
use crate::support::{ADMIN_TOKEN, Answer, Server, Setup, at};

fn detail(answer: &Answer) -> String {
    answer.json()["detail"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_environment_that_does_not_exist_is_answered_with_the_one_that_was_meant() {
    let server = Server::start();
    let (admin, vic) = (server.admin(), server.as_user("vic").await);
    for (name, meant) in [("reveiw-1", "review-1"), ("review2", "review-2"), ("REVIEW-3", "review-3")] {
        let expected = format!("the pipeline has no environment with this name; did you mean `{meant}`?");
        for refused in [
            vic.environment(name).await,
            vic.get(&format!("{}/history", at(name))).await,
            vic.get(&format!("{}/queue", at(name))).await,
            admin.claim(name, json!({})).await,
            admin.force_claim(name, json!({})).await,
            admin.delete(&at(name)).await,
        ] {
            assert_eq!(detail(&refused.refused(404, "environment_not_found")), expected);
        }
    }
    let other = detail(&vic.environment("review-9").await.refused(404, "environment_not_found"));
    assert!(other.contains("; it has review-1, review-2, review-3, and a maintainer creates others"), "{other}");
    admin.delete(&at("review-2")).await.has_status(204);
    let without = detail(&vic.environment("review-9").await);
    assert!(without.contains("it has review-1, review-3, and"), "a deleted one is not named: {without}");
    admin.put("/pipelines/empty", json!({})).await.created();
    let none = vic.get("/pipelines/empty/ephemeral-environments/review-1").await.refused(404, "environment_not_found");
    assert_eq!(detail(&none), "the pipeline has no environment yet; a maintainer creates one with PUT");
    let labels = json!({ "labels": { "size": "huge" } });
    let unlabelled = admin.claim_any(labels).await.refused(404, "environment_not_found");
    assert!(detail(&unlabelled).contains("has all these labels"), "{unlabelled:?}");
}

#[tokio::test]
async fn among_many_environments_only_those_that_begin_alike_are_compared() {
    let server = Server::start();
    let admin = server.admin();
    for number in 0..200 {
        admin.put(&at(&format!("env-{number:03}")), json!({})).await.created();
    }
    let meant = detail(&admin.environment("env-150x").await.refused(404, "environment_not_found"));
    assert!(meant.ends_with("did you mean `env-150`?"), "{meant}");
    let far = detail(&admin.environment("env-200").await.refused(404, "environment_not_found"));
    assert!(far.contains("list them, or ask a maintainer"), "{far}");
}

#[tokio::test]
async fn a_pipeline_that_does_not_exist_is_answered_with_the_one_that_was_meant() {
    let (server, bea) = acme_and_beta(Setup::default).await;
    let admin = server.admin();
    admin.put("/pipelines/secretive", json!({})).await.created();
    for path in ["/pipelines/wbe", "/pipelines/wbe/ephemeral-environments/review-1"] {
        let refused = admin.get(path).await.refused(404, "pipeline_not_found");
        assert_eq!(detail(&refused), "the organization has no pipeline with this name; did you mean `web`?");
    }
    let all = detail(&admin.get("/pipelines/backend").await.refused(404, "pipeline_not_found"));
    assert!(all.contains("it has secretive, shop, web, and a maintainer"), "{all}");
    // It is not revealed to others.
    let own = detail(&bea.get("/pipelines/secretiv").await.refused(404, "pipeline_not_found"));
    assert!(!own.contains("secretive"), "{own}");
    let stranger = bea.clone().in_organization("acme");
    for path in ["/pipelines/secretiv", "/pipelines/web/ephemeral-environments/review-9"] {
        let refused = stranger.get(path).await.refused(404, "organization_not_found");
        assert_eq!(detail(&refused), "the token has no access to this organization; it belongs to `beta`");
    }
}

#[tokio::test]
async fn wrong_fields_parameters_types_and_steps_are_answered_with_those_that_were_meant() {
    let server = Server::start();
    let admin = server.admin();
    let step = json!({ "name": "greet", "version": "1.0", "run": ["true"] });
    admin.post("/step-registries", json!({ "name": "tools", "steps": [step] })).await.created();
    let using = |uses: &str| json!({ "stages": [{ "name": "s", "steps": [{ "uses": uses }] }] });
    let webhook = json!({ "url": "https://example.com/", "events": ["session.claim"] });
    for (refused, meant) in [
        (
            admin.claim("review-1", json!({ "ttlsecond": 5 })).await,
            "`ttlsecond` is not a known field; did you mean `ttlSeconds`?",
        ),
        (admin.claim("review-1", json!({ "wait_seconds": 5 })).await, "did you mean `waitSeconds`?"),
        (admin.get("/events?typ=session.*").await, "`typ` is not a known parameter; did you mean `type`?"),
        (admin.get("/events?type=session.claim").await, "did you mean `session.claimed`?"),
        (admin.get("/analyses?status=complete").await, "did you mean `completed`?"),
        (admin.get("/pipelines/web?verbose=1").await, "`verbose` is not a known parameter; there are none here"),
        (admin.post("/webhooks", webhook).await, "did you mean `session.claimed`?"),
        (
            admin.put("/pipelines/web", using("tols/greet@1.0")).await,
            "and there is no registry `tols`; did you mean `tools`?",
        ),
        (admin.put("/pipelines/web", using("tools/gret@1.0")).await, "has no step `gret`; did you mean `greet`?"),
        (admin.put("/pipelines/web", using("tools/greet@1")).await, "has only these versions: 1.0"),
    ] {
        let told = detail(&refused);
        assert!([400, 422].contains(&refused.status.as_u16()) && told.contains(meant), "{meant} is not in {told}");
    }
}

#[tokio::test]
async fn an_authorization_without_a_token_is_told_what_is_wrong_with_it() {
    let server = Server::start();
    let anonymous = server.anonymous();
    let path = anonymous.path("/pipelines");
    let none = anonymous.send(anonymous.request(Method::GET, &path)).await.refused(401, "missing_token");
    assert!(detail(&none).starts_with("there is no `Authorization` header; send `Authorization: Bearer"), "{none:?}");
    for (sent, said) in [
        (ADMIN_TOKEN.to_owned(), "the word `Bearer` is missing before the token; send"),
        (format!("Basic {ADMIN_TOKEN}"), "with the scheme `Bearer`, not with `Basic`; send"),
        (format!("Token {ADMIN_TOKEN}"), "not with `Token`"),
        (format!("Bearer \"{ADMIN_TOKEN}\""), "has quotes in it"),
        (format!("Bearer: {ADMIN_TOKEN}"), "after `Bearer` comes a space"),
        ("Bearer".to_owned(), "there is no token after `Bearer`"),
        ("Bearer lk_…".to_owned(), "the token is a placeholder"),
        ("Bearer $TOKEN".to_owned(), "the name of a variable was sent"),
        ("Bearer <token>".to_owned(), "the token is a placeholder"),
        ("Bearer ghp_0123456789abcdef".to_owned(), "the token does not begin with lk_; send"),
        (format!("Bearer {}", &ADMIN_TOKEN[..38]), "the token is not lk_ and 36 letters or digits"),
        ("Negotiate abcdef".to_owned(), "the token is not sent as it should be; send"),
    ] {
        let value = HeaderValue::from_bytes(sent.as_bytes()).unwrap();
        let request = anonymous.request(Method::GET, &path).header(AUTHORIZATION, value);
        let refused = anonymous.send(request).await.refused(401, "invalid_token");
        assert!(detail(&refused).contains(said), "{sent}: {}", detail(&refused));
        assert!(!refused.text.contains("000000") && !refused.text.contains("ghp_"), "{}", refused.text);
        assert!(refused.header("www-authenticate").starts_with("Bearer "), "{refused:?}");
    }
    assert!(!server.log().contains("000000"), "{}", server.log());
}

//! Permissions: tokens, roles and organizations.

mod idempotency;
mod table;
mod tokens;
mod whoami;

use crate::support::{ADMIN_TOKEN, Answer, Client, Server, Setup, at, lockkeeper};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const ACME: &str = include_str!("../../config/acme.toml");
const BETA: &str = r#"
organization = { id = "beta" }
members = [{ name = "bea", role = "admin" }]
[[pipelines]]
id = "web"
environments = [{ name = "review-1" }]
"#;
const ROLES: [(&str, &str); 4] = [("vic", "viewer"), ("ana", "developer"), ("mia", "maintainer"), ("admin", "admin")];
const SESSION: &str = "ses_0199f3c2a4b07f3e9d2c5a1b2a";
const DEPLOYMENT: &str = "/deployments/dep_0199f3c2a4b07f3e9d2c5a1b";
const ANALYSIS: &str = "/analyses/anl_0199f3c2a4b07f3e9d2c5a1b";
const APPROVAL: &str = "/approvals/apr_0199f3c2a4b07f3e9d2c5a1b";
const WEBHOOK: &str = "/webhooks/whk_0199f3c2a4b07f3e9d2c5a1b";
const DELIVERY: &str = "dlv_0199f3c2a4b07f3e9d2c5a1b";
const REGISTRY: &str = "/step-registries/reg_0199f3c2a4b07f3e9d2c5a1b";
const MEMBER: &str = "/members/usr_0199f3c2a4b07f3e9d2c5a1b";
const QUEUED: &str = "ses_0199f3c2a4b07f3e9d2c5a1bq2a";

/// Operations below an organization, with the lowest role that may use each: method, path, body, role. `table` has all
/// of them.
pub fn operations() -> Vec<(&'static str, String, Value, &'static str)> {
    let (list, session) = ("/pipelines/web/ephemeral-environments", format!("{}/sessions/{SESSION}", at("review-1")));
    vec![
        ("GET", "/pipelines".to_owned(), Value::Null, "viewer"),
        ("GET", "/pipelines/web".to_owned(), Value::Null, "viewer"),
        ("GET", list.to_owned(), Value::Null, "viewer"),
        ("GET", at("review-1"), Value::Null, "viewer"),
        ("GET", format!("{}/history", at("review-1")), Value::Null, "viewer"),
        ("GET", "/sessions".to_owned(), Value::Null, "viewer"),
        ("GET", "/utilisation".to_owned(), Value::Null, "viewer"),
        ("DELETE", format!("{}/lock", at("review-1")), Value::Null, "developer"),
        ("GET", format!("{}/queue", at("review-1")), Value::Null, "viewer"),
        ("GET", session.clone(), Value::Null, "viewer"),
        ("GET", format!("{list}/sessions/{QUEUED}"), Value::Null, "viewer"),
        ("POST", format!("{}/sessions", at("review-1")), json!({}), "developer"),
        ("POST", format!("{list}/sessions"), json!({}), "developer"),
        ("POST", format!("{session}/heartbeat"), json!({}), "developer"),
        ("DELETE", format!("{list}/sessions/{QUEUED}"), Value::Null, "developer"),
        ("POST", format!("{}/force-claim", at("review-1")), json!({}), "developer"),
        ("POST", format!("{session}/deploy"), json!({ "commitId": "c0ffee1" }), "developer"),
        ("DELETE", session, Value::Null, "developer"),
        ("PUT", at("review-1"), json!({}), "maintainer"),
        ("DELETE", at("none"), Value::Null, "maintainer"),
        ("PUT", "/pipelines/new".to_owned(), json!({}), "maintainer"),
        ("POST", "/pipelines/web/stop".to_owned(), json!({}), "maintainer"),
        ("POST", "/pipelines/web/resume".to_owned(), json!({}), "maintainer"),
        ("DELETE", "/pipelines/none".to_owned(), Value::Null, "maintainer"),
        ("GET", "/deployments".to_owned(), Value::Null, "viewer"),
        ("GET", DEPLOYMENT.to_owned(), Value::Null, "viewer"),
        ("GET", format!("{DEPLOYMENT}/logs"), Value::Null, "viewer"),
        ("POST", format!("{DEPLOYMENT}/stages/build/cancel"), json!({}), "developer"),
        ("POST", format!("{DEPLOYMENT}/stages/build/retry"), json!({}), "developer"),
        ("GET", format!("{DEPLOYMENT}/analyses"), Value::Null, "viewer"),
        ("POST", format!("{DEPLOYMENT}/analyses"), json!({}), "developer"),
        ("GET", "/analyses".to_owned(), Value::Null, "viewer"),
        ("GET", ANALYSIS.to_owned(), Value::Null, "viewer"),
        ("POST", format!("{ANALYSIS}/fix-pull-request"), json!({}), "developer"),
        ("GET", "/approvals".to_owned(), Value::Null, "viewer"),
        ("GET", APPROVAL.to_owned(), Value::Null, "viewer"),
        ("POST", format!("{APPROVAL}/approve"), json!({}), "maintainer"),
        ("POST", format!("{APPROVAL}/reject"), json!({}), "maintainer"),
        ("GET", "/events".to_owned(), Value::Null, "viewer"),
        ("GET", "/events/evt_000000000000002a9d2c5a1b".to_owned(), Value::Null, "viewer"),
        // Refused because of the parameter, since a stream has no end to wait for.
        ("GET", "/events/stream?x=1".to_owned(), Value::Null, "viewer"),
        ("GET", "/secrets".to_owned(), Value::Null, "viewer"),
        ("POST", "/secrets".to_owned(), json!({ "name": "KEY", "value": "x" }), "maintainer"),
        ("GET", "/secrets/NONE".to_owned(), Value::Null, "viewer"),
        ("PUT", "/secrets/NONE".to_owned(), json!({ "value": "x" }), "maintainer"),
        ("DELETE", "/secrets/NONE".to_owned(), Value::Null, "maintainer"),
        ("GET", "/webhooks".to_owned(), Value::Null, "admin"),
        ("POST", "/webhooks".to_owned(), json!({ "url": "https://receiver.invalid/" }), "admin"),
        ("GET", WEBHOOK.to_owned(), Value::Null, "admin"),
        ("PATCH", WEBHOOK.to_owned(), json!({ "enabled": false }), "admin"),
        ("DELETE", WEBHOOK.to_owned(), Value::Null, "admin"),
        ("POST", format!("{WEBHOOK}/rotate-secret"), json!({}), "admin"),
        ("POST", format!("{WEBHOOK}/test"), json!({}), "admin"),
        ("GET", format!("{WEBHOOK}/deliveries"), Value::Null, "admin"),
        ("GET", format!("{WEBHOOK}/deliveries/{DELIVERY}"), Value::Null, "admin"),
        ("POST", format!("{WEBHOOK}/deliveries/{DELIVERY}/redeliver"), json!({}), "admin"),
        ("GET", "/step-registries".to_owned(), Value::Null, "viewer"),
        ("POST", "/step-registries".to_owned(), json!({ "name": "tools", "steps": [] }), "maintainer"),
        ("GET", REGISTRY.to_owned(), Value::Null, "viewer"),
        ("PUT", REGISTRY.to_owned(), json!({ "name": "tools", "steps": [] }), "maintainer"),
        ("DELETE", REGISTRY.to_owned(), Value::Null, "maintainer"),
        ("POST", format!("{REGISTRY}/sync"), json!({}), "maintainer"),
        ("GET", format!("{REGISTRY}/steps"), Value::Null, "viewer"),
        ("GET", "/tokens".to_owned(), Value::Null, "viewer"),
        ("POST", "/tokens".to_owned(), json!({ "name": "ci" }), "viewer"),
        ("DELETE", "/tokens/tok_0199f3c2a4b07f3e9d2c5a1b".to_owned(), Value::Null, "viewer"),
        ("GET", "/members".to_owned(), Value::Null, "viewer"),
        ("GET", MEMBER.to_owned(), Value::Null, "viewer"),
        ("POST", "/members".to_owned(), json!({ "name": "zoe", "role": "viewer" }), "admin"),
        ("PATCH", MEMBER.to_owned(), json!({ "role": "viewer" }), "admin"),
        ("DELETE", MEMBER.to_owned(), Value::Null, "admin"),
        ("POST", format!("{MEMBER}/invitation"), json!({}), "admin"),
    ]
}

#[tokio::test]
async fn a_viewer_only_looks_on_whatever_an_environment_allows() {
    let server = Server::start();
    server.admin().put(&at("open"), json!({ "forceClaimRole": "viewer" })).await.created();
    server.as_user("vic").await.force_claim("open", json!({})).await.refused(403, "permission_denied");
}

#[tokio::test]
async fn a_token_that_lets_nobody_in_is_told_why() {
    let server = Server::start();
    let anonymous = server.anonymous();
    let path = anonymous.path("/pipelines");
    let unknown = String::from_utf8(lockkeeper(&["token"]).output().unwrap().stdout).unwrap();
    let typo = ADMIN_TOKEN.replace("lk_00", "lk_10");
    let cases = [
        (format!("Bearer {}", unknown.trim()), "unknown"),
        (format!("Bearer {typo}"), "checksum"),
        (format!("Bearer {}", &ADMIN_TOKEN[..38]), "cut or mistyped"),
        (format!("Bearer {ADMIN_TOKEN}x"), "cut or mistyped"),
        ("Bearer secret".to_owned(), "lk_"),
        ("Bearer".to_owned(), "Authorization: Bearer"),
        ("Basic YWRtaW46YWRtaW4=".to_owned(), "Authorization: Bearer"),
        (ADMIN_TOKEN.to_owned(), "Authorization: Bearer"),
        (String::new(), "Authorization: Bearer"),
    ];
    for (header, why) in cases {
        let request = anonymous.request(Method::GET, &path).header("authorization", &header);
        let refused = anonymous.send(request).await.refused(401, "invalid_token");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(why), "{header}: {detail}");
        assert!(!refused.text.contains(&ADMIN_TOKEN[10..]) && !refused.text.contains(&unknown[10..30]));
        let challenge = "Bearer realm=\"lockkeeper\", error=\"invalid_token\"";
        assert_eq!(refused.header("www-authenticate"), challenge);
    }
    for header in [format!("bearer {ADMIN_TOKEN}"), format!("BEARER   {ADMIN_TOKEN}")] {
        let request = anonymous.request(Method::GET, &path).header("authorization", header);
        anonymous.send(request).await.ok();
    }
}

#[tokio::test]
async fn a_token_has_the_role_its_user_has_now() {
    let mut server = Setup::default().organization(ACME).start();
    let mia = server.as_user("mia").await;
    mia.put(&at("new"), json!({})).await.created();
    let restart = |server: &mut Server, from: &str, to: &str| {
        assert!(ACME.contains(from));
        assert!(server.terminate().success());
        server.change_setup(|_| Setup::default().organization(&ACME.replace(from, to)));
        server.start_again();
    };
    let mia_is = "name = \"mia\"\nrole = \"maintainer\"";
    restart(&mut server, mia_is, "name = \"mia\"\nrole = \"viewer\"");
    let demoted = mia.clone().at(&server);
    demoted.put(&at("new"), json!({})).await.refused(403, "permission_denied");
    demoted.environment("new").await.ok();
    restart(&mut server, mia_is, "name = \"max\"\nrole = \"maintainer\"");
    let gone = mia.clone().at(&server);
    gone.environment("new").await.refused(401, "invalid_token");
    let list = server.admin().get("/tokens").await.ok().data();
    assert_eq!(list.as_array().unwrap().len(), 1, "who is no longer a member has no tokens");
    restart(&mut server, mia_is, mia_is);
    mia.clone().at(&server).environment("new").await.refused(401, "invalid_token");
}

#[tokio::test]
async fn another_organization_looks_like_one_that_does_not_exist() {
    let mut server = Setup::default().organization(BETA).organization(ACME).start();
    let made = server.admin().in_organization("beta").post("/tokens", json!({ "name": "x" })).await.created();
    let text = made.data()["token"].as_str().unwrap().to_owned();
    // The operator's token belongs to the admin of whichever organization is first.
    assert!(server.terminate().success());
    server.change_setup(|_| Setup::default().organization(ACME).organization(BETA));
    server.start_again();
    let session = server.admin().claim("review-1", json!({})).await.created().session();
    server.admin().in_organization("beta").get("/pipelines").await.refused(404, "organization_not_found");

    let bea = server.with_token(&text).in_organization("beta");
    bea.environment("review-1").await.ok();
    for (method, path, body, _) in operations() {
        let path = path.replace(SESSION, &session);
        for prefix in ["/api/v1", ""] {
            if prefix.is_empty() && !path.contains("ephemeral") {
                continue;
            }
            let mut seen = Vec::new();
            for organization in ["acme", "nowhere", "ACME", "%00"] {
                let full = format!("{prefix}/organizations/{organization}{path}");
                let answer = send(&bea, method, &full, &body).await;
                seen.push(without_ids(answer.refused(404, "organization_not_found")));
            }
            seen.dedup();
            assert_eq!(seen.len(), 1, "{method} {path}: {seen:#?}");
        }
    }
    assert_eq!(server.admin().environment("review-1").await.data()["lock"]["sessionId"], session);
    // Their session is not visible in our organization either.
    bea.session("review-1", &session).await.refused(404, "session_not_found");
    assert_eq!(bea.get("/tokens").await.ok().json()["pagination"]["total"], 1);
    let body = json!({ "name": "x", "user": "ana" });
    assert_eq!(bea.post("/tokens", body).await.faulty_fields(), ["user"]);
    let theirs = server.admin().get("/tokens").await.data()[0]["tokenId"].clone();
    let refused = bea.delete(&format!("/tokens/{}", theirs.as_str().unwrap())).await;
    refused.refused(404, "token_not_found");
}

#[tokio::test]
async fn a_token_that_asks_too_often_is_slowed_down_and_no_other_is() {
    let limited = |limit| {
        let setup = Setup::default().variable("LOCKKEEPER_RATE_LIMIT", limit);
        setup.variable("LOCKKEEPER_RATE_LIMIT_BURST", "1").start()
    };
    let server = limited("1");
    let ana = server.as_user("ana").await;
    let admin = server.admin();
    let mut asked = 0;
    let refused = loop {
        let answer = admin.get("/pipelines").await;
        if answer.status != StatusCode::OK {
            break answer.refused(429, "rate_limited");
        }
        asked += 1;
        assert!(asked < 1_000, "nothing slows it down");
    };
    assert_eq!((refused.header("retry-after"), &refused.json()["retryAfterSeconds"]), ("1", &json!(1)));
    assert_eq!(refused.header("ratelimit"), "\"token\";r=0;t=1");
    assert_eq!(refused.header("ratelimit-policy"), "\"token\";q=1;w=1");
    ana.get("/pipelines").await.ok();
    server.anonymous().get("/pipelines").await.refused(401, "missing_token");

    let unlimited = limited("off");
    for _ in 0..20 {
        unlimited.admin().get("/pipelines").await.ok();
    }
}

fn rank(role: &str) -> usize {
    ROLES.iter().position(|(_, known)| *known == role).unwrap()
}

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Answer {
    let request = client.request(method.parse().unwrap(), path);
    client.send(if body.is_null() { request } else { request.json(body) }).await
}

/// The whole answer, without ids that could distinguish two cases.
fn without_ids(answer: Answer) -> String {
    let mut body = answer.json();
    body["requestId"] = Value::Null;
    let mut headers: Vec<_> =
        answer.headers.iter().filter(|(name, _)| !["date", "x-request-id"].contains(&name.as_str())).collect();
    headers.sort_by_key(|(name, _)| name.as_str());
    format!("{} {headers:?} {body}", answer.status)
}

//! People with browsers: signing in and out, and the permissions of a cookie.

pub mod browser;
mod cross_site;
mod ending;
mod invitations;
mod limits;
mod passwords;
mod roots;

use reqwest::Method;
use serde_json::{Value, json};

use self::browser::Browser;
use crate::support::{ADMIN_TOKEN, Client, Server, assert_fields, assert_has, assert_is_time};

pub const PASSWORD: &str = "correct horse battery";

/// Gives a member a password through an invitation, and signs in a browser with it.
pub async fn invited(server: &Server, name: &str, password: &str) -> Browser {
    let url = invite(&server.admin(), name).await;
    let browser = Browser::new(server);
    let path = format!("/auth/invitations/{}", url.split('#').nth(1).unwrap());
    browser.post(&path, json!({ "password": password })).await.has_status(204);
    browser
}

/// The link of a new invitation.
pub async fn invite(admin: &Client, name: &str) -> String {
    let found = admin.get(&format!("/members?name={name}")).await.ok().data();
    let path = format!("/members/{}/invitation", found[0]["userId"].as_str().unwrap());
    let made = admin.post(&path, json!({})).await.created().data();
    assert_fields(&made, "url expiresAt");
    made["url"].as_str().unwrap().to_owned()
}

pub fn with_password(name: &str, password: &str) -> Value {
    json!({ "organization": "acme", "name": name, "password": password })
}

#[tokio::test]
async fn a_browser_signs_in_with_a_password_and_is_the_member() {
    let server = Server::start();
    invited(&server, "ana", PASSWORD).await;
    let browser = Browser::new(&server);
    let answer = browser.post("/auth/sign-in", with_password("ana", PASSWORD)).await.has_status(204);
    let cookie = answer.header("set-cookie");
    assert!(cookie.starts_with("lockkeeper=lks_"), "{cookie}");
    let age: u64 = cookie.split("Max-Age=").nth(1).unwrap().parse().unwrap();
    assert!((2_591_900..=2_592_000).contains(&age), "a month: {cookie}");
    for part in ["Path=/", "HttpOnly", "SameSite=Strict"] {
        assert!(cookie.split("; ").any(|found| found == part), "{part}: {cookie}");
    }
    assert!(!cookie.contains("Secure") && !cookie.contains("Domain"), "this machine has no TLS: {cookie}");
    assert_eq!(answer.header("cache-control"), "no-store");

    let told = browser.get("/api/v1/whoami").await.ok().data();
    assert_has(&told["user"], json!({ "name": "ana", "email": null }));
    assert_eq!((&told["role"], &told["token"]), (&json!("developer"), &Value::Null));
    let claimed = browser.claim("review-1").await.created().data();
    assert_eq!(claimed["user"]["name"], "ana");
    let denied = browser.post("/api/v1/organizations/acme/members", json!({ "name": "x", "role": "admin" })).await;
    denied.refused(403, "permission_denied");
    let member = server.admin().get("/members?name=ana").await.ok().data()[0].clone();
    assert_has(&member, json!({ "hasPassword": true, "tokenCount": 0 }));
    assert_is_time(&member["lastSignInAt"]);
}

#[tokio::test]
async fn a_browser_signs_in_with_a_token_and_is_signed_out_when_that_is_revoked() {
    let server = Server::start();
    let admin = server.admin();
    let made = admin.post("/tokens", json!({ "name": "hers", "user": "ana" })).await.created();
    let (token, place) = (made.data()["token"].clone(), made.header("location").to_owned());
    let browser = Browser::new(&server);
    browser.post("/auth/sign-in", json!({ "token": token })).await.has_status(204);
    assert_eq!(browser.get("/api/v1/whoami").await.ok().data()["user"]["name"], "ana");
    admin.send(admin.request(Method::DELETE, &place)).await.has_status(204);
    browser.get("/api/v1/whoami").await.refused(401, "invalid_token");
    browser.post("/auth/sign-in", json!({ "token": token })).await.refused(401, "invalid_credentials");

    let soon = (jiff::Timestamp::now() + std::time::Duration::from_secs(3_600)).to_string();
    let made =
        admin.post("/tokens", json!({ "name": "hour", "user": "ana", "expiresAt": soon })).await.created().data();
    let answer = browser.post("/auth/sign-in", json!({ "token": made["token"] })).await.has_status(204);
    let age = answer.header("set-cookie").split("Max-Age=").nth(1).unwrap().to_owned();
    assert!(age.parse::<u64>().unwrap() <= 3_600, "no longer than the token: {age}");
    assert_eq!(browser.sign_ins().await[0]["expiresAt"], made["expiresAt"]);
}

#[tokio::test]
async fn a_sign_in_is_no_token_and_no_token_is_a_sign_in() {
    let server = Server::start();
    let browser = invited(&server, "mia", PASSWORD).await;
    let text = browser.cookie().unwrap();
    let refused = server.with_token(&text).get("/pipelines").await.refused(401, "invalid_token");
    assert!(refused.json()["detail"].as_str().unwrap().contains("cookie"), "{refused:?}");
    browser.post("/auth/sign-in", json!({ "token": text })).await.refused(401, "invalid_credentials");
    assert_eq!(server.admin().get("/tokens").await.ok().json()["pagination"]["total"], 1, "it is not listed");

    let other = Browser::new(&server);
    other.keep(ADMIN_TOKEN);
    other.get("/api/v1/whoami").await.refused(401, "invalid_token");
    // With a token the cookie is ignored, valid or not.
    let request = other.request(Method::GET, "/api/v1/whoami").bearer_auth(ADMIN_TOKEN);
    assert_eq!(other.send(request).await.ok().data()["user"]["name"], "admin");
    let request = browser.request(Method::GET, "/api/v1/whoami").bearer_auth("lk_wrong");
    browser.send(request).await.refused(401, "invalid_token");

    // A signed-in member can create tokens for themselves.
    let made = browser.post("/api/v1/organizations/acme/tokens", json!({ "name": "cli" })).await.created().data();
    assert_eq!(made["user"]["name"], "mia");
    server.with_token(made["token"].as_str().unwrap()).get("/pipelines").await.ok();
    for (method, path) in [(Method::GET, "/auth/sign-ins"), (Method::POST, "/auth/password")] {
        let request = browser.request(method, path).bearer_auth(ADMIN_TOKEN);
        browser.send(request).await.refused(403, "sign_in_required");
    }
}

#[tokio::test]
async fn all_that_is_wrong_with_a_sign_in_is_told_at_once() {
    let server = Server::start();
    let browser = Browser::new(&server);
    let cases: [(Value, &[&str]); 6] = [
        (json!({}), &["password"]),
        (json!({ "password": "x" }), &["organization", "name"]),
        (json!({ "organization": "acme", "name": "ana" }), &["password", "organization", "name"]),
        (json!({ "token": "x", "password": "y", "organization": "a", "name": "b" }), &["password"]),
        (json!({ "token": 7 }), &["token"]),
        (json!({ "token": "x", "colour": "red" }), &["colour"]),
    ];
    for (body, expected) in cases {
        let refused = browser.post("/auth/sign-in", body.clone()).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), expected, "{body}");
    }
    browser.get("/auth/sign-in").await.refused(405, "method_not_allowed");
    browser.post("/auth/sign-in?x=1", json!({ "token": "x" })).await.refused(400, "invalid_parameter");
    let methods = browser.get("/auth/methods?organization=acme").await.ok().data();
    assert_eq!(methods, json!({ "password": true, "token": true, "providers": [] }));
    assert_eq!(browser.get("/auth/methods?organization=nowhere").await.ok().data(), methods);
}

#[tokio::test]
async fn sign_ins_survive_a_restart_and_role_changes_act_on_the_next_request() {
    let mut server = Server::start();
    let browser = invited(&server, "ana", PASSWORD).await;
    let before = browser.sign_ins().await;
    server.kill();
    server.start_again();
    let browser = browser.at(&server);
    assert_eq!(browser.sign_ins().await[0]["signInId"], before[0]["signInId"]);
    browser.post("/auth/sign-in", with_password("ana", PASSWORD)).await.has_status(204);

    let admin = server.admin();
    let ana = admin.get("/members?name=ana").await.ok().data()[0]["userId"].as_str().unwrap().to_owned();
    let change = async |body: Value| {
        let request = admin.request(Method::PATCH, &admin.path(&format!("/members/{ana}")));
        admin.send(request.json(&body)).await.ok()
    };
    browser.claim("review-1").await.created();
    change(json!({ "role": "viewer" })).await;
    browser.claim("review-2").await.refused(403, "permission_denied");
    change(json!({ "disabled": true })).await;
    browser.get("/api/v1/whoami").await.refused(401, "invalid_token");
    browser.post("/auth/sign-in", with_password("ana", PASSWORD)).await.refused(401, "invalid_credentials");
    change(json!({ "disabled": false })).await;
    browser.get("/api/v1/whoami").await.refused(401, "invalid_token");
    browser.post("/auth/sign-in", with_password("ana", PASSWORD)).await.has_status(204);
    browser.get("/api/v1/whoami").await.ok();
}

//! Credentials created in a browser end with the credential it signed in with, as docs/security.md says.

use serde_json::{Value, json};

use super::browser::Browser;
use super::{PASSWORD, invite, invited, with_password};
use crate::support::{Client, Server};

const TOKENS: &str = "/api/v1/organizations/acme/tokens";

/// A token created in a browser: a client with it, and its id.
async fn made(server: &Server, browser: &Browser, body: Value) -> (Client, String) {
    known(server, &browser.post(TOKENS, body).await.created().data())
}

fn known(server: &Server, made: &Value) -> (Client, String) {
    (server.with_token(made["token"].as_str().unwrap()), made["tokenId"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_token_of_the_dashboard_survives_a_sign_out_and_ends_with_all_sign_ins_or_a_new_password() {
    let mut server = Server::start();
    for way in ["everywhere", "password"] {
        let browser = invited(&server, "ana", PASSWORD).await;
        let (token, _) = made(&server, &browser, json!({ "name": "laptop" })).await;
        let (copy, _) = known(&server, &token.post("/tokens", json!({ "name": "copy" })).await.created().data());
        let by_admin = server.as_user("ana").await;
        browser.post("/auth/sign-out", json!({})).await.has_status(204);
        browser.post("/auth/sign-in", with_password("ana", PASSWORD)).await.has_status(204);
        for client in [&token, &copy] {
            client.get("/pipelines").await.ok();
        }
        if way == "everywhere" {
            browser.post("/auth/sign-out", json!({ "everywhere": true })).await.has_status(204);
        } else {
            let body = json!({ "currentPassword": PASSWORD, "newPassword": "another horse battery" });
            browser.post("/auth/password", body).await.has_status(204);
        }
        server.kill();
        server.start_again();
        for client in [token, copy] {
            client.at(&server).get("/pipelines").await.refused(401, "invalid_token");
        }
        by_admin.at(&server).get("/pipelines").await.ok();
    }
}

#[tokio::test]
async fn what_a_token_makes_by_whichever_way_ends_with_it_and_never_outlives_it() {
    let server = Server::start();
    let admin = server.admin();
    let soon = (jiff::Timestamp::now() + std::time::Duration::from_secs(3_600)).to_string();
    let hour = json!({ "name": "hour", "user": "ana", "expiresAt": soon });
    let root = admin.post("/tokens", hour).await.created().data();
    let browser = Browser::new(&server);
    browser.post("/auth/sign-in", json!({ "token": root["token"] })).await.has_status(204);
    browser.post("/auth/password", json!({ "newPassword": PASSWORD })).await.refused(403, "invitation_required");
    let in_page = browser.post(TOKENS, json!({ "name": "for ever" })).await.created().data();
    let later = json!({ "name": "later", "expiresAt": "2099-01-01T00:00:00Z" });
    let direct = known(&server, &root).0.post("/tokens", later).await.created().data();
    let (from_page, _) = known(&server, &in_page);
    let third = from_page.post("/tokens", json!({ "name": "third" })).await.created().data();
    for token in [&in_page, &direct, &third] {
        assert_eq!(token["expiresAt"], root["expiresAt"]);
        known(&server, token).0.get("/pipelines").await.ok();
    }
    admin.delete(&format!("/tokens/{}", root["tokenId"].as_str().unwrap())).await.has_status(204);
    for token in [&root, &in_page, &direct, &third] {
        known(&server, token).0.get("/pipelines").await.refused(401, "invalid_token");
    }
    browser.get("/api/v1/whoami").await.refused(401, "invalid_token");
    let events = admin.get("/events?type=token.revoked").await.ok().data();
    let reasons: Vec<_> = events.as_array().unwrap().iter().map(|event| event["data"]["reason"].clone()).collect();
    assert_eq!(reasons.iter().filter(|reason| **reason == "root_ended").count(), 3, "{events}");
}

#[tokio::test]
async fn what_was_made_for_others_ends_with_all_sign_ins_but_not_with_the_member() {
    let server = Server::start();
    let admin = server.admin();
    admin.post("/members", json!({ "name": "eve", "role": "admin" })).await.created();
    let browser = invited(&server, "eve", PASSWORD).await;
    let (for_ana, _) = made(&server, &browser, json!({ "name": "x", "user": "ana" })).await;
    let by_operator = server.as_user("ana").await;
    let (own, _) = made(&server, &browser, json!({ "name": "y" })).await;
    for_ana.get("/pipelines").await.ok();
    own.get("/pipelines").await.ok();
    let other = invited(&server, "admin", PASSWORD).await;
    let (by_other, _) = made(&server, &other, json!({ "name": "z", "user": "ana" })).await;
    other.post("/auth/sign-out", json!({ "everywhere": true })).await.has_status(204);
    by_other.get("/pipelines").await.refused(401, "invalid_token");
    let eve = admin.get("/members?name=eve").await.ok().data()[0]["userId"].as_str().unwrap().to_owned();
    admin.delete(&format!("/members/{eve}")).await.has_status(204);
    own.get("/pipelines").await.refused(401, "invalid_token");
    for_ana.get("/pipelines").await.ok();
    by_operator.get("/pipelines").await.ok();
}

#[tokio::test]
async fn an_invitation_for_oneself_takes_a_lasting_token_and_ends_with_all_sign_ins() {
    let server = Server::start();
    let admin = server.admin();
    let found = admin.get("/members?name=admin").await.ok().data();
    let own = format!("/members/{}/invitation", found[0]["userId"].as_str().unwrap());
    let soon = (jiff::Timestamp::now() + std::time::Duration::from_secs(3_600)).to_string();
    let hour = admin.post("/tokens", json!({ "name": "hour", "expiresAt": soon })).await.created().data();
    known(&server, &hour).0.post(&own, json!({})).await.refused(403, "invitation_denied");
    let browser = invited(&server, "admin", PASSWORD).await;
    let path = format!("/api/v1/organizations/acme{own}");
    browser.post(&path, json!({})).await.refused(403, "invitation_denied");

    let ana = own.replace(found[0]["userId"].as_str().unwrap(), &user_id(&admin, "ana").await);
    let made = browser.post(&format!("/api/v1/organizations/acme{ana}"), json!({})).await.created().data();
    let url = made["url"].as_str().unwrap().to_owned();
    let invitation = |url: &str| format!("/auth/invitations/{}", url.split('#').nth(1).unwrap());
    let own_link = invite(&admin, "admin").await;
    browser.post("/auth/sign-out", json!({})).await.has_status(204);
    let reader = Browser::new(&server);
    for url in [&url, &own_link] {
        reader.get(&invitation(url)).await.ok();
    }
    browser.post("/auth/sign-in", with_password("admin", PASSWORD)).await.has_status(204);
    browser.post("/auth/sign-out", json!({ "everywhere": true })).await.has_status(204);
    for url in [&url, &own_link] {
        reader.get(&invitation(url)).await.refused(404, "invitation_not_found");
    }
}

async fn user_id(admin: &Client, name: &str) -> String {
    admin.get(&format!("/members?name={name}")).await.ok().data()[0]["userId"].as_str().unwrap().to_owned()
}

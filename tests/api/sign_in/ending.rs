//! How sign-ins end: by signing out, by a new one, by the limit on their number; and requests that wait with them.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::{PASSWORD, invited, with_password};
use crate::sign_in::browser::Browser;
use crate::support::{Server, assert_fields, assert_has};

#[tokio::test]
async fn signing_out_ends_this_browser_or_all_of_them() {
    let server = Server::start();
    let first = invited(&server, "ana", PASSWORD).await;
    let others = [Browser::new(&server), Browser::new(&server)];
    for other in &others {
        other.post("/auth/sign-in", with_password("ana", PASSWORD)).await.has_status(204);
    }
    assert_eq!(first.sign_ins().await.len(), 3);
    let kept = first.cookie().unwrap();
    let answer = first.post("/auth/sign-out", json!({})).await.has_status(204);
    assert!(answer.header("set-cookie").starts_with("lockkeeper=; ") && first.cookie().is_none());
    first.keep(&kept);
    first.get("/api/v1/whoami").await.refused(401, "invalid_token");
    first.post("/auth/sign-out", json!({})).await.has_status(204);
    assert_eq!(others[0].sign_ins().await.len(), 2);

    let ben = invited(&server, "ben", PASSWORD).await;
    others[0].post("/auth/sign-out", json!({ "everywhere": true })).await.has_status(204);
    others[1].get("/api/v1/whoami").await.refused(401, "invalid_token");
    ben.get("/api/v1/whoami").await.ok();
}

#[tokio::test]
async fn sign_ins_are_listed_and_ended_one_by_one_by_their_member_alone() {
    let server = Server::start();
    let ana = invited(&server, "ana", PASSWORD).await;
    let phone = Browser::new(&server);
    let agent =
        "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Mobile Safari/537.36";
    let request = phone.request(Method::POST, "/auth/sign-in").header("User-Agent", agent);
    phone.send(request.json(&with_password("ana", PASSWORD))).await.has_status(204);
    let list = ana.sign_ins().await;
    assert_fields(&list[0], "signInId createdAt lastUsedAt expiresAt current client");
    assert_has(&list[0], json!({ "current": false, "client": "Chrome on Android" }));
    assert_eq!((list.len(), &list[1]["current"]), (2, &json!(true)), "newest first");
    let path = format!("/auth/sign-ins/{}", list[0]["signInId"].as_str().unwrap());
    let ben = invited(&server, "ben", PASSWORD).await;
    ben.delete(&path).await.refused(404, "sign_in_not_found");
    for id in ["x", "tok_0199f3c2a4b07f3e9d2c5a1b"] {
        ana.delete(&format!("/auth/sign-ins/{id}")).await.refused(404, "sign_in_not_found");
    }
    phone.get("/api/v1/whoami").await.ok();
    ana.delete(&path).await.has_status(204);
    phone.get("/api/v1/whoami").await.refused(401, "invalid_token");
    ana.delete(&path).await.refused(404, "sign_in_not_found");
    assert_eq!(ana.sign_ins().await.len(), 1);
}

#[tokio::test]
async fn a_new_sign_in_takes_the_place_of_the_one_it_came_with_and_the_oldest_of_too_many_ends() {
    let server = Server::start();
    let browser = invited(&server, "ana", PASSWORD).await;
    let before = browser.cookie().unwrap();
    browser.post("/auth/sign-in", with_password("ana", PASSWORD)).await.has_status(204);
    assert_ne!(browser.cookie().unwrap(), before);
    assert_eq!(browser.sign_ins().await.len(), 1);
    let old = Browser::new(&server);
    old.keep(&before);
    old.get("/api/v1/whoami").await.refused(401, "invalid_token");

    let token = server.admin().post("/tokens", json!({ "name": "x", "user": "ana" })).await.created().data();
    for _ in 0..20 {
        let other = Browser::new(&server);
        other.post("/auth/sign-in", json!({ "token": token["token"] })).await.has_status(204);
    }
    browser.get("/api/v1/whoami").await.refused(401, "invalid_token");
    let last = Browser::new(&server);
    last.post("/auth/sign-in", json!({ "token": token["token"] })).await.has_status(204);
    assert_eq!(last.sign_ins().await.len(), 20);
}

#[tokio::test]
async fn a_stream_and_a_wait_end_with_the_sign_in() {
    let server = Server::start();
    let ana = std::sync::Arc::new(invited(&server, "ana", PASSWORD).await);
    let second = Browser::new(&server);
    second.post("/auth/sign-in", with_password("ana", PASSWORD)).await.has_status(204);
    let mia = server.as_user("mia").await;
    mia.claim("review-1", json!({})).await.created();
    let waiting = {
        let ana = ana.clone();
        tokio::spawn(async move {
            let path = format!("/api/v1/organizations/acme{}/sessions", crate::support::at("review-1"));
            ana.post(&path, json!({ "waitSeconds": 60 })).await
        })
    };
    mia.until(&crate::support::at("review-1"), |found| found["queueLength"] == 1).await;
    let stream = ana.request(Method::GET, "/api/v1/organizations/acme/events/stream").send().await.unwrap();
    assert_eq!(stream.status(), 200);
    second.post("/auth/sign-out", json!({ "everywhere": true })).await.has_status(204);
    waiting.await.unwrap().refused(401, "invalid_token");
    tokio::time::timeout(Duration::from_secs(30), stream.text()).await.expect("the stream ends").unwrap();
}

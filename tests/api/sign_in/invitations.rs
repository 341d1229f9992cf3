//! Invitations: a link that works once, for one member, for a limited time.

use serde_json::{Value, json};

use super::{PASSWORD, invite, invited, with_password};
use crate::sign_in::browser::Browser;
use crate::support::{Server, assert_fields, assert_has, assert_is_time};

fn path_of(url: &str) -> String {
    format!("/auth/invitations/{}", url.split('#').nth(1).unwrap())
}

#[tokio::test]
async fn an_invitation_says_whom_it_is_for_and_works_once() {
    let mut server = Server::start();
    let url = invite(&server.admin(), "ana").await;
    assert!(url.starts_with(&format!("{}/invitation#lki_", server.address)), "{url}");
    server.kill();
    server.start_again();
    let browser = Browser::new(&server);
    let shown = browser.get(&path_of(&url)).await.ok().data();
    assert_fields(&shown, "organization name expiresAt");
    assert_has(&shown, json!({ "organization": { "id": "acme", "name": "Acme" }, "name": "ana" }));
    assert_is_time(&shown["expiresAt"]);
    let refused = browser.post(&path_of(&url), json!({ "password": "short" })).await.refused(422, "invalid_request");
    assert_eq!(refused.faulty_fields(), ["password"]);
    let refused = browser.post(&path_of(&url), json!({ "password": "anaanaanaana" })).await;
    assert_eq!(refused.refused(422, "invalid_request").faulty_fields(), ["password"]);
    browser.post(&path_of(&url), json!({ "password": PASSWORD })).await.has_status(204);
    assert_eq!(browser.get("/api/v1/whoami").await.ok().data()["user"]["name"], "ana");
    for _ in 0..2 {
        browser.get(&path_of(&url)).await.refused(404, "invitation_not_found");
        browser.post(&path_of(&url), json!({ "password": "another horse" })).await.refused(404, "invitation_not_found");
    }
    for text in ["x", "lki_0000000000000000000000000000002C8GjS", "lk_0000000000000000000000000000002C8GjS"] {
        browser.get(&format!("/auth/invitations/{text}")).await.refused(404, "invitation_not_found");
    }
}

#[tokio::test]
async fn of_many_who_open_an_invitation_at_once_one_gets_in() {
    let server = Server::start();
    let url = invite(&server.admin(), "ana").await;
    let opening = (0..8).map(|number| {
        let (browser, path) = (Browser::new(&server), path_of(&url));
        async move {
            let answer = browser.post(&path, json!({ "password": format!("password number {number}") })).await;
            (answer.status.as_u16(), number)
        }
    });
    let answers = futures_util::future::join_all(opening).await;
    let winners: Vec<_> = answers.iter().filter(|(status, _)| *status == 204).collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|(status, _)| [204, 404].contains(status)), "{answers:?}");
    let browser = Browser::new(&server);
    let password = format!("password number {}", winners[0].1);
    browser.post("/auth/sign-in", with_password("ana", &password)).await.has_status(204);
}

#[tokio::test]
async fn a_new_invitation_replaces_the_old_one_and_resets_a_lost_password() {
    let server = Server::start();
    let before = invited(&server, "ana", PASSWORD).await;
    let (first, second) = (invite(&server.admin(), "ana").await, invite(&server.admin(), "ana").await);
    let browser = Browser::new(&server);
    browser.get(&path_of(&first)).await.refused(404, "invitation_not_found");
    browser.post("/auth/sign-in", with_password("ana", PASSWORD)).await.has_status(204);
    browser.post(&path_of(&second), json!({ "password": "another horse" })).await.has_status(204);
    before.get("/api/v1/whoami").await.refused(401, "invalid_token");
    before.post("/auth/sign-in", with_password("ana", PASSWORD)).await.refused(401, "invalid_credentials");
    before.post("/auth/sign-in", with_password("ana", "another horse")).await.has_status(204);
}

#[tokio::test]
async fn who_is_disabled_or_removed_is_not_invited_and_a_retry_gets_no_second_link() {
    let server = Server::start();
    let admin = server.admin();
    let url = invite(&admin, "ana").await;
    let ana = admin.get("/members?name=ana").await.ok().data()[0]["userId"].as_str().unwrap().to_owned();
    let path = format!("/members/{ana}");
    let first = admin.post_with_key(&format!("{path}/invitation"), "once", json!({})).await.created();
    assert!(first.data()["url"].is_string());
    let again = admin.post_with_key(&format!("{path}/invitation"), "once", json!({})).await.created();
    assert_eq!((again.header("idempotency-replayed"), &again.data()["url"]), ("true", &Value::Null));
    assert_eq!(again.data()["expiresAt"], first.data()["expiresAt"]);
    let browser = Browser::new(&server);
    browser.get(&path_of(&url)).await.refused(404, "invitation_not_found");
    let url = first.data()["url"].as_str().unwrap().to_owned();
    browser.get(&path_of(&url)).await.ok();

    let change = admin.request(reqwest::Method::PATCH, &admin.path(&path)).json(&json!({ "disabled": true }));
    admin.send(change).await.ok();
    browser.get(&path_of(&url)).await.refused(404, "invitation_not_found");
    admin.post(&format!("{path}/invitation"), json!({})).await.refused(409, "member_disabled");
    let change = admin.request(reqwest::Method::PATCH, &admin.path(&path)).json(&json!({ "disabled": false }));
    admin.send(change).await.ok();
    browser.get(&path_of(&url)).await.refused(404, "invitation_not_found");

    let url = invite(&admin, "ana").await;
    admin.delete(&path).await.has_status(204);
    browser.post(&path_of(&url), json!({ "password": PASSWORD })).await.refused(404, "invitation_not_found");
    admin.post(&format!("{path}/invitation"), json!({})).await.refused(404, "member_not_found");
    // A member who is added again has nothing from before.
    admin.post("/members", json!({ "name": "ana", "role": "viewer" })).await.created();
    browser.get(&path_of(&url)).await.refused(404, "invitation_not_found");
    assert_has(
        &admin.get("/members?name=ana").await.ok().data()[0],
        json!({ "hasPassword": false, "lastSignInAt": null }),
    );
}

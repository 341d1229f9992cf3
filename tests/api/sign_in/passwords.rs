//! Passwords: wrong ones, unknown names, changing them, and places where they must never appear.

use std::path::Path;

use serde_json::json;

use super::{PASSWORD, invite, invited, with_password};
use crate::sign_in::browser::Browser;
use crate::support::{Answer, Server, Setup};

/// The whole answer, without anything that differs between two refusals.
fn comparable(answer: &Answer) -> (u16, serde_json::Value) {
    let mut body = answer.json();
    body["requestId"] = serde_json::Value::Null;
    (answer.status.as_u16(), body)
}

#[tokio::test]
async fn an_unknown_name_is_answered_like_a_wrong_password() {
    let server = Server::start();
    invited(&server, "ana", PASSWORD).await;
    let browser = Browser::new(&server);
    let wrong = browser.post("/auth/sign-in", with_password("ana", "wrong horse")).await;
    assert_eq!(wrong.problem(), (401, "invalid_credentials".to_owned()));
    let others = [
        with_password("nobody", PASSWORD),
        with_password("ben", PASSWORD),
        with_password("not a name", PASSWORD),
        with_password("ana", ""),
        json!({ "organization": "nowhere", "name": "ana", "password": PASSWORD }),
        json!({ "organization": "", "name": "ana", "password": PASSWORD }),
        json!({ "token": "lk_0000000000000000000000000000002C8GjT" }),
        json!({ "token": "hello" }),
    ];
    for body in others {
        let refused = browser.post("/auth/sign-in", body.clone()).await;
        assert_eq!(comparable(&refused), comparable(&wrong), "{body}");
        assert_eq!(refused.header("set-cookie"), "");
    }
    assert!(browser.cookie().is_none());
}

#[tokio::test]
async fn a_changed_password_ends_all_other_sign_ins_and_the_old_one_works_no_more() {
    let mut server = Server::start();
    let browser = invited(&server, "ana", PASSWORD).await;
    let other = Browser::new(&server);
    other.post("/auth/sign-in", with_password("ana", PASSWORD)).await.has_status(204);
    let change = async |current: Option<&str>, new: &str| {
        let mut body = json!({ "newPassword": new });
        if let Some(current) = current {
            body["currentPassword"] = json!(current);
        }
        browser.post("/auth/password", body).await
    };
    for (current, new, field) in [
        (None, "a new password", "currentPassword"),
        (Some("wrong"), "a new password", "currentPassword"),
        (Some(PASSWORD), "short", "newPassword"),
        (Some(PASSWORD), "password123", "newPassword"),
        (Some(PASSWORD), "anaanaanaana", "newPassword"),
    ] {
        let refused = change(current, new).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), [field], "{new}");
    }
    other.get("/api/v1/whoami").await.ok();
    change(Some(PASSWORD), "a new password").await.has_status(204);
    browser.get("/api/v1/whoami").await.ok();
    other.get("/api/v1/whoami").await.refused(401, "invalid_token");
    server.kill();
    server.start_again();
    let (browser, other) = (browser.at(&server), other.at(&server));
    browser.get("/api/v1/whoami").await.ok();
    other.post("/auth/sign-in", with_password("ana", PASSWORD)).await.refused(401, "invalid_credentials");
    other.post("/auth/sign-in", with_password("ana", "a new password")).await.has_status(204);
}

#[tokio::test]
async fn a_first_password_comes_from_an_invitation_and_not_from_a_token() {
    let server = Server::start();
    let browser = Browser::new(&server);
    browser.post("/auth/sign-in", json!({ "token": crate::support::ADMIN_TOKEN })).await.has_status(204);
    for body in [json!({ "newPassword": PASSWORD }), json!({ "currentPassword": "x", "newPassword": PASSWORD })] {
        browser.post("/auth/password", body).await.refused(403, "invitation_required");
    }
    let other = Browser::new(&server);
    other.post("/auth/sign-in", with_password("admin", PASSWORD)).await.refused(401, "invalid_credentials");
    invited(&server, "admin", PASSWORD).await;
    other.post("/auth/sign-in", with_password("admin", PASSWORD)).await.has_status(204);
}

#[tokio::test]
async fn no_password_cookie_or_invitation_is_in_a_log_an_event_or_a_file() {
    let secrets_in = |text: &[u8], secrets: &[String]| {
        let found = secrets.iter().filter(|secret| text.windows(secret.len()).any(|part| part == secret.as_bytes()));
        found.cloned().collect::<Vec<_>>()
    };
    let mut server = Setup::default().variable("LOCKKEEPER_LOG_FILTER", "trace").start();
    let browser = Browser::new(&server);
    let url = invite(&server.admin(), "ana").await;
    let invitation = url.split('#').nth(1).unwrap().to_owned();
    let path = format!("/auth/invitations/{invitation}");
    browser.get(&path).await.ok();
    browser.post(&path, json!({ "password": PASSWORD })).await.has_status(204);
    let first = browser.cookie().unwrap();
    browser.post(&path, json!({ "password": PASSWORD })).await.refused(404, "invitation_not_found");
    browser.get(&format!("/invitation/{invitation}")).await.refused(404, "route_not_found");
    browser.post("/auth/sign-in", with_password("ana", "mistyped horse")).await.refused(401, "invalid_credentials");
    browser.post("/auth/sign-in", with_password("ana", PASSWORD)).await.has_status(204);
    let body = json!({ "currentPassword": PASSWORD, "newPassword": "entirely new horse" });
    browser.post("/auth/password", body).await.has_status(204);
    let secrets: Vec<String> = [&first[4..], &browser.cookie().unwrap()[4..], &invitation[4..], PASSWORD]
        .into_iter()
        .chain(["mistyped horse", "entirely new horse"])
        .map(str::to_owned)
        .collect();
    let events = server.admin().get("/events?limit=100").await.ok().text;
    assert_eq!(secrets_in(events.as_bytes(), &secrets), Vec::<String>::new(), "in events");
    assert!(server.terminate().success());
    assert!(server.log().contains("signed in"), "something is logged");
    assert_eq!(secrets_in(server.log().as_bytes(), &secrets), Vec::<String>::new(), "in the log");
    let mut files = 0;
    each_file(&server.data_dir(), &mut |path, bytes| {
        files += 1;
        assert_eq!(secrets_in(bytes, &secrets), Vec::<String>::new(), "in {}", path.display());
    });
    assert!(files > 2, "{files}");
}

fn each_file(directory: &Path, look: &mut dyn FnMut(&Path, &[u8])) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { each_file(&path, look) } else { look(&path, &std::fs::read(&path).unwrap()) }
    }
}

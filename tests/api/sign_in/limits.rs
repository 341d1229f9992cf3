//! The limits on sign-in attempts.

use serde_json::json;

use super::{PASSWORD, invited, with_password};
use crate::sign_in::browser::Browser;
use crate::support::{ADMIN_TOKEN, Setup};

#[tokio::test]
async fn failures_use_up_an_account_and_successes_do_not() {
    let setup = Setup::default().variable("LOCKKEEPER_AUTH_FAILURES_PER_ACCOUNT", "2");
    let server = setup.variable("LOCKKEEPER_AUTH_ATTEMPTS_PER_ADDRESS", "off").start();
    invited(&server, "ana", PASSWORD).await;
    invited(&server, "ben", PASSWORD).await;
    let browser = Browser::new(&server);
    for _ in 0..4 {
        browser.post("/auth/sign-in", with_password("ana", PASSWORD)).await.has_status(204);
    }
    for _ in 0..2 {
        browser.post("/auth/sign-in", with_password("ana", "wrong horse")).await.refused(401, "invalid_credentials");
    }
    let refused = browser.post("/auth/sign-in", with_password("ana", PASSWORD)).await.refused(429, "rate_limited");
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=61).contains(&seconds), "{refused:?}");
    browser.post("/auth/sign-in", with_password("ben", PASSWORD)).await.has_status(204);
    let token = server.admin().post("/tokens", json!({ "name": "x", "user": "ana" })).await.created().data();
    browser.post("/auth/sign-in", json!({ "token": token["token"] })).await.has_status(204);
    // An unknown name has the same limits, so that it cannot be recognised.
    for _ in 0..2 {
        browser.post("/auth/sign-in", with_password("nobody", PASSWORD)).await.refused(401, "invalid_credentials");
    }
    browser.post("/auth/sign-in", with_password("nobody", PASSWORD)).await.refused(429, "rate_limited");
}

#[tokio::test]
async fn attempts_use_up_an_address_whatever_they_are_for() {
    let server = Setup::default().variable("LOCKKEEPER_AUTH_ATTEMPTS_PER_ADDRESS", "3").start();
    let browser = Browser::new(&server);
    browser.post("/auth/sign-in", json!({ "token": ADMIN_TOKEN })).await.has_status(204);
    browser.get("/auth/invitations/x").await.refused(404, "invitation_not_found");
    let attempts = (0..40).map(|_| {
        let browser = Browser::new(&server);
        async move { browser.post("/auth/sign-in", json!({ "token": ADMIN_TOKEN })).await }
    });
    let answers = futures_util::future::join_all(attempts).await;
    let refused = answers.into_iter().find(|answer| answer.status == 429).expect("not all of them at once");
    assert!(!refused.refused(429, "rate_limited").header("retry-after").is_empty());
    browser.get("/api/v1/whoami").await.ok();
    server.admin().get("/pipelines").await.ok();
}

#[tokio::test]
async fn a_stranger_who_guesses_locks_out_neither_other_addresses_nor_the_members_own_browser() {
    let setup = Setup::default().variable("LOCKKEEPER_AUTH_FAILURES_PER_ACCOUNT", "2");
    let server = setup.variable("LOCKKEEPER_AUTH_ATTEMPTS_PER_ADDRESS", "off").start();
    let own = invited(&server, "ana", PASSWORD).await;
    own.post("/auth/sign-out", json!({})).await.has_status(204);
    let (right, wrong) = (with_password("ana", PASSWORD), with_password("ana", "wrong horse"));
    let stranger = |last| Browser::from_address(&server, [127, 0, 0, last]);
    let guesses = async |from: &Browser| {
        for _ in 0..2 {
            from.post("/auth/sign-in", wrong.clone()).await.refused(401, "invalid_credentials");
        }
        from.post("/auth/sign-in", right.clone()).await.refused(429, "rate_limited");
    };
    guesses(&stranger(2)).await;
    Browser::new(&server).post("/auth/sign-in", right.clone()).await.has_status(204);
    // Attempts from many addresses are limited too: then no unknown browser can sign in for a while.
    let mut last = 3;
    while stranger(last).post("/auth/sign-in", wrong.clone()).await.status != 429 {
        last += 1;
        assert!(last < 200, "however many addresses there are, each may guess");
    }
    own.post("/auth/sign-in", right.clone()).await.has_status(204);
    own.post("/auth/sign-out", json!({})).await.has_status(204);
    guesses(&own).await;
}

#[tokio::test]
async fn strangers_behind_the_same_address_do_not_lock_a_known_browser_out() {
    let server = Setup::default().variable("LOCKKEEPER_AUTH_ATTEMPTS_PER_ADDRESS", "3").start();
    let own = invited(&server, "ana", PASSWORD).await;
    let stranger = Browser::new(&server);
    let mut guesses = 0;
    while stranger.post("/auth/sign-in", with_password("ben", "wrong horse")).await.status != 429 {
        guesses += 1;
        assert!(guesses < 40, "the address is not limited");
    }
    own.post("/auth/sign-in", with_password("ana", PASSWORD)).await.has_status(204);
}

#[tokio::test]
async fn a_known_browser_that_signs_in_without_end_is_refused_while_another_organization_signs_in() {
    let members = "[[members]]\nname = \"admin\"\nrole = \"admin\"\n[[members]]\nname = \"cai\"\nrole = \"viewer\"\n";
    let [acme, other] = ["acme", "other"].map(|id| format!("[organization]\nid = \"{id}\"\n{members}"));
    let setup = Setup::default().organizations(&[&acme, &other]);
    let server = setup.variable("LOCKKEEPER_AUTH_ATTEMPTS_PER_ADDRESS", "1000").start();
    let own = invited(&server, "cai", PASSWORD).await;
    let many = (0..100).map(|_| own.post("/auth/sign-in", with_password("cai", PASSWORD)));
    let stranger = Browser::new(&server);
    let body = json!({ "organization": "other", "name": "cai", "password": "wrong horse" });
    let (answers, elsewhere) = tokio::join!(futures_util::future::join_all(many), stranger.post("/auth/sign-in", body));
    elsewhere.refused(401, "invalid_credentials");
    assert!(answers.iter().any(|answer| answer.status == 204), "no sign-in works");
    let refused = answers.into_iter().find(|answer| answer.status == 429).expect("successes have no limit");
    assert!(!refused.refused(429, "rate_limited").header("retry-after").is_empty());
}

//! A job has its token for a limited time, and cannot create anything permanent with it.

use serde_json::json;

use super::{exchange, job, serve, whoami};
use crate::operating::pruning::{redeclare, until_refused};
use crate::sign_in::browser::Browser;
use crate::support::issuer::Issuer;
use crate::support::{Setup, secrecy};

#[tokio::test]
async fn a_job_cannot_sign_in_nor_its_member_be_invited() {
    let issuer = Issuer::start().await;
    let server = serve(&issuer);
    let text =
        exchange(&server, &issuer.token(json!({}))).await.ok().json()["access_token"].as_str().unwrap().to_owned();
    secrecy::note(&text);
    let client = server.with_token(&text);
    let id = whoami(&client).await["user"]["userId"].as_str().unwrap().to_owned();
    let made = client.post("/tokens", json!({ "name": "copy" })).await.created().data();
    let admin = server.admin();
    let by_admin = admin.post("/tokens", json!({ "name": "x", "user": "ci" })).await.created().data();
    let browser = Browser::new(&server);
    for token in [&json!(text), &made["token"], &by_admin["token"]] {
        browser.post("/auth/sign-in", json!({ "token": token })).await.refused(403, "member_for_jobs");
    }
    admin.post(&format!("/members/{id}/invitation"), json!({})).await.refused(403, "member_for_jobs");
}

#[tokio::test]
async fn what_a_job_has_made_ends_with_its_token_and_with_the_rule() {
    let issuer = Issuer::start().await;
    let mut server = serve(&issuer);
    let client = job(&server, &issuer.token(json!({}))).await;
    let end = whoami(&client).await["token"]["expiresAt"].clone();
    let made = client.post("/tokens", json!({ "name": "copy" })).await.created().data();
    assert_eq!(made["expiresAt"], end);
    let copy = server.with_token(made["token"].as_str().unwrap());
    let further = copy.post("/tokens", json!({ "name": "copy of it" })).await.created().data();
    let further = server.with_token(further["token"].as_str().unwrap());

    // From now on another rule assigns the same member: credentials from the old rule are gone.
    let narrowed = issuer.organization("acme", "").replace("'acme/*'", "'acme/other'");
    assert!(server.terminate().success());
    server.change_setup(|setup| setup.organizations(&[&narrowed]));
    server.start_again();
    for client in [client, copy, further] {
        client.at(&server).get("/pipelines").await.refused(401, "invalid_token");
    }
    exchange(&server, &issuer.token(json!({}))).await.refused(400, "invalid_grant");
    exchange(&server, &issuer.token(json!({ "repository": "acme/other" }))).await.ok();
}

#[tokio::test]
async fn a_job_that_is_an_admin_invites_nobody_and_its_rule_leaves_while_the_server_runs() {
    let issuer = Issuer::start().await;
    let file = issuer.organization("acme", "").replace("'developer'", "'admin'");
    let server = Setup::default().organization(&file).start();
    let client = job(&server, &issuer.token(json!({}))).await;
    let root = client.get("/members?name=root").await.ok().data()[0]["userId"].as_str().unwrap().to_owned();
    let made = client.post("/tokens", json!({ "name": "copy", "user": "root" })).await.created().data();
    let copy = server.with_token(made["token"].as_str().unwrap());
    for client in [&client, &copy] {
        client.post(&format!("/members/{root}/invitation"), json!({})).await.refused(403, "invitation_denied");
    }

    let without = &file[..file.find("[[identities]]").unwrap()];
    redeclare(&server, without);
    until_refused(&client).await;
    until_refused(&copy).await;
    exchange(&server, &issuer.token(json!({}))).await.refused(400, "invalid_grant");
}

//! Jobs without a stored token: the program finds the identity token and exchanges it automatically.

use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::issuer::{AUDIENCE, Issuer};
use crate::support::recorded::{Recorded, Request, Response};
use crate::support::waiting::until;
use crate::support::{Server, Setup, lockkeeper, secrecy};

fn serve(issuer: &Issuer) -> Server {
    Setup::default().organization(&issuer.organization("acme", "")).start()
}

/// A command as run by a job, without a profile.
fn command(server: &Server, home: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = lockkeeper(arguments);
    for name in ["ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"] {
        command.env_remove(name);
    }
    command.env("LOCKKEEPER_URL", &server.address).env("LOCKKEEPER_ORGANIZATION", "acme");
    command.env("XDG_CONFIG_HOME", home.path());
    command
}

/// Runs next to the issuer, which this thread serves.
async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn name_of(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["user"]["name"].clone()
}

#[tokio::test]
async fn an_identity_token_in_a_variable_or_a_file_is_enough() {
    let (issuer, home) = (Issuer::start().await, tempfile::tempdir().unwrap());
    let server = serve(&issuer);
    let token = issuer.token(json!({}));
    secrecy::note(&token);
    let mut by_variable = command(&server, &home, &["whoami", "--json"]);
    by_variable.env("LOCKKEEPER_IDENTITY_TOKEN", &token);
    assert_eq!(name_of(&run(by_variable).await), "ci");

    let file = home.path().join("identity-token");
    std::fs::write(&file, format!("{token}\n")).unwrap();
    let mut by_file = command(&server, &home, &["whoami", "--json"]);
    by_file.env("LOCKKEEPER_IDENTITY_TOKEN_FILE", &file);
    assert_eq!(name_of(&run(by_file).await), "ci");
    std::fs::remove_file(&file).unwrap();
    let mut missing = command(&server, &home, &["whoami"]);
    missing.env("LOCKKEEPER_IDENTITY_TOKEN_FILE", &file);
    let output = run(missing).await;
    assert!(output.status.code() == Some(2) && said(&output).contains("identity token file"), "{}", said(&output));
}

#[tokio::test]
async fn on_github_actions_the_permission_is_enough() {
    let (issuer, home) = (Issuer::start().await, tempfile::tempdir().unwrap());
    let server = serve(&issuer);
    let token = issuer.token(json!({}));
    let given = token.clone();
    let github = Recorded::start(move |request: Request| {
        let is_asked_well = request.header("authorization") == "Bearer runtime-token";
        let body = json!({ "count": 1, "value": given });
        std::future::ready(Response::json(if is_asked_well { 200 } else { 401 }, &body))
    })
    .await;
    let job = |permission: &str, audience: Option<&str>| {
        let mut job = command(&server, &home, &["whoami", "--json", "--retry", "0"]);
        job.env("ACTIONS_ID_TOKEN_REQUEST_URL", format!("{}/token?api-version=2.0", github.address));
        job.env("ACTIONS_ID_TOKEN_REQUEST_TOKEN", permission);
        if let Some(audience) = audience {
            job.env("LOCKKEEPER_AUDIENCE", audience);
        }
        job
    };
    assert_eq!(name_of(&run(job("runtime-token", Some(AUDIENCE))).await), "ci");
    assert_eq!(name_of(&run(job("runtime-token", None)).await), "ci");
    let asked: Vec<_> = github.asked().iter().map(|request| request.path.clone()).collect();
    let encoded = |text: &str| text.replace(':', "%3A").replace('/', "%2F");
    let path = |audience: &str| format!("/token?api-version=2.0&audience={}", encoded(audience));
    assert_eq!(asked, [path(AUDIENCE), path(&server.address)], "the audience is the server if none is given");

    let refused = run(job("wrong", None)).await;
    assert!(refused.status.code() == Some(69) && said(&refused).contains("GitHub gives no identity token: status 401"));
    assert!(!said(&refused).contains("wrong") && !said(&refused).contains(&token), "{}", said(&refused));
}

#[tokio::test]
async fn a_job_that_is_not_trusted_is_denied_in_words() {
    let (issuer, home) = (Issuer::start().await, tempfile::tempdir().unwrap());
    let server = serve(&issuer);
    let mut other = command(&server, &home, &["whoami"]);
    let token = issuer.token(json!({ "repository": "evil/web" }));
    other.env("LOCKKEEPER_IDENTITY_TOKEN", &token);
    let output = run(other).await;
    assert_eq!(output.status.code(), Some(77), "{}", said(&output));
    assert!(said(&output).contains("does not accept the identity token of this job"), "{}", said(&output));
    assert!(!said(&output).contains(&token));
    // Nothing was claimed, and the claim prints nothing else.
    for claim in [&["claim", "review-1"][..], &["run", "review-1", "--", "true"]] {
        let mut denied = command(&server, &home, claim);
        denied.env("LOCKKEEPER_IDENTITY_TOKEN", &token);
        let output = run(denied).await;
        assert_eq!(output.status.code(), Some(77), "{}", said(&output));
        assert!(!said(&output).contains("is not known"), "{}", said(&output));
    }

    let mut nowhere = command(&server, &home, &["whoami"]);
    nowhere.env("LOCKKEEPER_IDENTITY_TOKEN", issuer.token(json!({}))).env_remove("LOCKKEEPER_ORGANIZATION");
    let output = run(nowhere).await;
    assert!(output.status.code() == Some(2) && said(&output).contains("LOCKKEEPER_ORGANIZATION"), "{}", said(&output));
}

#[tokio::test]
async fn an_issuer_that_comes_back_in_time_costs_a_job_nothing_but_the_wait() {
    let (issuer, home) = (Issuer::start().await, tempfile::tempdir().unwrap());
    let server = serve(&issuer);
    issuer.answer_with(500);
    let mut waiting = command(&server, &home, &["whoami", "--json", "--retry", "60"]);
    waiting.env("LOCKKEEPER_IDENTITY_TOKEN", issuer.token(json!({})));
    let running = tokio::spawn(run(waiting));
    until("the job waits", async || server.log().contains("keys of the issuer cannot be read")).await;
    issuer.answer_with(200);
    assert_eq!(name_of(&running.await.unwrap()), "ci");
}

/// A proxy that makes the job's first token invalid.
#[tokio::test]
async fn a_token_that_the_server_refuses_is_exchanged_again_once() {
    let home = tempfile::tempdir().unwrap();
    let exchanges = Arc::new(Mutex::new(0));
    let counted = exchanges.clone();
    let fake = Recorded::start(move |request: Request| {
        let mut exchanges = counted.lock().unwrap();
        let answer = if request.path.ends_with("/tokens/exchange") {
            *exchanges += 1;
            Response::json(200, &json!({ "access_token": format!("lk_{exchanges}"), "expires_in": 3600 }))
        } else if request.header("authorization") == "Bearer lk_2" {
            Response::json(200, &json!({ "data": { "organization": {}, "user": { "name": "ci" }, "role": "viewer" } }))
        } else {
            Response::json(401, &json!({ "code": "invalid_token", "detail": "it has been revoked", "status": 401 }))
                .with("Content-Type", "application/problem+json")
        };
        std::future::ready(answer)
    })
    .await;
    let mut job = lockkeeper(&["whoami", "--json"]);
    job.env("LOCKKEEPER_URL", &fake.address).env("LOCKKEEPER_ORGANIZATION", "acme");
    job.env("XDG_CONFIG_HOME", home.path()).env("LOCKKEEPER_IDENTITY_TOKEN", "a.b.c");
    assert_eq!(name_of(&run(job).await), "ci");
    assert_eq!(*exchanges.lock().unwrap(), 2);
    let sent = fake.asked();
    let form = &sent[0].body;
    assert!(
        form.contains("subject_token=a.b.c") && form.contains("grant_type=urn%3Aietf%3Aparams%3Aoauth%3A"),
        "{form}"
    );
    assert_eq!(sent[0].header("authorization"), "");
}

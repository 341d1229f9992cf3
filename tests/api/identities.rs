//! CI jobs that exchange their identity token for a token, with a real issuer next to the server.

mod outages;
mod permanent;
mod refusing;
mod replaying;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::issuer::{Issuer, JobKey};
use crate::support::{Answer, Client, Server, Setup, refusal, secrecy};

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";

/// Sends an identity token to an organization.
async fn exchange_in(server: &Server, organization: &str, token: &str) -> Answer {
    secrecy::note(token);
    send(
        server,
        organization,
        &[("grant_type", GRANT_TYPE), ("subject_token", token), ("subject_token_type", ID_TOKEN)],
    )
    .await
}

async fn send(server: &Server, organization: &str, form: &[(&str, &str)]) -> Answer {
    let client = server.anonymous();
    let path = format!("/api/v1/organizations/{organization}/tokens/exchange");
    let body = form.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
    let request = client.request(Method::POST, &path).header("Content-Type", "application/x-www-form-urlencoded");
    client.send(request.body(body)).await
}

async fn exchange(server: &Server, token: &str) -> Answer {
    exchange_in(server, "acme", token).await
}

/// A client with the token exchanged for this identity token.
async fn job(server: &Server, token: &str) -> Client {
    let text = exchange(server, token).await.ok().json()["access_token"].as_str().unwrap().to_owned();
    secrecy::note(&text);
    server.with_token(&text)
}

fn serve(issuer: &Issuer) -> Server {
    Setup::default().organization(&issuer.organization("acme", "")).start()
}

async fn whoami(client: &Client) -> Value {
    client.send(client.request(Method::GET, "/api/v1/whoami")).await.ok().data()
}

async fn exchanged(server: &Server) -> Vec<Value> {
    server.admin().get("/events?type=token.exchanged").await.ok().data().as_array().unwrap().clone()
}

#[tokio::test]
async fn a_job_acts_as_the_member_that_its_rule_names() {
    let issuer = Issuer::start().await;
    let server = serve(&issuer);
    let answer = exchange(&server, &issuer.token(json!({}))).await.ok();
    let text = answer.json()["access_token"].as_str().unwrap().to_owned();
    secrecy::note(&text);
    assert!(text.starts_with("lk_") && answer.header("cache-control") == "no-store", "{answer:?}");
    let mut body = answer.json();
    body["access_token"] = json!("…");
    assert_eq!(
        body,
        json!({
            "access_token": "…", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "token_type": "Bearer", "expires_in": 3600,
        })
    );

    let client = server.with_token(&text);
    let me = whoami(&client).await;
    assert_eq!((&me["user"]["name"], &me["role"]), (&json!("ci"), &json!("developer")));
    assert_eq!(me["token"]["name"], "repo:acme/web:ref:refs/heads/main");
    let session = client.claim("review-1", json!({})).await.created().session();
    client.release("review-1", &session).await.ok();

    let member = &server.admin().get("/members?name=ci").await.ok().data()[0];
    assert_eq!((&member["hasPassword"], &member["tokenCount"]), (&json!(false), &json!(0)));
    assert_eq!(server.admin().get("/tokens").await.ok().data().as_array().unwrap().len(), 1, "the operator's alone");
    let [event] = &*exchanged(&server).await else { panic!("one exchange is one event") };
    let data = &event["data"];
    assert_eq!((&data["issuer"], &data["subject"]), (&json!(issuer.url()), &me["token"]["name"]));
    assert_eq!((&data["name"], &data["tokenId"]), (&json!("ci"), &me["token"]["tokenId"]));
    assert_eq!((&data["expiresAt"], &data["userId"]), (&me["token"]["expiresAt"], &me["user"]["userId"]));
    let again = job(&server, &issuer.token(json!({}))).await;
    assert_eq!(whoami(&again).await["user"], me["user"], "the same member");
    let metrics = server.anonymous();
    let metrics = metrics.send(metrics.request(Method::GET, "/metrics")).await.ok().text;
    assert!(metrics.contains("lockkeeper_token_exchanges_total{outcome=\"granted\"} 2"), "{metrics}");
}

#[tokio::test]
async fn the_first_rule_that_matches_gives_member_and_role_and_token_seconds_the_end() {
    let issuer = Issuer::start().await;
    let organization = issuer.organization("acme", "").replace(
        "rules = [",
        "token_seconds = 90\nrules = [{ claims = { repository = 'acme/web', ref = 'refs/heads/main' }, role = 'maintainer', \
         name = 'main' },",
    );
    let server = Setup::default().organization(&organization).start();
    let answer = exchange(&server, &issuer.token(json!({}))).await.ok().json();
    assert_eq!(answer["expires_in"], 90);
    let main = whoami(&server.with_token(answer["access_token"].as_str().unwrap())).await;
    assert_eq!((&main["user"]["name"], &main["role"]), (&json!("main"), &json!("maintainer")));
    let other = whoami(&job(&server, &issuer.token(json!({ "ref": "refs/heads/other" }))).await).await;
    assert_eq!((&other["user"]["name"], &other["role"]), (&json!("ci"), &json!("developer")));
}

#[tokio::test]
async fn a_retry_with_another_token_of_the_job_is_the_same_request() {
    let issuer = Issuer::start().await;
    let server = serve(&issuer);
    let (first, second) = (job(&server, &issuer.token(json!({}))).await, job(&server, &issuer.token(json!({}))).await);
    let path = "/pipelines/web/ephemeral-environments/review-1/sessions";
    let claimed = first.post_with_key(path, "key-1", json!({})).await.created();
    let again = second.post_with_key(path, "key-1", json!({})).await.created();
    assert_eq!((again.session(), again.header("idempotency-replayed")), (claimed.session(), "true"));
}

#[tokio::test]
async fn a_member_for_jobs_is_disabled_and_removed_like_others() {
    let issuer = Issuer::start().await;
    let server = serve(&issuer);
    let client = job(&server, &issuer.token(json!({}))).await;
    let id = whoami(&client).await["user"]["userId"].as_str().unwrap().to_owned();
    let admin = server.admin();
    let set = async |disabled: bool| {
        let path = admin.path(&format!("/members/{id}"));
        admin.send(admin.request(Method::PATCH, &path).json(&json!({ "disabled": disabled }))).await.ok();
    };
    set(true).await;
    client.get("/pipelines").await.refused(401, "invalid_token");
    exchange(&server, &issuer.token(json!({}))).await.refused(400, "invalid_grant");
    set(false).await;
    client.get("/pipelines").await.ok();

    admin.delete(&format!("/members/{id}")).await.has_status(204);
    client.get("/pipelines").await.refused(401, "invalid_token");
    let new = whoami(&job(&server, &issuer.token(json!({}))).await).await;
    assert_ne!(new["user"]["userId"], json!(id), "a member who was removed is made again, and is another one");
}

#[tokio::test]
async fn an_admin_revokes_the_token_of_a_job_by_the_id_in_its_event() {
    let issuer = Issuer::start().await;
    let server = serve(&issuer);
    let client = job(&server, &issuer.token(json!({}))).await;
    let id = exchanged(&server).await[0]["data"]["tokenId"].as_str().unwrap().to_owned();
    server.admin().delete(&format!("/tokens/{id}")).await.has_status(204);
    client.get("/pipelines").await.refused(401, "invalid_token");
}

#[tokio::test]
async fn a_token_of_a_job_survives_a_kill_and_ends_with_its_rule() {
    let issuer = Issuer::start().await;
    let mut server = serve(&issuer);
    let client = job(&server, &issuer.token(json!({}))).await;
    server.kill();
    server.start_again();
    let client = client.at(&server);
    assert_eq!(whoami(&client).await["role"], "developer");

    let demoted = issuer.organization("acme", "").replace("'developer'", "'viewer'");
    assert!(server.terminate().success());
    server.change_setup(|setup| setup.organizations(&[&demoted]));
    server.start_again();
    let client = client.at(&server);
    assert_eq!(whoami(&client).await["role"], "viewer", "the rule has another role");

    let without = "[organization]\nid = 'acme'\n[[members]]\nname = 'root'\nrole = 'admin'\n";
    assert!(server.terminate().success());
    server.change_setup(|setup| setup.organizations(&[without]));
    server.start_again();
    client.at(&server).get("/pipelines").await.refused(401, "invalid_token");
}

#[tokio::test]
async fn keys_of_every_kind_are_known() {
    let issuer = Issuer::start().await;
    let ecdsa = JobKey::ecdsa("second");
    // A key that the server does not understand does not hide the others.
    issuer.publish(&[json!({ "kty": "unknown", "kid": "x" }), issuer.key.public(), ecdsa.public()]);
    let server = serve(&issuer);
    exchange(&server, &issuer.token(json!({}))).await.ok();
    exchange(&server, &ecdsa.sign(&issuer.claims())).await.ok();
    assert_eq!(issuer.keys_read(), 1, "they are kept");
}

#[test]
fn a_rule_for_everybody_is_refused_at_the_start() {
    let home = tempfile::tempdir().unwrap();
    let organization = "[organization]\nid = 'acme'\n[[members]]\nname = 'root'\nrole = 'admin'\n[[identities]]\n\
                        issuer = 'https://ci.example'\naudience = 'a'\nrules = [{ claims = {}, role = 'viewer', name = 'ci' }]\n";
    let (code, said) = refusal(&Setup::default().organization(organization), home.path());
    assert!(code != 0 && said.contains("at least one claim that is not just `*`"), "{code} {said}");
}

//! Refused identity tokens and requests. All refusals look the same to the sender.

use std::io::Write;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;

use super::{GRANT_TYPE, ID_TOKEN, exchange, exchange_in, exchanged, send, serve};
use crate::support::issuer::{Issuer, changed_claims, put_together};
use crate::support::{Answer, Server, Setup};

/// Refused, with the same answer for all.
async fn is_refused(server: &Server, token: &str, said: &str) {
    let answer = exchange(server, token).await;
    let (found, expected) = (without_id(&answer), without_id(&exchange_in(server, "nobody", token).await));
    assert_eq!((answer.status.as_u16(), &found["code"]), (400, &json!("invalid_grant")), "{answer:?}");
    assert_eq!(found, expected, "as if there were no such organization");
    let log = server.log();
    let reasons: Vec<_> =
        log.lines().filter(|line| line.contains("was not exchanged") && line.contains("\"acme\"")).collect();
    // The same reason is not logged repeatedly.
    assert!(reasons.iter().any(|line| line.contains(said)), "{said:?} is not in {reasons:?}");
}

fn without_id(answer: &Answer) -> Value {
    let mut body = answer.json();
    body["requestId"] = json!(null);
    body
}

fn hmac(secret: &[u8], signed: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(signed);
    mac.finalize().into_bytes().to_vec()
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let issuer = Issuer::start().await;
    let server = serve(&issuer);
    let good = issuer.token(json!({}));
    exchange(&server, &good).await.ok();

    is_refused(&server, &issuer.key.forged().sign(&issuer.claims()), "ignature").await;
    let none = put_together(&json!({ "alg": "none" }), &issuer.claims(), |_| Vec::new());
    is_refused(&server, &none, "").await;
    is_refused(&server, none.trim_end_matches('.'), "").await;
    let raw = BASE64_URL_SAFE_NO_PAD.decode(issuer.key.public()["x"].as_str().unwrap()).unwrap();
    let header = json!({ "alg": "HS256", "kid": issuer.key.id, "typ": "JWT" });
    for secret in [raw.as_slice(), issuer.key.public().to_string().as_bytes(), b""] {
        is_refused(&server, &put_together(&header, &issuer.claims(), |signed| hmac(secret, signed)), "HS256").await;
    }
    let other_claims = issuer.token(json!({ "repository": "acme/other" }));
    let [header, _, signature] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let mixed = format!("{header}.{}.{signature}", other_claims.split('.').nth(1).unwrap());
    is_refused(&server, &mixed, "ignature").await;
    let critical = json!({ "alg": "EdDSA", "kid": issuer.key.id, "crit": ["x"], "x": 1 });
    is_refused(&server, &put_together(&critical, &issuer.claims(), |_| vec![0; 64]), "critical").await;
    let with_key = json!({ "alg": "EdDSA", "jwk": issuer.key.forged().public(), "jku": "http://127.0.0.1:1/keys" });
    is_refused(&server, &put_together(&with_key, &issuer.claims(), |_| vec![0; 64]), "ignature").await;
    assert_eq!(exchanged(&server).await.len(), 1, "none of them got anything");
}

#[tokio::test]
async fn a_key_in_the_place_of_a_secret_is_none() {
    let Some(rsa) = Rsa::generate() else { return };
    let issuer = Issuer::start().await;
    issuer.publish(&[rsa.public()]);
    let server = serve(&issuer);
    let header = |algorithm: &str| json!({ "alg": algorithm, "kid": "rsa", "typ": "JWT" });
    exchange(&server, &put_together(&header("RS256"), &issuer.claims(), |signed| rsa.sign(signed))).await.ok();
    let confused = put_together(&header("HS256"), &issuer.claims(), |signed| hmac(rsa.public_pem.as_bytes(), signed));
    is_refused(&server, &confused, "HS256").await;
    let other = put_together(&header("RS512"), &issuer.claims(), |signed| rsa.sign(signed));
    is_refused(&server, &other, "does not publish").await;
}

#[tokio::test]
async fn tokens_of_another_time_audience_issuer_or_job_are_refused() {
    let (issuer, stranger) = (Issuer::start().await, Issuer::start().await);
    let server = serve(&issuer);
    let now = jiff::Timestamp::now().as_second();
    for (changed, said) in [
        (json!({ "exp": now - 61 }), "xpired"),
        (json!({ "exp": null }), "not a signed token"),
        (json!({ "iat": now + 120 }), "in the future"),
        (json!({ "nbf": now + 120 }), "not valid yet"),
        (json!({ "aud": "https://other.example" }), "audience"),
        (json!({ "aud": [crate::support::issuer::AUDIENCE, "https://other.example"] }), "audience"),
        (json!({ "iss": stranger.url() }), "does not trust the issuer"),
        (json!({ "iss": null }), "not a signed token"),
        (json!({ "repository": "evil/acme" }), "no rule"),
        (json!({ "repository": null }), "no rule"),
        (json!({ "sub": null }), "not a signed token"),
    ] {
        is_refused(&server, &issuer.token(changed), said).await;
    }
    // Signed by another issuer, in our issuer's name; and vice versa.
    is_refused(&server, &stranger.token(json!({ "iss": issuer.url() })), "ignature").await;
    is_refused(&server, &stranger.token(json!({})), "does not trust the issuer").await;
    exchange(&server, &issuer.token(json!({ "exp": now - 30, "iat": now + 30, "nbf": now + 30 }))).await.ok();
}

#[tokio::test]
async fn an_issuer_of_one_organization_is_none_of_another() {
    let (ours, theirs) = (Issuer::start().await, Issuer::start().await);
    let setup = Setup::default().organization(&ours.organization("acme", ""));
    let server = setup.organization(&theirs.organization("beta", "")).start();
    exchange_in(&server, "beta", &theirs.token(json!({}))).await.ok();
    is_refused(&server, &theirs.token(json!({})), "does not trust the issuer").await;
    exchange_in(&server, "beta", &ours.token(json!({}))).await.refused(400, "invalid_grant");
    let token =
        exchange(&server, &ours.token(json!({}))).await.ok().json()["access_token"].as_str().unwrap().to_owned();
    let client = server.with_token(&token).in_organization("beta");
    client.get("/pipelines").await.refused(404, "organization_not_found");
}

#[tokio::test]
async fn what_is_no_token_is_refused_and_a_huge_one_is_not_even_read() {
    let issuer = Issuer::start().await;
    let server = serve(&issuer);
    for (text, said) in [("x", "not a signed token"), ("a.b.c", "not a signed token"), ("..", "not a signed token")] {
        is_refused(&server, text, said).await;
    }
    is_refused(&server, &issuer.token(json!({ "padding": "x".repeat(16 * 1024) })), "16384 bytes").await;
    assert_eq!(issuer.keys_read(), 0);
    let huge = "x".repeat(70_000);
    exchange(&server, &huge).await.refused(413, "body_too_large");
}

#[tokio::test]
async fn a_member_who_is_no_job_is_not_taken_over() {
    let issuer = Issuer::start().await;
    let server = serve(&issuer);
    server.admin().post("/members", json!({ "name": "ci", "role": "admin" })).await.created();
    is_refused(&server, &issuer.token(json!({})), "a member who is not for jobs").await;
    let member = &server.admin().get("/members?name=ci").await.ok().data()[0];
    assert_eq!(member["role"], "admin", "and stays as it was");
}

#[tokio::test]
async fn a_request_in_another_form_is_refused_in_words() {
    let issuer = Issuer::start().await;
    let server = serve(&issuer);
    let token = issuer.token(json!({}));
    let good = [("grant_type", GRANT_TYPE), ("subject_token", &token), ("subject_token_type", ID_TOKEN)];
    for missing in 0..good.len() {
        let rest: Vec<_> = good.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, pair)| *pair).collect();
        let answer = send(&server, "acme", &rest).await.refused(400, "invalid_request");
        assert_eq!(
            (&answer.faulty_fields()[..], &answer.json()["error"]),
            (&[good[missing].0.to_owned()][..], &json!("invalid_request"))
        );
    }
    let with = |name: &'static str, value: &'static str| {
        good.iter().map(|pair| if pair.0 == name { (name, value) } else { *pair }).collect::<Vec<_>>()
    };
    send(&server, "acme", &with("grant_type", "password")).await.refused(400, "unsupported_grant_type");
    send(&server, "acme", &with("subject_token_type", "jwt")).await.refused(400, "invalid_request");
    send(&server, "acme", &[&good[..], &[("scope", "x")]].concat()).await.refused(400, "invalid_request");
    send(&server, "acme", &[&good[..], &good[..1]].concat()).await.refused(400, "invalid_request");

    let client = server.anonymous();
    let path = "/api/v1/organizations/acme/tokens/exchange";
    let json = client.request(Method::POST, path).json(&json!({ "grant_type": GRANT_TYPE }));
    client.send(json).await.refused(415, "unsupported_media_type");
    client.send(client.request(Method::POST, path)).await.refused(415, "unsupported_media_type");
    client.send(client.request(Method::GET, path)).await.refused(405, "method_not_allowed");
    let query = client.request(Method::POST, &format!("{path}?subject_token={token}"));
    client.send(query).await.refused(400, "invalid_parameter");
    assert_eq!(exchanged(&server).await.len(), 0);
    assert_eq!(changed_claims(json!({ "a": 1 }), json!({ "a": null })), json!({}));
}

/// A key of openssl, which can make one quickly.
struct Rsa {
    home: tempfile::TempDir,
    public_pem: String,
}

impl Rsa {
    /// None, with a message, without openssl.
    fn generate() -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let key = home.path().join("key.pem");
        let made = Command::new("openssl")
            .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out"])
            .arg(&key)
            .output();
        if !made.is_ok_and(|made| made.status.success()) {
            println!("skipped: RSA keys need openssl");
            return None;
        }
        let public = Command::new("openssl").args(["pkey", "-pubout", "-in"]).arg(&key).output().unwrap();
        Some(Self { home, public_pem: String::from_utf8(public.stdout).unwrap() })
    }

    fn public(&self) -> Value {
        let key = self.home.path().join("key.pem");
        let shown = Command::new("openssl").args(["rsa", "-noout", "-modulus", "-in"]).arg(key).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        let hex = shown.trim().strip_prefix("Modulus=").unwrap();
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let modulus: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        json!({ "kty": "RSA", "kid": "rsa", "use": "sig", "alg": "RS256", "e": "AQAB",
                "n": BASE64_URL_SAFE_NO_PAD.encode(modulus) })
    }

    fn sign(&self, signed: &[u8]) -> Vec<u8> {
        let mut command = Command::new("openssl");
        command.args(["dgst", "-sha256", "-sign"]).arg(self.home.path().join("key.pem"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(signed).unwrap();
        child.wait_with_output().unwrap().stdout
    }
}

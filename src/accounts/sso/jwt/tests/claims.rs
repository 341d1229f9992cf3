//! The claims of a token: its issuer, audience, times, and sign-in.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::keys::Algorithm;
use super::{ALGORITHMS, NOW, Purpose, Signer, key_set, outcome, outcome_for};

const SKEW: Duration = Duration::from_secs(60);

fn sign_in(claims: Value) -> String {
    let signer = Signer::new("EdDSA");
    outcome(&signer.token(json!({}), claims), &signer.keys())
}

fn sign_in_at(millis: i64, claims: Value) -> String {
    let signer = Signer::new("EdDSA");
    let purpose = Purpose::SignIn { nonce: "n-1", access_token: "secret" };
    outcome_for(&signer.token(json!({}), claims), &signer.keys(), millis, purpose)
}

fn job_at(millis: i64, claims: Value) -> String {
    let signer = Signer::new("EdDSA");
    outcome_for(&signer.token(json!({}), claims), &signer.keys(), millis, Purpose::Job { skew: SKEW })
}

fn check(found: &str, expected: &str, claims: &Value) {
    let is_expected = if expected == "ok" { found == "ok" } else { found.contains(expected) };
    assert!(is_expected, "{claims}: {found}, not {expected}");
}

#[test]
fn a_token_is_from_its_issuer_and_for_us_alone() {
    for (claims, expected) in [
        (json!({ "aud": "lockkeeper" }), "ok"),
        (json!({ "aud": ["lockkeeper"] }), "ok"),
        (json!({ "aud": ["lockkeeper", "lockkeeper"], "azp": "lockkeeper" }), "ok"),
        (json!({ "aud": ["lockkeeper", "lockkeeper"] }), "no authorized party"),
        (json!({ "aud": ["lockkeeper", "other"], "azp": "lockkeeper" }), "audience"),
        (json!({ "aud": ["other", "lockkeeper"] }), "audience"),
        (json!({ "aud": "other" }), "audience"),
        (json!({ "aud": "Lockkeeper" }), "audience"),
        (json!({ "aud": "" }), "audience"),
        (json!({ "aud": [] }), "audience"),
        (json!({ "aud": null }), "audience"),
        (json!({ "aud": ["lockkeeper", 1] }), "unreadable"),
        (json!({ "aud": { "lockkeeper": 1 } }), "unreadable"),
        (json!({ "aud": 1 }), "unreadable"),
        (json!({ "iss": "https://id.example/" }), "another issuer"),
        (json!({ "iss": "https://ID.example" }), "another issuer"),
        (json!({ "iss": "" }), "another issuer"),
        (json!({ "iss": null }), "unreadable"),
        (json!({ "iss": ["https://id.example"] }), "unreadable"),
        (json!({ "sub": null }), "unreadable"),
        (json!({ "sub": 1 }), "unreadable"),
    ] {
        check(&sign_in(claims.clone()), expected, &claims);
    }
}

#[test]
fn a_token_for_others_is_refused_before_its_key_is_looked_for() {
    let (signer, none) = (Signer::new("EdDSA"), key_set([]));
    for claims in [json!({ "aud": "other" }), json!({ "iss": "https://other.example" })] {
        assert_ne!(outcome(&signer.token(json!({}), claims), &none), "unknown key");
    }
    assert_eq!(outcome(&signer.token(json!({}), json!({})), &none), "unknown key");
    assert_eq!(outcome(&signer.token(json!({}), json!({ "exp": 1, "nonce": "x" })), &none), "unknown key");
}

#[test]
fn a_sign_in_counts_until_its_token_ends() {
    let end = (NOW + 300) * 1_000;
    assert_eq!(sign_in_at(end - 1, json!({})), "ok");
    assert_eq!(sign_in_at(end, json!({})), "it has expired");
    assert_eq!(sign_in_at(end + 499, json!({ "exp": NOW as f64 + 300.5 })), "ok");
    assert_eq!(sign_in_at(end + 500, json!({ "exp": NOW as f64 + 300.5 })), "it has expired");
    // The clock of a provider may be ahead: the nonce proves that the token is new.
    assert_eq!(sign_in_at(end - 1, json!({ "iat": NOW + 10_000, "nbf": NOW + 10_000 })), "ok");
}

#[test]
fn a_job_counts_between_its_times_give_or_take_the_skew() {
    let now = NOW * 1_000;
    for (millis, claims, expected) in [
        (now + 359_999, json!({}), "ok"),
        (now + 360_000, json!({}), "expired"),
        (now - 70_000, json!({}), "ok"),
        (now - 70_001, json!({}), "in the future"),
        (now, json!({ "nbf": NOW + 60 }), "ok"),
        (now - 1, json!({ "nbf": NOW + 60 }), "not valid yet"),
        (now, json!({ "nbf": NOW as f64 + 60.001 }), "not valid yet"),
        (now, json!({ "nbf": "1" }), "`nbf` is not a number"),
        (now, json!({ "nbf": [] }), "`nbf` is not a number"),
        (now, json!({ "nbf": 1e300 }), "`nbf` is not a number"),
        (now, json!({ "nbf": -1e15 }), "`nbf` is not a number"),
        (now, json!({ "nonce": "any", "azp": "other", "at_hash": "x" }), "ok"),
        (now, json!({ "nonce": null }), "ok"),
    ] {
        check(&job_at(millis, claims.clone()), expected, &claims);
    }
}

#[test]
fn times_are_numbers_of_this_world() {
    for name in ["exp", "iat"] {
        for bad in
            [json!(null), json!("1800000300"), json!(true), json!([1]), json!(1e300), json!(-1e300), json!(u64::MAX)]
        {
            assert_eq!(job_at(NOW * 1_000, json!({ name: bad })), "unreadable", "{name} {bad}");
        }
    }
    assert_eq!(job_at(NOW * 1_000, json!({ "exp": 8_999_999_999_999_i64, "iat": -8_999_999_999_999_i64 })), "ok");
    assert_eq!(job_at(NOW * 1_000, json!({ "exp": -1 })), "it has expired");
}

#[test]
fn a_token_is_for_this_sign_in_and_this_client() {
    for (claims, expected) in [
        (json!({ "nonce": "n-2" }), "from another sign-in"),
        (json!({ "nonce": "" }), "from another sign-in"),
        (json!({ "nonce": "n-1 " }), "from another sign-in"),
        (json!({ "nonce": null }), "no nonce"),
        (json!({ "nonce": 1 }), "unreadable"),
        (json!({ "azp": "lockkeeper" }), "ok"),
        (json!({ "azp": "other" }), "another client"),
        (json!({ "azp": "" }), "another client"),
        (json!({ "azp": ["lockkeeper"] }), "unreadable"),
        (json!({ "at_hash": "x" }), "access token"),
        (json!({ "at_hash": "" }), "access token"),
        (json!({ "at_hash": 1 }), "unreadable"),
        (json!({ "email_verified": "true", "address": 1, "auth_time": "x" }), "ok"),
    ] {
        check(&sign_in(claims.clone()), expected, &claims);
    }
}

#[test]
fn the_access_token_is_the_one_of_the_id_token() {
    for name in ALGORITHMS {
        let signer = Signer::new(name);
        let hash = |text: &str| Algorithm::find(name).unwrap().half_hash(text);
        let found = |hash: &str| outcome(&signer.token(json!({}), json!({ "at_hash": hash })), &signer.keys());
        assert_eq!(found(&hash("secret")), "ok", "{name}");
        assert_eq!(found(&hash("other")), "the access token does not belong to the ID token", "{name}");
        assert_ne!(found(&format!("{}=", hash("secret"))), "ok", "{name}");
    }
}

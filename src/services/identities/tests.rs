//! Tokens and rules. Requests to issuers are tested over sockets, in `tests/api/identities`.
#![allow(clippy::unwrap_used)]

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ED25519, SigningKey};
use serde_json::{Value, json};

use super::keys::Keys;
use super::pattern::Pattern;
use super::token::{Checked, SKEW, Unchecked, Unverified};
use super::trusted::{Rule, TrustedIssuer};
use crate::domain::{Identifier, Role, Timestamp};
use crate::fuzz::fuzz_with;
use crate::sso::Claims;

const ISSUER: &str = "https://ci.example";
/// In seconds since 1970.
const NOW: i64 = 1_800_000_000;

fn trusted(rules: Vec<Rule>) -> TrustedIssuer {
    let (issuer, audience) = (ISSUER.to_owned(), "lockkeeper".to_owned());
    TrustedIssuer { issuer, audience, jwks_url: None, token_seconds: 3_600, rules }
}

fn rule(name: &str, claims: &[(&str, &str)]) -> Rule {
    let claims = claims.iter().map(|(name, text)| ((*name).to_owned(), Pattern::parse(text).unwrap())).collect();
    Rule { claims, role: Role::Developer, name: Identifier::parse(name).unwrap() }
}

fn claims(json: Value) -> Claims {
    let Value::Object(map) = json else { unreachable!() };
    Claims::new(map)
}

struct Signer(KeyPair);

impl Signer {
    fn new() -> Self {
        Self(KeyPair::generate_for(&PKCS_ED25519).unwrap())
    }

    fn keys(&self) -> Keys {
        let x = BASE64_URL_SAFE_NO_PAD.encode(self.0.public_key_raw());
        let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "1", "use": "sig", "x": x });
        serde_json::from_value(json!({ "keys": [key] })).unwrap()
    }

    /// With the usual claims, and these in their place or beside them; null leaves one out.
    fn sign(&self, claims: Value) -> String {
        let mut all = json!({ "iss": ISSUER, "aud": "lockkeeper", "sub": "job", "iat": NOW - 10, "exp": NOW + 300 });
        for (name, value) in claims.as_object().unwrap() {
            all[name] = value.clone();
        }
        all.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({ "alg": "EdDSA", "kid": "1", "typ": "JWT" })), part(&all));
        let signature = self.0.sign(signed.as_bytes()).unwrap();
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }
}

/// None if it was accepted, or why not.
fn refusal(signer: &Signer, text: &str, now_millis: i64) -> Option<String> {
    let checked = check(signer, text, now_millis);
    checked.err().map(|unverified| match unverified {
        Unverified::UnknownKey => "unknown key".to_owned(),
        Unverified::Refused(refusal) => refusal.to_string(),
    })
}

fn check(signer: &Signer, text: &str, now_millis: i64) -> Result<Checked, Unverified> {
    let unchecked = Unchecked::parse(text).map_err(Unverified::Refused)?;
    unchecked.check(&trusted(Vec::new()), &signer.keys(), Timestamp::from_millis(now_millis))
}

#[test]
fn a_token_is_valid_between_its_times_give_or_take_the_skew() {
    let signer = Signer::new();
    let skew = SKEW.as_secs() as i64;
    let plain = signer.sign(json!({}));
    for (text, seconds, expected) in [
        (&plain, NOW, None),
        (&plain, NOW + 300 + skew - 1, None),
        (&plain, NOW + 300 + skew, Some("xpired")),
        (&plain, NOW - 10 - skew, None),
        (&plain, NOW - 11 - skew, Some("in the future")),
        (&signer.sign(json!({ "nbf": NOW + skew })), NOW, None),
        (&signer.sign(json!({ "nbf": NOW + skew + 1 })), NOW, Some("not valid yet")),
        (&signer.sign(json!({ "nbf": "soon" })), NOW, Some("`nbf` is not a number")),
        (&signer.sign(json!({ "exp": null })), NOW, Some("not a signed token")),
        (&signer.sign(json!({ "iat": null })), NOW, Some("not a signed token")),
    ] {
        let found = refusal(&signer, text, seconds * 1_000);
        assert!(
            found.as_deref().zip(expected).map_or(found.is_none() == expected.is_none(), |(f, e)| f.contains(e)),
            "at {seconds}: {found:?}, not {expected:?}"
        );
    }
    assert_eq!(check(&signer, &plain, NOW * 1_000).ok().unwrap().until.as_millis(), (NOW + 300 + skew) * 1_000);
}

#[test]
fn a_token_is_of_its_issuer_for_us_alone_and_about_somebody() {
    let signer = Signer::new();
    for (claims, expected) in [
        (json!({ "aud": ["lockkeeper"] }), None),
        (json!({ "nonce": "any" }), None),
        (json!({ "aud": "other" }), Some("audience")),
        (json!({ "aud": ["lockkeeper", "other"] }), Some("audience")),
        (json!({ "aud": [] }), Some("audience")),
        (json!({ "iss": "https://ci.example/" }), Some("issuer")),
        (json!({ "sub": "" }), Some("subject")),
        (json!({ "sub": "x".repeat(1_025) }), Some("subject")),
        (json!({ "sub": null }), Some("not a signed token")),
    ] {
        let found = refusal(&signer, &signer.sign(claims.clone()), NOW * 1_000);
        assert!(
            found.as_deref().zip(expected).map_or(found.is_none() == expected.is_none(), |(f, e)| f.contains(e)),
            "{claims}: {found:?}, not {expected:?}"
        );
    }
    let other = Signer::new();
    let found = refusal(&signer, &other.sign(json!({})), NOW * 1_000).unwrap();
    assert!(found.contains("ignature"), "{found}");
}

#[test]
fn the_first_rule_whose_claims_all_match_counts() {
    let trusted = trusted(vec![
        rule("main", &[("repository", "acme/web"), ("ref", "refs/heads/main")]),
        rule("groups", &[("groups", "ops-*")]),
        rule("flags", &[("ref_protected", "true"), ("project_id", "7")]),
        rule("nested", &[("kubernetes.io.namespace", "ci")]),
        rule("any", &[("repository_owner", "acme")]),
    ]);
    for (json, expected) in [
        (json!({ "repository": "acme/web", "ref": "refs/heads/main", "repository_owner": "acme" }), Some("main")),
        (json!({ "repository": "acme/web", "ref": "refs/heads/x", "repository_owner": "acme" }), Some("any")),
        (json!({ "repository": "acme/web" }), None),
        (json!({ "groups": ["dev", "ops-1"] }), Some("groups")),
        (json!({ "groups": [["ops-1"], { "ops-1": 1 }] }), None),
        (json!({ "ref_protected": true, "project_id": 7 }), Some("flags")),
        (json!({ "ref_protected": "true", "project_id": "7" }), Some("flags")),
        (json!({ "ref_protected": false, "project_id": 7 }), None),
        (json!({ "kubernetes.io": { "namespace": "ci" } }), None),
        (json!({ "kubernetes": { "io": { "namespace": "ci" } } }), Some("nested")),
        (json!({ "repository_owner": null }), None),
        (json!({ "repository_owner": { "acme": "acme" } }), None),
        (json!({}), None),
    ] {
        let found = trusted.rule_for(&claims(json.clone())).map(|rule| rule.name.as_str());
        assert_eq!(found, expected, "{json}");
    }
}

#[test]
fn a_rule_without_claims_is_for_nobody() {
    assert!(trusted(vec![rule("any", &[])]).rule_for(&claims(json!({ "sub": "x" }))).is_none());
}

#[test]
fn fuzzed_identity_tokens_are_refused_or_checked() {
    let signer = Signer::new();
    let trusted = trusted(vec![rule("ci", &[("repository", "acme/*")])]);
    let samples =
        [signer.sign(json!({ "repository": "acme/web" })), signer.sign(json!({ "aud": ["a", "b"], "x": [1] }))];
    let keys = signer.keys();
    fuzz_with(500, samples, &["eyJhbGciOiJub25lIn0", "..", "e30"], |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return 0 };
        match Unchecked::parse(text) {
            Err(_) => 1,
            Ok(unchecked) => match unchecked.check(&trusted, &keys, Timestamp::from_millis(NOW * 1_000)) {
                Err(Unverified::UnknownKey) => 2,
                Err(Unverified::Refused(_)) => 3,
                Ok(checked) => 4 + i32::from(trusted.rule_for(&checked.claims).is_some()),
            },
        }
    });
}

//! Tokens and rules. Requests to issuers are tested over sockets, in `tests/api/identities`.
#![allow(clippy::unwrap_used)]

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ED25519, SigningKey};
use serde_json::{Value, json};

use super::token::{Checked, SKEW, TokenError, Unchecked};
use super::trusted::{Pattern, Rule, TrustedIssuer};
use crate::sso::{Claims, KeySet, Unverified};
use domain::{Identifier, Role, Timestamp};
use testkit::fuzz::{fuzz, fuzz_with};

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

    fn keys(&self) -> KeySet {
        let x = BASE64_URL_SAFE_NO_PAD.encode(self.0.public_key_raw());
        let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "1", "use": "sig", "x": x });
        serde_json::from_value(json!({ "keys": [key] })).unwrap()
    }

    /// With the usual claims, changed or extended by `claims`; null removes one.
    fn sign(&self, claims: Value) -> String {
        let mut all = json!({ "iss": ISSUER, "aud": "lockkeeper", "sub": "job", "iat": NOW - 10, "exp": NOW + 300 });
        for (name, value) in claims.as_object().unwrap() {
            all[name] = value.clone();
        }
        all.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        self.sign_parts(br#"{"alg":"EdDSA","kid":"1","typ":"JWT"}"#, all.to_string().as_bytes())
    }

    /// Signs any header and claims.
    fn sign_parts(&self, header: &[u8], claims: &[u8]) -> String {
        let part = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = self.0.sign(signed.as_bytes()).unwrap();
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Why the token is refused; None if it is accepted.
fn refusal(signer: &Signer, text: &str, now_millis: i64) -> Option<String> {
    check(signer, text, now_millis).err().map(|refusal| refusal.to_string())
}

fn check(signer: &Signer, text: &str, now_millis: i64) -> Result<Checked, TokenError> {
    let unchecked = Unchecked::parse(text)?;
    Ok(unchecked.check(&trusted(Vec::new()), &signer.keys(), Timestamp::from_millis(now_millis))?)
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
                Err(Unverified::Invalid(_)) => 3,
                Ok(checked) => 4 + i32::from(trusted.rule_for(&checked.claims).is_some()),
            },
        }
    });
}

/// With a valid signature: even a trusted issuer's token is accepted only if all claims are right.
#[test]
fn fuzzed_headers_and_claims_that_are_signed_are_refused_or_right() {
    let signer = Signer::new();
    let (trusted, keys) = (trusted(vec![rule("ci", &[("repository", "acme/*")])]), signer.keys());
    let header = r#"{"alg":"EdDSA","kid":"1","typ":"JWT"}"#;
    let claims = |more: &str| {
        let times = format!(r#""iat":{},"exp":{}"#, NOW - 10, NOW + 300);
        format!(r#"{header}|{{"iss":"{ISSUER}","aud":"lockkeeper","sub":"job",{times}{more}}}"#)
    };
    let more =
        [r#","repository":"acme/web""#, r#","nbf":1e9,"x":[{"y":null}]"#, r#","sub":"other""#, r#","aud":["a"]"#];
    let words =
        ["\"exp\":1e400", "\"nbf\":-1", "\"aud\":[]", "\"crit\":[]", "\"alg\":\"none\"", "\\u0000", "9e99", "null"];
    fuzz_with(500, more.map(claims), &words, |bytes| {
        let cut = bytes.iter().position(|byte| *byte == b'|').unwrap_or(bytes.len());
        let (header, claims) = (&bytes[..cut], bytes.get(cut + 1..).unwrap_or_default());
        let Ok(unchecked) = Unchecked::parse(&signer.sign_parts(header, claims)) else { return (1, String::new()) };
        match unchecked.check(&trusted, &keys, Timestamp::from_millis(NOW * 1_000)) {
            Err(Unverified::UnknownKey) => (2, String::new()),
            Err(Unverified::Invalid(why)) => (3, why.chars().take(30).collect()),
            Ok(checked) => {
                let header: Value = serde_json::from_slice(header).unwrap();
                let claims: Value = serde_json::from_slice(claims).unwrap();
                assert_eq!((&header["alg"], &claims["iss"]), (&json!("EdDSA"), &json!(ISSUER)));
                assert!(claims["aud"] == "lockkeeper" || claims["aud"] == json!(["lockkeeper"]), "{claims}");
                assert!(claims["exp"].as_f64().unwrap() > NOW as f64 - 60.0, "{claims}");
                assert_eq!(checked.subject, claims["sub"]);
                (4 + i32::from(trusted.rule_for(&checked.claims).is_some()), String::new())
            }
        }
    });
}

#[test]
fn fuzzed_key_sets_are_understood_or_refused_and_verify_nothing_by_another_key() {
    let (signer, other) = (Signer::new(), Signer::new());
    let own = BASE64_URL_SAFE_NO_PAD.encode(signer.0.public_key_raw());
    let set = |signer: &Signer, more: &str| {
        let x = BASE64_URL_SAFE_NO_PAD.encode(signer.0.public_key_raw());
        format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"1","use":"sig","x":"{x}"}}{more}]}}"#)
    };
    let rsa = r#",{"kty":"RSA","kid":"1","n":"AQAB","e":"AQAB"}"#;
    let samples = [set(&signer, ""), set(&other, rsa), r#"{"keys":[]}"#.to_owned()];
    let (text, trusted) = (signer.sign(json!({})), trusted(Vec::new()));
    let words = ["\"kty\":\"EC\"", "\"crv\":\"P-256\"", "\"alg\":\"EdDSA\"", "\"use\":\"enc\"", "\"keys\":[", "null"];
    fuzz_with(500, samples, &words, |bytes| {
        let Ok(keys) = serde_json::from_slice::<KeySet>(bytes) else { return 0 };
        match Unchecked::parse(&text).unwrap().check(&trusted, &keys, Timestamp::from_millis(NOW * 1_000)) {
            Err(Unverified::UnknownKey) => 1,
            Err(Unverified::Invalid(_)) => 2,
            Ok(_) => {
                let escaped: Value = serde_json::from_slice(bytes).unwrap();
                // The last character of the key may have unused bits.
                assert!(escaped.to_string().contains(&own[..own.len() - 1]), "{escaped}");
                3
            }
        }
    });
}

/// As documented: each `*` is any run of characters, everything else is exact.
fn matches_slowly(pattern: &[char], text: &[char]) -> bool {
    let mut reached = vec![true];
    reached.resize(text.len() + 1, false);
    for part in pattern {
        let before = reached.clone();
        for at in 0..=text.len() {
            reached[at] = match part {
                '*' => before[at] || (at > 0 && reached[at - 1]),
                part => at > 0 && before[at - 1] && text[at - 1] == *part,
            };
        }
    }
    reached[text.len()]
}

#[test]
fn fuzzed_rules_match_what_their_pattern_says_and_nothing_else() {
    let samples =
        ["acme/*|acme/web", "repo:acme/*:ref:refs/heads/main|repo:acme/web:ref:refs/heads/main", "*a*b*|xaybz"];
    let words = ["*", "**", "/", "|", "acme", "\u{e4}", "*ab*ab"];
    fuzz(samples, &words, |bytes| {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]);
        let (pattern, value) = text.split_once('|').unwrap_or((&text, ""));
        let Ok(parsed) = Pattern::parse(pattern) else { return 0 };
        let (slow_pattern, slow_value) = (pattern.chars().collect::<Vec<_>>(), value.chars().collect::<Vec<_>>());
        let expected = matches_slowly(&slow_pattern, &slow_value);
        let rule = Rule { claims: vec![("x".to_owned(), parsed)], ..rule("ci", &[]) };
        let of = |json: Value| trusted(vec![rule.clone()]).rule_for(&claims(json)).is_some();
        assert_eq!(of(json!({ "x": value })), expected, "{pattern:?} {value:?}");
        assert_eq!(of(json!({ "x": ["\u{0}", value] })), expected || matches_slowly(&slow_pattern, &['\u{0}']));
        assert!(!of(json!({ "y": value })) && !of(json!({ "x": { "x": value } })) && !of(json!({ "x": null })));
        1 + i32::from(expected)
    });
}

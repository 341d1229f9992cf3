//! The form of tokens and their headers.

use serde_json::json;

use super::{SignedToken, Signer, encoded, outcome, put_together, usual_claims};

#[test]
fn a_token_has_three_encoded_parts() {
    let signer = Signer::new("EdDSA");
    let good = signer.token(json!({}), json!({}));
    let [header, claims, signature] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(outcome(&good, &signer.keys()), "ok");
    let deep = encoded(format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)).as_bytes());
    for bad in [
        "",
        ".",
        "..",
        "...",
        "x",
        "a.b.c",
        &format!("{header}.{claims}"),
        &format!("{good}.{signature}"),
        &format!("{good}.."),
        &format!(".{good}"),
        &format!(" {good}"),
        &format!("{good}\n"),
        &format!("{good}="),
        &format!("{header}=.{claims}.{signature}"),
        &format!("{header}.{claims}.{}+", &signature[1..]),
        &format!("{header}..{signature}"),
        &format!(".{claims}.{signature}"),
        &format!("{claims}.{claims}.{signature}"),
        &format!("{header}.{header}.{signature}"),
        &format!("{header}.{deep}.{signature}"),
        &format!("{header}.{}.{signature}", encoded(b"[]")),
        &format!("{header}.{}.{signature}", encoded(b"\xff")),
        &format!("{}.{claims}.{signature}", encoded(b"null")),
    ] {
        assert_eq!(outcome(bad, &signer.keys()), "unreadable", "{bad}");
    }
    // With other unused bits in the last character: the same signature, encoded differently.
    let last = signature.as_bytes()[signature.len() - 1];
    let other = format!("{header}.{claims}.{}{}", &signature[..signature.len() - 1], char::from(last + 1));
    assert_eq!(outcome(&other, &signer.keys()), "unreadable");
}

#[test]
fn a_token_that_was_cut_or_changed_anywhere_is_refused() {
    for name in ["RS256", "ES384", "EdDSA"] {
        let signer = Signer::new(name);
        let (good, keys) = (signer.token(json!({ "kid": null }), json!({})), signer.keys());
        for at in 0..good.len() {
            assert_ne!(outcome(&good[..at], &keys), "ok", "{name} cut at {at}");
            let mut changed = good.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_ne!(outcome(&String::from_utf8(changed).unwrap(), &keys), "ok", "{name} changed at {at}");
        }
    }
}

#[test]
fn headers_of_other_tokens_are_refused() {
    let signer = Signer::new("EdDSA");
    for (header, expected) in [
        (json!({ "typ": "JWT" }), "ok"),
        (json!({ "typ": "jwt" }), "ok"),
        (json!({ "typ": "JOSE" }), "ok"),
        (json!({ "typ": "application/JWT" }), "ok"),
        (json!({ "jku": "https://evil.example", "jwk": Signer::new("EdDSA").public(), "x5c": [], "other": 1 }), "ok"),
        (json!({ "typ": "at+jwt" }), "type `at+jwt`"),
        (json!({ "typ": "application/at+jwt" }), "type `application/at+jwt`"),
        (json!({ "typ": "JOSE+JSON" }), "type"),
        (json!({ "typ": "text/jwt" }), "type"),
        (json!({ "typ": "application/application/jwt" }), "type"),
        (json!({ "typ": "" }), "type"),
        (json!({ "typ": 1 }), "unreadable"),
        (json!({ "cty": "JWT" }), "nested"),
        (json!({ "cty": "" }), "nested"),
        (json!({ "crit": ["exp"] }), "critical"),
        (json!({ "crit": [] }), "critical"),
        (json!({ "crit": ["b64"], "b64": false }), "critical"),
        (json!({ "kid": 7 }), "unreadable"),
        (json!({ "alg": null }), "unreadable"),
        (json!({ "alg": ["EdDSA"] }), "unreadable"),
    ] {
        let found = outcome(&signer.token(header.clone(), json!({})), &signer.keys());
        assert!(found.contains(expected), "{header}: {found}");
    }
}

#[test]
fn a_repeated_name_is_refused() {
    let signer = Signer::new("EdDSA");
    let plain = usual_claims().to_string();
    let signed = |header: &str, claims: &str| put_together(header, claims, |signed| signer.sign(signed));
    let header = r#"{"alg":"EdDSA"}"#;
    assert_eq!(outcome(&signed(header, &plain), &signer.keys()), "ok");
    for (name, value) in [("iss", "\"x\""), ("exp", "1"), ("aud", "[]"), ("sub", "\"2\""), ("nonce", "null")] {
        let claims = plain.replacen('{', &format!("{{\"{name}\":{value},"), 1);
        assert_eq!(outcome(&signed(header, &claims), &signer.keys()), "unreadable", "{claims}");
    }
    let groups = plain.replacen('{', r#"{"groups":["admins"],"groups":[],"#, 1);
    assert_eq!(outcome(&signed(header, &groups), &signer.keys()), "unreadable");
    for header in [r#"{"alg":"none","alg":"EdDSA"}"#, r#"{"alg":"EdDSA","kid":"1","kid":null}"#] {
        assert_eq!(outcome(&signed(header, &plain), &signer.keys()), "unreadable");
    }
}

#[test]
fn a_token_tells_its_claims() {
    let text = Signer::new("EdDSA").token(json!({}), json!({ "exp": 7.25, "groups": ["dev"] }));
    let token = SignedToken::parse(&text).unwrap();
    assert_eq!((token.issuer(), token.subject()), (super::ISSUER, "1"));
    assert_eq!((token.expires_at().as_millis(), token.claims().texts("groups")), (7_250, vec!["dev"]));
}

//! The choice of the key that checks a token.

use serde_json::{Value, json};

use super::super::keys::Algorithm;
use super::{KeySet, Signer, Unverified, changed, decoded, encoded, key_set, outcome};

fn with(key: &Value, members: Value) -> Value {
    changed(key.clone(), &members)
}

#[test]
fn the_key_id_decides_and_without_one_only_a_single_key_can_be_meant() {
    let (signer, other, rsa) = (Signer::new("ES256"), Signer::new("ES256"), Signer::new("RS256"));
    let (own, other) = (signer.public(), other.public());
    let [a, b] = [with(&own, json!({ "kid": "a" })), with(&other, json!({ "kid": "b" }))];
    let (with_id, without_id) = (signer.token(json!({ "kid": "a" }), json!({})), signer.token(json!({}), json!({})));
    let several = "several keys fit the signature";
    for (token, keys, expected) in [
        (&with_id, vec![a.clone()], "ok"),
        (&with_id, vec![b.clone(), a.clone()], "ok"),
        (&with_id, vec![b.clone()], "unknown key"),
        (&with_id, vec![own.clone()], "unknown key"),
        (&with_id, vec![], "unknown key"),
        (&with_id, vec![a.clone(), with(&other, json!({ "kid": "a" }))], several),
        (&with_id, vec![a.clone(), with(&rsa.public(), json!({ "kid": "a" }))], "ok"),
        (&without_id, vec![own.clone()], "ok"),
        (&without_id, vec![a.clone()], "ok"),
        (&without_id, vec![rsa.public(), a.clone()], "ok"),
        (&without_id, vec![a.clone(), b.clone()], several),
        (&without_id, vec![a.clone(), Signer::new("ES384").public()], several),
        (&without_id, vec![a.clone(), with(&other, json!({ "use": "enc" }))], "ok"),
        (&without_id, vec![a.clone(), with(&other, json!({ "alg": "ES384" }))], "ok"),
        (&without_id, vec![b], "the signature is wrong"),
    ] {
        assert_eq!(outcome(token, &key_set(keys.clone())), expected, "{keys:?}");
    }
}

#[test]
fn a_key_for_something_else_is_not_used() {
    for name in ["RS256", "PS384", "ES256", "EdDSA"] {
        let signer = Signer::new(name);
        let token = signer.token(json!({}), json!({}));
        for (members, expected) in [
            (json!({ "use": "sig", "alg": name, "x5t": "any", "key_ops": ["verify"] }), "ok"),
            (json!({ "use": "enc" }), "unknown key"),
            (json!({ "use": "SIG" }), "unknown key"),
            (json!({ "use": 1 }), "unknown key"),
            (json!({ "alg": "RS512" }), "unknown key"),
            (json!({ "alg": "RSA-OAEP" }), "unknown key"),
            (json!({ "alg": "none" }), "unknown key"),
            (json!({ "alg": [name] }), "unknown key"),
            (json!({ "kty": "oct" }), "unknown key"),
            (json!({ "kty": "rsa" }), "unknown key"),
            (json!({ "kty": null }), "unknown key"),
        ] {
            let keys = key_set([with(&signer.public(), members.clone())]);
            assert_eq!(outcome(&token, &keys), expected, "{name} {members}");
        }
    }
}

#[test]
fn a_key_whose_numbers_are_wrong_is_refused() {
    let (p256, p384) = (Signer::new("ES256"), Signer::new("ES384"));
    let (ed25519, rsa) = (Signer::new("EdDSA"), Signer::new("RS256"));
    let small: [u8; 32] = [1; 32];
    for (signer, members, expected) in [
        (&p256, json!({ "crv": "P-384" }), "not of the curve P-256"),
        (&p256, json!({ "crv": null }), "not of the curve P-256"),
        (&p256, json!({ "crv": "secp256k1" }), "not of the curve P-256"),
        (&p256, json!({ "x": encoded(&small[..31]) }), "not a point"),
        (&p256, json!({ "y": encoded(&[1; 33]) }), "not a point"),
        (&p256, json!({ "x": encoded(&small), "y": encoded(&small) }), "signature is wrong"),
        (&p256, json!({ "y": null }), "`y` of the key"),
        (&p256, json!({ "x": 7 }), "`x` of the key"),
        (&p256, json!({ "x": "ä" }), "`x` of the key"),
        (&p384, p256.public(), "not of the curve P-384"),
        (&ed25519, json!({ "crv": "X25519" }), "not of the curve Ed25519"),
        (&ed25519, json!({ "crv": "Ed448" }), "not of the curve Ed25519"),
        (&ed25519, json!({ "x": encoded(&small[..31]) }), "signature is wrong"),
        (&rsa, json!({ "n": null }), "`n` of the key"),
        (&rsa, json!({ "e": null }), "`e` of the key"),
        (&rsa, json!({ "e": "" }), "signature is wrong"),
        (&rsa, json!({ "e": "AQ" }), "signature is wrong"),
        (&rsa, json!({ "e": "AAA" }), "signature is wrong"),
        (&rsa, json!({ "n": encoded(&[0xff; 128]) }), "fewer than 2048 bits"),
        (&rsa, json!({ "n": encoded(&[&[0; 200][..], &[0xff; 255]].concat()) }), "fewer than 2048 bits"),
        (&rsa, json!({ "n": "" }), "fewer than 2048 bits"),
        (&rsa, json!({ "n": encoded(&[0xff; 1025]) }), "signature is wrong"),
    ] {
        let keys = key_set([with(&signer.public(), members.clone())]);
        let found = outcome(&signer.token(json!({}), json!({})), &keys);
        assert!(found.contains(expected), "{members}: {found}");
    }
}

#[test]
fn a_right_signature_by_a_short_rsa_key_is_refused() {
    let modulus = "o-yahM1YiRvRG_TrlOSn-WNln_XUOVRQN5NTqdY0XYlumO1VYCxaBTtplbTDpDnZ1YqaVvibAS3q0gI6dSz42-PLLZ4RkQ6-_QRGgBfEfIIy6dNy_wn9LwXwnSdZEzN36EBF6z5H7_TvVK5vfsxibK7hc5GKHnFPrdKY2mIvruU";
    let signature = "GKHCblfyK_uPcSM7hN0_A7NkAz87Vr_XbJ_FON7OI1nO4SS71dYrRLJybXa2Y6-AG7Fbqm6qPavvAKj8zh3cAaFTQZslJGIP6WbYGBrncJ-zS31-unndC6CYzI7p9j024WG-GLeHeXAgr51hc8w9aV4TE-0PWLTk10O-1Qcsbig";
    let keys = key_set([json!({ "kty": "RSA", "n": modulus, "e": "AQAB" })]);
    let algorithm = Algorithm::find("RS256").unwrap();
    let found = keys.find(None, algorithm).unwrap().verify(algorithm, b"signed", &decoded(signature));
    assert_eq!(found, Err(Unverified::invalid("the RSA key has fewer than 2048 bits")));
}

#[test]
fn zeros_before_a_number_and_bits_after_it_do_not_matter() {
    let signer = Signer::new("RS256");
    let key = signer.public();
    let bytes = decoded(key["n"].as_str().unwrap());
    let padded = with(&key, json!({ "n": encoded(&[&[0], bytes.as_slice()].concat()), "e": "AAABAAE" }));
    let token = signer.token(json!({}), json!({}));
    assert_eq!(outcome(&token, &key_set([padded])), "ok");
    // Four bits of the last character of 256 encoded bytes are unused.
    let mut text = key["n"].as_str().unwrap().to_owned();
    let last = text.pop().unwrap();
    text.push(char::from(last as u8 + 1));
    assert_eq!(outcome(&token, &key_set([with(&key, json!({ "n": text }))])), "ok");
}

#[test]
fn keys_that_cannot_be_read_are_left_out_and_a_set_that_is_none_is_refused() {
    let read = |text: &str| serde_json::from_str::<KeySet>(text);
    let signer = Signer::new("EdDSA");
    let (token, own) = (signer.token(json!({}), json!({})), signer.public());
    let repeated = own.to_string().replace("\"kty\"", "\"kty\":\"OKP\",\"kty\"");
    let keys =
        read(&format!(r#"{{ "keys": [null, 7, "x", [], {{}}, {{ "kty": "new" }}, {repeated}, {own}] }}"#)).unwrap();
    assert_eq!((keys.count(), outcome(&token, &keys)), (3, "ok".to_owned()));
    assert_eq!(read(r#"{ "keys": [], "more": 1 }"#).unwrap().count(), 0);
    for bad in ["", "{}", "[]", "null", r#"{ "keys": {} }"#, r#"{ "keys": null }"#, r#"{ "keys": [], "keys": [] }"#] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

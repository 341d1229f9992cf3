#![allow(clippy::unwrap_used)]

mod claims;
mod keys;
mod parsing;
mod signatures;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};

use super::keys::{KeySet, Unverified};
use super::token::{Expected, Purpose, SignedToken};
use domain::Timestamp;

const ALGORITHMS: [&str; 9] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];
const ISSUER: &str = "https://id.example";
const AUDIENCE: &str = "lockkeeper";
/// In seconds since 1970.
const NOW: i64 = 1_800_000_000;

/// Signs as an issuer does. All RSA signers share a key, each of the others has its own.
struct Signer {
    algorithm: &'static str,
    secret: Secret,
}

enum Secret {
    Rsa(RsaKeyPair, &'static dyn RsaEncoding),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    fn new(algorithm: &'static str) -> Self {
        let rsa = |encoding| Secret::Rsa(rsa_key(), encoding);
        let ecdsa = |kind| {
            let random = SystemRandom::new();
            let made = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
            Secret::Ecdsa(EcdsaKeyPair::from_pkcs8(kind, made.as_ref(), &random).unwrap())
        };
        let secret = match algorithm {
            "RS256" => rsa(&signature::RSA_PKCS1_SHA256),
            "RS384" => rsa(&signature::RSA_PKCS1_SHA384),
            "RS512" => rsa(&signature::RSA_PKCS1_SHA512),
            "PS256" => rsa(&signature::RSA_PSS_SHA256),
            "PS384" => rsa(&signature::RSA_PSS_SHA384),
            "PS512" => rsa(&signature::RSA_PSS_SHA512),
            "ES256" => ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING),
            "ES384" => ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING),
            "EdDSA" => {
                let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
                Secret::Ed25519(Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap())
            }
            other => panic!("{other}"),
        };
        Self { algorithm, secret }
    }

    fn sign(&self, signed: &[u8]) -> Vec<u8> {
        match &self.secret {
            Secret::Rsa(key, encoding) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(*encoding, &SystemRandom::new(), signed, &mut signature).unwrap();
                signature
            }
            Secret::Ecdsa(key) => key.sign(&SystemRandom::new(), signed).unwrap().as_ref().to_vec(),
            Secret::Ed25519(key) => key.sign(signed).as_ref().to_vec(),
        }
    }

    /// Without `kid`, `use` and `alg`.
    fn public(&self) -> Value {
        match &self.secret {
            Secret::Rsa(key, _) => {
                let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({ "kty": "RSA", "n": encoded(&n), "e": encoded(&e) })
            }
            Secret::Ecdsa(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at((key.public_key().as_ref().len() - 1) / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({ "kty": "EC", "crv": curve, "x": encoded(x), "y": encoded(y) })
            }
            Secret::Ed25519(key) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encoded(key.public_key().as_ref()) })
            }
        }
    }

    fn keys(&self) -> KeySet {
        key_set([self.public()])
    }

    /// With the usual header and claims, changed or extended by the arguments; null removes one.
    fn token(&self, header: Value, claims: Value) -> String {
        put_together(
            &changed(json!({ "alg": self.algorithm }), &header).to_string(),
            &changed(usual_claims(), &claims).to_string(),
            |signed| self.sign(signed),
        )
    }
}

fn rsa_key() -> RsaKeyPair {
    let lines = include_str!("rsa_2048.pem").lines();
    let text: String = lines.filter(|line| !line.starts_with('-')).collect();
    RsaKeyPair::from_pkcs8(&BASE64_STANDARD.decode(text).unwrap()).unwrap()
}

fn usual_claims() -> Value {
    json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "1", "iat": NOW - 10, "exp": NOW + 300, "nonce": "n-1" })
}

fn changed(mut object: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        object[name] = value.clone();
    }
    object.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    object
}

fn put_together(header: &str, claims: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let signed = format!("{}.{}", encoded(header.as_bytes()), encoded(claims.as_bytes()));
    let signature = encoded(&sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn encoded(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decoded(text: &str) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()
}

fn key_set(keys: impl IntoIterator<Item = Value>) -> KeySet {
    serde_json::from_value(json!({ "keys": keys.into_iter().collect::<Vec<_>>() })).unwrap()
}

/// "ok", "unreadable", "unknown key", or why the token is invalid as that of a sign-in.
fn outcome(token: &str, keys: &KeySet) -> String {
    outcome_for(token, keys, NOW * 1_000, Purpose::SignIn { nonce: "n-1", access_token: "secret" })
}

fn outcome_for(token: &str, keys: &KeySet, now_millis: i64, purpose: Purpose<'_>) -> String {
    let Some(token) = SignedToken::parse(token) else { return "unreadable".to_owned() };
    let now = Timestamp::from_millis(now_millis);
    match token.verify(keys, &Expected { issuer: ISSUER, audience: AUDIENCE, now, purpose }) {
        Ok(()) => "ok".to_owned(),
        Err(Unverified::UnknownKey) => "unknown key".to_owned(),
        Err(Unverified::Invalid(why)) => why,
    }
}

//! An issuer of identity tokens like those of CIs: real keys, its description and its key set over HTTP.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SigningKey};
use serde_json::{Value, json};

use super::recorded::{Recorded, Response};

pub const AUDIENCE: &str = "https://lock.example";

/// Serves until it is dropped.
pub struct Issuer {
    http: Recorded,
    state: Arc<Mutex<State>>,
    pub key: JobKey,
}

struct State {
    keys: Vec<Value>,
    status: u16,
    /// Replaces its name in the description.
    names: Option<String>,
}

/// A key that signs tokens.
#[derive(Clone)]
pub struct JobKey {
    pair: Arc<KeyPair>,
    algorithm: &'static str,
    pub id: String,
}

impl Issuer {
    pub async fn start() -> Self {
        let key = JobKey::ed25519("first");
        let state = Arc::new(Mutex::new(State { keys: vec![key.public()], status: 200, names: None }));
        let known = state.clone();
        let http = Recorded::start(move |request| {
            let state = known.lock().unwrap();
            let own = format!("http://{}", request.header("host"));
            let body = match request.path.as_str() {
                "/.well-known/openid-configuration" => {
                    json!({ "issuer": state.names.as_ref().unwrap_or(&own), "jwks_uri": format!("{own}/keys") })
                }
                "/keys" => json!({ "keys": state.keys }),
                _ => json!(null),
            };
            let status = if body.is_null() { 404 } else { state.status };
            std::future::ready(Response::json(status, &body))
        })
        .await;
        Self { http, state, key }
    }

    pub fn url(&self) -> &str {
        &self.http.address
    }

    /// An organization that trusts it with a rule for `acme/*`, with additional TOML.
    pub fn organization(&self, id: &str, more: &str) -> String {
        format!(
            "[organization]\nid = '{id}'\n[[members]]\nname = 'root'\nrole = 'admin'\n\
             [[pipelines]]\nid = 'web'\n[[pipelines.environments]]\nname = 'review-1'\n\
             [[identities]]\nissuer = '{}'\naudience = '{AUDIENCE}'\n\
             rules = [{{ claims = {{ repository = 'acme/*' }}, role = 'developer', name = 'ci' }}]\n{more}\n",
            self.url()
        )
    }

    /// Publishes exactly these keys.
    pub fn publish(&self, keys: &[Value]) {
        self.state.lock().unwrap().keys = keys.to_vec();
    }

    /// Answers normally with 200; otherwise every answer has this status.
    pub fn answer_with(&self, status: u16) {
        self.state.lock().unwrap().status = status;
    }

    /// Claims to be another issuer in its description.
    pub fn claim_to_be(&self, issuer: &str) {
        self.state.lock().unwrap().names = Some(issuer.to_owned());
    }

    /// How often its keys were read.
    pub fn keys_read(&self) -> usize {
        self.http.asked().iter().filter(|request| request.path == "/keys").count()
    }

    /// The claims of a job of `acme/web`, valid for five minutes.
    pub fn claims(&self) -> Value {
        let now = jiff::Timestamp::now().as_second();
        json!({
            "iss": self.url(), "aud": AUDIENCE, "sub": "repo:acme/web:ref:refs/heads/main", "iat": now, "exp": now + 300,
            "jti": uuid::Uuid::now_v7().to_string(), "repository": "acme/web", "ref": "refs/heads/main",
        })
    }

    /// A token for such a job, with some claims changed.
    pub fn token(&self, changed: Value) -> String {
        self.key.sign(&changed_claims(self.claims(), changed))
    }
}

pub fn changed_claims(mut claims: Value, changed: Value) -> Value {
    for (name, value) in changed.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

impl JobKey {
    pub fn ed25519(id: &str) -> Self {
        let pair = Arc::new(KeyPair::generate_for(&PKCS_ED25519).unwrap());
        Self { pair, algorithm: "EdDSA", id: id.to_owned() }
    }

    pub fn ecdsa(id: &str) -> Self {
        let pair = Arc::new(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap());
        Self { pair, algorithm: "ES256", id: id.to_owned() }
    }

    /// Another key with the same id.
    pub fn forged(&self) -> Self {
        Self::ed25519(&self.id)
    }

    pub fn public(&self) -> Value {
        let encoded = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let raw = self.pair.public_key_raw();
        match self.algorithm {
            "EdDSA" => json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "use": "sig", "x": encoded(raw) }),
            _ => json!({ "kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "x": encoded(&raw[1..33]),
                         "y": encoded(&raw[33..]) }),
        }
    }

    pub fn sign(&self, claims: &Value) -> String {
        let header = json!({ "alg": self.algorithm, "kid": self.id, "typ": "JWT" });
        put_together(&header, claims, |signed| {
            let signature = self.pair.sign(signed).unwrap();
            if self.algorithm == "EdDSA" { signature } else { plain_ecdsa(&signature) }
        })
    }
}

/// A token with any header and any signature.
pub fn put_together(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let encoded = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let signed = format!("{}.{}", encoded(header.to_string().as_bytes()), encoded(claims.to_string().as_bytes()));
    let signature = encoded(&sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// Converts two integers in DER to two of 32 bytes, the form in tokens.
fn plain_ecdsa(der: &[u8]) -> Vec<u8> {
    let mut rest = &der[2..];
    let mut plain = Vec::new();
    for _ in 0..2 {
        let length = usize::from(rest[1]);
        let integer = &rest[2..2 + length];
        let significant = &integer[integer.len().saturating_sub(32)..];
        plain.extend(std::iter::repeat_n(0, 32 - significant.len()));
        plain.extend_from_slice(significant);
        rest = &rest[2 + length..];
    }
    plain
}

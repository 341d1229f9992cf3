//! A signed token: its parts, its claims, and the checks of both.

use std::slice;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::keys::{Algorithm, KeySet, Object, Unverified};
use domain::Timestamp;

/// About 285,000 years. Beyond 2^53, an `f64` is not exact.
const MILLIS_MAX: f64 = 9e15;

/// A parsed token. Nothing in it has been checked.
pub struct SignedToken {
    header: Header,
    standard: StandardClaims,
    claims: Claims,
    /// Header and claims as sent.
    signed: String,
    signature: Vec<u8>,
}

/// The requirements on a token.
pub struct Expected<'a> {
    pub issuer: &'a str,
    /// No other audience is allowed: that audience could present its copy of the token here.
    pub audience: &'a str,
    pub now: Timestamp,
    pub purpose: Purpose<'a>,
}

pub enum Purpose<'a> {
    /// An ID token for one sign-in of a browser.
    SignIn { nonce: &'a str, access_token: &'a str },
    /// The identity token of a job. The issuer's clock may differ from ours by `skew`.
    Job { skew: Duration },
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    cty: Option<IgnoredAny>,
    crit: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct StandardClaims {
    iss: String,
    sub: String,
    #[serde(default)]
    aud: Audience,
    #[serde(deserialize_with = "millis")]
    exp: i64,
    #[serde(deserialize_with = "millis")]
    iat: i64,
    nonce: Option<String>,
    azp: Option<String>,
    at_hash: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl SignedToken {
    /// None if it cannot be parsed. No reason is returned, since it could quote the token.
    pub fn parse(text: &str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decoded = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).ok();
        let Object(claims) = serde_json::from_slice(&decoded(claims)?).ok()?;
        Some(Self {
            header: serde_json::from_slice(&decoded(header)?).ok()?,
            standard: StandardClaims::deserialize(&claims).ok()?,
            claims: Claims::new(claims),
            signed: signed.to_owned(),
            signature: decoded(signature)?,
        })
    }

    pub fn issuer(&self) -> &str {
        &self.standard.iss
    }

    pub fn subject(&self) -> &str {
        &self.standard.sub
    }

    pub fn expires_at(&self) -> Timestamp {
        Timestamp::from_millis(self.standard.exp)
    }

    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Issuer and audience are checked before the key: a token for another audience must not cause a request for new
    /// keys.
    pub fn verify(&self, keys: &KeySet, expected: &Expected<'_>) -> Result<(), Unverified> {
        self.header.check()?;
        self.check_addressee(expected)?;
        let algorithm = Algorithm::find(&self.header.alg)
            .ok_or_else(|| Unverified::Invalid(format!("signatures with `{}` are not accepted", self.header.alg)))?;
        let key = keys.find(self.header.kid.as_deref(), algorithm)?;
        key.verify(algorithm, self.signed.as_bytes(), &self.signature)?;
        match expected.purpose {
            Purpose::SignIn { nonce, access_token } => {
                self.check_times(expected.now, None)?;
                self.check_sign_in(expected.audience, nonce, &algorithm.half_hash(access_token))
            }
            Purpose::Job { skew } => self.check_times(expected.now, Some(skew)),
        }
    }

    fn check_addressee(&self, expected: &Expected<'_>) -> Result<(), Unverified> {
        if self.standard.iss != expected.issuer {
            return Err(Unverified::Invalid(format!("it is from another issuer, {}", self.standard.iss)));
        }
        let audiences = self.standard.aud.list();
        if !audiences.is_empty() && audiences.iter().all(|audience| audience == expected.audience) {
            return Ok(());
        }
        let why = format!("its audience must be `{}` alone, and is {audiences:?}", expected.audience);
        Err(Unverified::Invalid(why))
    }

    /// Without a skew, only `exp` is checked.
    fn check_times(&self, now: Timestamp, skew: Option<Duration>) -> Result<(), Unverified> {
        let now = now.as_millis();
        let apart = skew.map_or(0, |skew| i64::try_from(skew.as_millis()).unwrap_or(i64::MAX));
        if now.saturating_sub(apart) >= self.standard.exp {
            return Err(Unverified::invalid("it has expired"));
        }
        if skew.is_none() {
            return Ok(());
        }
        let latest = now.saturating_add(apart);
        if self.standard.iat > latest {
            return Err(Unverified::invalid("it is issued in the future"));
        }
        let Some(value) = self.claims.find("nbf") else { return Ok(()) };
        let not_before = value.as_f64().and_then(from_seconds);
        match not_before.ok_or_else(|| Unverified::invalid("`nbf` is not a number of seconds"))? {
            not_before if not_before > latest => Err(Unverified::invalid("it is not valid yet")),
            _ => Ok(()),
        }
    }

    fn check_sign_in(&self, client_id: &str, nonce: &str, token_hash: &str) -> Result<(), Unverified> {
        let Some(found) = &self.standard.nonce else { return Err(Unverified::invalid("it has no nonce")) };
        // Comparing hashes does not reveal by its timing how much of the nonce is right.
        if Sha256::digest(found) != Sha256::digest(nonce) {
            return Err(Unverified::invalid("its nonce is from another sign-in"));
        }
        match &self.standard.azp {
            Some(party) if party != client_id => return Err(Unverified::invalid("it is for another client")),
            None if self.standard.aud.list().len() > 1 => {
                return Err(Unverified::invalid("it has several audiences and no authorized party"));
            }
            Some(_) | None => {}
        }
        match &self.standard.at_hash {
            Some(hash) if hash != token_hash => {
                Err(Unverified::invalid("the access token does not belong to the ID token"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Header {
    fn check(&self) -> Result<(), Unverified> {
        // Other kinds of tokens, such as access tokens (`at+jwt`), have another type.
        if let Some(named) = &self.typ {
            let lower = named.to_lowercase();
            if !matches!(lower.strip_prefix("application/").unwrap_or(&lower), "jwt" | "jose") {
                return Err(Unverified::Invalid(format!("tokens of the type `{named}` are not accepted")));
            }
        }
        if self.cty.is_some() {
            return Err(Unverified::invalid("nested tokens are not supported"));
        }
        // Lists extensions that must be understood. We support none.
        if self.crit.is_some() {
            return Err(Unverified::invalid("critical header fields are not supported"));
        }
        Ok(())
    }
}

impl Audience {
    fn list(&self) -> &[String] {
        match self {
            Self::One(audience) => slice::from_ref(audience),
            Self::Several(audiences) => audiences,
        }
    }
}

impl Default for Audience {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    from_seconds(f64::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("not a time"))
}

fn from_seconds(seconds: f64) -> Option<i64> {
    let millis = (seconds * 1_000.0).floor();
    (millis.abs() <= MILLIS_MAX).then_some(millis as i64)
}

#[derive(Clone)]
pub struct Claims(Map<String, Value>);

impl Claims {
    pub fn new(claims: Map<String, Value>) -> Self {
        Self(claims)
    }

    /// Adds the claims that are missing.
    pub fn complete(&mut self, others: Map<String, Value>) {
        for (name, value) in others {
            self.0.entry(name).or_insert(value);
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.find(name)?.as_str()
    }

    pub fn is_true(&self, name: &str) -> bool {
        // Some providers write it as a string.
        self.find(name).is_some_and(|value| value.as_bool() == Some(true) || value.as_str() == Some("true"))
    }

    /// The strings of a list; a single string is a list of one.
    pub fn texts(&self, name: &str) -> Vec<&str> {
        match self.find(name) {
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
        }
    }

    /// Finds a claim by its full name, since some names are URLs; otherwise by a path of names, such as
    /// `realm_access.roles`.
    pub fn find(&self, name: &str) -> Option<&Value> {
        if let Some(value) = self.0.get(name) {
            return Some(value);
        }
        let (outer, path) = name.split_once('.')?;
        path.split('.').try_fold(self.0.get(outer)?, |value, name| value.get(name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(json: Value) -> Claims {
        let Value::Object(map) = json else { panic!("claims are an object") };
        Claims::new(map)
    }

    #[test]
    fn a_claim_is_found_by_its_name_or_by_a_path() {
        let claims = claims(json!({
            "groups": ["dev", 7, "ops"], "one": "dev", "number": 1, "nothing": null,
            "https://acme.example/groups": ["url"], "realm_access": { "roles": ["inner"], "text": "x" },
        }));
        assert_eq!(claims.texts("groups"), ["dev", "ops"]);
        assert_eq!(claims.texts("one"), ["dev"]);
        assert_eq!(claims.texts("https://acme.example/groups"), ["url"]);
        assert_eq!(claims.texts("realm_access.roles"), ["inner"]);
        for none in ["number", "nothing", "realm_access", "missing", "realm_access.missing", "one.inner", ".", ""] {
            assert_eq!(claims.texts(none), Vec::<&str>::new(), "{none}");
        }
        assert_eq!((claims.text("one"), claims.text("groups")), (Some("dev"), None));
    }

    #[test]
    fn what_the_token_says_wins_over_what_is_added_later() {
        let mut found = claims(json!({ "sub": "1", "email": "ana@acme.example" }));
        let Value::Object(others) = json!({ "email": "eve@acme.example", "groups": ["dev"] }) else { unreachable!() };
        found.complete(others);
        assert_eq!((found.text("email"), found.texts("groups")), (Some("ana@acme.example"), vec!["dev"]));
    }

    #[test]
    fn only_a_plain_yes_is_true() {
        let claims = claims(json!({ "a": true, "b": "true", "c": "yes", "d": 1, "e": false, "f": null }));
        let said: Vec<_> =
            ["a", "b", "c", "d", "e", "f", "g"].into_iter().filter(|name| claims.is_true(name)).collect();
        assert_eq!(said, ["a", "b"]);
    }
}

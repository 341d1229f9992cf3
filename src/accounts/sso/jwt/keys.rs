//! The keys of an issuer (RFC 7517), and signatures with them (RFC 7518 and 8037), which ring verifies. JSON objects
//! with duplicate names are refused: two parsers could read different values.

use std::fmt;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::{digest, signature};
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// 2048 bits. Ring has the same limit, but does not say why it refuses a key.
const RSA_BYTES_MIN: usize = 256;
/// Accepts unused bits in the last character, which some issuers do not set to zero.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// The accepted algorithms. Never `none`, and never a shared secret (HS256), since the issuer is not the only one who
/// has it.
static ALGORITHMS: [Algorithm; 9] = [
    Algorithm::rsa("RS256", &signature::RSA_PKCS1_2048_8192_SHA256, &digest::SHA256),
    Algorithm::rsa("RS384", &signature::RSA_PKCS1_2048_8192_SHA384, &digest::SHA384),
    Algorithm::rsa("RS512", &signature::RSA_PKCS1_2048_8192_SHA512, &digest::SHA512),
    Algorithm::rsa("PS256", &signature::RSA_PSS_2048_8192_SHA256, &digest::SHA256),
    Algorithm::rsa("PS384", &signature::RSA_PSS_2048_8192_SHA384, &digest::SHA384),
    Algorithm::rsa("PS512", &signature::RSA_PSS_2048_8192_SHA512, &digest::SHA512),
    Algorithm {
        name: "ES256",
        kind: Kind::Ecdsa { curve: "P-256", bytes: 32, parameters: &signature::ECDSA_P256_SHA256_FIXED },
        hash: &digest::SHA256,
    },
    Algorithm {
        name: "ES384",
        kind: Kind::Ecdsa { curve: "P-384", bytes: 48, parameters: &signature::ECDSA_P384_SHA384_FIXED },
        hash: &digest::SHA384,
    },
    Algorithm { name: "EdDSA", kind: Kind::Ed25519, hash: &digest::SHA512 },
];

/// The reason for refusing a token.
#[derive(Debug, PartialEq, Eq)]
pub enum Unverified {
    /// The issuer may have published a new key since.
    UnknownKey,
    /// May quote the token: escape it before logging.
    Invalid(String),
}

pub struct Algorithm {
    pub name: &'static str,
    kind: Kind,
    hash: &'static digest::Algorithm,
}

enum Kind {
    Rsa(&'static signature::RsaParameters),
    Ecdsa { curve: &'static str, bytes: usize, parameters: &'static signature::EcdsaVerificationAlgorithm },
    Ed25519,
}

#[derive(Deserialize)]
pub struct KeySet {
    #[serde(deserialize_with = "readable_keys")]
    keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(transparent)]
pub struct Key(Object);

impl Unverified {
    pub fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into())
    }
}

impl Algorithm {
    const fn rsa(
        name: &'static str,
        parameters: &'static signature::RsaParameters,
        hash: &'static digest::Algorithm,
    ) -> Self {
        Self { name, kind: Kind::Rsa(parameters), hash }
    }

    pub fn find(name: &str) -> Option<&'static Self> {
        ALGORITHMS.iter().find(|algorithm| algorithm.name == name)
    }

    /// The left half of the hash, as in `at_hash`.
    pub fn half_hash(&self, text: &str) -> String {
        let hash = digest::digest(self.hash, text.as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(&hash.as_ref()[..self.hash.output_len() / 2])
    }
}

impl KeySet {
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// The key for a signature. Without a key id, only one key may fit.
    pub fn find(&self, id: Option<&str>, algorithm: &Algorithm) -> Result<&Key, Unverified> {
        let mut fitting = self.keys.iter().filter(|key| key.fits(id, algorithm));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(key),
            (Some(_), Some(_)) => Err(Unverified::invalid("several keys fit the signature")),
            (None, _) => Err(Unverified::UnknownKey),
        }
    }
}

impl Key {
    fn fits(&self, id: Option<&str>, algorithm: &Algorithm) -> bool {
        let key_type = match algorithm.kind {
            Kind::Rsa(_) => "RSA",
            Kind::Ecdsa { .. } => "EC",
            Kind::Ed25519 => "OKP",
        };
        let may_be = |name: &str, value: &str| self.member(name).is_none_or(|member| member == value);
        let has_id = match id {
            Some(id) => self.text("kid") == Some(id),
            None => self.member("kid").is_none_or(Value::is_string),
        };
        has_id && self.text("kty") == Some(key_type) && may_be("use", "sig") && may_be("alg", algorithm.name)
    }

    pub fn verify(&self, algorithm: &Algorithm, signed: &[u8], signature: &[u8]) -> Result<(), Unverified> {
        let verified = match algorithm.kind {
            Kind::Rsa(parameters) => {
                let key = signature::RsaPublicKeyComponents { n: self.integer("n")?, e: self.integer("e")? };
                if key.n.len() < RSA_BYTES_MIN {
                    return Err(Unverified::invalid("the RSA key has fewer than 2048 bits"));
                }
                key.verify(parameters, signed, signature)
            }
            Kind::Ecdsa { curve, bytes, parameters } => {
                let (x, y) = (self.on_curve(curve, "x")?, self.on_curve(curve, "y")?);
                if x.len() != bytes || y.len() != bytes {
                    return Err(Unverified::invalid(format!("the key is not a point of {curve}")));
                }
                let point = [&[4], x.as_slice(), y.as_slice()].concat();
                signature::UnparsedPublicKey::new(parameters, point).verify(signed, signature)
            }
            Kind::Ed25519 => {
                let point = self.on_curve("Ed25519", "x")?;
                signature::UnparsedPublicKey::new(&signature::ED25519, point).verify(signed, signature)
            }
        };
        verified.map_err(|_| Unverified::invalid("the signature is wrong"))
    }

    fn on_curve(&self, curve: &str, name: &str) -> Result<Vec<u8>, Unverified> {
        if self.text("crv") != Some(curve) {
            return Err(Unverified::invalid(format!("the key is not of the curve {curve}")));
        }
        self.bytes(name)
    }

    /// Without leading zeros: some issuers write them, ring refuses them.
    fn integer(&self, name: &str) -> Result<Vec<u8>, Unverified> {
        let bytes = self.bytes(name)?;
        Ok(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
    }

    fn bytes(&self, name: &str) -> Result<Vec<u8>, Unverified> {
        let bytes = self.text(name).and_then(|text| LENIENT_BASE64.decode(text).ok());
        bytes.ok_or_else(|| Unverified::invalid(format!("`{name}` of the key cannot be read")))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.member(name)?.as_str()
    }

    fn member(&self, name: &str) -> Option<&Value> {
        self.0.0.get(name).filter(|value| !value.is_null())
    }
}

/// Skips keys that cannot be parsed: the others can still be used.
fn readable_keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Key>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Entry {
        Key(Key),
        Other(IgnoredAny),
    }
    let entries = Vec::<Entry>::deserialize(deserializer)?.into_iter();
    Ok(entries.filter_map(|entry| if let Entry::Key(key) = entry { Some(key) } else { None }).collect())
}

pub struct Object(pub Map<String, Value>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Object, A::Error> {
        let mut map = Map::new();
        while let Some((name, value)) = entries.next_entry::<String, Value>()? {
            if map.insert(name, value).is_some() {
                return Err(A::Error::custom("duplicate name"));
            }
        }
        Ok(Object(map))
    }
}

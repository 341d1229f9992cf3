//! A secret without its value, the requests and errors of secrets, and the stored forms of secrets and of the wrapped
//! keys of organizations.

use serde::{Deserialize, Serialize};

use super::sealing::{Key, Ring, Sealed, SealedV1, SecretIdentity, SecretValue};
use domain::{Description, Identifier, Timestamp, VariableName};
use records::stored::Stored;
use store::StoreError;
use store::keys::{DATA_KEYS, SECRETS, in_organization};
use store::record::{self, records};

/// Per organization: more than its pipelines need, few enough to keep in memory and to pass to a step.
pub const SECRETS_MAX: usize = 1_000;

/// Everything but the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    pub name: VariableName,
    pub description: Description,
    /// None for a secret of the organization, which all its pipelines get.
    pub pipeline: Option<Identifier>,
    /// Rises with every change; never used twice under one name.
    pub version: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug)]
pub struct NewSecret {
    pub pipeline: Option<Identifier>,
    pub name: VariableName,
    pub value: SecretValue,
    pub description: Description,
}

/// `None` leaves a field unchanged.
#[derive(Debug, Default)]
pub struct SecretChange {
    pub value: Option<SecretValue>,
    pub description: Option<Description>,
}

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a secret of this name already exists; change it, or choose another name")]
    Exists,
    #[error("the organization has the maximum of {SECRETS_MAX} secrets; delete one first")]
    TooMany,
    #[error("the secret does not exist")]
    NotFound,
    #[error("the secret is at version {current}; read it again before you change it")]
    VersionMismatch { current: u64 },
    #[error("the secret {name} cannot be decrypted: its record is damaged; set its value again")]
    DoesNotOpen { name: VariableName },
}

impl Secret {
    pub(super) fn identity<'a>(&'a self, organization: &'a Identifier) -> SecretIdentity<'a> {
        SecretIdentity::new(organization, self.pipeline.as_ref(), &self.name, self.version)
    }
}

records! {
    SecretV1<'a> = "secret",
    RingV1<'a> = "data key",
}

/// `s/{organization}/{pipeline, or nothing}/{name}`
pub fn secret_key(organization: &Identifier, pipeline: Option<&Identifier>, name: &VariableName) -> Vec<u8> {
    [&scope_prefix(organization, pipeline), name.as_str().as_bytes()].concat()
}

/// The prefix of all secrets of an organization, including those of its pipelines.
pub fn organization_prefix(organization: &Identifier) -> Vec<u8> {
    in_organization(SECRETS, organization.as_str())
}

/// The prefix of the secrets of a pipeline, or of the organization's own.
pub fn scope_prefix(organization: &Identifier, pipeline: Option<&Identifier>) -> Vec<u8> {
    let scope = pipeline.map_or("", Identifier::as_str);
    [&organization_prefix(organization), scope.as_bytes(), b"/"].concat()
}

/// `o/{organization}`
pub fn ring_key(organization: &Identifier) -> Vec<u8> {
    [DATA_KEYS, organization.as_str().as_bytes()].concat()
}

#[derive(Serialize, Deserialize)]
struct SecretV1<'a> {
    version: u64,
    description: &'a str,
    created_at: i64,
    updated_at: i64,
    #[serde(borrow)]
    sealed: SealedV1<'a>,
}

#[derive(Serialize, Deserialize)]
struct RingV1<'a> {
    floor: u64,
    #[serde(borrow)]
    keys: Vec<SealedV1<'a>>,
}

/// A secret with its value sealed.
pub struct Record {
    pub organization: Identifier,
    pub secret: Secret,
    pub sealed: Sealed,
}

impl Record {
    pub fn key(&self) -> Vec<u8> {
        secret_key(&self.organization, self.secret.pipeline.as_ref(), &self.secret.name)
    }

    pub fn identity(&self) -> SecretIdentity<'_> {
        self.secret.identity(&self.organization)
    }

    pub fn encode(&self) -> Vec<u8> {
        record::encode(&SecretV1 {
            version: self.secret.version,
            description: self.secret.description.as_str(),
            created_at: self.secret.created_at.as_millis(),
            updated_at: self.secret.updated_at.as_millis(),
            sealed: self.sealed.to_form(),
        })
    }

    pub fn decode(key: &[u8], bytes: &[u8]) -> Result<Self, StoreError> {
        let form: SecretV1<'_> = record::decode(bytes).map_err(|error| error.under(key))?;
        let parsed = parse_key(key).ok_or_else(|| record::misplaced::<SecretV1<'_>>().under(key));
        let (organization, pipeline, name) = parsed?;
        let description = Description::parse(form.description).map_err(record::invalid::<SecretV1<'_>>)?;
        let secret = Secret {
            name,
            description,
            pipeline,
            version: form.version,
            created_at: Timestamp::from_millis(form.created_at),
            updated_at: Timestamp::from_millis(form.updated_at),
        };
        let sealed = Stored::from_form(form.sealed).map_err(record::invalid::<SecretV1<'_>>)?;
        Ok(Self { organization, secret, sealed })
    }
}

fn parse_key(key: &[u8]) -> Option<(Identifier, Option<Identifier>, VariableName)> {
    let mut parts = std::str::from_utf8(key.strip_prefix(SECRETS)?).ok()?.splitn(3, '/');
    let organization = Identifier::parse(parts.next()?).ok()?;
    let pipeline = match parts.next()? {
        "" => None,
        pipeline => Some(Identifier::parse(pipeline).ok()?),
    };
    Some((organization, pipeline, VariableName::parse(parts.next()?).ok()?))
}

pub fn encode_ring(organization: &Identifier, ring: &Ring, master: &Key) -> Vec<u8> {
    record::encode(&RingV1 { floor: ring.floor, keys: ring.wrap(organization, master).to_form() })
}

/// The keys of an organization, still wrapped.
pub struct WrappedRing {
    pub organization: Identifier,
    floor: u64,
    keys: Vec<Sealed>,
}

impl WrappedRing {
    pub fn decode(key: &[u8], bytes: &[u8]) -> Result<Self, StoreError> {
        let form: RingV1<'_> = record::decode(bytes).map_err(|error| error.under(key))?;
        let name = key.strip_prefix(DATA_KEYS).and_then(|name| std::str::from_utf8(name).ok());
        let organization = name.and_then(|name| Identifier::parse(name).ok());
        let keys = Stored::from_form(form.keys).map_err(record::invalid::<RingV1<'_>>)?;
        Ok(Self { organization: organization.ok_or_else(record::misplaced::<RingV1<'_>>)?, floor: form.floor, keys })
    }

    /// None if the keys are wrapped under another master key.
    pub fn unwrap(&self, master: &Key) -> Option<Ring> {
        Ring::unwrap(&self.organization, self.floor, &self.keys, master)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::secrets::kept;
    use crate::secrets::sealing::SecretValue;
    use testkit::format_4::format_4;
    use testkit::fuzz::{fuzz, fuzz_record};

    /// Sealing uses a random nonce, so a test cannot reproduce the stored bytes.
    #[test]
    fn secrets_of_format_4_open() {
        let organization = Identifier::parse("acme").unwrap();
        let name = VariableName::parse("DATABASE_PASSWORD").unwrap();
        let pipeline = Identifier::parse("shop").unwrap();
        let master = Key::from_bytes(&[7; 32]).unwrap();
        let key = secret_key(&organization, Some(&pipeline), &name);
        let value = SecretValue::parse("hush-7f3e9d2c5a1b").unwrap();
        let secret = Secret {
            name,
            description: Description::parse("of the shop").unwrap(),
            pipeline: Some(pipeline),
            version: 3,
            created_at: Timestamp::from_millis(1),
            updated_at: Timestamp::from_millis(2),
        };
        let ring = WrappedRing::decode(&ring_key(&organization), &format_4("data keys")).unwrap();
        let ring = ring.unwrap(&master).unwrap();
        assert_eq!((ring.floor, ring.current_id()), (2, 2));
        let record = Record::decode(&key, &format_4("secret")).unwrap();
        assert_eq!((&record.organization, &record.secret), (&organization, &secret));
        assert_eq!(ring.open(&record.identity(), &record.sealed), Some(value.clone()));
        assert_eq!(record.encode(), format_4("secret"));
        assert_eq!(kept::open(&ring, &organization, "webhook/1", &format_4("sealed value")).unwrap(), value);
    }

    #[test]
    fn fuzzed_secrets_are_read_or_refused() {
        let organization = Identifier::parse("acme").unwrap();
        let key = secret_key(&organization, None, &VariableName::parse("TOKEN").unwrap());
        fuzz_record([format_4("secret")], |bytes| Record::decode(&key, bytes), Record::encode);
        let key = ring_key(&organization);
        fuzz([format_4("data keys")], &[], |bytes| {
            let ring = WrappedRing::decode(&key, bytes).map_err(|error| error.to_string());
            ring.map(|ring| ring.unwrap(&Key::from_bytes(&[7; 32]).unwrap()).is_some())
        });
    }
}

//! Secrets of other parts of the server, such as the signing keys of webhooks: sealed like users' secrets, under names
//! that those parts choose, and in no list or answer.

use serde::Serialize;

use super::sealing::{AssociatedData, Ring, Sealed, SealedV1, SecretValue};
use super::secret::SecretError;
use super::vault::Vault;
use domain::Identifier;
use records::stored::{self, Stored};
use store::keys::{SEALED_VALUES, in_organization};
use store::record::{encode, records};
use store::{Batch, StoreError};

records!(SealedV1<'a> = "sealed value");

#[derive(Serialize)]
struct KeptIdentity<'a> {
    organization: &'a str,
    name: &'a str,
}

impl AssociatedData for KeptIdentity<'_> {
    const KIND: &'static str = "lockkeeper kept 1";
}

/// `se/{organization}/{name}`
fn key(organization: &Identifier, name: &str) -> Vec<u8> {
    [&prefix(organization), name.as_bytes()].concat()
}

pub(super) fn prefix(organization: &Identifier) -> Vec<u8> {
    in_organization(SEALED_VALUES, organization.as_str())
}

impl Vault {
    /// Adds the sealed value to the batch. The organization must have been prepared.
    pub fn keep(
        &self,
        batch: &mut Batch,
        organization: &Identifier,
        name: &str,
        value: &SecretValue,
    ) -> Result<(), SecretError> {
        let ring = self.ring(organization).ok_or_else(|| no_key(organization))?;
        batch.put(key(organization, name), seal(&ring, organization, name, value));
        Ok(())
    }

    pub fn kept(&self, organization: &Identifier, name: &str) -> Result<Option<SecretValue>, SecretError> {
        let Some(bytes) = self.store().get(&key(organization, name))? else { return Ok(None) };
        let ring = self.ring(organization).ok_or_else(|| no_key(organization))?;
        Ok(Some(open(&ring, organization, name, &bytes)?))
    }
}

/// Adds the deletion of this name to the batch.
pub fn forget(batch: &mut Batch, organization: &Identifier, name: &str) {
    batch.delete(key(organization, name));
}

/// The record sealed under the newest data key; None if it already is.
pub(super) fn sealed_anew(
    ring: &Ring,
    organization: &Identifier,
    found_under: &[u8],
    bytes: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    let name = name_of(organization, found_under)?;
    if stored::read::<Sealed>(bytes)?.key == ring.current_id() {
        return Ok(None);
    }
    let value = open(ring, organization, name, bytes)?;
    Ok(Some(seal(ring, organization, name, &value)))
}

pub(super) fn check(
    ring: &Ring,
    organization: &Identifier,
    found_under: &[u8],
    bytes: &[u8],
) -> Result<(), StoreError> {
    open(ring, organization, name_of(organization, found_under)?, bytes).map(drop)
}

fn name_of<'a>(organization: &Identifier, key: &'a [u8]) -> Result<&'a str, StoreError> {
    let name = key.strip_prefix(prefix(organization).as_slice());
    name.and_then(|name| std::str::from_utf8(name).ok()).ok_or_else(|| damaged(organization, "?"))
}

fn seal(ring: &Ring, organization: &Identifier, name: &str, value: &SecretValue) -> Vec<u8> {
    encode(&ring.seal(&KeptIdentity { organization: organization.as_str(), name }, value).to_form())
}

pub(super) fn open(
    ring: &Ring,
    organization: &Identifier,
    name: &str,
    bytes: &[u8],
) -> Result<SecretValue, StoreError> {
    let identity = KeptIdentity { organization: organization.as_str(), name };
    ring.open(&identity, &stored::read(bytes)?).ok_or_else(|| damaged(organization, name))
}

fn damaged(organization: &Identifier, name: &str) -> StoreError {
    StoreError::Read(format!("what organization {organization} keeps sealed as {name} does not open; set it again"))
}

fn no_key(organization: &Identifier) -> StoreError {
    StoreError::Read(format!("the key of the secrets of organization {organization} is missing"))
}

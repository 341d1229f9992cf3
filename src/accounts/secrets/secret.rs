//! A secret without its value, and the requests and errors of secrets.

use super::sealing::SecretIdentity;
use super::value::SecretValue;
use domain::{Description, Identifier, Timestamp, VariableName};
use store::StoreError;

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

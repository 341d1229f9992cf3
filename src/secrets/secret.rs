//! What is known of a secret without opening it, and what can be asked of one.

use super::sealing::SecretPlace;
use super::value::SecretValue;
use crate::domain::{Description, Identifier, Timestamp, VariableName};
use crate::store::StoreError;

/// More than the pipelines of one organization need, few enough to keep in memory and to hand to a step.
pub const SECRETS_MAX: usize = 1_000;

/// All of a secret but its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    pub name: VariableName,
    pub description: Description,
    /// None: the organization's, for all its pipelines.
    pub pipeline: Option<Identifier>,
    /// Rises with every change, and is never given twice under one name.
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

/// What is `None` stays as it is.
#[derive(Debug, Default)]
pub struct SecretChange {
    pub value: Option<SecretValue>,
    pub description: Option<Description>,
}

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is a secret of this name; change that one, or choose another name")]
    Exists,
    #[error("the organization has {SECRETS_MAX} secrets, which is the most it can have; delete one first")]
    TooMany,
    #[error("there is no secret of this name")]
    NotFound,
    #[error("the secret is at version {current}; read it again before you change it")]
    VersionMismatch { current: u64 },
    #[error("the secret {name} does not open: its record is damaged; set its value anew")]
    DoesNotOpen { name: VariableName },
}

impl Secret {
    pub(super) fn place<'a>(&'a self, organization: &'a Identifier) -> SecretPlace<'a> {
        SecretPlace::new(organization, self.pipeline.as_ref(), &self.name, self.version)
    }
}

//! Secrets of an organization or of one pipeline, sealed under a data key of the organization, which is wrapped under
//! the master key. Knows nothing of HTTP or of permissions.
//!
//! A value leaves only through [`Vault::open_for`] and similar functions, and through [`Vault::kept`] to the part that
//! stored it. Without the master key, the store's bytes reveal names and descriptions, but no value.
//!
//! Writers decide in memory through [`Ordered`](store::Ordered). Readers use the store, which has only durable state:
//! values are not kept in memory, so there is no published copy. Each file uses only those before it: sealing, secret,
//! master_key, audit_key, vault, kept, rotation.

mod audit_key;
mod kept;
mod master_key;
mod rotation;
mod sealing;
mod secret;
mod vault;

#[cfg(test)]
mod tests;

pub use audit_key::{FoundAuditKey, audit_key, find_audit_key};
pub use kept::forget;
pub use master_key::{MasterKey, OpenError, fingerprint, known_fingerprint, note_fingerprint};
pub use rotation::{Rotated, check_opens, forget_sealed, opens_any, rotate, rotate_between, unlock};
#[cfg(test)]
pub use sealing::VALUE_BYTES_MAX;
pub use sealing::{AssociatedData, Key as SealingKey, SecretValue};
#[cfg(test)]
pub use secret::SECRETS_MAX;
pub use secret::{NewSecret, Secret, SecretChange, SecretError};
pub use vault::{PipelineSecrets, SecretVersions, Vault};

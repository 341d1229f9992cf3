//! What pipelines must know and nobody may read: secrets of an organization or of one pipeline, sealed under a data key
//! of the organization, which is wrapped under the master key. Knows nothing of HTTP or of who may change them.
//!
//! A value leaves only through [`Vault::open_for`] and its like, and through [`Vault::kept`] to the part that put it there. Whoever has the store's bytes without the master key has names and
//! descriptions, and no value.

mod kept;
mod master_key;
mod rotation;
mod sealing;
mod secret;
mod stored;
mod value;
mod vault;

#[cfg(test)]
mod tests;

pub use kept::forget;
pub use master_key::{MasterKey, OpenError};
pub use rotation::{Rotated, rotate, unlock};
pub use secret::{NewSecret, SECRETS_MAX, Secret, SecretChange, SecretError};
pub use value::{SecretValue, VALUE_BYTES_MAX};
pub use vault::Vault;

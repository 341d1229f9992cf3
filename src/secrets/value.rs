//! The value of a secret while it is in memory.

use std::fmt;

use zeroize::Zeroizing;

use crate::domain::Malformed;

/// Room for a private key or a certificate chain, and far below what one batch of the store or one environment variable
/// can hold.
pub const VALUE_BYTES_MAX: usize = 16 * 1024;

/// Wiped when it is dropped; its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Zeroizing<String>);

impl SecretValue {
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let sane = (1..=VALUE_BYTES_MAX).contains(&text.len()) && !text.contains('\0');
        sane.then(|| Self(Zeroizing::new(text.to_owned()))).ok_or(Malformed("is 1 to 16384 bytes, without NUL"))
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

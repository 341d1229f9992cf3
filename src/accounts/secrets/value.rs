//! The value of a secret while it is in memory.

use std::fmt;

use zeroize::Zeroizing;

use domain::{CharClass, Malformed, TextRule};

/// Room for a private key or a certificate chain, and far below what one batch of the store or one environment variable
/// can hold.
pub const VALUE_BYTES_MAX: usize = 16 * 1024;

/// Wiped when it is dropped; its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Zeroizing<String>);

impl SecretValue {
    pub const RULE: TextRule =
        TextRule::of(1..=VALUE_BYTES_MAX, CharClass::NO_NUL, "must be 1 to 16384 bytes, without NUL").in_bytes();

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        Self::RULE.check(text).map(|()| Self(Zeroizing::new(text.to_owned())))
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

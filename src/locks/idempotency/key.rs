//! The key that a client chooses, and the fingerprint that distinguishes its request from others.

use sha2::{Digest, Sha256};

use domain::{CharClass, Malformed, TextRule};

/// 1 to 128 visible ASCII characters, of the client's choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(Box<str>);

impl IdempotencyKey {
    pub const RULE: TextRule =
        TextRule::of(1..=128, CharClass::VISIBLE, "must be 1 to 128 visible ASCII characters without spaces");

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        Self::RULE.check(text).map(|()| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A hash of a request: two requests under one key are the same if their fingerprints are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 16]);

impl Fingerprint {
    pub fn of(method: &str, path_and_query: &str, body: &[u8]) -> Self {
        Self::of_parts(&[method.as_bytes(), path_and_query.as_bytes(), body])
    }

    /// For a body with a secret, which must not be found by guessing: `salt` is known to the sender and not on the disk.
    pub fn salted(salt: &[u8], method: &str, path_and_query: &str, body: &[u8]) -> Self {
        Self::of_parts(&[salt, method.as_bytes(), path_and_query.as_bytes(), body])
    }

    fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            // With its length, so that the boundaries between parts count.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest: [u8; 32] = hash.finalize().into();
        let mut truncated = [0; 16];
        truncated.copy_from_slice(&digest[..16]);
        Self(truncated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_visible_ascii_within_its_bounds() {
        for good in ["x", "!~", "8e03978e-40d5-43dd-bc93-6894a57f9324", &"k".repeat(128)] {
            assert_eq!(IdempotencyKey::parse(good).as_ref().map(IdempotencyKey::as_str), Ok(good));
        }
        for bad in ["", "a b", " a", "tab\t", "\u{7f}", "é", &"k".repeat(129)] {
            assert!(IdempotencyKey::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_request_that_differs_anywhere_has_another_fingerprint() {
        let first = Fingerprint::of("POST", "/a?b", b"c");
        assert_eq!(first, Fingerprint::of("POST", "/a?b", b"c"));
        for (method, path, body) in [("PUT", "/a?b", "c"), ("POST", "/a", "c"), ("POST", "/a?b", "c ")] {
            assert_ne!(first, Fingerprint::of(method, path, body.as_bytes()));
        }
        // The same characters, divided differently.
        assert_ne!(first, Fingerprint::of("POST", "/a?bc", b""));
        assert_ne!(first, Fingerprint::of("POST/", "a?b", b"c"));
        assert_ne!(first, Fingerprint::salted(b"", "POST", "/a?b", b"c"));
        assert_ne!(Fingerprint::salted(b"x", "POST", "/a?b", b"c"), Fingerprint::salted(b"y", "POST", "/a?b", b"c"));
    }
}

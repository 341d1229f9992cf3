//! Signed tokens (JWT, RFC 7519): parsing, the keys that issuers publish, and all checks. Pure: no requests, no clock.
//!
//! Only asymmetric signatures are accepted. A token that is unsigned, or signed with a shared secret, or with a public
//! key used as a secret, has an algorithm that this code does not know.
//!
//! Each file uses only those before it: keys, token.

mod keys;
#[cfg(test)]
mod tests;
mod token;

pub use keys::{KeySet, Unverified};
pub use token::{Claims, Expected, Purpose, SignedToken};

//! The server's address and the caller's credentials, from flags, variables, the profile file and the identity of a CI
//! job; and the connection itself.
//!
//! From top to bottom: `tokens` → `link` → `options` → `identity`, `profile` → `secret`.

pub mod identity;
pub mod link;
pub mod options;
pub mod profile;
pub mod secret;
pub mod tokens;

//! A job without a stored token: the identity token that its CI gives it, exchanged for a token of the server, and exchanged
//! again before that expires.
//!
//! From top to bottom: `exchange` → `source` → `github`.

pub mod exchange;
pub mod github;
pub mod source;

//! CI without secrets: a job shows the identity token that its CI gave it, and this room says whether an organization trusts
//! it, and as whom. Knows neither members nor tokens of ours; it only reads what the issuer publishes.
//!
//! [`Identities::check`] finds the trusted issuer that the token names, checks the token with the issuer's keys, and takes
//! the first rule whose claims match. Keys are kept for a while, shared by all organizations that trust the same issuer,
//! and read again when a token names an unknown one.
//!
//! Each file uses only those before it: pattern, trusted, refusal, keys, token, service.

mod keys;
mod pattern;
mod refusal;
mod service;
#[cfg(test)]
mod tests;
mod token;
mod trusted;

pub use pattern::Pattern;
pub use refusal::Refusal;
pub use service::{Identities, JobIdentity};
pub use token::IDENTITY_TOKEN_BYTES_MAX;
pub use trusted::{
    CLAIMS_MAX, ISSUERS_MAX, RULES_MAX, Rule, TOKEN_SECONDS_DEFAULT, TOKEN_SECONDS_MAX, TOKEN_SECONDS_MIN,
    TrustedIssuer,
};

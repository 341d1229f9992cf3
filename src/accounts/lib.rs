//! Who may do what: members with roles and tokens, people who sign in, jobs of a CI, and sealed secrets.

pub mod auth;
pub mod identities;
pub mod secrets;
pub mod sso;

//! Authentication and permissions: members with roles and tokens, sign-ins, CI jobs, and sealed secrets.

pub mod auth;
pub mod identities;
pub mod secrets;
pub mod sso;

//! The credentials of a member. Separate from the member, since they are never shown.

use super::password::PasswordHash;
use super::token_text::TokenHash;
use crate::domain::Timestamp;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    pub password: Option<PasswordHash>,
    /// At most one at a time.
    pub invitation: Option<Invitation>,
    pub last_sign_in_at: Option<Timestamp>,
}

/// A link with which a member chooses a password, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    pub hash: TokenHash,
    pub expires_at: Timestamp,
}

//! The credentials of a member. Separate from the member, since they are never shown.

use super::made::Made;
use super::password::PasswordHash;
use super::token_text::TokenHash;
use domain::{Timestamp, UserId};

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
    /// What it was made from, and ends with.
    pub made: Made,
    /// Who made it; `None`: the operator, or unknown since an earlier version made it.
    pub maker: Option<UserId>,
}

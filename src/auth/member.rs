//! A member of an organization, and what can be asked of one.

use std::sync::Arc;

use crate::domain::{Identifier, Role, Timestamp, UserId};

/// Far beyond the organizations we know, few enough to keep in memory and to list.
pub const MEMBERS_MAX: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub organization: Identifier,
    /// Never somebody else's: who comes back after a removal gets another one.
    pub id: UserId,
    /// For good: files know members by it.
    pub name: Identifier,
    pub role: Role,
    pub created_at: Timestamp,
}

/// A member with how many tokens stand for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberEntry {
    pub member: Arc<Member>,
    pub tokens: usize,
}

/// Who is to be a member, as a request or a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMember {
    pub organization: Identifier,
    pub name: Identifier,
    pub role: Role,
}

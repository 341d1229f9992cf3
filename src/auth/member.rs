//! A member of an organization.

use std::sync::Arc;

use crate::domain::{Identifier, Role, Timestamp, UserId};

/// Far beyond the organizations we know, few enough to keep in memory and to list.
pub const MEMBERS_MAX: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub organization: Identifier,
    /// Never reused: a member who is added again after a removal gets a new one.
    pub id: UserId,
    /// Never changes: files refer to members by name.
    pub name: Identifier,
    pub role: Role,
    pub created_at: Timestamp,
}

/// A member and the number of their tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberEntry {
    pub member: Arc<Member>,
    pub tokens: usize,
}

/// A member to be added, from a request or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMember {
    pub organization: Identifier,
    pub name: Identifier,
    pub role: Role,
}

//! A member of an organization.

use serde::Serialize;
use utoipa::ToSchema;

use super::values::{Text, Time};
use crate::auth::MemberEntry;
use crate::domain::{Role, UserId};

/// A member of the organization.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Member)]
pub struct MemberView<'a> {
    #[schema(value_type = UserId)]
    user_id: Text<UserId>,
    /// Unique in the organization.
    #[schema(example = "ana")]
    name: &'a str,
    role: Role,
    /// Since when.
    created_at: Time,
    /// The number of their tokens.
    #[schema(example = 2)]
    token_count: usize,
}

impl<'a> From<&'a MemberEntry> for MemberView<'a> {
    fn from(entry: &'a MemberEntry) -> Self {
        let MemberEntry { member, tokens } = entry;
        Self {
            user_id: Text(member.id),
            name: member.name.as_str(),
            role: member.role,
            created_at: Time(member.created_at),
            token_count: *tokens,
        }
    }
}

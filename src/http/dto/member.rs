//! A member of an organization.

use serde::Serialize;
use utoipa::ToSchema;

use super::values::{Text, Time};
use crate::auth::MemberEntry;
use crate::domain::UserId;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Member)]
pub struct MemberView<'a> {
    #[schema(value_type = String, example = "usr_0199f3c2a4b07f3e9d2c5a1b")]
    user_id: Text<UserId>,
    #[schema(example = "ana")]
    name: &'a str,
    #[schema(value_type = String, example = "developer")]
    role: &'static str,
    created_at: Time,
    /// The number of their tokens.
    token_count: usize,
}

impl<'a> From<&'a MemberEntry> for MemberView<'a> {
    fn from(entry: &'a MemberEntry) -> Self {
        let MemberEntry { member, tokens } = entry;
        Self {
            user_id: Text(member.id),
            name: member.name.as_str(),
            role: member.role.as_str(),
            created_at: Time(member.created_at),
            token_count: *tokens,
        }
    }
}

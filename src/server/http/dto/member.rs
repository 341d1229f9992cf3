//! A member of an organization.

use serde::Serialize;
use utoipa::ToSchema;

use super::ids::{UserId, Written};
use super::statuses::{Named, Role};
use super::values::Time;
use accounts::auth::{Member, MemberEntry};
use domain::Email;

/// A member of the organization.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Member)]
pub struct MemberView<'a> {
    user_id: UserId,
    /// Unique in the organization.
    #[schema(example = "ana")]
    name: &'a str,
    role: Role,
    /// Where to reach them; null if unknown.
    #[schema(example = "ana@acme.example")]
    email: Option<&'a str>,
    /// Whether their tokens are refused and they cannot sign in, until an admin enables them again.
    #[schema(example = false)]
    disabled: bool,
    /// Since when.
    created_at: Time,
    /// The number of their tokens.
    #[schema(example = 2)]
    token_count: usize,
    /// Whether they can sign in with a password.
    #[schema(example = true)]
    has_password: bool,
    /// When they last signed in with a browser; null: never.
    last_sign_in_at: Option<Time>,
}

impl<'a> From<&'a MemberEntry> for MemberView<'a> {
    fn from(entry: &'a MemberEntry) -> Self {
        let MemberEntry { member, tokens, has_password, last_sign_in_at } = entry;
        Self {
            user_id: Written(member.id),
            name: member.name.as_str(),
            role: Named(member.role),
            email: email_of(member),
            disabled: member.disabled,
            created_at: Time(member.created_at),
            token_count: *tokens,
            has_password: *has_password,
            last_sign_in_at: last_sign_in_at.map(Time),
        }
    }
}

pub(super) fn email_of(member: &Member) -> Option<&str> {
    member.email.as_ref().map(Email::as_str)
}

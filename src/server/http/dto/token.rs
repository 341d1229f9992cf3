//! A token. Its text is only in the answer that created it.

use serde::Serialize;
use utoipa::ToSchema;

use super::ids::{TokenId, UserId, Written};
use super::values::Time;
use accounts::auth::{OpenToken, Token};

/// An API token, without its text.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Token)]
pub struct TokenView<'a> {
    token_id: TokenId,
    /// What it is for.
    #[schema(example = "ci")]
    name: &'a str,
    /// The member whose permissions it has.
    user: TokenUser,
    /// The member who created it.
    created_by: TokenUser,
    /// The end of its text, to recognise it by.
    #[schema(example = "x7Qd")]
    last_four: &'a str,
    /// When it was created.
    created_at: Time,
    /// When it stops working; null: never by itself.
    expires_at: Option<Time>,
    /// When it was last used, to about a minute; null: never.
    last_used_at: Option<Time>,
}

/// A present or former member; the name of a former one is null.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUser {
    user_id: UserId,
    /// Null for a former member.
    #[schema(example = "ana")]
    name: Option<String>,
}

/// A new token, with its text.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NewToken)]
pub struct OpenTokenView<'a> {
    #[serde(flatten)]
    view: TokenView<'a>,
    /// The token itself. It is not shown again: a retry with the same `Idempotency-Key` gets null.
    #[schema(value_type = Option<String>, example = "lk_3mZ0QhV7tYw2Rk9JxUa4SbLc8PdEfN1o5GqB")]
    token: &'a str,
}

impl<'a> TokenView<'a> {
    /// `name_of` knows the present members.
    pub fn new(token: &'a Token, name_of: impl Fn(domain::UserId) -> Option<String>) -> Self {
        let person = |id| TokenUser { user_id: Written(id), name: name_of(id) };
        Self {
            token_id: Written(token.id),
            name: &token.name,
            user: person(token.user),
            created_by: person(token.created_by),
            last_four: &token.last_four,
            created_at: Time(token.created_at),
            expires_at: token.expires_at.map(Time),
            last_used_at: token.last_used_at().map(Time),
        }
    }
}

impl<'a> OpenTokenView<'a> {
    pub fn new(open: &'a OpenToken, name_of: impl Fn(domain::UserId) -> Option<String>) -> Self {
        Self { view: TokenView::new(&open.token, name_of), token: open.text.reveal() }
    }
}

//! A token. Its text is only in the answer that created it.

use serde::Serialize;
use utoipa::ToSchema;

use super::values::{Text, Time};
use crate::auth::{OpenToken, Token};
use crate::domain::{TokenId, UserId};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Token)]
pub struct TokenView<'a> {
    #[schema(value_type = String, example = "tok_0199f3c2a4b07f3e9d2c5a1b")]
    token_id: Text<TokenId>,
    name: &'a str,
    /// The member whose permissions it has.
    user: TokenUser,
    /// The member who created it.
    created_by: TokenUser,
    last_four: &'a str,
    created_at: Time,
    expires_at: Option<Time>,
    last_used_at: Option<Time>,
}

/// A present or former member; the name of a former one is null.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUser {
    #[schema(value_type = String)]
    user_id: Text<UserId>,
    name: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NewToken)]
pub struct OpenTokenView<'a> {
    #[serde(flatten)]
    view: TokenView<'a>,
    /// The token itself. It is not shown again.
    token: &'a str,
}

impl<'a> TokenView<'a> {
    /// `name_of` knows the present members.
    pub fn new(token: &'a Token, name_of: impl Fn(UserId) -> Option<String>) -> Self {
        let person = |id| TokenUser { user_id: Text(id), name: name_of(id) };
        Self {
            token_id: Text(token.id),
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
    pub fn new(open: &'a OpenToken, name_of: impl Fn(UserId) -> Option<String>) -> Self {
        Self { view: TokenView::new(&open.token, name_of), token: open.text.reveal() }
    }
}

//! A token, without its text but for the one answer that made it.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Text, Time};
use crate::auth::{OpenToken, Token, TokenId};
use crate::domain::UserId;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Token)]
pub struct TokenView<'a> {
    #[schema(value_type = String, example = "tok_0199f3c2a4b07f3e9d2c5a1b")]
    token_id: Text<TokenId>,
    name: &'a str,
    created_by: TokenUser<'a>,
    last_four: &'a str,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    expires_at: Option<Time>,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    last_used_at: Option<Time>,
}

/// Whose permissions a token has; the name is null once the user is no longer a member.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUser<'a> {
    #[schema(value_type = String)]
    user_id: Text<UserId>,
    #[schema(required)]
    name: Option<&'a str>,
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
    pub fn new(token: &'a Token, user_name: Option<&'a str>) -> Self {
        Self {
            token_id: Text(token.id),
            name: &token.name,
            created_by: TokenUser { user_id: Text(token.user), name: user_name },
            last_four: &token.last_four,
            created_at: Time(token.created_at),
            expires_at: token.expires_at.map(Time),
            last_used_at: token.last_used_at().map(Time),
        }
    }
}

impl<'a> OpenTokenView<'a> {
    pub fn new(open: &'a OpenToken, user_name: Option<&'a str>) -> Self {
        Self { view: TokenView::new(&open.token, user_name), token: open.text.reveal() }
    }
}

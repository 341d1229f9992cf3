//! How tokens and the ids of members lie in the store.

use serde::{Deserialize, Serialize};

use super::accounts::{Token, Usage};
use super::token_text::TokenHash;
use crate::domain::{IdSeed, Identifier, Timestamp, TokenId, UserId};

const VERSION: u8 = 1;

pub const TOKENS: &[u8] = b"t/";

/// Keeps one batch well below the store's limit, also where all names are as long as they may be.
pub const RECORDS_AT_ONCE: usize = 256;

/// `t/{organization}/{token}`
pub fn token_key(organization: &Identifier, id: TokenId) -> Vec<u8> {
    [TOKENS, organization.as_str().as_bytes(), b"/", &id.0.0].concat()
}

/// `u/{organization}/{name}`: a member's id stays with the name.
pub fn member_key(organization: &Identifier, name: &Identifier) -> Vec<u8> {
    [b"u/", organization.as_str().as_bytes(), b"/", name.as_str().as_bytes()].concat()
}

#[derive(Serialize, Deserialize)]
struct TokenV1<'a> {
    organization: &'a str,
    id: [u8; 12],
    hash: [u8; 32],
    user: [u8; 12],
    created_by: [u8; 12],
    name: &'a str,
    last_four: &'a str,
    created_at: i64,
    expires_at: Option<i64>,
    last_used_at: Option<i64>,
    bootstrap: bool,
}

pub fn encode_token(token: &Token) -> Vec<u8> {
    let form = TokenV1 {
        organization: token.organization.as_str(),
        id: token.id.0.0,
        hash: token.hash.0,
        user: token.user.0.0,
        created_by: token.created_by.0.0,
        name: &token.name,
        last_four: &token.last_four,
        created_at: token.created_at.as_millis(),
        expires_at: token.expires_at.map(Timestamp::as_millis),
        last_used_at: token.last_used_at().map(Timestamp::as_millis),
        bootstrap: token.bootstrap,
    };
    postcard::to_extend(&form, vec![VERSION]).expect("the form has no maps of unknown length")
}

/// None where the bytes are not a token of ours.
pub fn decode_token(bytes: &[u8]) -> Option<Token> {
    let (&VERSION, form) = bytes.split_first()? else {
        return None;
    };
    let form: TokenV1<'_> = postcard::from_bytes(form).ok()?;
    Some(Token {
        organization: Identifier::parse(form.organization).ok()?,
        id: TokenId(IdSeed(form.id)),
        hash: TokenHash(form.hash),
        user: UserId(IdSeed(form.user)),
        created_by: UserId(IdSeed(form.created_by)),
        name: form.name.to_owned(),
        last_four: form.last_four.to_owned(),
        created_at: Timestamp::from_millis(form.created_at),
        expires_at: form.expires_at.map(Timestamp::from_millis),
        bootstrap: form.bootstrap,
        usage: Usage::since(form.last_used_at.map(Timestamp::from_millis)),
    })
}

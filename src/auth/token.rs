//! A token as it is stored, without its text, and when it was last used.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::token_text::{TokenHash, TokenText};
use crate::domain::{Identifier, Timestamp, TokenId, UserId};
use crate::entropy;

/// More tokens than a fleet needs, few enough to keep in memory and to list.
pub const TOKENS_MAX: usize = 10_000;

pub struct Token {
    pub organization: Identifier,
    pub id: TokenId,
    pub(super) hash: TokenHash,
    /// Whose permissions it has.
    pub user: UserId,
    pub created_by: UserId,
    pub name: String,
    pub last_four: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub(super) bootstrap: bool,
    pub(super) usage: Usage,
}

/// When a token was last used; stored now and then, not with every request.
pub struct Usage {
    pub last_used_millis: AtomicI64,
    pub stored_millis: AtomicI64,
}

pub struct NewToken {
    pub organization: Identifier,
    pub user: UserId,
    pub name: String,
    pub expires_at: Option<Timestamp>,
}

/// A token that has just been created: the only time its text is known.
pub struct OpenToken {
    pub token: Arc<Token>,
    pub text: TokenText,
}

/// Tokens of an organization, oldest first, and the names of its members as they were then.
pub struct TokenList {
    pub tokens: Vec<Arc<Token>>,
    pub(super) names: HashMap<UserId, Identifier>,
}

impl TokenList {
    /// None for a former member.
    pub fn name_of(&self, user: UserId) -> Option<&Identifier> {
        self.names.get(&user)
    }
}

impl Token {
    pub(super) fn new(text: &TokenText, created_by: UserId, new: NewToken, now: Timestamp) -> Self {
        Self {
            organization: new.organization,
            id: TokenId(entropy::id_seed()),
            hash: text.hash(),
            user: new.user,
            created_by,
            name: new.name,
            last_four: text.last_four().to_owned(),
            created_at: now,
            expires_at: new.expires_at,
            bootstrap: false,
            usage: Usage::since(None),
        }
    }

    pub fn last_used_at(&self) -> Option<Timestamp> {
        self.usage.last_used_at()
    }
}

impl Usage {
    const NEVER: i64 = i64::MIN;

    pub fn since(last_used_at: Option<Timestamp>) -> Self {
        let millis = last_used_at.map_or(Self::NEVER, Timestamp::as_millis);
        Self { last_used_millis: AtomicI64::new(millis), stored_millis: AtomicI64::new(millis) }
    }

    pub fn last_used_at(&self) -> Option<Timestamp> {
        let millis = self.last_used_millis.load(Ordering::Relaxed);
        (millis != Self::NEVER).then(|| Timestamp::from_millis(millis))
    }

    pub fn is_unstored(&self) -> bool {
        self.last_used_millis.load(Ordering::Relaxed) != self.stored_millis.load(Ordering::Relaxed)
    }
}

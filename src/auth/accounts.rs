//! The members of every organization and their tokens: in memory for each request, in the store for ever.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use dashmap::DashMap;
use parking_lot::RwLock;

use super::stored;
use super::token_text::{TokenHash, TokenId, TokenText};
use crate::domain::{IdSeed, Identifier, Malformed, Person, Role, Timestamp, UserId};
use crate::entropy;
use crate::store::{Batch, Store, StoreError, durable_up_to, end_of_prefix};

/// More tokens than a fleet needs, few enough to keep in memory and to list.
pub const TOKENS_MAX: usize = 10_000;

pub struct Accounts {
    store: Arc<dyn Store>,
    members: RwLock<HashMap<UserId, Member>>,
    tokens: DashMap<TokenHash, Arc<Token>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub organization: Identifier,
    pub name: Identifier,
    pub role: Role,
}

/// A token as it is kept: without its text.
pub struct Token {
    pub organization: Identifier,
    pub id: TokenId,
    pub(super) hash: TokenHash,
    pub user: UserId,
    pub name: String,
    pub last_four: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub(super) bootstrap: bool,
    pub(super) usage: Usage,
}

/// When a token was last used; written down now and then, not with every request.
pub(super) struct Usage {
    last_used_millis: AtomicI64,
    written_millis: AtomicI64,
}

/// Who makes a request, as of now.
#[derive(Debug, Clone)]
pub struct Caller {
    pub organization: Identifier,
    pub person: Person,
    pub role: Role,
    pub token: TokenId,
}

/// Why a token does not let its bearer in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unauthenticated {
    Malformed(Malformed),
    Unknown,
    Expired,
}

pub struct NewToken {
    pub organization: Identifier,
    pub user: UserId,
    pub name: String,
    pub expires_at: Option<Timestamp>,
}

/// A token that has just been made: the only time its text is known.
pub struct OpenToken {
    pub token: Arc<Token>,
    pub text: TokenText,
}

#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the organization has {TOKENS_MAX} tokens, which is the most it can have")]
    TooManyTokens,
}

impl Accounts {
    /// Takes the members as they are declared, gives new ones their ids, and loads the tokens.
    pub async fn open(store: Arc<dyn Store>, declared: Vec<Member>) -> Result<Self, StoreError> {
        let mut batch = Batch::default();
        let mut members = HashMap::with_capacity(declared.len());
        for member in declared {
            let key = stored::member_key(&member.organization, &member.name);
            let known = store.get(&key)?.and_then(|id| id.try_into().ok()).map(IdSeed);
            let id = known.unwrap_or_else(|| {
                let id = entropy::id_seed();
                batch.put(key, id.0.to_vec());
                id
            });
            members.insert(UserId(id), member);
        }
        commit(&*store, batch).await?;

        let tokens = DashMap::new();
        for (_, record) in store.scan(stored::TOKENS, &end_of_prefix(stored::TOKENS), usize::MAX)? {
            let token = stored::decode_token(&record)
                .ok_or_else(|| StoreError::Read("a token's record does not have the form of its version".to_owned()))?;
            tokens.insert(token.hash, Arc::new(token));
        }
        Ok(Self { store, members: RwLock::new(members), tokens })
    }

    /// The caller behind a token, with the role the user has *now*.
    pub fn authenticate(&self, text: &str, now: Timestamp) -> Result<Caller, Unauthenticated> {
        let text = TokenText::parse(text).map_err(Unauthenticated::Malformed)?;
        let token = self.tokens.get(&text.hash()).ok_or(Unauthenticated::Unknown)?.clone();
        if token.expires_at.is_some_and(|expires| expires <= now) {
            return Err(Unauthenticated::Expired);
        }
        let members = self.members.read();
        let member = members.get(&token.user).ok_or(Unauthenticated::Unknown)?;
        token.usage.last_used_millis.store(now.as_millis(), Ordering::Relaxed);
        Ok(Caller {
            organization: token.organization.clone(),
            person: Person { id: token.user, name: member.name.shared() },
            role: member.role,
            token: token.id,
        })
    }

    pub fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// The organization's first admin by the order of ids, which is the order in which they were declared.
    pub fn first_admin(&self, organization: &Identifier) -> Option<UserId> {
        let members = self.members.read();
        let admins = members.iter().filter(|(_, m)| m.organization == *organization && m.role == Role::Admin);
        admins.map(|(id, _)| *id).min()
    }

    pub fn member(&self, organization: &Identifier, user: UserId) -> Option<Member> {
        self.members.read().get(&user).filter(|member| member.organization == *organization).cloned()
    }

    /// A member by name, as configuration files and people know them.
    pub fn member_named(&self, organization: &Identifier, name: &str) -> Option<UserId> {
        let members = self.members.read();
        let found = members.iter().find(|(_, m)| m.organization == *organization && m.name.as_str() == name);
        found.map(|(id, _)| *id)
    }

    /// The organization's tokens, oldest first.
    pub fn tokens(&self, organization: &Identifier) -> Vec<Arc<Token>> {
        let mut tokens: Vec<_> =
            self.tokens.iter().filter(|t| t.organization == *organization).map(|t| t.clone()).collect();
        tokens.sort_unstable_by_key(|token| token.id);
        tokens
    }

    pub async fn create_token(&self, new: NewToken, now: Timestamp) -> Result<OpenToken, AccountsError> {
        if self.tokens.iter().filter(|token| token.organization == new.organization).count() >= TOKENS_MAX {
            return Err(AccountsError::TooManyTokens);
        }
        let text = TokenText::generate();
        let token = self.keep(&text, new, now, false).await?;
        Ok(OpenToken { token, text })
    }

    /// Makes `text` a token of the organization's first admin, also if it was somebody else's. One that an earlier start
    /// was given in the same way stops working: the operator's word is the latest.
    pub async fn bootstrap(
        &self,
        organization: &Identifier,
        text: &TokenText,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let Some(user) = self.first_admin(organization) else {
            return Ok(());
        };
        let stands =
            |t: &Token| t.bootstrap && t.hash == text.hash() && t.organization == *organization && t.user == user;
        let superseded: Vec<_> = self
            .tokens
            .iter()
            .filter(|t| (t.bootstrap || t.hash == text.hash()) && !stands(t))
            .map(|t| t.clone())
            .collect();
        for token in superseded {
            self.remove(&token).await?;
        }
        if !self.tokens.contains_key(&text.hash()) {
            let new =
                NewToken { organization: organization.clone(), user, name: "bootstrap".to_owned(), expires_at: None };
            self.keep(text, new, now, true).await?;
        }
        Ok(())
    }

    /// Whether there was such a token. It stops working before this answers.
    pub async fn revoke(&self, organization: &Identifier, id: TokenId) -> Result<bool, StoreError> {
        let found = self.tokens.iter().find(|t| t.id == id && t.organization == *organization).map(|t| t.clone());
        match found {
            Some(token) => self.remove(&token).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Writes down when tokens were last used, for those where that has changed.
    pub async fn write_usage(&self) -> Result<(), StoreError> {
        /// Keeps one batch far below the store's limit.
        const TOKENS_AT_ONCE: usize = 1_000;
        let used: Vec<_> = self.tokens.iter().filter(|token| token.usage.is_unwritten()).map(|t| t.clone()).collect();
        for tokens in used.chunks(TOKENS_AT_ONCE) {
            let mut batch = Batch::default();
            for token in tokens {
                token.usage.mark_written();
                batch.put(stored::token_key(&token.organization, token.id), stored::encode_token(token));
            }
            commit(&*self.store, batch).await?;
        }
        Ok(())
    }

    async fn keep(
        &self,
        text: &TokenText,
        new: NewToken,
        now: Timestamp,
        bootstrap: bool,
    ) -> Result<Arc<Token>, StoreError> {
        let token = Arc::new(Token {
            organization: new.organization,
            id: TokenId(entropy::id_seed()),
            hash: text.hash(),
            user: new.user,
            name: new.name,
            last_four: text.last_four().to_owned(),
            created_at: now,
            expires_at: new.expires_at,
            bootstrap,
            usage: Usage::since(None),
        });
        let mut batch = Batch::default();
        batch.put(stored::token_key(&token.organization, token.id), stored::encode_token(&token));
        commit(&*self.store, batch).await?;
        self.tokens.insert(token.hash, token.clone());
        Ok(token)
    }

    /// Durable first: a token that was refused once must not work again after a crash.
    async fn remove(&self, token: &Token) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.delete(stored::token_key(&token.organization, token.id));
        commit(&*self.store, batch).await?;
        self.tokens.remove(&token.hash);
        Ok(())
    }
}

impl Token {
    pub fn last_used_at(&self) -> Option<Timestamp> {
        let millis = self.usage.last_used_millis.load(Ordering::Relaxed);
        (millis != Usage::NEVER).then(|| Timestamp::from_millis(millis))
    }
}

impl Usage {
    const NEVER: i64 = i64::MIN;

    pub(super) fn since(last_used_at: Option<Timestamp>) -> Self {
        let millis = last_used_at.map_or(Self::NEVER, Timestamp::as_millis);
        Self { last_used_millis: AtomicI64::new(millis), written_millis: AtomicI64::new(millis) }
    }

    fn is_unwritten(&self) -> bool {
        self.last_used_millis.load(Ordering::Relaxed) != self.written_millis.load(Ordering::Relaxed)
    }

    fn mark_written(&self) {
        self.written_millis.store(self.last_used_millis.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

async fn commit(store: &dyn Store, batch: Batch) -> Result<(), StoreError> {
    if !batch.is_empty() {
        let sequence = store.commit(batch)?;
        durable_up_to(store, sequence).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::store::MemoryStore;

    #[tokio::test]
    async fn an_organization_has_ten_thousand_tokens_and_no_more() {
        let organization = Identifier::parse("acme").unwrap();
        let member =
            Member { organization: organization.clone(), name: Identifier::parse("admin").unwrap(), role: Role::Admin };
        let accounts = Accounts::open(Arc::new(MemoryStore::new()), vec![member]).await.unwrap();
        let user = accounts.first_admin(&organization).unwrap();
        let new = || NewToken { organization: organization.clone(), user, name: "ci".to_owned(), expires_at: None };
        let now = Timestamp::from_millis(0);
        for _ in 0..TOKENS_MAX {
            accounts.keep(&TokenText::generate(), new(), now, false).await.unwrap();
        }
        let refused = accounts.create_token(new(), now).await;
        assert!(matches!(refused, Err(AccountsError::TooManyTokens)));
        let oldest = accounts.tokens(&organization)[0].id;
        assert!(accounts.revoke(&organization, oldest).await.unwrap());
        assert!(accounts.create_token(new(), now).await.is_ok());
    }
}

//! The members of every organization and their tokens: in memory for each request, in the store for ever.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use dashmap::DashMap;
use parking_lot::{Mutex, RwLock};

use super::token_text::{TokenHash, TokenText};
use super::{load, stored};
use crate::domain::{Identifier, Malformed, Person, Role, Timestamp, TokenId, UserId};
use crate::entropy;
use crate::store::{Batch, Sequence, Store, StoreError, durable_up_to};

/// More tokens than a fleet needs, few enough to keep in memory and to list.
pub const TOKENS_MAX: usize = 10_000;

pub struct Accounts {
    store: Arc<dyn Store>,
    members: RwLock<HashMap<UserId, Member>>,
    tokens: DashMap<TokenHash, Arc<Token>>,
    /// The place of the last token made or revoked. Whoever changes tokens holds it while both the store and the map
    /// take the change, so that they agree on the order, and never while waiting for the disk: a request that is given
    /// up cannot leave the two apart.
    last_change: Mutex<Sequence>,
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
        let members = load::members(&*store, declared).await?;
        let tokens = load::tokens(&*store, &members).await?;
        let tokens = tokens.into_iter().map(|token| (token.hash, Arc::new(token))).collect();
        Ok(Self { store, members: RwLock::new(members), tokens, last_change: Mutex::default() })
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

    /// The organization's tokens, oldest first, once nothing that they show can be lost any more.
    pub async fn tokens(&self, organization: &Identifier) -> Vec<Arc<Token>> {
        let (mut tokens, sequence) = {
            let last_change = self.last_change.lock();
            (self.tokens_where(|token| token.organization == *organization), *last_change)
        };
        durable_up_to(&*self.store, sequence).await;
        tokens.sort_unstable_by_key(|token| token.id);
        tokens
    }

    /// A token that its user makes.
    pub async fn create_token(&self, new: NewToken, now: Timestamp) -> Result<OpenToken, AccountsError> {
        self.create_token_by(new.user, new, now).await
    }

    /// A token that somebody makes for its user.
    pub async fn create_token_by(
        &self,
        creator: UserId,
        new: NewToken,
        now: Timestamp,
    ) -> Result<OpenToken, AccountsError> {
        self.create_token_with(creator, new, now, |_, _| ()).await
    }

    /// The same, with what `beside` adds to the batch that makes the token; what it returns is held until that is durable
    /// or refused. The token is in the map before it is durable, which lets nobody in too early: its text is not known
    /// before this answers.
    pub async fn create_token_with<Held>(
        &self,
        creator: UserId,
        new: NewToken,
        now: Timestamp,
        beside: impl FnOnce(&Token, &mut Batch) -> Held,
    ) -> Result<OpenToken, AccountsError> {
        let text = TokenText::generate();
        let token = Arc::new(Token::new(&text, creator, new, now));
        let mut batch = Batch::default();
        let _held = beside(&token, &mut batch);
        let sequence = self.add_within_limit(&token, batch)?;
        durable_up_to(&*self.store, sequence).await;
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
        let new = NewToken { organization: organization.clone(), user, name: "bootstrap".to_owned(), expires_at: None };
        let token = Arc::new(Token { bootstrap: true, ..Token::new(text, user, new, now) });
        let sequence = self.supersede(&token)?;
        durable_up_to(&*self.store, sequence).await;
        Ok(())
    }

    /// Whether there was such a token. It stops working before this answers, and neither answer can be undone by a
    /// crash: that there is none may be the doing of a revocation that is not durable yet.
    pub async fn revoke(&self, organization: &Identifier, id: TokenId) -> Result<bool, StoreError> {
        let (found, sequence) = {
            let mut last_change = self.last_change.lock();
            let found = self.tokens_where(|token| token.id == id && token.organization == *organization);
            (!found.is_empty(), self.change(&mut last_change, &found, None, Batch::default())?)
        };
        durable_up_to(&*self.store, sequence).await;
        Ok(found)
    }

    /// Writes down when tokens were last used, for those where that has changed.
    pub async fn write_usage(&self) -> Result<(), StoreError> {
        let used = self.tokens_where(|token| token.usage.is_unwritten());
        for tokens in used.chunks(stored::RECORDS_AT_ONCE) {
            if let Some(sequence) = self.hand_in_usage(tokens)? {
                durable_up_to(&*self.store, sequence).await;
            }
        }
        Ok(())
    }

    fn tokens_where(&self, wanted: impl Fn(&Token) -> bool) -> Vec<Arc<Token>> {
        self.tokens.iter().filter(|token| wanted(token)).map(|token| token.clone()).collect()
    }

    fn add_within_limit(&self, token: &Arc<Token>, beside: Batch) -> Result<Sequence, AccountsError> {
        let mut last_change = self.last_change.lock();
        if self.tokens.iter().filter(|other| other.organization == token.organization).count() >= TOKENS_MAX {
            return Err(AccountsError::TooManyTokens);
        }
        Ok(self.change(&mut last_change, &[], Some(token), beside)?)
    }

    /// Puts a bootstrap token in the place of all others and of any token with its text, unless it stands already.
    fn supersede(&self, token: &Arc<Token>) -> Result<Sequence, StoreError> {
        let mut last_change = self.last_change.lock();
        let stands = |other: &Token| {
            other.bootstrap
                && other.hash == token.hash
                && other.organization == token.organization
                && other.user == token.user
        };
        let superseded = self.tokens_where(|other| (other.bootstrap || other.hash == token.hash) && !stands(other));
        let is_new = !self.tokens.get(&token.hash).is_some_and(|other| stands(&other));
        self.change(&mut last_change, &superseded, is_new.then_some(token), Batch::default())
    }

    /// The map follows only a change that the store has taken; a refused one leaves both as they were. What `batch` has
    /// already goes with it. Answers up to where the store must be durable before anybody is told.
    fn change(
        &self,
        last_change: &mut Sequence,
        removed: &[Arc<Token>],
        added: Option<&Arc<Token>>,
        mut batch: Batch,
    ) -> Result<Sequence, StoreError> {
        for token in removed {
            batch.delete(stored::token_key(&token.organization, token.id));
        }
        if let Some(token) = added {
            batch.put(stored::token_key(&token.organization, token.id), stored::encode_token(token));
        }
        if batch.is_empty() {
            return Ok(*last_change);
        }
        *last_change = self.store.commit(batch)?;
        for token in removed {
            self.tokens.remove(&token.hash);
        }
        if let Some(token) = added {
            self.tokens.insert(token.hash, token.clone());
        }
        Ok(*last_change)
    }

    /// Leaves out what has been revoked since: a record put after its delete would be a token again at the next start.
    fn hand_in_usage(&self, tokens: &[Arc<Token>]) -> Result<Option<Sequence>, StoreError> {
        let _unchanged = self.last_change.lock();
        let is_kept = |token: &Arc<Token>| self.tokens.get(&token.hash).is_some_and(|kept| Arc::ptr_eq(&kept, token));
        let kept: Vec<_> = tokens.iter().filter(|token| is_kept(token)).collect();
        if kept.is_empty() {
            return Ok(None);
        }
        // Before the records are made: a use in between is then written once more, and not lost.
        let written: Vec<_> = kept.iter().map(|token| token.usage.last_used_millis.load(Ordering::Relaxed)).collect();
        let mut batch = Batch::default();
        for token in &kept {
            batch.put(stored::token_key(&token.organization, token.id), stored::encode_token(token));
        }
        let sequence = self.store.commit(batch)?;
        for (token, millis) in kept.iter().zip(written) {
            token.usage.written_millis.store(millis, Ordering::Relaxed);
        }
        Ok(Some(sequence))
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
}

//! A token as it is stored, without its text, and when it was last used. The sign-in of a browser is one too, and so is the
//! token of a job that has shown an identity token, so that permissions, revocations, rate limits and retries are the same
//! for all.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::root::Root;
use super::token_text::{TokenHash, TokenText};
use ambient::entropy;
use domain::{Identifier, Timestamp, TokenId, UserId};

/// More tokens than a fleet needs, few enough to keep in memory and to list.
pub const TOKENS_MAX: usize = 10_000;

/// Browsers that one member is signed in with at a time; then the oldest sign-in ends.
pub const SIGN_INS_MAX: usize = 20;

pub struct Token {
    pub kind: TokenKind,
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
    /// What it was made from, and ends with.
    pub root: Root,
    /// Made by its creator with a browser: it ends with all their sign-ins, too.
    pub(super) made_in_browser: bool,
    pub(super) usage: Usage,
}

/// What a token is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenKind {
    /// Made by a member, for programs.
    Api,
    /// The sign-in of a browser. Always expires.
    SignIn(SignInOrigin),
    /// For a job of a CI, in exchange for its identity token. Always expires. Its name is the job in the words of its CI.
    Exchanged,
}

/// Where a sign-in came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInOrigin {
    /// The browser, for people.
    pub client: String,
}

/// How long sign-ins and invitations last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignInLimits {
    /// Without a request.
    pub idle: Duration,
    /// In all.
    pub max: Duration,
    /// How long an invitation works.
    pub invitation: Duration,
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
    pub(super) fn sign_in(
        text: &TokenText,
        organization: &Identifier,
        user: UserId,
        (origin, root): (SignInOrigin, Root),
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Self {
        let new =
            NewToken { organization: organization.clone(), user, name: String::new(), expires_at: Some(expires_at) };
        let token = Self::new(text, user, new, now);
        Self { kind: TokenKind::SignIn(origin), root, usage: Usage::since(Some(now)), ..token }
    }

    pub fn is_api(&self) -> bool {
        match self.kind {
            TokenKind::Api => true,
            TokenKind::SignIn(_) | TokenKind::Exchanged => false,
        }
    }

    pub fn is_exchanged(&self) -> bool {
        match self.kind {
            TokenKind::Exchanged => true,
            TokenKind::Api | TokenKind::SignIn(_) => false,
        }
    }

    pub fn is_sign_in(&self) -> bool {
        self.origin().is_some()
    }

    /// The origin, if it is a sign-in.
    pub fn origin(&self) -> Option<&SignInOrigin> {
        match &self.kind {
            TokenKind::Api | TokenKind::Exchanged => None,
            TokenKind::SignIn(origin) => Some(origin),
        }
    }

    pub(super) fn has_ended(&self, now: Timestamp, limits: SignInLimits) -> bool {
        self.expires_at.is_some_and(|expires| expires <= now) || (self.is_sign_in() && self.is_idle(now, limits.idle))
    }

    fn is_idle(&self, now: Timestamp, idle: Duration) -> bool {
        let since = self.usage.last_used_at().unwrap_or(self.created_at);
        now.as_millis().saturating_sub(since.as_millis()) >= i64::try_from(idle.as_millis()).unwrap_or(i64::MAX)
    }

    pub(super) fn new(text: &TokenText, created_by: UserId, new: NewToken, now: Timestamp) -> Self {
        Self {
            kind: TokenKind::Api,
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
            root: Root::None,
            made_in_browser: false,
            usage: Usage::since(None),
        }
    }

    /// The same token with another root.
    pub(super) fn with_root(&self, root: Root) -> Self {
        Self {
            kind: self.kind.clone(),
            organization: self.organization.clone(),
            id: self.id,
            hash: self.hash,
            user: self.user,
            created_by: self.created_by,
            name: self.name.clone(),
            last_four: self.last_four.clone(),
            created_at: self.created_at,
            expires_at: self.expires_at,
            bootstrap: self.bootstrap,
            root,
            made_in_browser: self.made_in_browser,
            usage: Usage::since(self.last_used_at()),
        }
    }

    pub fn last_used_at(&self) -> Option<Timestamp> {
        self.usage.last_used_at()
    }
}

impl Default for SignInLimits {
    /// A week, a month in all, and three days.
    fn default() -> Self {
        let hours = |count: u64| Duration::from_secs(count * 3_600);
        Self { idle: hours(168), max: hours(720), invitation: hours(72) }
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

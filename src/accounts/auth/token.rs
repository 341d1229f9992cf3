//! A stored token, without its text: when it was last used, and its root, which is what it was created from. A browser
//! sign-in is a token too, and so is the token of a CI job, so that permissions, revocations, rate limits and retries
//! are the same for all. A credential ends with its root, and everything created with it has a root too, so that a
//! short-lived credential cannot create a permanent one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::token_text::{TokenHash, TokenText};
use ambient::entropy;
use domain::{Identifier, Role, Timestamp, TokenId, UserId};

/// More tokens than a fleet needs, few enough to keep in memory and to list.
pub const TOKENS_MAX: usize = 10_000;

/// Concurrent sign-ins of one member; beyond that the oldest ends.
pub const SIGN_INS_MAX: usize = 20;

pub struct Token {
    pub kind: TokenKind,
    pub organization: Identifier,
    pub id: TokenId,
    pub(super) hash: TokenHash,
    /// The member whose permissions it has.
    pub user: UserId,
    pub created_by: UserId,
    pub name: String,
    pub last_four: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub(super) bootstrap: bool,
    /// It ends when its root ends.
    pub root: Root,
    /// Created by its creator in a browser: it also ends with all their sign-ins.
    pub(super) made_in_browser: bool,
    pub(super) usage: Usage,
}

/// The use of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenKind {
    /// Created by a member, for programs.
    Api,
    /// The sign-in of a browser. Always expires.
    SignIn(SignInOrigin),
    /// For a CI job, in exchange for its identity token. Always expires. Its name is the job as its CI names it.
    Exchanged,
}

/// The origin of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInOrigin {
    /// The browser, in words for people.
    pub client: String,
}

/// How long sign-ins and invitations last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignInLimits {
    /// The longest time without a request.
    pub idle: Duration,
    /// The longest time in total.
    pub max: Duration,
    /// How long an invitation works.
    pub invitation: Duration,
}

/// When a token was last used; stored from time to time, not with every request.
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

/// Tokens of an organization, oldest first, and the names of its members at that time.
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
    /// A week idle, a month in total, and three days for invitations.
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

/// The origin of a token or a sign-in, which ends when its root ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// It ends only on its own: created with a token of the operator, or by a version that recorded no roots.
    None,
    /// The operator, at a start.
    Operator,
    /// The password of the member, or the invitation to choose one.
    Password,
    /// A token, directly or through a sign-in with it.
    Token(TokenId),
    /// An entry of the organization's file.
    Source(SourceId),
}

/// An entry of an organization file that identifies people or jobs: a provider of single sign-on, or a rule for jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourceId(pub [u8; 32]);

impl SourceId {
    /// A provider with another issuer is another source.
    pub fn of_provider(id: &Identifier, issuer: &str) -> Self {
        Self::of(["provider", id.as_str(), issuer])
    }

    /// Identified by the fields that distinguish the rule.
    pub fn of_rule(marks: &[String]) -> Self {
        Self::of(["rule"].into_iter().chain(marks.iter().map(String::as_str)))
    }

    fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }
}

/// The entries that an organization file trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// The issuers of the providers of single sign-on, by the id of the provider.
    pub providers: HashMap<Identifier, String>,
    /// The members for jobs that rules name, with their roles.
    pub jobs: HashMap<Identifier, Role>,
    /// All providers and rules, with what each grants.
    pub sources: HashMap<SourceId, Grants>,
}

/// The roles that an entry of an organization's file gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    /// The role of a rule, or the highest role of a provider.
    pub role_max: Role,
    /// How a provider assigns roles; empty for a rule.
    pub assignment: Vec<String>,
}

impl Trust {
    /// Whether the source is a provider of single sign-on, not a rule for jobs.
    pub fn is_provider(&self, source: SourceId) -> bool {
        self.providers.iter().any(|(id, issuer)| SourceId::of_provider(id, issuer) == source)
    }
}

/// By organization.
pub type Trusted = HashMap<Identifier, Trust>;

/// The earlier of two ends; `None` is never.
pub fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

/// The recorded origin of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    pub root: Root,
    /// Created in a browser: it also ends with all sign-ins of its creator.
    pub in_browser: bool,
}

impl Made {
    /// Without a root.
    pub const FREELY: Self = Self { root: Root::None, in_browser: false };

    /// An admin with an operator's token sets up an organization: what they create outlives that token.
    pub fn with(maker: &Token) -> Self {
        match (&maker.kind, maker.root) {
            (TokenKind::SignIn(_), root) => Self { root, in_browser: true },
            (TokenKind::Api, Root::Operator) if maker.expires_at.is_none() => Self::FREELY,
            (TokenKind::Api | TokenKind::Exchanged, _) => Self { root: Root::Token(maker.id), in_browser: false },
        }
    }

    /// The token that bounds the lifetime of what is created: the root, if it is a token that can expire.
    pub fn bounded_by(self) -> Option<TokenId> {
        match self.root {
            Root::Token(id) => Some(id),
            Root::None | Root::Operator | Root::Password | Root::Source(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::{IdSeed, Identifier, Timestamp, UserId};

    #[test]
    fn entries_that_differ_in_anything_are_others() {
        let id = SourceId::of(["rule", "https://ci.example", "ci"]);
        assert_eq!(id, SourceId::of(["rule", "https://ci.example", "ci"]));
        for other in [&["rule", "https://ci.examplec", "i"][..], &["rule", "https://ci.example"], &["provider"], &[]] {
            assert_ne!(id, SourceId::of(other.iter().copied()), "{other:?}");
        }
    }

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn token(kind: TokenKind, root: Root) -> Token {
        let organization = Identifier::parse("acme").unwrap();
        let user = UserId(IdSeed([1; 12]));
        let new = NewToken { organization, user, name: "x".to_owned(), expires_at: None };
        Token { kind, root, ..Token::new(&TokenText::generate(), user, new, NOW) }
    }

    #[test]
    fn what_is_made_with_a_credential_ends_with_it_or_with_its_root() {
        let browser = || TokenKind::SignIn(SignInOrigin { client: "Firefox".to_owned() });
        let source = Root::Source(SourceId::of_rule(&[]));
        let parent = Root::Token(TokenId(IdSeed([2; 12])));
        for root in [Root::Password, source, parent, Root::None] {
            let made = Made::with(&token(browser(), root));
            assert_eq!(made, Made { root, in_browser: true }, "a sign-in hands its root on");
            for kind in [TokenKind::Api, TokenKind::Exchanged] {
                let maker = token(kind, root);
                assert_eq!(Made::with(&maker), Made { root: Root::Token(maker.id), in_browser: false });
            }
        }
        assert_eq!(Made::with(&token(TokenKind::Api, Root::Operator)), Made::FREELY);
        let passing = Token { expires_at: Some(NOW), ..token(TokenKind::Api, Root::Operator) };
        assert_eq!(Made::with(&passing).bounded_by(), Some(passing.id));
    }

    #[test]
    fn the_end_of_a_root_that_expires_bounds_what_is_made() {
        let id = TokenId(IdSeed([2; 12]));
        assert_eq!(Made { root: Root::Token(id), in_browser: true }.bounded_by(), Some(id));
        assert_eq!(Made { root: Root::Password, in_browser: true }.bounded_by(), None);
        let (soon, later) = (Some(NOW), Some(NOW.plus(1)));
        assert_eq!((earlier(soon, later), earlier(None, later), earlier(soon, None)), (soon, later, soon));
        assert_eq!(earlier(None, None), None);
    }
}

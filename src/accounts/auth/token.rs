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

/// Concurrent sign-ins of one member; a further one ends the oldest.
pub const SIGN_INS_MAX: usize = 20;

#[derive(Clone)]
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
    /// The token ends when its root ends.
    pub root: Root,
    /// Created in a browser: the token also ends when all sign-ins of its creator are ended.
    pub(super) made_in_browser: bool,
    pub(super) usage: Usage,
}

/// The use of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenKind {
    /// Created by a member, for programs.
    Api,
    /// The sign-in of a browser, described in words for people. Always expires.
    SignIn { client: String },
    /// For a CI job, in exchange for its identity token. Always expires. Its name is the job as its CI names it.
    Exchanged,
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
    pub fn is_api(&self) -> bool {
        self.kind == TokenKind::Api
    }

    pub fn is_exchanged(&self) -> bool {
        self.kind == TokenKind::Exchanged
    }

    pub fn is_sign_in(&self) -> bool {
        self.client().is_some()
    }

    /// The browser of a sign-in, in words for people.
    pub fn client(&self) -> Option<&str> {
        if let TokenKind::SignIn { client } = &self.kind { Some(client) } else { None }
    }

    pub(super) fn has_ended(&self, now: Timestamp, limits: SignInLimits) -> bool {
        let is_idle = || self.last_used_at().unwrap_or(self.created_at).after(limits.idle) <= now;
        self.expires_at.is_some_and(|expires| expires <= now) || (self.is_sign_in() && is_idle())
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

/// A clone counts as stored: code that copies a token also stores the copy.
impl Clone for Usage {
    fn clone(&self) -> Self {
        Self::since(self.last_used_at())
    }
}

/// The origin of a token or a sign-in, which ends when its root ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// No root: the credential ends only on its own. It was created with a token of the operator, or by a version that
    /// recorded no roots.
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
    /// Created in a browser: the token also ends when all sign-ins of its creator are ended.
    pub in_browser: bool,
}

impl Made {
    /// Without a root.
    pub const FREELY: Self = Self { root: Root::None, in_browser: false };

    /// An admin with an operator's token sets up an organization: what they create outlives that token.
    pub fn with(maker: &Token) -> Self {
        match (&maker.kind, maker.root) {
            (TokenKind::SignIn { .. }, root) => Self { root, in_browser: true },
            (TokenKind::Api, Root::Operator) if maker.expires_at.is_none() => Self::FREELY,
            (TokenKind::Api | TokenKind::Exchanged, _) => Self { root: Root::Token(maker.id), in_browser: false },
        }
    }
}

/// Exchanges per identity token. A job exchanges it once per program that it runs, and renews it from time to time.
pub const EXCHANGES_MAX: u32 = 20;
/// The limit per organization for job tokens, and also for counted identity tokens: more jobs than run in an hour, few
/// enough to keep in memory.
pub const EXCHANGED_MAX: usize = 20_000;

/// An identity token in an organization.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdentityKey {
    pub organization: Identifier,
    /// SHA-256 of the signed part of the token.
    pub hash: [u8; 32],
}

/// How often an identity token of a CI was exchanged. Anyone who gets it, perhaps from a log, can use it like its job
/// until it ends. So its uses are counted, through restarts too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityUse {
    pub count: u32,
    /// SHA-256 of the job's subject, as its CI writes it.
    pub subject: [u8; 32],
    /// When the identity token ends, and with it the count.
    pub until: Timestamp,
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
        let browser = || TokenKind::SignIn { client: "Firefox".to_owned() };
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
        assert_eq!(Made::with(&passing), Made { root: Root::Token(passing.id), in_browser: false });
    }

    #[test]
    fn the_earlier_end_is_the_one_that_comes_first() {
        let (soon, later) = (Some(NOW), Some(NOW.plus(1)));
        assert_eq!((earlier(soon, later), earlier(None, later), earlier(soon, None)), (soon, later, soon));
        assert_eq!(earlier(None, None), None);
    }
}

//! All members, credentials and tokens, in memory: who a caller is. Notifies running and waiting requests when
//! permissions are revoked.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use parking_lot::RwLock;
use tokio::sync::watch;

use super::attempts::{AttemptLimits, Attempts, TooSoon};
use super::change::{Change, MemberChange};
use super::member::{MEMBERS_MAX, Member, MembersById, NewMember, Permission};
use super::password::{Credentials, Hashing};
use super::stored;
use super::token::{EXCHANGES_MAX, IdentityKey, IdentityUse, Made, Root, SignInLimits, Token, Trusted};
use super::token_text::{KnownToken, TextKind, TokenHash, TokenText};
use super::tokens_by_hash::TokensByHash;
use domain::{Holder, IdSeed, Identifier, Malformed, NoShare, Person, Role, Timestamp, TokenId, UserId};
use events::Cause;
use store::{Committer, Ordered, Store, StoreError};

pub struct Accounts {
    /// Members of the declared organizations. Those of other organizations stay in the store, and their tokens are
    /// refused.
    pub(super) members: RwLock<MembersById>,
    pub(super) credentials: RwLock<HashMap<UserId, Arc<Credentials>>>,
    pub(super) tokens: TokensByHash,
    /// Orders the changes. The maps are outside its lock: every request reads them and sees a change immediately,
    /// durable or not. Whatever a caller does because of that change comes later in the log.
    pub(super) changes: Ordered<()>,
    pub revocations: Revocations,
    pub(super) hashing: Hashing,
    pub attempts: Attempts,
    pub(super) limits: SignInLimits,
    /// The exchanged identity tokens that have not ended yet.
    pub(super) identities: RwLock<HashMap<IdentityKey, IdentityUse>>,
    /// The current organization files. Empty until they are applied; until then no provider or rule is trusted.
    pub(super) trusted: RwLock<Trusted>,
}

/// The authenticated member behind a request, with their current role.
#[derive(Debug, Clone)]
pub struct Caller {
    pub organization: Identifier,
    pub person: Person,
    pub role: Role,
    pub token: TokenId,
    /// Whether the caller is a signed-in browser.
    pub is_sign_in: bool,
    /// Whether the caller is a job, whose token is replaced by another one before it expires.
    is_exchanged: bool,
    pub expires_at: Option<Timestamp>,
    pub(super) hash: TokenHash,
    /// The number of revocations before the caller was authenticated.
    revocations: u64,
}

/// The current member and token behind a caller.
pub struct Identity {
    pub member: Arc<Member>,
    pub token: Arc<Token>,
}

/// Why a token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unauthenticated {
    Malformed(Malformed),
    Unknown,
    Expired,
    /// The token belongs to a disabled member.
    Disabled,
}

#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("too many tokens: {0}")]
    TooManyTokens(NoShare),
    #[error("the token does not exist")]
    TokenNotFound,
    #[error("the organization has the maximum of {MEMBERS_MAX} members")]
    TooManyMembers,
    #[error("a member of this name already exists")]
    MemberExists,
    #[error("the member does not exist")]
    MemberNotFound,
    #[error("the member is the organization's last admin who is not disabled")]
    LastAdmin,
    /// The caller was an admin when the request arrived.
    #[error("the caller is no longer an admin")]
    NoLongerAdmin,
    /// One error for an unknown member, a wrong password, and a password that has changed meanwhile.
    #[error("there is no such member with this password or token")]
    InvalidCredentials,
    #[error("too many passwords are being checked")]
    Crowded,
    #[error(transparent)]
    TooSoon(#[from] TooSoon),
    #[error("the invitation does not exist, has expired or was used")]
    InvitationNotFound,
    #[error("the member is disabled")]
    MemberDisabled,
    #[error("the password is the member's name")]
    PasswordIsName,
    #[error("the sign-in does not exist")]
    SignInNotFound,
    #[error("the identity token has been exchanged {EXCHANGES_MAX} times")]
    ExchangedTooOften,
    /// The share of the organization, or of the subject of the job, is used up.
    #[error("too many tokens of jobs: {0}")]
    TooManyExchanged(NoShare),
    #[error("a member who is not for jobs has the name that the rule gives")]
    NotForJobs,
    #[error("the member is for jobs, which neither sign in nor have a password")]
    MemberForJobs,
    #[error("the member has no password; the first one is chosen by an invitation")]
    NoPassword,
    /// The new password would outlive the caller's credential, or the job.
    #[error("the caller's credential may not make this invitation")]
    InvitationDenied,
    #[error("the organization's file no longer has the provider or the rule")]
    NoLongerTrusted,
    #[error("the member has a higher role than the provider may give")]
    AboveProvider,
}

impl Accounts {
    pub(super) fn load(store: Arc<dyn Store>, declared: &[NewMember]) -> Result<Self, StoreError> {
        let members = stored::load_members(&*store, declared)?;
        Ok(Self {
            credentials: RwLock::new(stored::load_credentials(&*store, &members)?),
            members: RwLock::new(members),
            tokens: stored::load_tokens(&*store)?.into_iter().collect(),
            identities: RwLock::new(stored::load_identities(&*store)?),
            changes: Ordered::new(store, ()),
            revocations: Revocations::default(),
            hashing: Hashing::among(1),
            attempts: Attempts::new(AttemptLimits { per_account: None, per_address: None }),
            limits: SignInLimits::default(),
            trusted: RwLock::default(),
        })
    }

    pub fn with_limits(self, limits: SignInLimits, attempts: AttemptLimits) -> Self {
        let organizations: BTreeSet<_> =
            self.members.read().values().map(|member| member.organization.clone()).collect();
        let hashing = Hashing::among(organizations.len());
        Self { limits, attempts: Attempts::new(attempts), hashing, ..self }
    }

    /// The caller behind a token, with the *current* role of the user.
    pub fn authenticate(&self, text: &str, now: Timestamp) -> Result<Caller, Unauthenticated> {
        self.authenticate_known(text, &KnownToken::default(), now)
    }

    /// Like [`Accounts::authenticate`], for a client that may have sent this token before.
    pub fn authenticate_known(
        &self,
        text: &str,
        known: &KnownToken,
        now: Timestamp,
    ) -> Result<Caller, Unauthenticated> {
        self.identify(known.hash(text).map_err(Unauthenticated::Malformed)?, now)
    }

    /// The caller behind the sign-in of a browser.
    pub fn authenticate_sign_in(&self, text: &str, now: Timestamp) -> Result<Caller, Unauthenticated> {
        let text = TokenText::parse_for(TextKind::SignIn, text).map_err(Unauthenticated::Malformed)?;
        self.identify(text.hash(), now)
    }

    /// False if any permission may have been revoked since the caller was authenticated. Costs one load, and a look at
    /// the clock if the token expires.
    pub fn is_current(&self, caller: &Caller, clock: impl FnOnce() -> Timestamp) -> bool {
        caller.revocations == self.revocations.count() && caller.expires_at.is_none_or(|expires| expires > clock())
    }

    /// Authenticates the same caller again, with the current role.
    pub fn authenticate_again(&self, caller: &Caller, now: Timestamp) -> Result<Caller, Unauthenticated> {
        self.identify(caller.hash, now)
    }

    fn identify(&self, hash: TokenHash, now: Timestamp) -> Result<Caller, Unauthenticated> {
        // Read before the maps: a revocation from here on is noticed later.
        let revocations = self.revocations.count();
        let token = self.tokens.get(&hash).ok_or(Unauthenticated::Unknown)?;
        if token.has_ended(now, self.limits) {
            return Err(Unauthenticated::Expired);
        }
        let members = self.members.read();
        let member = members.get(&token.user).ok_or(Unauthenticated::Unknown)?;
        if member.disabled {
            return Err(Unauthenticated::Disabled);
        }
        token.usage.last_used_millis.store(now.as_millis(), Ordering::Relaxed);
        Ok(Caller {
            organization: token.organization.clone(),
            person: Person { id: token.user, name: member.name.shared() },
            role: member.role,
            token: token.id,
            is_sign_in: token.is_sign_in(),
            is_exchanged: token.is_exchanged(),
            expires_at: token.expires_at,
            hash,
            revocations,
        })
    }

    /// The caller's member and token; waits until the returned state is durable. Refused if either has been removed.
    pub async fn identity(&self, caller: &Caller) -> Result<Identity, Unauthenticated> {
        let found = self.changes.read(|()| {
            let token = self.tokens.get(&caller.hash)?;
            let member = self.member(&token.organization, token.user)?;
            Some(Identity { member, token })
        });
        found.await.ok_or(Unauthenticated::Unknown)
    }

    /// Whether there is a token, or somebody has signed in before: signing out everywhere may leave a member without
    /// tokens.
    pub fn has_been_used(&self) -> bool {
        let credentials = self.credentials.read();
        self.tokens.iter().any(|token| token.is_api()) || credentials.values().any(|it| it.last_sign_in_at.is_some())
    }

    /// The longest-standing admin who is not disabled; ids rise with time.
    pub fn first_admin(&self, organization: &Identifier) -> Option<UserId> {
        let members = self.members.read();
        let admins = members.values().filter(|m| m.organization == *organization && m.is_acting_admin());
        admins.map(|member| member.id).min()
    }

    pub fn member(&self, organization: &Identifier, user: UserId) -> Option<Arc<Member>> {
        self.members.read().get(&user).filter(|member| member.organization == *organization).cloned()
    }

    /// A member by name, as files and people refer to them.
    pub fn member_named(&self, organization: &Identifier, name: &str) -> Option<Arc<Member>> {
        let members = self.members.read();
        members.values().find(|m| m.organization == *organization && m.name.as_str() == name).cloned()
    }

    pub(super) fn has_members(&self, organization: &Identifier) -> bool {
        self.members.read().values().any(|member| member.organization == *organization)
    }

    pub(super) fn credentials_of(&self, user: UserId) -> Arc<Credentials> {
        self.credentials.read().get(&user).cloned().unwrap_or_default()
    }

    pub(super) fn token_of(&self, id: TokenId) -> Option<Arc<Token>> {
        self.tokens.with_id(id)
    }

    pub(super) fn tokens_where(&self, wanted: impl Fn(&Token) -> bool) -> Vec<Arc<Token>> {
        self.tokens.iter().filter(|token| wanted(token)).map(|token| token.clone()).collect()
    }

    /// Refuses the change if the caller has been demoted, disabled or removed since the request arrived, or if their
    /// token has been revoked.
    pub(super) fn check_still_permitted(&self, cause: Cause<'_>, permission: Permission) -> Result<(), AccountsError> {
        let Some(initiator) = cause.by else { return Ok(()) };
        if initiator.via.as_ref().is_some_and(|via| self.token_of(via.token).is_none()) {
            return Err(AccountsError::NoLongerAdmin);
        }
        let members = self.members.read();
        let member = members.get(&initiator.person.id).filter(|member| !member.disabled);
        let permitted = member.is_some_and(|member| permission.is_granted_to(member.role));
        permitted.then_some(()).ok_or(AccountsError::NoLongerAdmin)
    }

    /// The root of anything that a request creates, and the latest expiry that this root allows. Without a request, the
    /// operator is the creator.
    pub(super) fn made_by(&self, cause: Cause<'_>) -> Result<(Made, Option<Timestamp>), AccountsError> {
        let via = cause.by.and_then(|initiator| initiator.via.as_ref()).map(|via| via.token);
        let made = match via {
            Some(id) => Made::with(&*self.token_of(id).ok_or(AccountsError::NoLongerAdmin)?),
            None => Made { root: Root::Operator, in_browser: false },
        };
        // Only a token can expire.
        let bound = match made.root {
            Root::Token(id) => self.token_of(id).ok_or(AccountsError::NoLongerAdmin)?.expires_at,
            Root::None | Root::Operator | Root::Password | Root::Source(_) => None,
        };
        Ok((made, bound))
    }

    /// Whether an admin or the server itself makes the change.
    pub(super) fn is_by_admin(&self, cause: Cause<'_>) -> bool {
        let Some(initiator) = cause.by else { return true };
        self.members.read().get(&initiator.person.id).is_some_and(|member| member.role == Role::Admin)
    }

    /// The maps change only after the store has taken the batch. Requests that lose permissions by it are notified
    /// immediately.
    pub(super) fn hand_in(&self, committer: &mut Committer<'_>, change: Change) -> Result<(), StoreError> {
        let Change { batch, members, credentials, revoked, made, identities } = change;
        if batch.is_empty() {
            return Ok(());
        }
        committer.commit(batch)?;
        let mut weakened = BTreeSet::new();
        self.credentials.write().extend(credentials);
        let mut known = self.members.write();
        for member in members {
            let before = match &member {
                MemberChange::Set(member) => known.insert(member.id, member.clone()),
                MemberChange::Removed(id) => known.remove(id),
            };
            if let MemberChange::Removed(id) = &member {
                self.credentials.write().remove(id);
            }
            weakened.extend(before.filter(|before| member.is_less_than(before)).map(|b| b.organization.clone()));
        }
        drop(known);
        for token in revoked {
            self.tokens.remove(&token.hash);
            weakened.insert(token.organization.clone());
        }
        made.into_iter().for_each(|token| self.tokens.insert(token));
        let mut known = self.identities.write();
        for (key, used) in identities {
            match used {
                Some(used) => known.insert(key, used),
                None => known.remove(&key),
            };
        }
        drop(known);
        weakened.iter().for_each(|organization| self.revocations.announce(organization));
        Ok(())
    }
}

impl Caller {
    /// Requests of one scope with the same `Idempotency-Key` are the same request. A job may have a different token
    /// when it retries.
    pub fn retry_scope(&self) -> IdSeed {
        if self.is_exchanged { self.person.id.0 } else { self.token.0 }
    }

    /// The holder whose share of places the caller's requests use.
    pub fn holder(&self) -> Holder {
        Holder { member: self.person.id, is_admin: self.role == Role::Admin }
    }
}

/// Counts and announces changes that revoke a permission: a revoked token, a removed or demoted member.
#[derive(Default)]
pub struct Revocations {
    /// Over all organizations: one load tells a request that nothing has been revoked since it was authenticated.
    count: AtomicU64,
    /// One per organization that a request has waited in, so that revocations of one do not wake the waiters of
    /// another.
    announced: DashMap<Identifier, watch::Sender<()>>,
}

impl Revocations {
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Changes with every later revocation in the organization.
    pub fn watch(&self, organization: &Identifier) -> watch::Receiver<()> {
        if let Some(announced) = self.announced.get(organization) {
            return announced.subscribe();
        }
        self.announced.entry(organization.clone()).or_default().subscribe()
    }

    /// Called after the accounts have changed.
    fn announce(&self, organization: &Identifier) {
        self.count.fetch_add(1, Ordering::AcqRel);
        if let Some(announced) = self.announced.get(organization) {
            announced.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_revocation_wakes_the_waiters_of_its_organization_alone() {
        let (acme, umbrella) = (Identifier::parse("acme").unwrap(), Identifier::parse("umbrella").unwrap());
        let revocations = Revocations::default();
        revocations.announce(&acme);
        let (mine, other) = (revocations.watch(&acme), revocations.watch(&umbrella));
        assert_eq!((revocations.count(), mine.has_changed().unwrap()), (1, false), "it came before");
        revocations.announce(&acme);
        assert_eq!((revocations.count(), mine.has_changed().unwrap()), (2, true));
        assert!(!other.has_changed().unwrap());
    }
}

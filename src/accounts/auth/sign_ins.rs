//! Signing in and out with a browser. A cookie marks browsers in which a member has signed in with the password;
//! failures of strangers do not count against them. The cookie grants no access and is not stored: it is signed with
//! the stored hash of the password, so it is bound to the account, and a new password invalidates it.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use rand::RngExt;
use sha2::{Digest, Sha256};

use super::accounts::{Accounts, AccountsError, Caller};
use super::attempts::{Account, BrowserId, Visitor};
use super::change::{Change, RevocationReason, SignInMethod};
use super::member::Member;
use super::password::{Credentials, PasswordHash};
use super::token::{NewToken, OpenToken, Root, SIGN_INS_MAX, SourceId, Token, TokenKind, Usage, earlier};
use super::token_text::{TextKind, TokenText};
use domain::{Hex, Identifier, Initiator, Person, RequestRef, Timestamp, TokenId, UserId, read_hex};
use events::Cause;
use store::StoreError;

/// Why a person may sign in. Must still hold when the sign-in is created.
pub enum Proof {
    /// The stored hash that the password matched.
    Password(PasswordHash),
    /// The sign-in never outlives this token.
    Token(Arc<Token>),
    /// A provider of the organization vouches for the person.
    SingleSignOn(SourceId),
    /// Checked when the invitation is used.
    Invitation,
}

/// A sign-in to be created.
pub struct NewSignIn {
    pub proof: Proof,
    /// The browser, in words for people.
    pub client: String,
    /// The text of the sign-in that the request used: the new one replaces it.
    pub replaces: Option<String>,
    /// The id of the request.
    pub request: Arc<str>,
}

impl Accounts {
    /// Checks a password. Takes equally long for an unknown member, so it does not reveal whether a member exists.
    pub async fn prove_password(
        &self,
        organization: &str,
        name: &str,
        password: String,
        by: Visitor,
    ) -> Result<(Arc<Member>, Proof), AccountsError> {
        let parsed = Identifier::parse(organization).ok().zip(Identifier::parse(name).ok());
        // A name that cannot be valid is not an account; then only the address counts.
        if let Some(account) = &parsed {
            self.attempts.on_account(account, by)?;
        }
        let member = parsed.as_ref().and_then(|(organization, name)| self.member_named(organization, name.as_str()));
        let member = member.filter(|member| !member.disabled && !member.for_jobs);
        let known = member.as_ref().and_then(|member| self.credentials_of(member.id).password.clone());
        let hash = known.clone().unwrap_or(PasswordHash::NOBODY);
        let organization = parsed.as_ref().map(|(organization, _)| organization);
        let organization = organization.filter(|organization| self.has_members(organization)).cloned();
        // All nonexistent organizations share one place; otherwise strangers would get a share for every name they
        // invent.
        let nobodys = || Identifier::parse("unknown").expect("lower-case letters are an identifier");
        let organization = organization.unwrap_or_else(nobodys);
        let matches = self.hashing.matches(&organization, hash, password).await.ok_or(AccountsError::Crowded)?;
        match (member, known, &parsed) {
            (Some(member), Some(hash), Some(account)) if matches => {
                self.attempts.succeeded(account, by);
                Ok((member, Proof::Password(hash)))
            }
            _ => Err(AccountsError::InvalidCredentials),
        }
    }

    /// Signs in with a token instead of a password. Job tokens are refused: their sign-ins would outlive the job.
    pub fn prove_token(&self, text: &str, now: Timestamp) -> Result<(Arc<Member>, Proof), AccountsError> {
        let refused = AccountsError::InvalidCredentials;
        let Ok(caller) = self.authenticate(text, now) else { return Err(refused) };
        let token = self.tokens.get(&caller.hash);
        let member = self.member(&caller.organization, caller.person.id);
        let (member, token) = member.zip(token).ok_or(refused)?;
        if member.for_jobs || token.is_exchanged() {
            return Err(AccountsError::MemberForJobs);
        }
        Ok((member, Proof::Token(token)))
    }

    /// Signs a member in. Refused if the proof has been revoked meanwhile.
    pub async fn sign_in(&self, member: &Member, new: NewSignIn, now: Timestamp) -> Result<OpenToken, AccountsError> {
        let text = TokenText::generate_for(TextKind::SignIn);
        let sign_in = Arc::new(self.new_sign_in(member, &new, &text, now));
        let initiator = initiator_of(member, &sign_in, &new.request);
        let made = self.changes.change(|(), committer| {
            let member = self.member(&member.organization, member.id).filter(|member| !member.disabled);
            let member = member.ok_or(AccountsError::InvalidCredentials)?;
            if member.for_jobs {
                return Err(AccountsError::MemberForJobs);
            }
            let credentials = self.credentials_of(member.id);
            let (holds, method) = match &new.proof {
                Proof::Password(hash) => (credentials.password.as_ref() == Some(hash), SignInMethod::Password),
                Proof::Token(token) => (self.tokens.get(&token.hash).is_some(), SignInMethod::Token),
                Proof::SingleSignOn(source) => {
                    self.check_trusted(&member.organization, *source)?;
                    (true, SignInMethod::SingleSignOn)
                }
                Proof::Invitation => (false, SignInMethod::Invitation),
            };
            if !holds {
                return Err(AccountsError::InvalidCredentials);
            }
            let mut change = Change::default();
            change.set_credentials(&member, Credentials { last_sign_in_at: Some(now), ..(*credentials).clone() });
            self.begin_sign_in(&mut change, &member, &sign_in, method, &new, Cause::by(&initiator, now));
            Ok(self.hand_in(committer, change)?)
        });
        made.await?;
        Ok(OpenToken { token: sign_in, text })
    }

    /// The sign-ins of a member, newest first; waits until the returned state is durable.
    pub async fn sign_ins(&self, user: UserId, now: Timestamp) -> Vec<Arc<Token>> {
        let found = self.changes.read(|()| self.sign_ins_where(user, |sign_in| !sign_in.has_ended(now, self.limits)));
        let mut found = found.await;
        found.reverse();
        found
    }

    /// Ends the sign-in of the caller before this returns, or all of theirs, with the tokens and invitations created in
    /// them and the invitation of the caller. Returns the number of ended sign-ins.
    pub async fn sign_out(&self, caller: &Caller, everywhere: bool, cause: Cause<'_>) -> Result<usize, AccountsError> {
        self.end_sign_ins(caller, (!everywhere).then_some(caller.token), cause).await
    }

    /// Ends one sign-in of the caller.
    pub async fn end_sign_in(&self, caller: &Caller, id: TokenId, cause: Cause<'_>) -> Result<(), AccountsError> {
        let ended = self.end_sign_ins(caller, Some(id), cause).await?;
        if ended == 0 { Err(AccountsError::SignInNotFound) } else { Ok(()) }
    }

    /// Drops expired and idle sign-ins. Returns how many.
    pub async fn sweep_sign_ins(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.drop_tokens(|token| token.is_sign_in() && token.has_ended(now, self.limits)).await
    }

    async fn end_sign_ins(
        &self,
        caller: &Caller,
        only: Option<TokenId>,
        cause: Cause<'_>,
    ) -> Result<usize, AccountsError> {
        let user = caller.person.id;
        let ended = self.changes.change(|(), committer| {
            let member = self.member(&caller.organization, user);
            let ended = match only {
                Some(id) => self.sign_ins_where(user, |sign_in| sign_in.id == id),
                None => self.made_by_sign_ins(user, None),
            };
            let sign_ins = ended.iter().filter(|token| token.is_sign_in()).count();
            let mut change = Change::default();
            if let Some(member) = member.filter(|_| sign_ins > 0) {
                change.record_sign_out(&member, sign_ins, cause);
            }
            if only.is_none() {
                self.drop_invitations_of(&mut change, user);
            }
            self.hand_in_ending(committer, ended, Some(RevocationReason::RootEnded), change, cause)?;
            Ok(sign_ins)
        });
        ended.await
    }

    /// Puts a sign-in into `change`, and ends those that make room for it.
    pub(super) fn begin_sign_in(
        &self,
        change: &mut Change,
        member: &Member,
        sign_in: &Arc<Token>,
        method: SignInMethod,
        new: &NewSignIn,
        cause: Cause<'_>,
    ) {
        let replaced = new.replaces.as_deref().and_then(|text| TokenText::parse_for(TextKind::SignIn, text).ok());
        let replaced = replaced.and_then(|text| self.tokens.get(&text.hash()));
        if let Some(replaced) = &replaced {
            change.drop_token(replaced);
        }
        let others = self.sign_ins_where(member.id, |other| replaced.as_ref().is_none_or(|it| it.id != other.id));
        let surplus = (others.len() + 1).saturating_sub(SIGN_INS_MAX);
        others.iter().take(surplus).for_each(|oldest| change.drop_token(oldest));
        change.begin_sign_in(member, sign_in, method, cause);
    }

    pub(super) fn new_sign_in(&self, member: &Member, new: &NewSignIn, text: &TokenText, now: Timestamp) -> Token {
        let (root, latest) = match &new.proof {
            Proof::Token(token) => (Root::Token(token.id), token.expires_at),
            Proof::SingleSignOn(source) => (Root::Source(*source), None),
            Proof::Password(_) | Proof::Invitation => (Root::Password, None),
        };
        let kind = TokenKind::SignIn { client: new.client.clone() };
        let new = NewToken {
            organization: member.organization.clone(),
            user: member.id,
            name: String::new(),
            expires_at: earlier(latest, Some(now.after(self.limits.max))),
        };
        Token { kind, root, usage: Usage::since(Some(now)), ..Token::new(text, member.id, new, now) }
    }

    /// Oldest first.
    pub(super) fn sign_ins_where(&self, user: UserId, wanted: impl Fn(&Token) -> bool) -> Vec<Arc<Token>> {
        let mut found = self.tokens_where(|token| token.is_sign_in() && token.user == user && wanted(token));
        found.sort_unstable_by_key(|sign_in| sign_in.id);
        found
    }
}

/// The initiator of a sign-in is the sign-in that is being created.
pub(super) fn initiator_of(member: &Member, sign_in: &Token, request: &Arc<str>) -> Initiator {
    let person = Person { id: member.id, name: member.name.shared() };
    Initiator { person, via: Some(RequestRef { token: sign_in.id, request: request.clone() }) }
}

/// Longer than a sign-in lasts, so that a browser is still known after a holiday.
pub const KNOWN_SECONDS: i64 = 90 * 24 * 60 * 60;
const KIND: &[u8] = b"lockkeeper known browser 1";

impl Accounts {
    /// The cookie by which this browser is known from now on; `None` if the member has no password.
    pub fn know_browser(&self, member: &Member, now: Timestamp) -> Option<String> {
        let password = self.credentials_of(member.id).password.clone()?;
        let mut id = BrowserId::default();
        rand::rng().fill(&mut id);
        let until = now.plus(KNOWN_SECONDS * 1_000);
        let tag = signature(&password, member.id, id, until).finalize().into_bytes();
        Some(format!("{}.{}.{}", Hex(&id), until.as_millis(), Hex(&tag)))
    }

    /// The browser with this text, if the account knows it.
    pub fn known_browser(&self, account: &Account, text: &str, now: Timestamp) -> Option<BrowserId> {
        let (organization, name) = account;
        let member = self.member_named(organization, name.as_str())?;
        let password = self.credentials_of(member.id).password.clone()?;
        let mut parts = text.split('.');
        let (id, until, tag) = (parts.next()?, parts.next()?, parts.next()?);
        let (id, until) = (bytes::<12>(id)?, Timestamp::from_millis(until.parse().ok()?));
        signature(&password, member.id, id, until).verify_slice(&bytes::<32>(tag)?).ok()?;
        (until > now && parts.next().is_none()).then_some(id)
    }
}

/// Distinguishes the cookies of several accounts in one browser without naming them.
pub fn known_browser_label(organization: &str, name: &str) -> String {
    Hex(&Sha256::digest(format!("{organization}/{name}"))[..8]).to_string()
}

fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    read_hex(digits, &mut bytes).then_some(bytes)
}

fn signature(password: &PasswordHash, member: UserId, id: BrowserId, until: Timestamp) -> Hmac<Sha256> {
    let key = [&password.hash[..], &password.salt].concat();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key of any length will do");
    for part in [KIND, &member.0.0, &id, &until.as_millis().to_be_bytes()] {
        mac.update(part);
    }
    mac
}

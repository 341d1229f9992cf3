//! Choosing a password: by an invitation, or instead of the old one.

use std::sync::Arc;

use super::accounts::{Accounts, AccountsError, Caller};
use super::attempts::Visitor;
use super::change::{Change, RevocationReason, SignInMethod};
use super::member::{Member, Permission};
use super::password::{Credentials, Invitation, Password, PasswordHash};
use super::sign_ins::{NewSignIn, Proof, initiator_of};
use super::token::{OpenToken, Root, earlier};
use super::token_text::{TextKind, TokenHash, TokenText};
use domain::{Identifier, Timestamp, UserId};
use events::Cause;
use store::{Batch, StoreError};

/// A new invitation: the only time its text is known.
pub struct OpenInvitation {
    pub text: TokenText,
    pub expires_at: Timestamp,
}

impl Accounts {
    /// Invites a member to choose a password; `beside` adds to the batch. An earlier invitation stops working; the
    /// password stays until this invitation is used. Like a token, the invitation ends with its root.
    pub async fn invite<Held>(
        &self,
        organization: &Identifier,
        user: UserId,
        cause: Cause<'_>,
        beside: impl FnOnce(&Timestamp, &mut Batch) -> Held,
    ) -> Result<OpenInvitation, AccountsError> {
        let text = TokenText::generate_for(TextKind::Invitation);
        let latest = cause.at.after(self.limits.invitation);
        let invited = self.changes.change(|(), committer| {
            let member = self.member(organization, user).ok_or(AccountsError::MemberNotFound)?;
            self.check_still_permitted(cause, Permission::ManageMembers)?;
            if member.disabled {
                return Err(AccountsError::MemberDisabled);
            }
            if member.for_jobs {
                return Err(AccountsError::MemberForJobs);
            }
            self.check_may_invite(user, cause)?;
            let (made, bound) = self.made_by(cause)?;
            let expires_at = earlier(Some(latest), bound).unwrap_or(latest);
            let mut change = Change::default();
            let held = beside(&expires_at, &mut change.batch);
            let maker = cause.by.map(|initiator| initiator.person.id);
            let invitation = Some(Invitation { hash: text.hash(), expires_at, made, maker });
            change.set_credentials(&member, Credentials { invitation, ..(*self.credentials_of(user)).clone() });
            change.record_invitation(&member, cause);
            self.hand_in(committer, change)?;
            Ok((expires_at, held))
        });
        let (expires_at, _held) = invited.await?;
        Ok(OpenInvitation { text, expires_at })
    }

    /// An invitation becomes a password, which outlives the root of the invitation. So jobs cannot invite anybody, and
    /// a token can invite its own member only if the operator created it or it has no root.
    fn check_may_invite(&self, user: UserId, cause: Cause<'_>) -> Result<(), AccountsError> {
        let Some((initiator, via)) = cause.by.and_then(|initiator| Some((initiator, initiator.via.as_ref()?))) else {
            return Ok(());
        };
        let token = self.token_of(via.token).ok_or(AccountsError::NoLongerAdmin)?;
        let is_lasting =
            token.is_api() && token.expires_at.is_none() && matches!(token.root, Root::None | Root::Operator);
        let is_own = initiator.person.id == user;
        let is_denied = (is_own && !is_lasting) || self.comes_from_job(&token);
        if is_denied { Err(AccountsError::InvitationDenied) } else { Ok(()) }
    }

    /// The member whom an invitation is for, and when it expires.
    pub async fn invitation(&self, text: &str, now: Timestamp) -> Result<(Arc<Member>, Timestamp), AccountsError> {
        let found = self.changes.read(|()| self.find_invitation(TokenHash::of(text), now));
        found.await.ok_or(AccountsError::InvitationNotFound)
    }

    /// Sets the password and signs in, in one step, and ends all other sign-ins with the tokens that were created in
    /// them. Of two concurrent calls, the second finds no invitation.
    pub async fn accept_invitation(
        &self,
        text: &str,
        password: Password,
        new: NewSignIn,
        now: Timestamp,
    ) -> Result<OpenToken, AccountsError> {
        let hash = TokenHash::of(text);
        let (member, _) = self.invitation(text, now).await?;
        let hashed = self.hashed(&member, password).await?;
        let text = TokenText::generate_for(TextKind::SignIn);
        let sign_in = Arc::new(self.new_sign_in(&member, &new, &text, now));
        let initiator = initiator_of(&member, &sign_in, &new.request);
        let cause = Cause::by(&initiator, now);
        let accepted = self.changes.change(|(), committer| {
            let (member, _) = self.find_invitation(hash, now).ok_or(AccountsError::InvitationNotFound)?;
            let mut change = Change::default();
            let credentials = Credentials { password: Some(hashed), invitation: None, last_sign_in_at: Some(now) };
            change.set_credentials(&member, credentials);
            change.record_password(&member, cause);
            self.drop_invitations_of(&mut change, member.id);
            let others = self.made_by_sign_ins(member.id, None);
            let mut change = self.ending(committer, others, Some(RevocationReason::RootEnded), change, cause)?;
            self.begin_sign_in(&mut change, &member, &sign_in, SignInMethod::Invitation, &new, cause);
            Ok::<_, AccountsError>(self.hand_in(committer, change)?)
        });
        accepted.await?;
        Ok(OpenToken { token: sign_in, text })
    }

    pub fn has_password(&self, user: UserId) -> bool {
        self.credentials_of(user).password.is_some()
    }

    /// Changes the caller's password, after a check of the present one. All other sign-ins end, with the tokens and
    /// invitations that were created in any sign-in, and the caller's own invitation. A first password needs an
    /// invitation: a token that leaks or ends soon must not become a password.
    pub async fn change_password(
        &self,
        caller: &Caller,
        current: String,
        password: Password,
        cause: Cause<'_>,
    ) -> Result<(), AccountsError> {
        let member = self.member(&caller.organization, caller.person.id).ok_or(AccountsError::MemberNotFound)?;
        if !self.has_password(member.id) {
            return Err(AccountsError::NoPassword);
        }
        let (organization, name) = (member.organization.as_str(), member.name.as_str());
        let (_, proof) = self.prove_password(organization, name, current, Visitor::SignedIn).await?;
        let hashed = self.hashed(&member, password).await?;
        let changed = self.changes.change(|(), committer| {
            let member = self.member(&caller.organization, caller.person.id).ok_or(AccountsError::MemberNotFound)?;
            let credentials = self.credentials_of(member.id);
            let proven =
                matches!((&credentials.password, &proof), (Some(known), Proof::Password(hash)) if known == hash);
            if !proven || self.token_of(caller.token).is_none() {
                return Err(AccountsError::InvalidCredentials);
            }
            let mut change = Change::default();
            change.set_credentials(&member, Credentials { password: Some(hashed), ..(*credentials).clone() });
            change.record_password(&member, cause);
            self.drop_invitations_of(&mut change, member.id);
            let others = self.made_by_sign_ins(member.id, Some(caller.token));
            Ok(self.hand_in_ending(committer, others, Some(RevocationReason::RootEnded), change, cause)?)
        });
        changed.await
    }

    /// The password of the first admin at the first start.
    pub async fn set_first_password(
        &self,
        member: &Member,
        password: Password,
        now: Timestamp,
    ) -> Result<(), AccountsError> {
        let hashed = self.hashed(member, password).await?;
        let set = self.changes.change(|(), committer| {
            let mut change = Change::default();
            change.set_credentials(member, Credentials { password: Some(hashed), ..Credentials::default() });
            change.record_password(member, Cause::system(now));
            self.hand_in(committer, change)
        });
        Ok(set.await?)
    }

    /// Drops invitations that have expired. Returns how many.
    pub async fn sweep_invitations(&self, now: Timestamp) -> Result<usize, StoreError> {
        let is_over =
            |credentials: &Credentials| credentials.invitation.as_ref().is_some_and(|it| it.expires_at <= now);
        let over: Vec<_> =
            self.credentials.read().iter().filter(|(_, it)| is_over(it)).map(|(user, _)| *user).collect();
        let drop_one = |change: &mut Change, user: &UserId| {
            let (member, credentials) = (self.members.read().get(user).cloned(), self.credentials_of(*user));
            // A new invitation may have replaced the expired one.
            if let Some(member) = member.filter(|_| is_over(&credentials)) {
                change.set_credentials(&member, Credentials { invitation: None, ..(*credentials).clone() });
            }
        };
        self.change_each(&over, drop_one).await
    }

    async fn hashed(&self, member: &Member, password: Password) -> Result<PasswordHash, AccountsError> {
        if password.is_made_of(member.name.as_str()) {
            return Err(AccountsError::PasswordIsName);
        }
        self.hashing.hash(&member.organization, password).await.ok_or(AccountsError::Crowded)
    }

    fn find_invitation(&self, hash: TokenHash, now: Timestamp) -> Option<(Arc<Member>, Timestamp)> {
        let is_it = |invitation: &Invitation| invitation.hash == hash && invitation.expires_at > now;
        let credentials = self.credentials.read();
        let found = credentials.iter().find_map(|(user, credentials)| {
            let invitation = credentials.invitation.as_ref().filter(|invitation| is_it(invitation))?;
            Some((*user, invitation.clone()))
        });
        drop(credentials);
        let (user, invitation) = found?;
        let member = self.members.read().get(&user).filter(|member| !member.disabled && !member.for_jobs).cloned()?;
        self.has_root(&member, &invitation, now).then_some((member, invitation.expires_at))
    }

    /// Invitations are dropped with their root; one that a crash has left behind does not work either.
    fn has_root(&self, member: &Member, invitation: &Invitation, now: Timestamp) -> bool {
        match invitation.made.root {
            Root::None | Root::Operator | Root::Password => true,
            Root::Token(id) => self.token_of(id).is_some_and(|token| !token.has_ended(now, self.limits)),
            Root::Source(source) => self.check_trusted(&member.organization, source).is_ok(),
        }
    }
}

//! One change of members, credentials, tokens and sign-ins: the batch with its events, and the change of the maps in
//! memory.

use std::sync::Arc;

use super::member::Member;
use super::password::Credentials;
use super::stored;
use super::token::{IdentityKey, IdentityUse, Token};
use domain::named::named_enum;
use domain::{
    EventData, Identifier, MemberData, MemberPasswordData, MemberSignedInData, MemberSignedOutData, MemberUpdatedData,
    Moment, Timestamp, TokenCreatedData, TokenExchangedData, TokenRevokedData, UserId,
};
use events::{Cause, NewEvent};
use store::Batch;

#[derive(Default)]
pub struct Change {
    pub batch: Batch,
    pub members: Vec<MemberChange>,
    pub credentials: Vec<(UserId, Arc<Credentials>)>,
    /// Revoked tokens and sign-ins.
    pub revoked: Vec<Arc<Token>>,
    /// New tokens, and those that replace others with the same text.
    pub made: Vec<Arc<Token>>,
    /// How often identity tokens have been exchanged; `None` for those that have ended.
    pub identities: Vec<(IdentityKey, Option<IdentityUse>)>,
}

pub enum MemberChange {
    Set(Arc<Member>),
    Removed(UserId),
}

impl MemberChange {
    /// Whether the change revokes permissions of the member.
    pub fn is_less_than(&self, before: &Member) -> bool {
        match self {
            MemberChange::Set(member) => member.role < before.role || (member.disabled && !before.disabled),
            MemberChange::Removed(_) => true,
        }
    }
}

named_enum! {
    /// Why a token is revoked, other than by a request to revoke it.
    pub enum RevocationReason {
        MemberRemoved = "member_removed",
        /// A new bootstrap token replaces it, or has the same text.
        Superseded = "superseded",
        /// The root of the token has ended: another token, all sign-ins of the member, a provider, or a rule for jobs.
        RootEnded = "root_ended",
    }
}

named_enum! {
    /// The method of a sign-in.
    pub enum SignInMethod {
        Password = "password",
        Token = "token",
        /// A link with which the member chooses a password.
        Invitation = "invitation",
        SingleSignOn = "single_sign_on",
    }
}

impl Change {
    pub fn add_member(&mut self, member: &Arc<Member>, cause: Cause<'_>) {
        self.set_member(member);
        self.record(&member.organization, &EventData::MemberAdded(of_member(member)), cause);
    }

    pub fn update_member(&mut self, before: &Member, after: &Arc<Member>, cause: Cause<'_>) {
        self.set_member(after);
        if MemberChange::Set(after.clone()).is_less_than(before) {
            // Must be written on a full disk too: it stops somebody who may not act any more.
            self.batch.mark_as_end();
        }
        if before.link.is_some() && after.link.is_none() {
            self.batch.delete(stored::link_key(&after.organization, &after.name));
        }
        self.record(&after.organization, &EventData::MemberUpdated(difference(before, after)), cause);
    }

    /// The member's tokens have to be revoked in the same change or before.
    pub fn remove_member(&mut self, member: &Member, cause: Cause<'_>) {
        self.batch.delete(stored::member_key(&member.organization, &member.name));
        self.batch.delete(stored::credentials_key(&member.organization, &member.name));
        self.batch.delete(stored::link_key(&member.organization, &member.name));
        self.members.push(MemberChange::Removed(member.id));
        self.record(&member.organization, &EventData::MemberRemoved(of_member(member)), cause);
    }

    pub fn make_token(&mut self, token: &Arc<Token>, cause: Cause<'_>) {
        self.put_token(token.clone());
        let data = TokenCreatedData { token_id: token.id, name: Arc::from(&*token.name), user_id: token.user };
        self.record(&token.organization, &EventData::TokenCreated(data), cause);
    }

    pub fn revoke_token(&mut self, token: &Arc<Token>, reason: Option<RevocationReason>, cause: Cause<'_>) {
        self.drop_token(token);
        let data = TokenRevokedData {
            token_id: token.id,
            name: Arc::from(&*token.name),
            user_id: token.user,
            reason: reason.map(RevocationReason::as_str),
        };
        self.record(&token.organization, &EventData::TokenRevoked(data), cause);
    }

    /// Adds a token, or replaces it by one with another root. Records no event: nothing changes for anybody until the
    /// new root ends.
    pub fn put_token(&mut self, token: Arc<Token>) {
        self.batch.put(stored::token_key(&token), stored::encode_token(&token));
        self.made.push(token);
    }

    /// The credentials of a member that this change sets.
    pub fn pending_credentials(&self, user: UserId) -> Option<Arc<Credentials>> {
        self.credentials.iter().rev().find(|(of, _)| *of == user).map(|(_, credentials)| credentials.clone())
    }

    pub fn set_credentials(&mut self, member: &Member, credentials: Credentials) {
        let key = stored::credentials_key(&member.organization, &member.name);
        self.batch.put(key, stored::encode_credentials(&credentials));
        self.credentials.push((member.id, Arc::new(credentials)));
    }

    pub fn begin_sign_in(&mut self, member: &Member, sign_in: &Arc<Token>, method: SignInMethod, cause: Cause<'_>) {
        self.put_token(sign_in.clone());
        let (user_id, name) = (member.id, member.name.clone());
        let data = MemberSignedInData { user_id, name, sign_in_id: sign_in.id, method: method.as_str() };
        self.record(&member.organization, &EventData::MemberSignedIn(data), cause);
    }

    pub fn record_invitation(&mut self, member: &Member, cause: Cause<'_>) {
        self.record(&member.organization, &EventData::MemberInvited(named(member)), cause);
    }

    pub fn record_password(&mut self, member: &Member, cause: Cause<'_>) {
        self.record(&member.organization, &EventData::MemberPasswordChanged(named(member)), cause);
    }

    /// Records no event: a sign-in or a job's token ends on its own, or together with something that is recorded.
    pub fn drop_token(&mut self, token: &Arc<Token>) {
        self.batch.delete(stored::token_key(token));
        self.revoked.push(token.clone());
    }

    /// A token for a job, with the issuer that vouches for it.
    pub fn exchange_token(&mut self, member: &Member, token: &Arc<Token>, issuer: &str, cause: Cause<'_>) {
        self.put_token(token.clone());
        let data = TokenExchangedData {
            token_id: token.id,
            user_id: member.id,
            name: member.name.clone(),
            issuer: Arc::from(issuer),
            subject: Arc::from(&*token.name),
            expires_at: Moment(token.expires_at.map(in_words).unwrap_or_default().into()),
        };
        self.record(&member.organization, &EventData::TokenExchanged(data), cause);
    }

    pub fn count_exchange(&mut self, key: IdentityKey, used: IdentityUse) {
        self.batch.put(stored::identity_key(&key), stored::encode_identity(used));
        self.identities.push((key, Some(used)));
    }

    /// Removes an identity token that has ended.
    pub fn forget_identity(&mut self, key: IdentityKey) {
        self.batch.delete(stored::identity_key(&key));
        self.identities.push((key, None));
    }

    /// Records that a member has ended this many of their sign-ins.
    pub fn record_sign_out(&mut self, member: &Member, ended: usize, cause: Cause<'_>) {
        let (user_id, name) = (member.id, member.name.clone());
        let data = MemberSignedOutData { user_id, name, sign_ins: ended as u64 };
        self.record(&member.organization, &EventData::MemberSignedOut(data), cause);
    }

    /// The operator's variable may still contain the token: the next start must not create it again.
    pub fn remember_revoked(&mut self, token: &Token, cause: Cause<'_>) {
        self.batch.put(stored::revoked_key(token.hash), stored::encode_revoked(cause.at));
        // A revocation must be written on a full disk too.
        self.batch.mark_as_end();
    }

    fn set_member(&mut self, member: &Arc<Member>) {
        self.batch.put(stored::member_key(&member.organization, &member.name), stored::encode_member(member));
        if let Some(link) = &member.link {
            self.batch.put(stored::link_key(&member.organization, &member.name), stored::encode_link(link));
        }
        self.members.push(MemberChange::Set(member.clone()));
    }

    fn record(&mut self, organization: &Identifier, data: &EventData, cause: Cause<'_>) {
        events::record(&mut self.batch, organization, &NewEvent::new(data, cause));
    }
}

/// RFC 3339, as in answers.
fn in_words(time: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(time.as_millis()).map(|time| format!("{time:.3}")).unwrap_or_default()
}

fn of_member(member: &Member) -> MemberData {
    MemberData { user_id: member.id, name: member.name.clone(), role: member.role }
}

fn named(member: &Member) -> MemberPasswordData {
    MemberPasswordData { user_id: member.id, name: member.name.clone() }
}

/// An address is not included: events outlive a member.
fn difference(before: &Member, after: &Member) -> MemberUpdatedData {
    MemberUpdatedData {
        user_id: after.id,
        name: after.name.clone(),
        role: after.role,
        previous_role: Some(before.role).filter(|role| *role != after.role),
        email_changed: (before.email != after.email).then_some(true),
        disabled: (before.disabled != after.disabled).then_some(after.disabled),
    }
}

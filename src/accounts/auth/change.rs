//! One change of members, credentials, tokens and sign-ins: the batch with its events, and the change of the maps in
//! memory.

use std::sync::Arc;

use super::exchange_records::{IdentityKey, IdentityUse};
use super::member::Member;
use super::password::Credentials;
use super::token::Token;
use super::{exchange_records, stored};
use domain::named::named_enum;
use domain::{EventData, EventType, Identifier, Role, Timestamp, UserId};
use events::{Cause, NewEvent};
use store::Batch;

#[derive(Default)]
pub struct Change {
    pub batch: Batch,
    pub members: Vec<MemberChange>,
    pub credentials: Vec<(UserId, Arc<Credentials>)>,
    /// Tokens and sign-ins.
    pub revoked: Vec<Arc<Token>>,
    pub made: Option<Arc<Token>>,
    /// Tokens that replace others with the same text.
    pub replaced: Vec<Arc<Token>>,
    /// How often identity tokens have been exchanged; `None` for those that have ended.
    pub identities: Vec<(IdentityKey, Option<IdentityUse>)>,
}

pub enum MemberChange {
    Set(Arc<Member>),
    Removed(UserId),
}

impl MemberChange {
    /// Whether it revokes permissions of a member.
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
        /// for jobs.
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
        self.record_member(EventType::MemberAdded, member, None, cause);
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
        self.record_member(EventType::MemberUpdated, after, Some(before), cause);
    }

    /// The member's tokens have to be revoked in the same change or before.
    pub fn remove_member(&mut self, member: &Member, cause: Cause<'_>) {
        self.batch.delete(stored::member_key(&member.organization, &member.name));
        self.batch.delete(stored::credentials_key(&member.organization, &member.name));
        self.batch.delete(stored::link_key(&member.organization, &member.name));
        self.members.push(MemberChange::Removed(member.id));
        self.record_member(EventType::MemberRemoved, member, None, cause);
    }

    pub fn make_token(&mut self, token: &Arc<Token>, cause: Cause<'_>) {
        self.batch.put(stored::token_key(token), stored::encode_token(token));
        self.made = Some(token.clone());
        self.record_token(EventType::TokenCreated, token, None, cause);
    }

    pub fn revoke_token(&mut self, token: &Arc<Token>, reason: Option<RevocationReason>, cause: Cause<'_>) {
        self.batch.delete(stored::token_key(token));
        self.revoked.push(token.clone());
        self.record_token(EventType::TokenRevoked, token, reason, cause);
    }

    /// Records no event: nothing changes for anybody until the new root ends.
    pub fn replace_token(&mut self, token: Arc<Token>) {
        self.batch.put(stored::token_key(&token), stored::encode_token(&token));
        self.replaced.push(token);
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
        self.batch.put(stored::token_key(sign_in), stored::encode_token(sign_in));
        self.made = Some(sign_in.clone());
        let data = of_member(member).with("signInId", sign_in.id.to_string()).with("method", method.as_str());
        self.record(&member.organization, EventType::MemberSignedIn, &data, cause);
    }

    pub fn record_invitation(&mut self, member: &Member, cause: Cause<'_>) {
        self.record(&member.organization, EventType::MemberInvited, &of_member(member), cause);
    }

    pub fn record_password(&mut self, member: &Member, cause: Cause<'_>) {
        self.record(&member.organization, EventType::MemberPasswordChanged, &of_member(member), cause);
    }

    /// Records no event: a sign-in or a job's token ends on its own, or together with something that is recorded.
    pub fn drop_token(&mut self, token: &Arc<Token>) {
        self.batch.delete(stored::token_key(token));
        self.revoked.push(token.clone());
    }

    /// A token for a job, with the issuer that vouches for it.
    pub fn exchange_token(&mut self, member: &Member, token: &Arc<Token>, issuer: &str, cause: Cause<'_>) {
        self.batch.put(stored::token_key(token), stored::encode_token(token));
        self.made = Some(token.clone());
        let data = of_member(member)
            .with("tokenId", token.id.to_string())
            .with("issuer", issuer)
            .with("subject", token.name.as_str())
            .with_some("expiresAt", token.expires_at.map(in_words));
        self.record(&member.organization, EventType::TokenExchanged, &data, cause);
    }

    pub fn count_exchange(&mut self, key: IdentityKey, used: IdentityUse) {
        self.batch.put(exchange_records::identity_key(&key), exchange_records::encode_identity(used));
        self.identities.push((key, Some(used)));
    }

    /// Removes an identity token that has ended.
    pub fn forget_identity(&mut self, key: IdentityKey) {
        self.batch.delete(exchange_records::identity_key(&key));
        self.identities.push((key, None));
    }

    /// Records that a member has ended this many of their sign-ins.
    pub fn record_sign_out(&mut self, member: &Member, ended: usize, cause: Cause<'_>) {
        let data = of_member(member).with("signIns", ended as u64);
        self.record(&member.organization, EventType::MemberSignedOut, &data, cause);
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

    /// Records the difference from `before`. An address is not included: events outlive a member.
    fn record_member(&mut self, event_type: EventType, member: &Member, before: Option<&Member>, cause: Cause<'_>) {
        let previous_role = before.map(|before| before.role).filter(|role| *role != member.role);
        let email_changed = before.is_some_and(|before| before.email != member.email);
        let disabled_changed = before.is_some_and(|before| before.disabled != member.disabled);
        let data = EventData::default()
            .with("userId", member.id.to_string())
            .with("name", &member.name)
            .with("role", member.role.as_str())
            .with_some("previousRole", previous_role.map(Role::as_str))
            .with_some("emailChanged", email_changed.then_some(true))
            .with_some("disabled", disabled_changed.then_some(member.disabled));
        self.record(&member.organization, event_type, &data, cause);
    }

    fn record_token(
        &mut self,
        event_type: EventType,
        token: &Token,
        reason: Option<RevocationReason>,
        cause: Cause<'_>,
    ) {
        let data = EventData::default()
            .with("tokenId", token.id.to_string())
            .with("name", token.name.as_str())
            .with("userId", token.user.to_string())
            .with_some("reason", reason.map(RevocationReason::as_str));
        self.record(&token.organization, event_type, &data, cause);
    }

    fn record(&mut self, organization: &Identifier, event_type: EventType, data: &EventData, cause: Cause<'_>) {
        events::record(&mut self.batch, organization, &NewEvent::new(event_type, cause, data));
    }
}

/// RFC 3339, as in answers.
fn in_words(time: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(time.as_millis()).map(|time| format!("{time:.3}")).unwrap_or_default()
}

fn of_member(member: &Member) -> EventData {
    EventData::default().with("userId", member.id.to_string()).with("name", &member.name)
}

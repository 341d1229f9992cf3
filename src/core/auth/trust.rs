//! The entries of organization files that say who somebody is. They are applied at a start, and may be applied again while
//! the server runs: what came from an entry that is gone ends, and older data is brought to the rules of now.

use std::sync::Arc;

use super::accounts::{Accounts, AccountsError};
use super::change::{Change, RevocationReason};
use super::credentials::Credentials;
use super::member::{Member, ProviderLink};
use super::root::{Root, SourceId, Trust, Trusted};
use super::token::Token;
use crate::domain::{Identifier, Timestamp, UserId};
use crate::events::Cause;
use crate::store::{Committer, StoreError};

impl Accounts {
    /// Applies the files as they are now. Organizations that are not among them stay as they are.
    pub async fn apply_trust(&self, trusted: Trusted, now: Timestamp) -> Result<(), StoreError> {
        // First: what is under way is refused from here on, and found below if it was in time.
        *self.trusted.write() = trusted;
        let cause = Cause::system(now);
        let concerned: Vec<_> =
            self.members.read().values().filter(|it| it.for_jobs || it.link.is_some()).map(|it| it.id).collect();
        for user in concerned {
            self.changes.change(|(), committer| self.review(committer, user, cause)).await?;
        }
        self.changes.change(|(), committer| self.end_untrusted(committer, cause)).await
    }

    /// Whether the organization's file still has the entry.
    pub(super) fn check_trusted(&self, organization: &Identifier, source: SourceId) -> Result<(), AccountsError> {
        let trusted = self.trusted.read();
        let is_trusted = trusted.get(organization).is_some_and(|trust| trust.sources.contains(&source));
        is_trusted.then_some(()).ok_or(AccountsError::NoLongerTrusted)
    }

    fn review(&self, committer: &mut Committer<'_>, user: UserId, cause: Cause<'_>) -> Result<(), StoreError> {
        let trusted = self.trusted.read();
        let Some(before) = self.members.read().get(&user).cloned() else { return Ok(()) };
        let Some(trust) = trusted.get(&before.organization) else { return Ok(()) };
        let mut change = Change::default();
        let (after, ended) = if before.for_jobs {
            let role = trust.jobs.get(&before.name).copied();
            self.take_from_jobs(&mut change, &before);
            let ended = self.tokens_where(|token| (token.user == user && role.is_none()) || is_too_much(token, user));
            (Member { role: role.unwrap_or(before.role), link: None, ..(*before).clone() }, ended)
        } else {
            let link = before.link.as_ref().and_then(|link| still_linked(link, trust));
            // Sign-ins of an earlier version may be by the provider.
            let is_of_link = |token: &Token| token.user == user && token.is_sign_in() && token.root == Root::None;
            let ended = if link.is_none() { self.tokens_where(is_of_link) } else { Vec::new() };
            (Member { link, ..(*before).clone() }, ended)
        };
        if after.role != before.role || after.link.is_none() != before.link.is_none() {
            change.update_member(&before, &Arc::new(after), cause);
        } else if after != *before {
            change.bind_link(&Arc::new(after));
        }
        self.hand_in_ending(committer, ended, Some(RevocationReason::RootEnded), change, cause)
    }

    /// A member for jobs has no password and no invitation.
    pub(super) fn take_from_jobs(&self, change: &mut Change, member: &Member) {
        let credentials = self.credentials_of(member.id);
        if credentials.password.is_some() || credentials.invitation.is_some() {
            let none = Credentials { password: None, invitation: None, ..(*credentials).clone() };
            change.set_credentials(member, none);
        }
    }

    /// What came from an entry that is gone.
    fn end_untrusted(&self, committer: &mut Committer<'_>, cause: Cause<'_>) -> Result<(), StoreError> {
        let trusted = self.trusted.read();
        let ended = self.tokens_where(|token| match token.root {
            Root::Source(source) => {
                trusted.get(&token.organization).is_some_and(|trust| !trust.sources.contains(&source))
            }
            Root::None | Root::Operator | Root::Password | Root::Token(_) => false,
        });
        self.hand_in_ending(committer, ended, Some(RevocationReason::RootEnded), Change::default(), cause)
    }
}

/// What jobs could make with an earlier version, and cannot any more: sign-ins of their member, and tokens without an end,
/// made in them for whomever.
pub(super) fn is_too_much(token: &Token, jobs: UserId) -> bool {
    let is_of_jobs = token.user == jobs && token.is_sign_in();
    is_of_jobs || (token.is_api() && token.created_by == jobs && token.root == Root::None)
}

/// The link, if the provider is still the same. One that an earlier version wrote without the issuer is of the issuer that the
/// file has at the first start of this version.
fn still_linked(link: &ProviderLink, trust: &Trust) -> Option<ProviderLink> {
    let issuer = trust.providers.get(&link.provider)?;
    let is_same = link.issuer.as_ref().is_none_or(|known| known == issuer);
    is_same.then(|| ProviderLink { issuer: Some(issuer.clone()), ..link.clone() })
}

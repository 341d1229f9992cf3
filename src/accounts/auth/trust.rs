//! The entries of organization files that identify people and jobs. They are applied at a start, and may be applied
//! again while the server runs: whatever came from a removed entry ends, and older data is adapted to the current
//! rules.

use std::collections::HashMap;
use std::sync::Arc;

use super::accounts::{Accounts, AccountsError};
use super::change::{Change, RevocationReason};
use super::member::{Member, ProviderLink};
use super::password::{Credentials, Invitation};
use super::token::{Grants, Root, SourceId, Token, Trust, Trusted};
use domain::{Identifier, Timestamp, TokenId, UserId};
use events::Cause;
use store::{Committer, StoreError};

impl Accounts {
    /// Applies the current files. Organizations without a file stay as they are.
    pub async fn apply_trust(&self, trusted: Trusted, now: Timestamp) -> Result<(), StoreError> {
        // First: from here on, requests in progress are refused; those that got through before are found below.
        *self.trusted.write() = trusted;
        let cause = Cause::system(now);
        let concerned: Vec<_> =
            self.members.read().values().filter(|it| it.for_jobs || it.link.is_some()).map(|it| it.id).collect();
        for user in concerned {
            self.changes.change(|(), committer| self.review(committer, user, cause)).await?;
        }
        self.changes.change(|(), committer| self.end_untrusted(committer, cause)).await
    }

    /// What the entry grants, if it is still in the organization's file.
    pub(super) fn check_trusted(&self, organization: &Identifier, source: SourceId) -> Result<Grants, AccountsError> {
        let trusted = self.trusted.read();
        let grants = trusted.get(organization).and_then(|trust| trust.sources.get(&source));
        grants.cloned().ok_or(AccountsError::NoLongerTrusted)
    }

    /// Whether the token is that of a job, or was created from one.
    pub(super) fn comes_from_job(&self, token: &Token) -> bool {
        let known: HashMap<TokenId, (bool, Root)> =
            self.tokens.iter().map(|token| (token.id, (token.is_exchanged(), token.root))).collect();
        let mut next = Some((token.is_exchanged(), token.root));
        while let Some((is_exchanged, root)) = next {
            if is_exchanged {
                return true;
            }
            next = match root {
                Root::Token(id) => known.get(&id).copied(),
                // Inherited from a job's token that has ended, unless the source is a provider.
                Root::Source(source) => {
                    let trusted = self.trusted.read();
                    return !trusted.get(&token.organization).is_some_and(|trust| trust.is_provider(source));
                }
                Root::None | Root::Operator | Root::Password => None,
            };
        }
        false
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
            // Sign-ins of an earlier version may come from the provider.
            let is_of_link = |token: &Token| {
                let in_browser = token.made_in_browser && token.created_by == user;
                token.root == Root::None && (in_browser || (token.user == user && token.is_sign_in()))
            };
            let is_gone = before.link.is_some() && link.is_none();
            if is_gone {
                self.drop_invitations(&mut change, |_, Invitation { made, maker, .. }| {
                    made.root == Root::None && made.in_browser && *maker == Some(user)
                });
            }
            let ended = if is_gone { self.tokens_where(is_of_link) } else { Vec::new() };
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

    /// Ends what came from a removed entry, or from one that no longer grants the role of the member.
    fn end_untrusted(&self, committer: &mut Committer<'_>, cause: Cause<'_>) -> Result<(), StoreError> {
        let trusted = self.trusted.read();
        let members = self.members.read().clone();
        let is_over = |organization: &Identifier, root: Root, user: Option<UserId>| match root {
            Root::Source(source) => trusted.get(organization).is_some_and(|trust| {
                let role = user.and_then(|user| members.get(&user)).map(|member| member.role);
                trust.sources.get(&source).is_none_or(|grants| role > Some(grants.role_max))
            }),
            Root::None | Root::Operator | Root::Password | Root::Token(_) => false,
        };
        let ended = self.tokens_where(|token| is_over(&token.organization, token.root, Some(token.user)));
        let mut change = Change::default();
        self.drop_invitations(&mut change, |of, Invitation { made, maker, .. }| {
            members.get(&of).is_some_and(|member| is_over(&member.organization, made.root, *maker))
        });
        self.hand_in_ending(committer, ended, Some(RevocationReason::RootEnded), change, cause)
    }
}

/// Credentials that jobs could create with an earlier version, but no longer can: sign-ins of their member, and tokens
/// without an end created in them, for any member.
pub(super) fn is_too_much(token: &Token, jobs: UserId) -> bool {
    let is_of_jobs = token.user == jobs && token.is_sign_in();
    is_of_jobs || (token.is_api() && token.created_by == jobs && token.root == Root::None)
}

/// The link, if the provider is still the same. A link that an earlier version stored without an issuer gets the issuer
/// that the file names at the first start of this version.
fn still_linked(link: &ProviderLink, trust: &Trust) -> Option<ProviderLink> {
    let issuer = trust.providers.get(&link.provider)?;
    let is_same = link.issuer.as_ref().is_none_or(|known| known == issuer);
    is_same.then(|| ProviderLink { issuer: Some(issuer.clone()), ..link.clone() })
}

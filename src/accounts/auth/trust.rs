//! The entries of organization files that identify people and jobs. They are applied at a start, and may be applied
//! again while the server runs: tokens and invitations from an entry that is gone end.

use std::collections::HashMap;
use std::sync::Arc;

use super::accounts::{Accounts, AccountsError};
use super::change::{Change, RevocationReason};
use super::member::Member;
use super::password::Invitation;
use super::token::{Grants, Root, SourceId, Token, Trusted};
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
            let ended = self.tokens_where(|token| token.user == user && role.is_none());
            (Member { role: role.unwrap_or(before.role), ..(*before).clone() }, ended)
        } else {
            let link = before.link.clone().filter(|link| trust.providers.get(&link.provider) == Some(&link.issuer));
            (Member { link, ..(*before).clone() }, Vec::new())
        };
        if after != *before {
            change.update_member(&before, &Arc::new(after), cause);
        }
        self.hand_in_ending(committer, ended, Some(RevocationReason::RootEnded), change, cause)
    }

    /// Ends the tokens and invitations from entries that are gone, or that no longer grant the role of their member.
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

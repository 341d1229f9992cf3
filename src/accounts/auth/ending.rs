//! How tokens end together with everything that was made from them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::accounts::Accounts;
use super::change::{Change, RevocationReason};
use super::credentials::{Credentials, Invitation};
use super::root::Root;
use super::stored;
use super::token::Token;
use domain::{TokenId, UserId};
use events::Cause;
use store::{Committer, StoreError};

impl Accounts {
    pub(super) fn hand_in_ending(
        &self,
        committer: &mut Committer<'_>,
        ended: Vec<Arc<Token>>,
        reason: Option<RevocationReason>,
        change: Change,
        cause: Cause<'_>,
    ) -> Result<(), StoreError> {
        let change = self.ending(committer, ended, reason, change, cause)?;
        self.hand_in(committer, change)
    }

    /// Adds to `change` the end of tokens and sign-ins, with the tokens, sign-ins and invitations that were made from them. Those that do not fit into its
    /// batch end in batches before it, beginning with what was made last: a crash in between leaves no token without its root.
    /// Without a reason, `ended` is what a request revokes.
    pub(super) fn ending(
        &self,
        committer: &mut Committer<'_>,
        ended: Vec<Arc<Token>>,
        reason: Option<RevocationReason>,
        mut change: Change,
        cause: Cause<'_>,
    ) -> Result<Change, StoreError> {
        let asked = ended.len();
        let all = self.with_made_from(ended);
        if !all.is_empty() {
            let ids: HashSet<TokenId> = all.iter().map(|token| token.id).collect();
            self.drop_invitations(
                &mut change,
                |_, invitation| matches!(invitation.made.root, Root::Token(id) if ids.contains(&id)),
            );
        }
        let all: Vec<_> = all.into_iter().enumerate().collect();
        let mut parts = all.rchunks(stored::REVOKED_AT_ONCE).peekable();
        while let Some(part) = parts.next() {
            let last = parts.peek().is_none();
            let mut before = Change::default();
            let ending = if last { &mut change } else { &mut before };
            for (number, token) in part {
                let reason = if *number < asked { reason } else { Some(RevocationReason::RootEnded) };
                if token.is_api() || reason.is_none() {
                    ending.revoke_token(token, reason, cause);
                } else {
                    ending.drop_token(token);
                }
            }
            self.hand_in(committer, before)?;
        }
        Ok(change)
    }

    /// With the tokens and sign-ins that were made from them, from those, and so on; each after its root.
    fn with_made_from(&self, ended: Vec<Arc<Token>>) -> Vec<Arc<Token>> {
        if ended.is_empty() {
            return ended;
        }
        let mut made: HashMap<TokenId, Vec<Arc<Token>>> = HashMap::new();
        for token in self.tokens.iter() {
            if let Root::Token(root) = token.root {
                made.entry(root).or_default().push(token.clone());
            }
        }
        let mut known: HashSet<TokenId> = ended.iter().map(|token| token.id).collect();
        let mut all = ended;
        let mut next = 0;
        while let Some(root) = all.get(next).map(|token| token.id) {
            let found = made.remove(&root).unwrap_or_default();
            all.extend(found.into_iter().filter(|token| known.insert(token.id)));
            next += 1;
        }
        all
    }

    /// Drops tokens without an event: they have expired.
    pub(super) async fn drop_tokens(&self, tokens: &[Arc<Token>]) -> Result<(), StoreError> {
        for part in tokens.chunks(stored::RECORDS_AT_ONCE) {
            let dropping = self.changes.change(|(), committer| {
                let mut change = Change::default();
                part.iter().for_each(|token| change.drop_token(token));
                self.hand_in(committer, change)
            });
            dropping.await?;
        }
        Ok(())
    }

    /// Adds to `change` the end of invitations, each given with the member whom it is for.
    pub(super) fn drop_invitations(&self, change: &mut Change, is_over: impl Fn(UserId, &Invitation) -> bool) {
        let known = self.credentials.read();
        let over: Vec<_> = known
            .iter()
            .filter(|(user, it)| it.invitation.as_ref().is_some_and(|invitation| is_over(**user, invitation)))
            .map(|(user, credentials)| (*user, credentials.clone()))
            .collect();
        drop(known);
        for (user, credentials) in over {
            let credentials = change.pending_credentials(user).unwrap_or(credentials);
            let member = self.members.read().get(&user).cloned();
            if let Some(member) = member.filter(|_| credentials.invitation.is_some()) {
                change.set_credentials(&member, Credentials { invitation: None, ..(*credentials).clone() });
            }
        }
    }

    /// The invitation of a member, and those that they made with a browser: whoever was signed in as them may know the links.
    pub(super) fn drop_invitations_of(&self, change: &mut Change, user: UserId) {
        self.drop_invitations(change, |of, invitation| {
            of == user || (invitation.made.in_browser && invitation.maker == Some(user))
        });
    }

    /// Gives the surviving tokens that were made with `ended` ones the roots of those, so that they still end with what all of
    /// them came from.
    pub(super) fn hand_roots_down(
        &self,
        committer: &mut Committer<'_>,
        ended: &[Arc<Token>],
    ) -> Result<(), StoreError> {
        let roots: HashMap<TokenId, Root> = ended.iter().map(|token| (token.id, token.root)).collect();
        let inherited = |mut id: TokenId| {
            loop {
                match roots.get(&id)? {
                    Root::Token(next) if roots.contains_key(next) => id = *next,
                    // What the operator's token makes outlives it.
                    Root::None | Root::Operator => return Some(Root::None),
                    root @ (Root::Token(_) | Root::Password | Root::Source(_)) => return Some(*root),
                }
            }
        };
        let made = self.tokens_where(|token| match token.root {
            Root::Token(id) => roots.contains_key(&id) && !roots.contains_key(&token.id),
            Root::None | Root::Operator | Root::Password | Root::Source(_) => false,
        });
        for part in made.chunks(stored::RECORDS_AT_ONCE) {
            let mut change = Change::default();
            for token in part {
                if let Root::Token(id) = token.root
                    && let Some(root) = inherited(id)
                {
                    change.replace_token(Arc::new(token.with_root(root)));
                }
            }
            self.hand_in(committer, change)?;
        }
        Ok(())
    }

    /// The sign-ins of a member but the one that is kept, and the tokens that they have made with a browser, for whomever.
    pub(super) fn made_by_sign_ins(&self, user: UserId, kept: Option<TokenId>) -> Vec<Arc<Token>> {
        let mut found = self.sign_ins_where(user, |sign_in| Some(sign_in.id) != kept);
        found.extend(self.tokens_where(|token| token.made_in_browser && token.created_by == user));
        found
    }
}

//! How tokens end together with everything that was made from them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::accounts::Accounts;
use super::change::{Change, RevocationReason};
use super::root::Root;
use super::stored;
use super::token::Token;
use crate::domain::{TokenId, UserId};
use crate::events::Cause;
use crate::store::{Committer, StoreError};

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

    /// Adds to `change` the end of tokens and sign-ins, with everything that was made from them. Those that do not fit into its
    /// batch end in batches before it, beginning with what was made last: a crash in between leaves no token without its root.
    /// Without a reason, `ended` is what a request revokes.
    pub(super) fn ending(
        &self,
        committer: &mut Committer<'_>,
        ended: Vec<Arc<Token>>,
        reason: Option<RevocationReason>,
        change: Change,
        cause: Cause<'_>,
    ) -> Result<Change, StoreError> {
        let asked = ended.len();
        self.ending_alone(committer, self.with_made_from(ended), (asked, reason), change, cause)
    }

    /// The same without what was made from them. The reason is that of the first so many; the others follow from those.
    pub(super) fn ending_alone(
        &self,
        committer: &mut Committer<'_>,
        ended: Vec<Arc<Token>>,
        (asked, reason): (usize, Option<RevocationReason>),
        mut change: Change,
        cause: Cause<'_>,
    ) -> Result<Change, StoreError> {
        let all: Vec<_> = ended.into_iter().enumerate().collect();
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
        for token in &self.tokens {
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

    /// The sign-ins of a member but the one that is kept, and the tokens that they have made with a browser, for whomever.
    pub(super) fn made_by_sign_ins(&self, user: UserId, kept: Option<TokenId>) -> Vec<Arc<Token>> {
        let mut found = self.sign_ins_where(user, |sign_in| Some(sign_in.id) != kept);
        found.extend(self.tokens_where(|token| token.made_in_browser && token.created_by == user));
        found
    }
}

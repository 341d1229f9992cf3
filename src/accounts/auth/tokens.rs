//! Creating, listing and revoking tokens, storing when they were last used, and ending them together with everything
//! created from them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::accounts::{Accounts, AccountsError};
use super::change::{Change, RevocationReason};
use super::member::Permission;
use super::password::{Credentials, Invitation};
use super::stored;
use super::token::{Made, NewToken, OpenToken, Root, TOKENS_MAX, Token, TokenList, earlier};
use super::token_text::TokenText;
use super::tokens_by_hash::Counted;
use domain::{Identifier, MemberShare, Timestamp, TokenId, UserId};
use events::Cause;
use store::{Batch, Committer, StoreError};

/// How long an expired token stays in lists, so that people see why it stopped working: a day.
const LISTED_MILLIS: i64 = 24 * 60 * 60 * 1_000;

impl Accounts {
    /// The organization's tokens, oldest first; waits until the returned state is durable.
    pub async fn tokens(&self, organization: &Identifier) -> TokenList {
        let list = self.changes.read(|()| {
            let names = self.members_of(organization).iter().map(|member| (member.id, member.name.clone())).collect();
            let tokens = self.tokens_where(|token| token.is_api() && token.organization == *organization);
            TokenList { tokens, names }
        });
        let mut list = list.await;
        list.tokens.sort_unstable_by_key(|token| token.id);
        list
    }

    /// Creates a token; `beside` adds to its batch, and its result is held until the batch is durable or refused. The
    /// token is in the map before it is durable, but its text is unknown until this returns. Its creator is the caller,
    /// or else its user. It ends with its root and never outlives it.
    pub async fn create_token<Held>(
        &self,
        new: NewToken,
        cause: Cause<'_>,
        beside: impl FnOnce(&Token, &mut Batch) -> Held,
    ) -> Result<OpenToken, AccountsError> {
        let text = TokenText::generate();
        let creator = cause.by.map_or(new.user, |initiator| initiator.person.id);
        let made = self.changes.change(|(), committer| {
            self.check_still_permitted(cause, permission_for(cause, new.user))?;
            let (Made { root, in_browser }, bound) = self.made_by(cause)?;
            let new = NewToken { expires_at: earlier(new.expires_at, bound), ..new };
            let token = Token::new(&text, creator, new, cause.at);
            let token = Arc::new(Token { root, made_in_browser: in_browser, ..token });
            self.member(&token.organization, token.user).ok_or(AccountsError::MemberNotFound)?;
            let used = self.tokens.count(&Counted::Api(token.organization.clone()));
            let share = MemberShare { total: TOKENS_MAX, used, is_admin: self.is_by_admin(cause) };
            share.check(|| self.tokens.count(&Counted::ApiOf(token.user))).map_err(AccountsError::TooManyTokens)?;
            let mut change = Change::default();
            let held = beside(&token, &mut change.batch);
            change.make_token(&token, cause);
            self.hand_in(committer, change)?;
            Ok::<_, AccountsError>((token, held))
        });
        let (token, _held) = made.await?;
        Ok(OpenToken { token, text })
    }

    /// Makes `text` a token of the organization's first admin, even if it was another member's. The bootstrap token of
    /// an earlier start stops working. One that was revoked by a request stays revoked; then this returns the time of
    /// the revocation.
    pub async fn bootstrap(
        &self,
        organization: &Identifier,
        text: &TokenText,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        if let Some(record) = self.changes.store().get(&stored::revoked_key(text.hash()))? {
            return Ok(Some(stored::decode_revoked(&record)?));
        }
        let Some(user) = self.first_admin(organization) else {
            return Ok(None);
        };
        let new = NewToken { organization: organization.clone(), user, name: "bootstrap".to_owned(), expires_at: None };
        let token = Arc::new(Token { bootstrap: true, root: Root::Operator, ..Token::new(text, user, new, now) });
        self.changes.change(|(), committer| self.supersede(committer, &token, Cause::system(now))).await?;
        Ok(None)
    }

    /// The token stops working before this returns, with everything created from it. "Does not exist" waits as well:
    /// its cause may be a revocation that is not durable yet. With `only_of`, other members' tokens do not exist.
    pub async fn revoke(
        &self,
        organization: &Identifier,
        id: TokenId,
        only_of: Option<UserId>,
        cause: Cause<'_>,
    ) -> Result<(), AccountsError> {
        let is_it = |token: &Token| {
            let is_meant = !token.is_sign_in() && token.id == id && token.organization == *organization;
            is_meant && only_of.is_none_or(|user| user == token.user)
        };
        let revoked = self.changes.change(|(), committer| {
            self.check_still_permitted(cause, Permission::Read)?;
            let found = self.tokens_where(is_it);
            let token = found.first().cloned().ok_or(AccountsError::TokenNotFound)?;
            self.check_still_permitted(cause, permission_for(cause, token.user))?;
            let mut change = Change::default();
            if token.bootstrap {
                change.remember_revoked(&token, cause);
            }
            Ok(self.hand_in_ending(committer, found, None, change, cause)?)
        });
        revoked.await
    }

    /// Drops expired tokens. Those with a root go immediately, since a client that creates many would fill the
    /// organization's share with them; others stay listed for a day. Returns how many.
    pub async fn sweep_tokens(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.drop_tokens(|token| {
            let listed = match token.root {
                Root::None | Root::Operator | Root::Password => LISTED_MILLIS,
                Root::Token(_) | Root::Source(_) => 0,
            };
            token.is_api() && token.expires_at.is_some_and(|expires| expires.plus(listed) <= now)
        })
        .await
    }

    /// Stores when tokens were last used, where that has changed. Records no event.
    pub async fn write_usage(&self) -> Result<(), StoreError> {
        let used = self.tokens_where(|token| token.usage.is_unstored());
        for tokens in used.chunks(stored::RECORDS_AT_ONCE) {
            self.changes.change(|(), committer| self.hand_in_usage(committer, tokens)).await?;
        }
        Ok(())
    }

    /// Replaces all bootstrap tokens, and any token with the same text, unless this one exists already.
    fn supersede(&self, committer: &mut Committer<'_>, token: &Arc<Token>, cause: Cause<'_>) -> Result<(), StoreError> {
        let is_same = |other: &Token| {
            other.bootstrap
                && other.hash == token.hash
                && other.organization == token.organization
                && other.user == token.user
        };
        let others = self.tokens_where(|other| (other.bootstrap || other.hash == token.hash) && !is_same(other));
        let mut change =
            self.ending(committer, others, Some(RevocationReason::Superseded), Change::default(), cause)?;
        if !self.tokens.get(&token.hash).is_some_and(|other| is_same(&other)) {
            change.make_token(token, cause);
        }
        self.hand_in(committer, change)
    }

    /// Leaves out tokens that have been revoked since: a record written after its deletion would be a token again at
    /// the next start.
    fn hand_in_usage(&self, committer: &mut Committer<'_>, tokens: &[Arc<Token>]) -> Result<(), StoreError> {
        let is_kept = |token: &Arc<Token>| self.tokens.get(&token.hash).is_some_and(|kept| Arc::ptr_eq(&kept, token));
        let kept: Vec<_> = tokens.iter().filter(|token| is_kept(token)).collect();
        if kept.is_empty() {
            return Ok(());
        }
        // Read before the records are encoded: a use in between is stored again later, not lost.
        let written: Vec<_> = kept.iter().map(|token| token.usage.last_used_millis.load(Ordering::Relaxed)).collect();
        let mut batch = Batch::default();
        for token in &kept {
            batch.put(stored::token_key(token), stored::encode_token(token));
        }
        committer.commit(batch)?;
        for (token, millis) in kept.iter().zip(written) {
            token.usage.stored_millis.store(millis, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Members manage their own tokens, admins those of all.
fn permission_for(cause: Cause<'_>, user: UserId) -> Permission {
    let own = cause.by.is_some_and(|initiator| initiator.person.id == user);
    if own { Permission::Read } else { Permission::ManageTokens }
}

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

    /// Adds to `change` the end of tokens and sign-ins, with the tokens, sign-ins and invitations created from them.
    /// Tokens that do not fit into the batch of `change` end in batches before it, newest first: a crash in between
    /// leaves no token without its root. Without a reason, `ended` is what a request revokes.
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

    /// Adds the tokens and sign-ins created from the ended ones, transitively; each comes after its root.
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

    /// Drops tokens without an event. Returns how many.
    pub(super) async fn drop_tokens(&self, is_over: impl Fn(&Token) -> bool) -> Result<usize, StoreError> {
        self.change_each(&self.tokens_where(is_over), Change::drop_token).await
    }

    /// Applies `change_one` to each item, in batches of bounded size. Returns the number of items.
    pub(super) async fn change_each<T>(
        &self,
        all: &[T],
        change_one: impl Fn(&mut Change, &T),
    ) -> Result<usize, StoreError> {
        for part in all.chunks(stored::RECORDS_AT_ONCE) {
            let changed = self.changes.change(|(), committer| {
                let mut change = Change::default();
                part.iter().for_each(|one| change_one(&mut change, one));
                self.hand_in(committer, change)
            });
            changed.await?;
        }
        Ok(all.len())
    }

    /// Adds to `change` the end of invitations, each given with the invited member.
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

    /// The invitation of a member, and those that they made with a browser: anyone who was signed in as them may know
    /// the links.
    pub(super) fn drop_invitations_of(&self, change: &mut Change, user: UserId) {
        self.drop_invitations(change, |of, invitation| {
            of == user || (invitation.made.in_browser && invitation.maker == Some(user))
        });
    }

    /// Gives the surviving tokens that were created with `ended` ones the roots of those, so that they still end with
    /// the original root.
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
                    // Tokens created with the operator's token outlive it.
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
                    change.put_token(Arc::new(Token { root, ..(**token).clone() }));
                }
            }
            self.hand_in(committer, change)?;
        }
        Ok(())
    }

    /// The sign-ins of a member except `kept`, and all tokens that they created with a browser, for any member.
    pub(super) fn made_by_sign_ins(&self, user: UserId, kept: Option<TokenId>) -> Vec<Arc<Token>> {
        let mut found = self.sign_ins_where(user, |sign_in| Some(sign_in.id) != kept);
        found.extend(self.tokens_where(|token| token.made_in_browser && token.created_by == user));
        found
    }
}

//! Adding, listing, changing and removing members.

use std::sync::Arc;

use super::accounts::{Accounts, AccountsError};
use super::change::{Change, RevocationReason};
use super::credentials::Credentials;
use super::member::{MEMBERS_MAX, Member, MemberEntry, MemberUpdate, NewMember};
use super::permission::Permission;
use super::tokens_by_hash::Counted;
use ambient::entropy;
use domain::{Identifier, Timestamp, UserId};
use events::Cause;
use store::{Batch, Committer, StoreError};

impl Accounts {
    /// The organization's members, oldest first, once what is shown is durable.
    pub async fn members(&self, organization: &Identifier) -> Vec<MemberEntry> {
        let entries = self
            .changes
            .read(|()| self.members_of(organization).into_iter().map(|member| self.entry(member)).collect::<Vec<_>>());
        let mut entries = entries.await;
        entries.sort_unstable_by_key(|entry| entry.member.id);
        entries
    }

    /// Adds a member, with what `beside` adds to the batch; what that returns is held until it is durable or refused.
    pub async fn add_member<Held>(
        &self,
        new: NewMember,
        cause: Cause<'_>,
        beside: impl FnOnce(&Member, &mut Batch) -> Held,
    ) -> Result<Arc<Member>, AccountsError> {
        let added = self.changes.change(|(), committer| {
            self.check_still_permitted(cause, Permission::ManageMembers)?;
            if self.member_named(&new.organization, new.name.as_str()).is_some() {
                return Err(AccountsError::MemberExists);
            }
            if self.members_of(&new.organization).len() >= MEMBERS_MAX {
                return Err(AccountsError::TooManyMembers);
            }
            let member = Arc::new(Member::new(new, cause.at));
            let mut change = Change::default();
            let held = beside(&member, &mut change.batch);
            change.add_member(&member, cause);
            self.hand_in(committer, change)?;
            Ok((member, held))
        });
        added.await.map(|(member, _held)| member)
    }

    /// Takes effect at once, also for requests of the member that wait or are half sent.
    pub async fn change_member(
        &self,
        organization: &Identifier,
        user: UserId,
        update: MemberUpdate,
        cause: Cause<'_>,
    ) -> Result<MemberEntry, AccountsError> {
        let changed = self.changes.change(|(), committer| {
            let before = self.member(organization, user).ok_or(AccountsError::MemberNotFound)?;
            let after = Arc::new(update.of(&before));
            if !after.is_acting_admin() {
                self.refuse_last_admin(&before)?;
            }
            self.check_still_permitted(cause, Permission::ManageMembers)?;
            if after == before {
                return Ok(self.entry(before));
            }
            let mut change = Change::default();
            change.update_member(&before, &after, cause);
            if after.disabled && !before.disabled {
                self.sign_ins_where(user, |_| true).iter().for_each(|sign_in| change.drop_token(sign_in));
                let credentials = self.credentials_of(user);
                if credentials.invitation.is_some() {
                    change.set_credentials(&after, Credentials { invitation: None, ..(*credentials).clone() });
                }
            }
            self.hand_in(committer, change)?;
            Ok(self.entry(after))
        });
        changed.await
    }

    /// With all their tokens, which stop working before this answers. Their sessions keep their locks until released.
    pub async fn remove_member(
        &self,
        organization: &Identifier,
        user: UserId,
        cause: Cause<'_>,
    ) -> Result<Arc<Member>, AccountsError> {
        let removed = self.changes.change(|(), committer| {
            let member = self.member(organization, user).ok_or(AccountsError::MemberNotFound)?;
            self.refuse_last_admin(&member)?;
            self.check_still_permitted(cause, Permission::ManageMembers)?;
            self.hand_in_removal(committer, &member, Change::default(), cause)?;
            Ok(member)
        });
        removed.await
    }

    fn entry(&self, member: Arc<Member>) -> MemberEntry {
        let tokens = self.tokens.count(&Counted::ApiOf(member.id));
        let credentials = self.credentials_of(member.id);
        let has_password = credentials.password.is_some();
        MemberEntry { member, tokens, has_password, last_sign_in_at: credentials.last_sign_in_at }
    }

    pub(super) fn members_of(&self, organization: &Identifier) -> Vec<Arc<Member>> {
        self.members.read().values().filter(|member| member.organization == *organization).cloned().collect()
    }

    /// In one batch with `change`, with all tokens of the member. The tokens that they made for others stay: whoever removes a
    /// person does not take back their work. Their open invitations end.
    pub(super) fn hand_in_removal(
        &self,
        committer: &mut Committer<'_>,
        member: &Member,
        change: Change,
        cause: Cause<'_>,
    ) -> Result<(), StoreError> {
        let tokens = self.tokens_where(|token| token.user == member.id);
        self.hand_roots_down(committer, &tokens)?;
        let mut change = self.ending(committer, tokens, Some(RevocationReason::MemberRemoved), change, cause)?;
        self.drop_invitations_of(&mut change, member.id);
        change.remove_member(member, cause);
        self.hand_in(committer, change)
    }

    pub(super) fn refuse_last_admin(&self, member: &Member) -> Result<(), AccountsError> {
        let members = self.members_of(&member.organization);
        let mut others = members.iter().filter(|other| other.id != member.id);
        let is_last = member.is_acting_admin() && !others.any(|other| other.is_acting_admin());
        if is_last { Err(AccountsError::LastAdmin) } else { Ok(()) }
    }
}

impl Member {
    pub(super) fn new(new: NewMember, now: Timestamp) -> Self {
        let NewMember { organization, name, role, email } = new;
        let id = UserId(entropy::id_seed());
        Self { organization, id, name, role, created_at: now, email, disabled: false, link: None, for_jobs: false }
    }
}

//! Opens the accounts, with the members that a file declares. A declaration is applied when it is new, changed or
//! removed; until then changes through the API hold, through restarts too. Files do not affect members who were only
//! added through the API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::accounts::Accounts;
use super::change::{Change, RevocationReason};
use super::member::{Declaration, Member, MemberUpdate, NewMember};
use super::stored::{self, MemberPath};
use domain::{Identifier, Role, Timestamp};
use events::Cause;
use records::stored::{Difference, differences};
use store::{Committer, Sequence, Store, StoreError};

impl Accounts {
    /// Loads members, credentials and tokens, and applies the declarations that are new or have changed.
    pub async fn open(store: Arc<dyn Store>, declared: Vec<NewMember>, now: Timestamp) -> Result<Self, StoreError> {
        let accounts = Self::load(store, &declared)?;
        accounts.declare(declared, now).await?;
        Ok(accounts)
    }

    /// Changes the members of the declared organizations, durably, where a declaration is new or has changed. An
    /// organization that is no longer declared at all is left unchanged, since that is more likely a mistake. An
    /// operator's file may exceed the limit on the number of members.
    pub async fn declare(&self, declared: Vec<NewMember>, now: Timestamp) -> Result<(), StoreError> {
        let count = declared.len();
        let organizations: BTreeSet<_> = declared.iter().map(|member| member.organization.clone()).collect();
        let mut before = stored::load_declarations(self.changes.store(), &organizations)?;
        let admins: Vec<_> = declared.iter().filter(|member| member.role == Role::Admin).cloned().collect();
        let cause = Cause::system(now);
        let mut applying = Applying { accounts: self, cause, changed: 0, handed_in: Sequence::default() };
        for new in declared {
            let before = before.remove(&(new.organization.clone(), new.name.clone()));
            if before.as_ref() != Some(&Declaration::of(&new)) {
                applying.declare(new, before).await?;
            }
        }
        for (organization, name) in before.into_keys() {
            applying.retract(&organization, &name).await?;
        }
        for organization in &organizations {
            applying.restore_admins(organization, &admins).await?;
        }
        self.changes.durable(applying.handed_in).await;
        if applying.changed > 0 {
            tracing::info!(changed = applying.changed, declared = count, "applied declared members");
        }
        Ok(())
    }
}

/// How the members that files declare differ from those of the previous files.
pub fn member_differences(
    store: &dyn Store,
    declared: &[NewMember],
) -> Result<BTreeMap<MemberPath, Difference>, StoreError> {
    let organizations = declared.iter().map(|member| member.organization.clone()).collect();
    let form = |new: &NewMember| ((new.organization.clone(), new.name.clone()), Declaration::of(new));
    let known = stored::load_members(store, declared)?;
    let names: BTreeSet<_> = known.values().map(|member| (member.organization.clone(), member.name.clone())).collect();
    let before = stored::load_declarations(store, &organizations)?;
    differences(before, declared.iter().map(form), |key| Ok(names.contains(key)))
}

struct Applying<'a> {
    accounts: &'a Accounts,
    cause: Cause<'a>,
    changed: usize,
    handed_in: Sequence,
}

impl Applying<'_> {
    /// If the file has not changed an email address, the address that the API has set stays.
    async fn declare(&mut self, new: NewMember, before: Option<Declaration>) -> Result<(), StoreError> {
        let mut change = Change::default();
        let declaration = stored::encode_declaration(&Declaration::of(&new));
        change.batch.put(stored::declaration_key(&new.organization, &new.name), declaration);
        let email = (new.email != before.and_then(|before| before.email)).then(|| new.email.clone());
        self.set(change, new, MemberUpdate { email, ..MemberUpdate::default() }).await
    }

    /// Removes a member who is no longer in the file, with all their tokens.
    async fn retract(&mut self, organization: &Identifier, name: &Identifier) -> Result<(), StoreError> {
        let mut change = Change::default();
        change.batch.delete(stored::declaration_key(organization, name));
        let (accounts, cause) = (self.accounts, self.cause);
        self.decide(|committer| match accounts.member_named(organization, name.as_str()) {
            Some(removed) => accounts.hand_in_removal(committer, &removed, change, cause),
            None => accounts.hand_in_ending(committer, Vec::new(), None, change, cause),
        })
        .await
    }

    /// Changes of a file and of the API together can leave an organization without an admin. Then the file's admins
    /// become admins again.
    async fn restore_admins(&mut self, organization: &Identifier, declared: &[NewMember]) -> Result<(), StoreError> {
        if self.accounts.first_admin(organization).is_some() {
            return Ok(());
        }
        for admin in declared.iter().filter(|admin| admin.organization == *organization) {
            tracing::warn!(%organization, member = %admin.name, "the organization had no admin left; restoring the declared one");
            let update = MemberUpdate { disabled: Some(false), ..MemberUpdate::default() };
            self.set(Change::default(), admin.clone(), update).await?;
        }
        Ok(())
    }

    /// Gives an existing member the declared role and the other changes in `update`.
    async fn set(&mut self, mut change: Change, new: NewMember, update: MemberUpdate) -> Result<(), StoreError> {
        let (accounts, cause) = (self.accounts, self.cause);
        self.decide(|committer| {
            let mut ended = Vec::new();
            match accounts.member_named(&new.organization, new.name.as_str()) {
                None => change.add_member(&Arc::new(Member::new(new, cause.at)), cause),
                Some(before) => {
                    // A declared member is a person, even if jobs used the name before: the person does not get the
                    // credentials of those jobs.
                    if before.for_jobs {
                        ended = accounts.tokens_where(|token| token.user == before.id && token.is_exchanged());
                    }
                    let after = MemberUpdate { role: Some(new.role), ..update }.of(&before);
                    let after = Arc::new(Member { for_jobs: false, ..after });
                    if after != before {
                        change.update_member(&before, &after, cause);
                    }
                }
            }
            accounts.hand_in_ending(committer, ended, Some(RevocationReason::RootEnded), change, cause)
        })
        .await
    }

    /// Decides on the newest members, which the API may change meanwhile. Waits for the disk regularly, to bound the
    /// unflushed writes.
    async fn decide(
        &mut self,
        decide: impl FnOnce(&mut Committer<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (outcome, sequence) = self.accounts.changes.decide(|(), committer| decide(committer));
        outcome?;
        self.handed_in = sequence;
        self.changed += 1;
        if self.changed.is_multiple_of(stored::RECORDS_AT_ONCE) {
            self.accounts.changes.durable(self.handed_in).await;
        }
        Ok(())
    }
}

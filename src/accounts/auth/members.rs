//! Adding, listing, changing and removing members. Members who use single sign-on are found by the provider's id of the
//! person, and created at their first sign-in; at every sign-in, the provider's groups decide the role.

use std::sync::Arc;

use super::accounts::{Accounts, AccountsError};
use super::change::{Change, RevocationReason};
use super::member::{MEMBERS_MAX, Member, MemberEntry, MemberUpdate, NewMember, Permission, ProviderLink};
use super::password::Credentials;
use super::token::SourceId;
use super::tokens_by_hash::Counted;
use domain::{Email, Identifier, Role, UserId};
use events::Cause;
use store::{Batch, Committer, StoreError};

impl Accounts {
    /// The organization's members, oldest first; waits until the returned state is durable.
    pub async fn members(&self, organization: &Identifier) -> Vec<MemberEntry> {
        let entry = |member| self.entry(member);
        let listed = self.changes.read(|()| self.members_of(organization).into_iter().map(entry).collect());
        let mut entries: Vec<MemberEntry> = listed.await;
        entries.sort_unstable_by_key(|entry| entry.member.id);
        entries
    }

    /// Adds a member; `beside` adds to the batch, and its result is held until the batch is durable or refused.
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

    /// Takes effect immediately, also for requests of the member that wait or are half sent.
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

    /// Removes a member with all their tokens, which stop working before this returns. Their sessions keep their locks
    /// until released.
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

    /// Removes the member and all their tokens, in one batch with `change`. Tokens that they created for others stay:
    /// removing a person does not undo their work. Open invitations that they made end.
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

    fn refuse_last_admin(&self, member: &Member) -> Result<(), AccountsError> {
        let members = self.members_of(&member.organization);
        let mut others = members.iter().filter(|other| other.id != member.id);
        let is_last = member.is_acting_admin() && !others.any(|other| other.is_acting_admin());
        if is_last { Err(AccountsError::LastAdmin) } else { Ok(()) }
    }
}

/// Limits namesakes at a provider: `ana`, `ana-2` and so on. With more of them, people could not tell the names apart.
const SAME_NAME_MAX: usize = 9;
/// The longest name of a member.
const NAME_LENGTH_MAX: usize = 63;

/// A person whom a provider of the organization vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvidedPerson {
    pub organization: Identifier,
    pub link: ProviderLink,
    /// The name for a new member.
    pub name: Identifier,
    pub email: Option<Email>,
    /// Whether the provider has verified that the address is theirs.
    pub email_verified: bool,
    pub role: Role,
    /// How the provider assigned roles when it gave this role.
    pub assignment: Vec<String>,
    /// The provider in the organization file.
    pub source: SourceId,
}

impl Accounts {
    /// The member of this person, with the role that their groups give them now. The last admin stays admin.
    pub async fn member_of_provider(
        &self,
        person: ProvidedPerson,
        cause: Cause<'_>,
    ) -> Result<Arc<Member>, AccountsError> {
        let found = self.changes.change(|(), committer| {
            let grants = self.check_trusted(&person.organization, person.source)?;
            // The file may have changed since the request to the provider.
            if grants.assignment != person.assignment {
                return Err(AccountsError::NoLongerTrusted);
            }
            let members = self.members_of(&person.organization);
            let mut change = Change::default();
            let member = match find(&members, &person)? {
                PersonMatch::Member(before) => {
                    let after = Arc::new(self.as_provided(&before, &person));
                    check_reach(&before, &after, &person, grants.role_max)?;
                    if after != before {
                        change.update_member(&before, &after, cause);
                    }
                    after
                }
                PersonMatch::NewName(name) => {
                    let ProvidedPerson { organization, link, email, role, .. } = person;
                    let new = Member::new(NewMember { organization, name, role, email }, cause.at);
                    let member = Arc::new(Member { link: Some(link), ..new });
                    change.add_member(&member, cause);
                    member
                }
            };
            self.hand_in(committer, change)?;
            Ok(member)
        });
        found.await
    }

    fn as_provided(&self, before: &Member, person: &ProvidedPerson) -> Member {
        let demoted = person.role < before.role;
        let role = if demoted && self.refuse_last_admin(before).is_err() {
            let (organization, member, role) = (&person.organization, &before.name, person.role);
            tracing::warn!(%organization, %member, %role, "the last admin keeps the role, against the groups at the provider");
            before.role
        } else {
            person.role
        };
        Member { link: Some(person.link.clone()), role, ..before.clone() }
    }
}

/// A provider may link itself to members up to its highest role, and cannot sign in a member with a higher one:
/// otherwise the provider's operator could act as that member.
fn check_reach(before: &Member, after: &Member, person: &ProvidedPerson, role_max: Role) -> Result<(), AccountsError> {
    let is_new = before.link.as_ref() != Some(&person.link);
    let is_above = after.role > role_max || (is_new && before.role > role_max);
    if is_above { Err(AccountsError::AboveProvider) } else { Ok(()) }
}

enum PersonMatch {
    Member(Arc<Member>),
    NewName(Identifier),
}

/// Finds a member by the link; otherwise by a verified address, among members without a link: an admin entered that
/// address for the member. A name proves nothing, since people choose their own.
fn find(members: &[Arc<Member>], person: &ProvidedPerson) -> Result<PersonMatch, AccountsError> {
    let linked = members.iter().find(|member| member.link.as_ref() == Some(&person.link));
    let verified = person.email.as_ref().filter(|_| person.email_verified);
    let has_address = |member: &&Arc<Member>| {
        let email = member.email.as_ref().filter(|_| member.link.is_none() && !member.for_jobs);
        email.zip(verified).is_some_and(|(one, other)| one.as_str().eq_ignore_ascii_case(other.as_str()))
    };
    let mut addressed = members.iter().filter(has_address);
    // If two members have the same address, the person is ambiguous.
    let only = addressed.next().filter(|_| addressed.next().is_none());
    match linked.or(only) {
        Some(member) if member.disabled => Err(AccountsError::MemberDisabled),
        Some(member) => Ok(PersonMatch::Member(member.clone())),
        None if members.len() >= MEMBERS_MAX => Err(AccountsError::TooManyMembers),
        None => new_name(members, &person.name).map(PersonMatch::NewName),
    }
}

/// A name that is still free. If a member who does not use a provider has it, it is probably the same person; it is
/// refused until an admin confirms that.
fn new_name(members: &[Arc<Member>], wanted: &Identifier) -> Result<Identifier, AccountsError> {
    let taken = |name: &str| members.iter().find(|member| member.name.as_str().eq_ignore_ascii_case(name));
    match taken(wanted.as_str()) {
        None => return Ok(wanted.clone()),
        Some(member) if member.link.is_none() => return Err(AccountsError::MemberExists),
        Some(_) => {}
    }
    let numbered = (2..=SAME_NAME_MAX).filter_map(|number| {
        let suffix = format!("-{number}");
        let kept = wanted.as_str().len().min(NAME_LENGTH_MAX - suffix.len());
        Identifier::parse(&format!("{}{suffix}", &wanted.as_str()[..kept])).ok()
    });
    numbered.into_iter().find(|name| taken(name.as_str()).is_none()).ok_or(AccountsError::MemberExists)
}

//! Members who sign in with a provider of single sign-on: found by the provider's id of the person, and made at their first
//! sign-in. The provider's groups decide the role, again at each sign-in.

use std::sync::Arc;

use super::accounts::{Accounts, AccountsError};
use super::change::Change;
use super::member::{MEMBERS_MAX, Member, MemberUpdate, NewMember, ProviderLink};
use super::root::SourceId;
use domain::{Email, Identifier, Role};
use events::Cause;

/// Of people with the same name at a provider: `ana`, `ana-2` and so on. Beyond, names would tell nobody who is who.
const SAME_NAME_MAX: usize = 9;
/// The longest name of a member.
const NAME_LENGTH_MAX: usize = 63;

/// Somebody whom a provider of the organization vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvidedPerson {
    pub organization: Identifier,
    pub link: ProviderLink,
    /// The name of a new member.
    pub name: Identifier,
    pub email: Option<Email>,
    /// Whether the provider has made sure that the address is theirs.
    pub email_verified: bool,
    pub role: Role,
    /// How the provider assigned roles when it gave this one.
    pub assignment: Vec<String>,
    /// The provider, as the file has it.
    pub source: SourceId,
}

impl Accounts {
    /// The member that this person is, with the role that their groups give them now. The last admin keeps theirs.
    pub async fn member_of_provider(
        &self,
        person: ProvidedPerson,
        cause: Cause<'_>,
    ) -> Result<Arc<Member>, AccountsError> {
        let found = self.changes.change(|(), committer| {
            let grants = self.check_trusted(&person.organization, person.source)?;
            // The file may have changed since the provider was asked.
            if grants.assignment != person.assignment {
                return Err(AccountsError::NoLongerTrusted);
            }
            let members = self.members_of(&person.organization);
            let mut change = Change::default();
            let member = match find(&members, &person)? {
                Found::Member(before) => {
                    let after = Arc::new(self.as_provided(&before, &person));
                    check_reach(&before, &after, &person, grants.role_max)?;
                    if after != before {
                        change.update_member(&before, &after, cause);
                    }
                    after
                }
                Found::NewName(name) => {
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
        Member { link: Some(person.link.clone()), ..MemberUpdate::role(role).of(before) }
    }
}

/// A provider connects itself with members up to the role that it may give, and signs in nobody who has a higher one: otherwise
/// whoever runs it would be that member.
fn check_reach(before: &Member, after: &Member, person: &ProvidedPerson, role_max: Role) -> Result<(), AccountsError> {
    let is_new = before.link.as_ref() != Some(&person.link);
    let is_above = after.role > role_max || (is_new && before.role > role_max);
    if is_above { Err(AccountsError::AboveProvider) } else { Ok(()) }
}

enum Found {
    Member(Arc<Member>),
    NewName(Identifier),
}

/// By the link; otherwise a member without one whose address the provider has verified: an admin has entered it, and so said
/// who that is. A name proves nothing, since people choose theirs.
fn find(members: &[Arc<Member>], person: &ProvidedPerson) -> Result<Found, AccountsError> {
    let linked = members.iter().find(|member| member.link.as_ref() == Some(&person.link));
    let verified = person.email.as_ref().filter(|_| person.email_verified);
    let has_address = |member: &&Arc<Member>| {
        let email = member.email.as_ref().filter(|_| member.link.is_none() && !member.for_jobs);
        email.zip(verified).is_some_and(|(one, other)| one.as_str().eq_ignore_ascii_case(other.as_str()))
    };
    let mut addressed = members.iter().filter(has_address);
    // Of two with one address, nobody can say which.
    let only = addressed.next().filter(|_| addressed.next().is_none());
    match linked.or(only) {
        Some(member) if member.disabled => Err(AccountsError::MemberDisabled),
        Some(member) => Ok(Found::Member(member.clone())),
        None if members.len() >= MEMBERS_MAX => Err(AccountsError::TooManyMembers),
        None => new_name(members, &person.name).map(Found::NewName),
    }
}

/// A name that no member has. One of a member who does not sign in with a provider is probably theirs, and is refused: it
/// takes an admin to say so.
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

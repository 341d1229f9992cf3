//! A member of an organization.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use domain::{Email, Identifier, Role, Timestamp, UserId};

/// Far beyond the organizations we know, few enough to keep in memory and to list.
pub const MEMBERS_MAX: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub organization: Identifier,
    /// Never reused: a member who is added again after a removal gets a new one.
    pub id: UserId,
    /// Never changes: files refer to members by name.
    pub name: Identifier,
    pub role: Role,
    pub created_at: Timestamp,
    pub email: Option<Email>,
    /// Kept with everything that is theirs, and refused.
    pub disabled: bool,
    /// Of a member who has signed in with a provider.
    pub link: Option<ProviderLink>,
    /// Jobs of a CI act as this member: made by the first exchange of an identity token. No person.
    pub for_jobs: bool,
}

/// Looked up with every request, hence the quicker hash.
pub type MembersById = HashMap<UserId, Arc<Member>, RandomState>;

/// A member's identity at a provider of single sign-on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderLink {
    pub provider: Identifier,
    /// Who the provider is: a subject says nothing at another issuer. `None` in records of an earlier version, until the first
    /// start of this one.
    pub issuer: Option<String>,
    /// The provider's id of the person, which is never reused.
    pub subject: String,
}

/// A member with what is known of their tokens and sign-ins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberEntry {
    pub member: Arc<Member>,
    pub tokens: usize,
    pub has_password: bool,
    pub last_sign_in_at: Option<Timestamp>,
}

/// A member to be added, from a request or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMember {
    pub organization: Identifier,
    pub name: Identifier,
    pub role: Role,
    pub email: Option<Email>,
}

/// What a file says of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    pub role: Role,
    pub email: Option<Email>,
}

impl Declaration {
    pub fn of(new: &NewMember) -> Self {
        Self { role: new.role, email: new.email.clone() }
    }
}

/// What is to change of a member; `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberUpdate {
    pub role: Option<Role>,
    /// The inner `None` takes the address away.
    pub email: Option<Option<Email>>,
    pub disabled: Option<bool>,
}

impl MemberUpdate {
    pub fn role(role: Role) -> Self {
        Self { role: Some(role), ..Self::default() }
    }

    pub(super) fn of(self, member: &Member) -> Member {
        Member {
            role: self.role.unwrap_or(member.role),
            email: self.email.unwrap_or_else(|| member.email.clone()),
            disabled: self.disabled.unwrap_or(member.disabled),
            ..member.clone()
        }
    }
}

impl Member {
    /// Whether they can administer the organization. Jobs come and go with their CI, and do not count.
    pub fn is_acting_admin(&self) -> bool {
        self.role == Role::Admin && !self.disabled && !self.for_jobs
    }
}

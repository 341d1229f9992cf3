//! A member of an organization, and the permissions of each role. Rules that depend on more than the role (the owner of
//! a session, the settings of an environment) are in the domain.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use ambient::entropy;
use domain::{Email, Identifier, Role, Timestamp, UserId};

/// Well above the organizations we know, few enough to keep in memory and to list.
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
    /// A disabled member keeps everything they own, but is refused.
    pub disabled: bool,
    /// Set if the member has signed in with a provider.
    pub link: Option<ProviderLink>,
    /// Jobs of a CI act as this member, which is not a person. The first exchange of an identity token creates the
    /// member.
    pub for_jobs: bool,
}

/// Looked up with every request, hence the quicker hash.
pub type MembersById = HashMap<UserId, Arc<Member>, RandomState>;

/// A member's identity at a provider of single sign-on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderLink {
    pub provider: Identifier,
    /// Identifies the provider: a subject has no meaning at another issuer.
    pub issuer: String,
    /// The provider's id of the person, which is never reused.
    pub subject: String,
}

/// A member, with facts about their tokens and sign-ins.
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

/// A member's entry in a file.
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

/// The changes of a member; `None` leaves a field unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberUpdate {
    pub role: Option<Role>,
    /// `Some(None)` removes the address.
    pub email: Option<Option<Email>>,
    pub disabled: Option<bool>,
}

impl MemberUpdate {
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
    pub(super) fn new(new: NewMember, now: Timestamp) -> Self {
        let NewMember { organization, name, role, email } = new;
        let id = UserId(entropy::id_seed());
        Self { organization, id, name, role, created_at: now, email, disabled: false, link: None, for_jobs: false }
    }

    /// Whether the member can administer the organization. Members for jobs come and go with their CI, and do not
    /// count.
    pub fn is_acting_admin(&self) -> bool {
        self.role == Role::Admin && !self.disabled && !self.for_jobs
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    Read,
    UseEnvironments,
    /// To analyse failed deployments and propose fixes.
    Analyse,
    ReleaseAnySession,
    /// To claim with a priority above the default.
    RaisePriority,
    ManageEnvironments,
    ManagePipelines,
    /// To cancel and retry other members' deployments.
    ManageDeployments,
    Approve,
    ManageSecrets,
    ManageRegistries,
    ManageTokens,
    ManageWebhooks,
    ManageMembers,
    /// To verify the recorded events.
    VerifyEvents,
    /// To see the machines that share the work.
    SeeCluster,
    /// To read everything, as a backup does.
    Backup,
}

impl Permission {
    pub const fn required_role(self) -> Role {
        match self {
            Permission::Read => Role::Viewer,
            Permission::UseEnvironments | Permission::Analyse => Role::Developer,
            Permission::ReleaseAnySession
            | Permission::RaisePriority
            | Permission::ManageEnvironments
            | Permission::ManagePipelines
            | Permission::ManageDeployments
            | Permission::Approve
            | Permission::ManageSecrets
            | Permission::ManageRegistries => Role::Maintainer,
            Permission::ManageTokens
            | Permission::ManageMembers
            | Permission::ManageWebhooks
            | Permission::VerifyEvents
            | Permission::SeeCluster
            | Permission::Backup => Role::Admin,
        }
    }

    pub fn is_granted_to(self, role: Role) -> bool {
        role >= self.required_role()
    }
}

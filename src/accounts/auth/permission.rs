//! Permissions per role. Rules that depend on more than the role (whose session it is, what the environment allows) are
//! the domain's.

use domain::Role;

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
    /// To read everything that there is, as a backup.
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

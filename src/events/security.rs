//! Defines the security events, which are kept longer than everyday events, however many of those there are.

use domain::EventType;
use domain::named::named_enum;

named_enum! {
    /// The subject of a security event. Each class has a separate limit: many events of one class, which a developer
    /// can cause at will, must not push out those of another.
    pub enum SecurityClass {
        Members = "members",
        Tokens = "tokens",
        Secrets = "secrets",
        Webhooks = "webhooks",
        ForceClaims = "force-claims",
        Approvals = "approvals",
    }
}

impl SecurityClass {
    /// `None` for an everyday event.
    pub const fn of(event_type: EventType) -> Option<Self> {
        match event_type {
            EventType::MemberAdded
            | EventType::MemberUpdated
            | EventType::MemberRemoved
            | EventType::MemberInvited
            | EventType::MemberPasswordChanged => Some(Self::Members),
            EventType::TokenCreated | EventType::TokenRevoked => Some(Self::Tokens),
            EventType::SecretCreated | EventType::SecretUpdated | EventType::SecretDeleted => Some(Self::Secrets),
            EventType::WebhookCreated
            | EventType::WebhookUpdated
            | EventType::WebhookDeleted
            | EventType::WebhookDisabled => Some(Self::Webhooks),
            EventType::SessionOverridden => Some(Self::ForceClaims),
            EventType::ApprovalApproved | EventType::ApprovalRejected => Some(Self::Approvals),
            EventType::SessionClaimed
            | EventType::SessionQueued
            | EventType::SessionReleased
            | EventType::SessionExpired
            | EventType::DeploymentQueued
            | EventType::DeploymentStarted
            | EventType::DeploymentCancelling
            | EventType::DeploymentSucceeded
            | EventType::DeploymentFailed
            | EventType::DeploymentCancelled
            | EventType::StageStarted
            | EventType::StageSucceeded
            | EventType::StageFailed
            | EventType::StageCancelled
            | EventType::StageRetried
            | EventType::ApprovalRequested
            | EventType::EnvironmentCreated
            | EventType::EnvironmentUpdated
            | EventType::EnvironmentDeleted
            | EventType::PipelineCreated
            | EventType::PipelineUpdated
            | EventType::PipelineStopped
            | EventType::PipelineResumed
            | EventType::PipelineDeleted
            | EventType::RegistryCreated
            | EventType::RegistryUpdated
            | EventType::RegistrySynced
            | EventType::RegistryDeleted
            | EventType::AnalysisCompleted
            | EventType::PullRequestCreated
            | EventType::MemberSignedIn
            | EventType::MemberSignedOut
            | EventType::TokenExchanged => None,
        }
    }
}

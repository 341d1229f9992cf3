//! The `data` of events by type.

#![expect(dead_code, reason = "the structs only describe the members that events are recorded with")]

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::written::{AnalysisId, ApprovalId, RegistryId, SessionId, TokenId, UserId, WebhookId};
use super::written::{
    AnalysisStatus, Category, EngineName, Expiry, RegistryStatus, RevocationReason, Role, SignInMethod,
};
use domain::EventType;

/// Event types whose data has the same members.
pub struct EventShape {
    /// For example `SessionClaimed`, for `SessionClaimedEvent` with `SessionClaimedData`.
    pub name: &'static str,
    pub types: &'static [EventType],
    pub data: RefOr<Schema>,
    /// The schemas that `data` references.
    pub schemas: Vec<(String, RefOr<Schema>)>,
}

/// Each shape is a struct whose comments and examples describe the members. Optional members are `Option`s.
macro_rules! shapes {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident for $($event_type:ident)|+ {
            $($(#[$meta:meta])* $field:ident: $type:ty),* $(,)?
        }
    )*) => {
        $(
            $(#[doc = $doc])*
            #[derive(ToSchema)]
            #[schema(rename_all = "camelCase")]
            pub struct $name {
                $($(#[$meta])* $field: $type),*
            }
        )*

        /// All shapes, in the order of this file.
        pub fn event_shapes() -> Vec<EventShape> {
            vec![$({
                let mut schemas = Vec::new();
                $name::schemas(&mut schemas);
                EventShape {
                    name: stringify!($name),
                    types: &[$(EventType::$event_type),+],
                    data: $name::schema(),
                    schemas,
                }
            }),*]
        }

        /// A type without a description does not compile.
        const _: fn(EventType) = |event_type| match event_type {
            $($(EventType::$event_type)|+ => {})*
        };
    };
}

shapes! {
    /// A session got the lock.
    SessionClaimed for SessionClaimed {
        /// The number of the grant.
        #[schema(example = 42)]
        fencing_token: u64,
        /// The commit that was named in the claim.
        #[schema(example = "c0ffee1")]
        commit_id: Option<String>,
    }

    /// A session began to wait.
    SessionQueued for SessionQueued {
        /// Its position in the queue, from 1.
        #[schema(example = 3)]
        position: u64,
    }

    /// A session was released.
    SessionReleased for SessionReleased {
        /// The number of its grant; not for one that left the queue.
        #[schema(example = 42)]
        fencing_token: Option<u64>,
    }

    /// A session lost the lock to a force-claim.
    SessionOverridden for SessionOverridden {
        /// The number of its grant.
        #[schema(example = 42)]
        fencing_token: Option<u64>,
        /// The session that has the lock now.
        overridden_by: SessionId,
    }

    /// A session expired.
    SessionExpired for SessionExpired {
        /// The number of its grant; not for one that was queued.
        #[schema(example = 42)]
        fencing_token: Option<u64>,
        reason: Expiry,
    }

    /// A deployment changed.
    Deployment for DeploymentQueued | DeploymentStarted | DeploymentCancelling | DeploymentSucceeded | DeploymentFailed
        | DeploymentCancelled
    {
        /// What is deployed.
        #[schema(example = "c0ffee1")]
        commit_id: String,
        /// Why it failed or was cancelled.
        #[schema(example = "step compile exited with 1")]
        error: Option<String>,
    }

    /// A stage of a deployment changed.
    Stage for StageStarted | StageSucceeded | StageFailed | StageCancelled | StageRetried {
        /// The stage, by its name.
        #[schema(example = "build")]
        stage: String,
        /// Which run of it, from 1.
        #[schema(example = 1)]
        attempt: u32,
    }

    /// An approval was requested or decided.
    Approval for ApprovalRequested | ApprovalApproved | ApprovalRejected {
        approval_id: ApprovalId,
        /// The stage, by its name.
        #[schema(example = "deploy")]
        stage: String,
        /// Which run of it, from 1.
        #[schema(example = 1)]
        attempt: u32,
        /// The comment of an approval or the reason of a rejection.
        #[schema(example = "looks good")]
        comment: Option<String>,
    }

    /// An environment changed. There are no further details.
    Environment for EnvironmentCreated | EnvironmentUpdated | EnvironmentDeleted {}

    /// A pipeline changed.
    Pipeline for PipelineCreated | PipelineUpdated | PipelineResumed | PipelineDeleted {
        /// Its name, for people.
        #[schema(example = "Web shop")]
        name: String,
        /// Counts its changes.
        #[schema(example = 2)]
        revision: u64,
    }

    /// A pipeline was stopped.
    PipelineStopped for PipelineStopped {
        /// Its name, for people.
        #[schema(example = "Web shop")]
        name: String,
        /// Counts its changes.
        #[schema(example = 2)]
        revision: u64,
        /// Why, if somebody said it.
        #[schema(example = "the database is being moved")]
        reason: Option<String>,
    }

    /// A secret was created or deleted.
    Secret for SecretCreated | SecretDeleted {
        /// Unique in its scope.
        #[schema(example = "EXAMPLE_PASSWORD")]
        name: String,
        /// Counts its changes.
        #[schema(example = 1)]
        version: u64,
    }

    /// A secret was changed.
    SecretUpdated for SecretUpdated {
        /// Unique in its scope.
        #[schema(example = "EXAMPLE_PASSWORD")]
        name: String,
        /// Counts its changes.
        #[schema(example = 2)]
        version: u64,
        /// Whether it has a new value.
        #[schema(example = true)]
        value_changed: bool,
        /// Whether it has a new description.
        #[schema(example = false)]
        description_changed: bool,
    }

    /// A step registry was created, changed or deleted.
    Registry for RegistryCreated | RegistryUpdated | RegistryDeleted {
        registry_id: RegistryId,
        /// Unique in the organization.
        #[schema(example = "tools")]
        name: String,
        status: RegistryStatus,
        /// How many steps it has.
        #[schema(example = 3)]
        step_count: u64,
        /// The commit its steps are from, if they are from a repository.
        #[schema(example = "2f1c7a9e4b6d8f0a1c3e5d7b9f1a3c5e7d9b1f3a")]
        commit: Option<String>,
    }

    /// A step registry was synced, or a sync failed.
    RegistrySynced for RegistrySynced {
        registry_id: RegistryId,
        /// Unique in the organization.
        #[schema(example = "tools")]
        name: String,
        status: RegistryStatus,
        /// How many steps it has.
        #[schema(example = 3)]
        step_count: u64,
        /// The commit its steps are from.
        #[schema(example = "2f1c7a9e4b6d8f0a1c3e5d7b9f1a3c5e7d9b1f3a")]
        commit: Option<String>,
        /// How many steps are new; not if the sync failed.
        #[schema(example = 1)]
        added: Option<u64>,
        /// How many steps have another content; not if the sync failed.
        #[schema(example = 0)]
        changed: Option<u64>,
        /// How many steps are gone; not if the sync failed.
        #[schema(example = 0)]
        removed: Option<u64>,
    }

    /// A token was created.
    TokenCreated for TokenCreated {
        token_id: TokenId,
        /// What it is for.
        #[schema(example = "ci")]
        name: String,
        /// The member it stands for.
        user_id: UserId,
    }

    /// A token was revoked.
    TokenRevoked for TokenRevoked {
        token_id: TokenId,
        /// What it was for.
        #[schema(example = "ci")]
        name: String,
        /// The member it stood for.
        user_id: UserId,
        /// Why, if nobody revoked it by itself.
        reason: Option<RevocationReason>,
    }

    /// A job of a CI exchanged its identity token for a token.
    TokenExchanged for TokenExchanged {
        token_id: TokenId,
        /// The member that the job acts as, which the rule names.
        user_id: UserId,
        /// Unique in the organization.
        #[schema(example = "ci")]
        name: String,
        /// Who vouches for the job.
        #[schema(example = "https://token.actions.githubusercontent.com")]
        issuer: String,
        /// The job, in the words of its CI.
        #[schema(example = "repo:acme/web:ref:refs/heads/main")]
        subject: String,
        /// When the token stops working.
        #[schema(example = "2027-01-31T00:00:00.000Z", format = DateTime)]
        expires_at: String,
    }

    /// A member was added or removed.
    Member for MemberAdded | MemberRemoved {
        user_id: UserId,
        /// Unique in the organization.
        #[schema(example = "ana")]
        name: String,
        role: Role,
    }

    /// A member got another role or address, or was disabled or enabled.
    MemberUpdated for MemberUpdated {
        user_id: UserId,
        /// Unique in the organization.
        #[schema(example = "ana")]
        name: String,
        role: Role,
        /// The role before, if that has changed.
        previous_role: Option<Role>,
        /// True if the address has changed; events do not repeat it.
        #[schema(example = true)]
        email_changed: Option<bool>,
        /// If that has changed: whether the member is disabled now.
        #[schema(example = true)]
        disabled: Option<bool>,
    }

    /// A member was invited to choose a password, or has chosen one.
    MemberPassword for MemberInvited | MemberPasswordChanged {
        user_id: UserId,
        /// Unique in the organization.
        #[schema(example = "ana")]
        name: String,
    }

    /// A member signed in with a browser.
    MemberSignedIn for MemberSignedIn {
        user_id: UserId,
        /// Unique in the organization.
        #[schema(example = "ana")]
        name: String,
        sign_in_id: TokenId,
        method: SignInMethod,
    }

    /// A member signed out.
    MemberSignedOut for MemberSignedOut {
        user_id: UserId,
        /// Unique in the organization.
        #[schema(example = "ana")]
        name: String,
        /// How many sign-ins ended.
        #[schema(example = 1)]
        sign_ins: u64,
    }

    /// A webhook was created or deleted.
    Webhook for WebhookCreated | WebhookDeleted {
        webhook_id: WebhookId,
        /// The host of its URL.
        #[schema(example = "ci.example.com")]
        host: String,
    }

    /// A webhook was changed.
    WebhookUpdated for WebhookUpdated {
        webhook_id: WebhookId,
        /// The host of its URL.
        #[schema(example = "ci.example.com")]
        host: String,
        /// What was changed, with commas: `url`, `events`, `description`, `enabled`, `secret`.
        #[schema(example = "url,events")]
        changed: String,
        /// Whether events are sent.
        #[schema(example = true)]
        enabled: bool,
    }

    /// A webhook was disabled, since its receiver was gone or kept failing.
    WebhookDisabled for WebhookDisabled {
        webhook_id: WebhookId,
        /// The host of its URL.
        #[schema(example = "ci.example.com")]
        host: String,
        /// Why.
        #[schema(example = "its receiver answered 410 Gone")]
        reason: String,
    }

    /// An analysis ended.
    AnalysisCompleted for AnalysisCompleted {
        analysis_id: AnalysisId,
        status: AnalysisStatus,
        engine: EngineName,
        /// The kind of failure, if it was found.
        category: Option<Category>,
    }

    /// A fix was proposed.
    PullRequestCreated for PullRequestCreated {
        analysis_id: AnalysisId,
        /// Its page.
        #[schema(example = "https://github.example/acme/shop/pull/7")]
        url: String,
        /// The branch that was pushed.
        #[schema(example = "fix/missing-jq")]
        branch: String,
        /// Its number, if the provider has pull requests.
        #[schema(example = 7)]
        number: Option<u64>,
    }
}

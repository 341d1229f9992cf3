//! What each type of event says. Recording, the JSON of the API and its schema come from the table at the end.

use std::sync::Arc;

use super::named::named_enum;
use super::{
    AnalysisId, ApprovalId, CommitId, Id, Identifier, RegistryId, Role, SessionId, TokenId, UserId, WebhookId,
};

/// A member of an event's data, as it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datum<'a> {
    Text(&'a str),
    Number(u64),
    Flag(bool),
}

named_enum! {
    /// Why a session expired.
    pub enum Expiry {
        /// No activity within its TTL.
        Ttl = "ttl",
        /// It held the lock for as long as the environment allows.
        MaxHold = "max_hold",
        /// It was not polled for too long, in the queue or after the grant.
        Unasked = "unasked",
        /// Its client was gone before it could be answered.
        Vanished = "vanished",
    }
}

named_enum! {
    /// What a security event is about. Each class has its own room: many events of one class, which a developer can cause at
    /// will, do not push out those of another.
    pub enum SecurityClass {
        Members = "members",
        Tokens = "tokens",
        Secrets = "secrets",
        Webhooks = "webhooks",
        ForceClaims = "force-claims",
        Approvals = "approvals",
    }
}

/// What is recorded of an event.
pub trait Details: std::fmt::Debug {
    fn event_type(&self) -> EventType;

    /// Passes on each member that has a value, with its name.
    fn each(&self, receive: &mut dyn FnMut(&'static str, Datum<'_>));
}

/// A time in RFC 3339, as in responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment(pub Arc<str>);

/// The data of one or more types of events, for the schema of the API.
#[derive(Debug)]
pub struct EventShape {
    /// For example `SessionClaimedData`.
    pub name: &'static str,
    pub description: &'static str,
    pub members: &'static [EventMember],
}

#[derive(Debug)]
pub struct EventMember {
    /// As in JSON.
    pub name: &'static str,
    pub description: &'static str,
    pub kind: MemberKind,
    pub is_optional: bool,
    /// In JSON; empty for none.
    pub example: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub enum MemberKind {
    Text,
    Time,
    Flag,
    /// An integer of so many bits.
    Integer(u32),
    /// A schema of the API, by its name.
    Named(&'static str),
}

/// A type that members may have.
trait Recorded {
    const KIND: MemberKind;
    const IS_OPTIONAL: bool = false;

    /// Nothing if it has no value.
    fn pass_to(&self, receive: &mut dyn FnMut(Datum<'_>));
}

macro_rules! recorded {
    ($($type:ty as $kind:expr, |$value:ident| $datum:expr;)*) => {
        $(impl Recorded for $type {
            const KIND: MemberKind = $kind;

            fn pass_to(&self, receive: &mut dyn FnMut(Datum<'_>)) {
                let $value = self;
                receive($datum);
            }
        })*
    };
}

recorded! {
    bool as MemberKind::Flag, |flag| Datum::Flag(*flag);
    u32 as MemberKind::Integer(32), |number| Datum::Number(u64::from(*number));
    u64 as MemberKind::Integer(64), |number| Datum::Number(*number);
    &'static str as MemberKind::Text, |text| Datum::Text(text);
    Arc<str> as MemberKind::Text, |text| Datum::Text(text);
    CommitId as MemberKind::Text, |commit| Datum::Text(commit.as_str());
    Identifier as MemberKind::Text, |name| Datum::Text(name.as_str());
    Moment as MemberKind::Time, |moment| Datum::Text(&moment.0);
    Expiry as MemberKind::Named("EndReason"), |expiry| Datum::Text(expiry.as_str());
    Role as MemberKind::Named("Role"), |role| Datum::Text(role.as_str());
    AnalysisId as MemberKind::Named("AnalysisId"), |id| Datum::Text(&id.text());
    ApprovalId as MemberKind::Named("ApprovalId"), |id| Datum::Text(&id.text());
    RegistryId as MemberKind::Named("StepRegistryId"), |id| Datum::Text(&id.text());
    SessionId as MemberKind::Named("SessionId"), |id| Datum::Text(&id.text());
    TokenId as MemberKind::Named("TokenId"), |id| Datum::Text(&id.text());
    UserId as MemberKind::Named("UserId"), |id| Datum::Text(&id.text());
    WebhookId as MemberKind::Named("WebhookId"), |id| Datum::Text(&id.text());
}

impl<T: Recorded> Recorded for Option<T> {
    const KIND: MemberKind = T::KIND;
    const IS_OPTIONAL: bool = true;

    fn pass_to(&self, receive: &mut dyn FnMut(Datum<'_>)) {
        if let Some(value) = self {
            value.pass_to(receive);
        }
    }
}

macro_rules! member_name {
    ($member:ident) => {
        stringify!($member)
    };
    ($member:ident $name:literal) => {
        $name
    };
}

macro_rules! member_kind {
    ($type:ty) => {
        <$type as Recorded>::KIND
    };
    ($type:ty as $schema:literal) => {
        MemberKind::Named($schema)
    };
}

macro_rules! security_class {
    () => {
        None
    };
    ($class:ident) => {
        Some(SecurityClass::$class)
    };
}

/// A type may be marked as `[automatic]`, and as a security event by its class after `in`.
///
/// A member is `name: Type`, with its name in JSON in parentheses if that differs. After `as` is its schema, if its type has
/// none, and after `=` an example.
macro_rules! events {
    (
        types {
            $($event_type:ident($of_type:ident) = $type_name:literal $([$automatic:ident])? $(in $class:ident)?),* $(,)?
        }
        $(
            $(#[doc = $doc:literal])*
            $data:ident {
                $(
                    $(#[doc = $member_doc:literal])*
                    $member:ident $(($name:literal))?: $type:ty $(as $schema:literal)? $(= $example:literal)?
                ),* $(,)?
            }
        )*
    ) => {
        named_enum! {
            /// What happened. The position in the list is stored, so new ones are added at the end.
            pub enum EventType {
                $($event_type = $type_name,)*
            }
        }

        /// What happened, with its details: never a secret's value, a token's text or a request body.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum EventData {
            $($event_type($of_type),)*
        }

        impl EventType {
            pub const fn shape(self) -> &'static EventShape {
                match self {
                    $(Self::$event_type => &$of_type::SHAPE,)*
                }
            }

            /// Whether the system does it, even if a request triggered it.
            pub const fn is_automatic(self) -> bool {
                match self {
                    $(Self::$event_type => !concat!($(stringify!($automatic))?).is_empty(),)*
                }
            }

            /// `None` for an everyday event.
            pub const fn security_class(self) -> Option<SecurityClass> {
                match self {
                    $(Self::$event_type => security_class!($($class)?),)*
                }
            }
        }

        impl EventData {
            /// In the order of the table.
            pub const SHAPES: &[&EventShape] = &[$(&$data::SHAPE),*];

        }

        impl Details for EventData {
            fn event_type(&self) -> EventType {
                match self {
                    $(Self::$event_type(_) => EventType::$event_type,)*
                }
            }

            fn each(&self, receive: &mut dyn FnMut(&'static str, Datum<'_>)) {
                match self {
                    $(Self::$event_type(data) => data.each(receive),)*
                }
            }
        }

        $(
            $(#[doc = $doc])*
            #[derive(Debug, Clone, PartialEq, Eq)]
            pub struct $data {
                $($(#[doc = $member_doc])* pub $member: $type,)*
            }

            impl $data {
                const SHAPE: EventShape = EventShape {
                    name: stringify!($data),
                    description: concat!($($doc),*),
                    members: &[$(EventMember {
                        name: member_name!($member $($name)?),
                        description: concat!($($member_doc),*),
                        kind: member_kind!($type $(as $schema)?),
                        is_optional: <$type as Recorded>::IS_OPTIONAL,
                        example: concat!($(stringify!($example))?),
                    }),*],
                };

                #[allow(unused_variables, reason = "some have no members")]
                fn each(&self, receive: &mut dyn FnMut(&'static str, Datum<'_>)) {
                    $(self.$member.pass_to(&mut |datum| receive(member_name!($member $($name)?), datum));)*
                }
            }
        )*
    };
}

events! {
    types {
        SessionClaimed(SessionClaimedData) = "session.claimed",
        SessionQueued(SessionQueuedData) = "session.queued",
        SessionReleased(SessionReleasedData) = "session.released",
        SessionOverridden(SessionOverriddenData) = "session.overridden" in ForceClaims,
        SessionExpired(SessionExpiredData) = "session.expired" [automatic],
        DeploymentQueued(DeploymentData) = "deployment.queued",
        DeploymentStarted(DeploymentData) = "deployment.started" [automatic],
        DeploymentCancelling(DeploymentData) = "deployment.cancelling",
        DeploymentSucceeded(DeploymentData) = "deployment.succeeded" [automatic],
        DeploymentFailed(DeploymentData) = "deployment.failed" [automatic],
        DeploymentCancelled(DeploymentData) = "deployment.cancelled",
        StageStarted(StageData) = "stage.started" [automatic],
        StageSucceeded(StageData) = "stage.succeeded" [automatic],
        StageFailed(StageData) = "stage.failed" [automatic],
        StageCancelled(StageData) = "stage.cancelled",
        StageRetried(StageData) = "stage.retried",
        ApprovalRequested(ApprovalData) = "approval.requested" [automatic],
        ApprovalApproved(ApprovalData) = "approval.approved" in Approvals,
        ApprovalRejected(ApprovalData) = "approval.rejected" in Approvals,
        EnvironmentCreated(EnvironmentData) = "environment.created",
        EnvironmentUpdated(EnvironmentData) = "environment.updated",
        EnvironmentDeleted(EnvironmentData) = "environment.deleted",
        PipelineCreated(PipelineData) = "pipeline.created",
        PipelineUpdated(PipelineData) = "pipeline.updated",
        PipelineStopped(PipelineStoppedData) = "pipeline.stopped",
        PipelineResumed(PipelineData) = "pipeline.resumed",
        PipelineDeleted(PipelineData) = "pipeline.deleted",
        SecretCreated(SecretData) = "secret.created" in Secrets,
        SecretUpdated(SecretUpdatedData) = "secret.updated" in Secrets,
        SecretDeleted(SecretData) = "secret.deleted" in Secrets,
        RegistryCreated(RegistryData) = "registry.created",
        RegistryUpdated(RegistryData) = "registry.updated",
        RegistrySynced(RegistrySyncedData) = "registry.synced",
        RegistryDeleted(RegistryData) = "registry.deleted",
        TokenCreated(TokenCreatedData) = "token.created" in Tokens,
        TokenRevoked(TokenRevokedData) = "token.revoked" in Tokens,
        MemberAdded(MemberData) = "member.added" in Members,
        MemberUpdated(MemberUpdatedData) = "member.updated" in Members,
        MemberRemoved(MemberData) = "member.removed" in Members,
        WebhookCreated(WebhookData) = "webhook.created" in Webhooks,
        WebhookUpdated(WebhookUpdatedData) = "webhook.updated" in Webhooks,
        WebhookDeleted(WebhookData) = "webhook.deleted" in Webhooks,
        WebhookDisabled(WebhookDisabledData) = "webhook.disabled" [automatic] in Webhooks,
        AnalysisCompleted(AnalysisCompletedData) = "analysis.completed",
        PullRequestCreated(PullRequestCreatedData) = "pull_request.created",
        MemberSignedIn(MemberSignedInData) = "member.signed_in",
        MemberSignedOut(MemberSignedOutData) = "member.signed_out",
        MemberInvited(MemberPasswordData) = "member.invited" in Members,
        MemberPasswordChanged(MemberPasswordData) = "member.password_changed" in Members,
        TokenExchanged(TokenExchangedData) = "token.exchanged",
    }

    /// A session got the lock.
    SessionClaimedData {
        /// The number of the grant.
        fencing_token("fencingToken"): u64 = 42,
        /// The commit that was named in the claim.
        commit_id("commitId"): Option<CommitId> = "c0ffee1",
    }

    /// A session began to wait.
    SessionQueuedData {
        /// Its position in the queue, from 1.
        position: u64 = 3,
    }

    /// A session was released.
    SessionReleasedData {
        /// The number of its grant; not for one that left the queue.
        fencing_token("fencingToken"): Option<u64> = 42,
    }

    /// A session lost the lock to a force-claim.
    SessionOverriddenData {
        /// The number of its grant.
        fencing_token("fencingToken"): Option<u64> = 42,
        /// The session that has the lock now.
        overridden_by("overriddenBy"): SessionId,
    }

    /// A session expired.
    SessionExpiredData {
        /// The number of its grant; not for one that was queued.
        fencing_token("fencingToken"): Option<u64> = 42,
        reason: Expiry,
    }

    /// A deployment changed.
    DeploymentData {
        /// What is deployed.
        commit_id("commitId"): CommitId = "c0ffee1",
        /// Why it failed or was cancelled.
        error: Option<Arc<str>> = "step compile exited with 1",
    }

    /// A stage of a deployment changed.
    StageData {
        /// The stage, by its name.
        stage: Identifier = "build",
        /// Which run of it, from 1.
        attempt: u32 = 1,
    }

    /// An approval was requested or decided.
    ApprovalData {
        /// The stage, by its name.
        stage: Identifier = "deploy",
        /// Which run of it, from 1.
        attempt: u32 = 1,
        approval_id("approvalId"): ApprovalId,
        /// The comment of an approval or the reason of a rejection.
        comment: Option<Arc<str>> = "looks good",
    }

    /// An environment changed. There are no further details.
    EnvironmentData {}

    /// A pipeline changed.
    PipelineData {
        /// Its name, for people.
        name: Arc<str> = "Web shop",
        /// Counts its changes.
        revision: u64 = 2,
    }

    /// A pipeline was stopped.
    PipelineStoppedData {
        /// Its name, for people.
        name: Arc<str> = "Web shop",
        /// Counts its changes.
        revision: u64 = 2,
        /// Why, if somebody said it.
        reason: Option<Arc<str>> = "the database is being moved",
    }

    /// A secret was created or deleted.
    SecretData {
        /// Unique in its scope.
        name: Arc<str> = "EXAMPLE_PASSWORD",
        /// Counts its changes.
        version: u64 = 1,
    }

    /// A secret was changed.
    SecretUpdatedData {
        /// Whether it has a new value.
        value_changed("valueChanged"): bool = true,
        /// Whether it has a new description.
        description_changed("descriptionChanged"): bool = false,
        /// Unique in its scope.
        name: Arc<str> = "EXAMPLE_PASSWORD",
        /// Counts its changes.
        version: u64 = 2,
    }

    /// A step registry was created, changed or deleted.
    RegistryData {
        registry_id("registryId"): RegistryId,
        /// Unique in the organization.
        name: Identifier = "tools",
        status: &'static str as "StepRegistryStatus",
        /// How many steps it has.
        step_count("stepCount"): u64 = 3,
        /// The commit its steps are from, if they are from a repository.
        commit: Option<Arc<str>> = "2f1c7a9e4b6d8f0a1c3e5d7b9f1a3c5e7d9b1f3a",
    }

    /// A step registry was synced, or a sync failed.
    RegistrySyncedData {
        registry_id("registryId"): RegistryId,
        /// Unique in the organization.
        name: Identifier = "tools",
        status: &'static str as "StepRegistryStatus",
        /// How many steps it has.
        step_count("stepCount"): u64 = 3,
        /// The commit its steps are from.
        commit: Option<Arc<str>> = "2f1c7a9e4b6d8f0a1c3e5d7b9f1a3c5e7d9b1f3a",
        /// How many steps are new; not if the sync failed.
        added: Option<u64> = 1,
        /// How many steps have different content; not if the sync failed.
        changed: Option<u64> = 0,
        /// How many steps are gone; not if the sync failed.
        removed: Option<u64> = 0,
    }

    /// A token was created.
    TokenCreatedData {
        token_id("tokenId"): TokenId,
        /// What it is for.
        name: Arc<str> = "ci",
        /// The member it stands for.
        user_id("userId"): UserId,
    }

    /// A token was revoked.
    TokenRevokedData {
        token_id("tokenId"): TokenId,
        /// What it was for.
        name: Arc<str> = "ci",
        /// The member it stood for.
        user_id("userId"): UserId,
        /// Why, if nobody revoked it by itself.
        reason: Option<&'static str> as "RevocationReason",
    }

    /// A job of a CI exchanged its identity token for a token.
    TokenExchangedData {
        /// The member that the job acts as, which the rule names.
        user_id("userId"): UserId,
        /// Unique in the organization.
        name: Identifier = "ci",
        token_id("tokenId"): TokenId,
        /// Who vouches for the job.
        issuer: Arc<str> = "https://token.actions.githubusercontent.com",
        /// The job, in the words of its CI.
        subject: Arc<str> = "repo:acme/web:ref:refs/heads/main",
        /// When the token stops working.
        expires_at("expiresAt"): Moment = "2027-01-31T00:00:00.000Z",
    }

    /// A member was added or removed.
    MemberData {
        user_id("userId"): UserId,
        /// Unique in the organization.
        name: Identifier = "ana",
        role: Role,
    }

    /// A member got another role or address, or was disabled or enabled.
    MemberUpdatedData {
        user_id("userId"): UserId,
        /// Unique in the organization.
        name: Identifier = "ana",
        role: Role,
        /// The role before, if that has changed.
        previous_role("previousRole"): Option<Role>,
        /// True if the address has changed; events do not repeat it.
        email_changed("emailChanged"): Option<bool> = true,
        /// If that has changed: whether the member is disabled now.
        disabled: Option<bool> = true,
    }

    /// A member was invited to choose a password, or has chosen one.
    MemberPasswordData {
        user_id("userId"): UserId,
        /// Unique in the organization.
        name: Identifier = "ana",
    }

    /// A member signed in with a browser.
    MemberSignedInData {
        user_id("userId"): UserId,
        /// Unique in the organization.
        name: Identifier = "ana",
        sign_in_id("signInId"): TokenId,
        method: &'static str as "SignInMethod",
    }

    /// A member signed out.
    MemberSignedOutData {
        user_id("userId"): UserId,
        /// Unique in the organization.
        name: Identifier = "ana",
        /// How many sign-ins ended.
        sign_ins("signIns"): u64 = 1,
    }

    /// A webhook was created or deleted.
    WebhookData {
        webhook_id("webhookId"): WebhookId,
        /// The host of its URL.
        host: Arc<str> = "ci.example.com",
    }

    /// A webhook was changed.
    WebhookUpdatedData {
        /// What was changed, with commas: `url`, `events`, `description`, `enabled`, `secret`.
        changed: Arc<str> = "url,events",
        /// Whether events are sent.
        enabled: bool = true,
        webhook_id("webhookId"): WebhookId,
        /// The host of its URL.
        host: Arc<str> = "ci.example.com",
    }

    /// A webhook was disabled, since its receiver was gone or kept failing.
    WebhookDisabledData {
        /// Why.
        reason: &'static str = "its receiver answered 410 Gone",
        webhook_id("webhookId"): WebhookId,
        /// The host of its URL.
        host: Arc<str> = "ci.example.com",
    }

    /// An analysis ended.
    AnalysisCompletedData {
        analysis_id("analysisId"): AnalysisId,
        status: &'static str as "AnalysisStatus",
        engine: &'static str as "AnalysisEngine",
        /// The kind of failure, if it was found.
        category: Option<&'static str> as "RootCauseCategory",
    }

    /// A fix was proposed.
    PullRequestCreatedData {
        analysis_id("analysisId"): AnalysisId,
        /// Its page.
        url: Arc<str> = "https://github.example/acme/shop/pull/7",
        /// The branch that was pushed.
        branch: Arc<str> = "fix/missing-jq",
        /// Its number, if the provider has pull requests.
        number: Option<u64> = 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found_by_its_position_and_by_its_name() {
        for (place, event_type) in EventType::ALL.into_iter().enumerate() {
            assert_eq!(event_type as usize, place, "{}", event_type.as_str());
            assert_eq!(EventType::parse(event_type.as_str()), Ok(event_type));
        }
        assert!(EventType::parse("session").is_err());
    }
}

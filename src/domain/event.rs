//! Events: kept for the audit and published once they are durable.

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use super::named::named_enum;
use super::{DeploymentId, Identifier, Person, SessionId, TokenId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub event_type: EventType,
    pub session: Option<SessionId>,
    pub deployment: Option<DeploymentId>,
    /// The initiator, if not the caller of the decision.
    pub by: Option<Initiator>,
    /// Whether the system did it, although a person may do the same.
    pub automatic: bool,
    pub data: EventData,
}

/// The initiator of a change, and the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initiator {
    pub person: Person,
    /// None if it did not come over the API.
    pub via: Option<RequestRef>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRef {
    pub token: TokenId,
    pub request: Arc<str>,
}

/// The details of an event, by the names that clients see. Most events have one or two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventData(pub SmallVec<[(Cow<'static, str>, EventValue); 2]>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventValue {
    Text(Arc<str>),
    Number(u64),
    Flag(bool),
}

named_enum! {
    /// The types of events. Their position in the list is stored, so append only.
    pub enum EventType {
        SessionClaimed = "session.claimed",
        SessionQueued = "session.queued",
        SessionReleased = "session.released",
        SessionOverridden = "session.overridden",
        SessionExpired = "session.expired",
        DeploymentQueued = "deployment.queued",
        DeploymentStarted = "deployment.started",
        DeploymentCancelling = "deployment.cancelling",
        DeploymentSucceeded = "deployment.succeeded",
        DeploymentFailed = "deployment.failed",
        DeploymentCancelled = "deployment.cancelled",
        StageStarted = "stage.started",
        StageSucceeded = "stage.succeeded",
        StageFailed = "stage.failed",
        StageCancelled = "stage.cancelled",
        StageRetried = "stage.retried",
        ApprovalRequested = "approval.requested",
        ApprovalApproved = "approval.approved",
        ApprovalRejected = "approval.rejected",
        EnvironmentCreated = "environment.created",
        EnvironmentUpdated = "environment.updated",
        EnvironmentDeleted = "environment.deleted",
        PipelineCreated = "pipeline.created",
        PipelineUpdated = "pipeline.updated",
        PipelineStopped = "pipeline.stopped",
        PipelineResumed = "pipeline.resumed",
        PipelineDeleted = "pipeline.deleted",
        SecretCreated = "secret.created",
        SecretUpdated = "secret.updated",
        SecretDeleted = "secret.deleted",
        RegistryCreated = "registry.created",
        RegistryUpdated = "registry.updated",
        RegistrySynced = "registry.synced",
        RegistryDeleted = "registry.deleted",
        TokenCreated = "token.created",
        TokenRevoked = "token.revoked",
        MemberAdded = "member.added",
        MemberUpdated = "member.updated",
        MemberRemoved = "member.removed",
        WebhookCreated = "webhook.created",
        WebhookUpdated = "webhook.updated",
        WebhookDeleted = "webhook.deleted",
        WebhookDisabled = "webhook.disabled",
        AnalysisCompleted = "analysis.completed",
        PullRequestCreated = "pull_request.created",
        MemberSignedIn = "member.signed_in",
        MemberSignedOut = "member.signed_out",
        MemberInvited = "member.invited",
        MemberPasswordChanged = "member.password_changed",
        TokenExchanged = "token.exchanged",
    }
}

impl EventType {
    /// Whether the system does it, even if a request triggered it.
    pub const fn is_automatic(self) -> bool {
        matches!(
            self,
            EventType::SessionExpired
                | EventType::DeploymentStarted
                | EventType::DeploymentSucceeded
                | EventType::DeploymentFailed
                | EventType::StageStarted
                | EventType::StageSucceeded
                | EventType::StageFailed
                | EventType::ApprovalRequested
                | EventType::WebhookDisabled
        )
    }
}

impl Event {
    fn new(event_type: EventType, session: Option<SessionId>, deployment: Option<DeploymentId>) -> Self {
        Self {
            event_type,
            session,
            deployment,
            by: None,
            automatic: event_type.is_automatic(),
            data: EventData::default(),
        }
    }

    pub(super) fn environment(event_type: EventType) -> Self {
        Self::new(event_type, None, None)
    }

    pub(super) fn session(event_type: EventType, session: SessionId) -> Self {
        Self::new(event_type, Some(session), None)
    }

    pub(super) fn deployment(event_type: EventType, session: Option<SessionId>, deployment: DeploymentId) -> Self {
        Self::new(event_type, session, Some(deployment))
    }

    /// Marks this event as automatic.
    pub(super) fn by_itself(self) -> Self {
        Self { automatic: true, ..self }
    }

    pub(super) fn with(mut self, name: &'static str, datum: impl Into<EventValue>) -> Self {
        self.data.add(name, datum);
        self
    }

    pub(super) fn with_some(mut self, name: &'static str, datum: Option<impl Into<EventValue>>) -> Self {
        if let Some(datum) = datum {
            self.data.add(name, datum);
        }
        self
    }
}

impl EventData {
    pub fn with(mut self, name: &'static str, datum: impl Into<EventValue>) -> Self {
        self.add(name, datum);
        self
    }

    pub fn with_some(self, name: &'static str, datum: Option<impl Into<EventValue>>) -> Self {
        match datum {
            Some(datum) => self.with(name, datum),
            None => self,
        }
    }

    fn add(&mut self, name: &'static str, datum: impl Into<EventValue>) {
        self.0.push((Cow::Borrowed(name), datum.into()));
    }
}

impl From<Arc<str>> for EventValue {
    fn from(text: Arc<str>) -> Self {
        EventValue::Text(text)
    }
}

impl From<&str> for EventValue {
    fn from(text: &str) -> Self {
        EventValue::Text(Arc::from(text))
    }
}

impl From<String> for EventValue {
    fn from(text: String) -> Self {
        EventValue::Text(Arc::from(text))
    }
}

impl From<&Identifier> for EventValue {
    fn from(name: &Identifier) -> Self {
        EventValue::Text(name.shared())
    }
}

impl From<u64> for EventValue {
    fn from(number: u64) -> Self {
        EventValue::Number(number)
    }
}

impl From<u32> for EventValue {
    fn from(number: u32) -> Self {
        EventValue::Number(number.into())
    }
}

impl From<bool> for EventValue {
    fn from(flag: bool) -> Self {
        EventValue::Flag(flag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notice_is_found_by_its_place_and_by_its_name() {
        for (place, event_type) in EventType::ALL.into_iter().enumerate() {
            assert_eq!(event_type as usize, place, "{}", event_type.as_str());
            assert_eq!(EventType::parse(event_type.as_str()), Ok(event_type));
        }
        assert!(EventType::parse("session").is_err());
    }
}

//! Events: kept for the audit and published once they are durable.

use std::borrow::Cow;
use std::sync::Arc;

use super::named::named_enum;
use super::{DeploymentId, Identifier, Person, SessionId, TokenId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub notice: Notice,
    pub session: Option<SessionId>,
    pub deployment: Option<DeploymentId>,
    /// Who did it, if not the caller of the decision.
    pub by: Option<Agent>,
    /// Whether the system did it, although a person may do the same.
    pub automatic: bool,
    pub data: Data,
}

/// Who did something, and by which request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    pub person: Person,
    /// None if it did not come over the API.
    pub via: Option<Via>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Via {
    pub token: TokenId,
    pub request: Arc<str>,
}

/// The details of an event, by the names that clients see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Data(pub Vec<(Cow<'static, str>, Datum)>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datum {
    Text(Arc<str>),
    Number(u64),
    Flag(bool),
}

named_enum! {
    /// What happened. The position in the list is stored, so new ones are added at the end.
    pub enum Notice {
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
    }
}

impl Notice {
    /// Whether the system does it, even if a request triggered it.
    pub const fn is_automatic(self) -> bool {
        matches!(
            self,
            Notice::SessionExpired
                | Notice::DeploymentStarted
                | Notice::DeploymentSucceeded
                | Notice::DeploymentFailed
                | Notice::StageStarted
                | Notice::StageSucceeded
                | Notice::StageFailed
                | Notice::ApprovalRequested
                | Notice::WebhookDisabled
        )
    }
}

impl Event {
    fn new(notice: Notice, session: Option<SessionId>, deployment: Option<DeploymentId>) -> Self {
        Self { notice, session, deployment, by: None, automatic: notice.is_automatic(), data: Data::default() }
    }

    pub(super) fn environment(notice: Notice) -> Self {
        Self::new(notice, None, None)
    }

    pub(super) fn session(notice: Notice, session: SessionId) -> Self {
        Self::new(notice, Some(session), None)
    }

    pub(super) fn deployment(notice: Notice, session: Option<SessionId>, deployment: DeploymentId) -> Self {
        Self::new(notice, session, Some(deployment))
    }

    /// Marks it as done by the system this time.
    pub(super) fn by_itself(self) -> Self {
        Self { automatic: true, ..self }
    }

    pub(super) fn with(mut self, name: &'static str, datum: impl Into<Datum>) -> Self {
        self.data = self.data.with(name, datum);
        self
    }

    pub(super) fn with_some(mut self, name: &'static str, datum: Option<impl Into<Datum>>) -> Self {
        self.data = self.data.with_some(name, datum);
        self
    }
}

impl Data {
    pub fn with(mut self, name: &'static str, datum: impl Into<Datum>) -> Self {
        self.0.push((Cow::Borrowed(name), datum.into()));
        self
    }

    pub fn with_some(self, name: &'static str, datum: Option<impl Into<Datum>>) -> Self {
        match datum {
            Some(datum) => self.with(name, datum),
            None => self,
        }
    }
}

impl From<Arc<str>> for Datum {
    fn from(text: Arc<str>) -> Self {
        Datum::Text(text)
    }
}

impl From<&str> for Datum {
    fn from(text: &str) -> Self {
        Datum::Text(Arc::from(text))
    }
}

impl From<String> for Datum {
    fn from(text: String) -> Self {
        Datum::Text(Arc::from(text))
    }
}

impl From<&Identifier> for Datum {
    fn from(name: &Identifier) -> Self {
        Datum::Text(name.shared())
    }
}

impl From<u64> for Datum {
    fn from(number: u64) -> Self {
        Datum::Number(number)
    }
}

impl From<u32> for Datum {
    fn from(number: u32) -> Self {
        Datum::Number(number.into())
    }
}

impl From<bool> for Datum {
    fn from(flag: bool) -> Self {
        Datum::Flag(flag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notice_is_found_by_its_place_and_by_its_name() {
        for (place, notice) in Notice::ALL.into_iter().enumerate() {
            assert_eq!(notice as usize, place, "{}", notice.as_str());
            assert_eq!(Notice::parse(notice.as_str()), Ok(notice));
        }
        assert!(Notice::parse("session").is_err());
    }
}

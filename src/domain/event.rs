//! Events: kept for the audit and published once they are durable.

use std::sync::Arc;

use super::{DeploymentId, Details, EnvironmentData, EventData, EventType, Person, SessionId, TokenId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub session: Option<SessionId>,
    pub deployment: Option<DeploymentId>,
    /// The initiator, if not the caller of the decision.
    pub by: Option<Initiator>,
    /// Whether the system caused the event, although a person can cause such events too.
    pub automatic: bool,
    pub data: EventData,
}

/// The initiator of a change, and the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initiator {
    pub person: Person,
    /// None if the change did not come over the API.
    pub via: Option<RequestRef>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRef {
    pub token: TokenId,
    pub request: Arc<str>,
}

/// A member of a recorded event's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventValue {
    Text(Arc<str>),
    Number(u64),
    Flag(bool),
}

impl Event {
    fn new(data: EventData, session: Option<SessionId>, deployment: Option<DeploymentId>) -> Self {
        Self { session, deployment, by: None, automatic: data.event_type().is_automatic(), data }
    }

    pub fn event_type(&self) -> EventType {
        self.data.event_type()
    }

    pub(super) fn environment(event: fn(EnvironmentData) -> EventData) -> Self {
        Self::new(event(EnvironmentData {}), None, None)
    }

    pub(super) fn session(session: SessionId, data: EventData) -> Self {
        Self::new(data, Some(session), None)
    }

    pub(super) fn deployment(session: Option<SessionId>, deployment: DeploymentId, data: EventData) -> Self {
        Self::new(data, session, Some(deployment))
    }

    /// Marks the event as caused by the system.
    pub(super) fn by_itself(self) -> Self {
        Self { automatic: true, ..self }
    }
}

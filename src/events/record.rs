//! Records events in the batch of the change.

use super::form;
use domain::{DeploymentId, EnvironmentKey, EventData, EventType, Identifier, Initiator, SessionId, Timestamp};
use store::Batch;

/// An event to be recorded. It exists if and only if its batch becomes durable.
#[derive(Debug, Clone, Copy)]
pub struct NewEvent<'a> {
    pub event_type: EventType,
    pub at: Timestamp,
    /// Who requested it; `None` for the system.
    pub by: Option<&'a Initiator>,
    pub pipeline: Option<&'a Identifier>,
    pub environment: Option<&'a Identifier>,
    pub session: Option<SessionId>,
    pub deployment: Option<DeploymentId>,
    /// Never a secret's value, a token's text or a request body.
    pub data: &'a EventData,
}

/// Who made a change, and when.
#[derive(Debug, Clone, Copy)]
pub struct Cause<'a> {
    /// `None` for the system.
    pub by: Option<&'a Initiator>,
    pub at: Timestamp,
}

impl<'a> Cause<'a> {
    pub fn by(initiator: &'a Initiator, at: Timestamp) -> Self {
        Self { by: Some(initiator), at }
    }

    pub fn system(at: Timestamp) -> Self {
        Self { by: None, at }
    }
}

impl<'a> NewEvent<'a> {
    /// An event of the organization itself, not of one of its pipelines.
    pub fn new(event_type: EventType, Cause { by, at }: Cause<'a>, data: &'a EventData) -> Self {
        Self { event_type, at, by, pipeline: None, environment: None, session: None, deployment: None, data }
    }

    pub fn in_pipeline(self, pipeline: &'a Identifier) -> Self {
        Self { pipeline: Some(pipeline), ..self }
    }

    pub fn in_environment(self, EnvironmentKey { pipeline, name }: &'a EnvironmentKey) -> Self {
        Self { environment: Some(name), ..self.in_pipeline(&pipeline.pipeline) }
    }
}

/// Adds the event to the organization's journal.
pub fn record(batch: &mut Batch, organization: &Identifier, event: &NewEvent<'_>) {
    batch.append_with(organization.as_str(), |out| form::write(event, out));
}

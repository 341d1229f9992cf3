//! Writing down what happens, in the batch that makes it happen.

use super::form;
use crate::domain::{Agent, Data, DeploymentId, Identifier, Notice, SessionId, Timestamp};
use crate::store::Batch;

/// Something that happens with a batch: if that becomes durable it has happened, otherwise it has not.
#[derive(Debug, Clone, Copy)]
pub struct Happening<'a> {
    pub notice: Notice,
    pub at: Timestamp,
    /// Who asked for it; the system if nobody did.
    pub by: Option<&'a Agent>,
    pub pipeline: Option<&'a Identifier>,
    pub environment: Option<&'a Identifier>,
    pub session: Option<SessionId>,
    pub deployment: Option<DeploymentId>,
    /// Never a secret's value, a token's text or a body.
    pub data: &'a Data,
}

/// Whose doing a change is, and when.
#[derive(Debug, Clone, Copy)]
pub struct Cause<'a> {
    /// The system if nobody asked for it.
    pub by: Option<&'a Agent>,
    pub at: Timestamp,
}

impl<'a> Cause<'a> {
    pub fn by(agent: &'a Agent, at: Timestamp) -> Self {
        Self { by: Some(agent), at }
    }

    pub fn system(at: Timestamp) -> Self {
        Self { by: None, at }
    }
}

impl<'a> Happening<'a> {
    /// In the organization itself, not in one of its pipelines.
    pub fn new(notice: Notice, at: Timestamp, by: Option<&'a Agent>, data: &'a Data) -> Self {
        Self { notice, at, by, pipeline: None, environment: None, session: None, deployment: None, data }
    }

    pub fn in_pipeline(self, pipeline: &'a Identifier) -> Self {
        Self { pipeline: Some(pipeline), ..self }
    }
}

/// Adds it to the organization's journal.
pub fn record(batch: &mut Batch, organization: &Identifier, happening: &Happening<'_>) {
    batch.append(organization.shared(), form::encode(happening));
}

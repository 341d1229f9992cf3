//! What has happened, for those who are told once it is durable.

use super::{DeploymentId, SessionId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub notice: Notice,
    pub session: Option<SessionId>,
    pub deployment: Option<DeploymentId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    SessionClaimed,
    SessionQueued,
    SessionReleased,
    SessionOverridden,
    SessionExpired,
    DeploymentQueued,
    DeploymentStarted,
    DeploymentCancelling,
    DeploymentSucceeded,
    DeploymentFailed,
    DeploymentCancelled,
    EnvironmentCreated,
    EnvironmentUpdated,
    EnvironmentDeleted,
}

impl Notice {
    pub const ALL: [Notice; 14] = [
        Notice::SessionClaimed,
        Notice::SessionQueued,
        Notice::SessionReleased,
        Notice::SessionOverridden,
        Notice::SessionExpired,
        Notice::DeploymentQueued,
        Notice::DeploymentStarted,
        Notice::DeploymentCancelling,
        Notice::DeploymentSucceeded,
        Notice::DeploymentFailed,
        Notice::DeploymentCancelled,
        Notice::EnvironmentCreated,
        Notice::EnvironmentUpdated,
        Notice::EnvironmentDeleted,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Notice::SessionClaimed => "session.claimed",
            Notice::SessionQueued => "session.queued",
            Notice::SessionReleased => "session.released",
            Notice::SessionOverridden => "session.overridden",
            Notice::SessionExpired => "session.expired",
            Notice::DeploymentQueued => "deployment.queued",
            Notice::DeploymentStarted => "deployment.started",
            Notice::DeploymentCancelling => "deployment.cancelling",
            Notice::DeploymentSucceeded => "deployment.succeeded",
            Notice::DeploymentFailed => "deployment.failed",
            Notice::DeploymentCancelled => "deployment.cancelled",
            Notice::EnvironmentCreated => "environment.created",
            Notice::EnvironmentUpdated => "environment.updated",
            Notice::EnvironmentDeleted => "environment.deleted",
        }
    }
}

impl Event {
    pub(super) fn environment(notice: Notice) -> Self {
        Self { notice, session: None, deployment: None }
    }

    pub(super) fn session(notice: Notice, session: SessionId) -> Self {
        Self { notice, session: Some(session), deployment: None }
    }

    pub(super) fn deployment(notice: Notice, session: Option<SessionId>, deployment: DeploymentId) -> Self {
        Self { notice, session, deployment: Some(deployment) }
    }
}

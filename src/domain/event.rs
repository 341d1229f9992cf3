//! What has happened, for those who are told once it is durable.

use super::{DeploymentId, Identifier, SessionId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub notice: Notice,
    pub session: Option<SessionId>,
    pub deployment: Option<DeploymentId>,
    pub stage: Option<Identifier>,
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
    StageStarted,
    StageSucceeded,
    StageFailed,
    StageCancelled,
    StageRetried,
    ApprovalRequested,
    ApprovalApproved,
    ApprovalRejected,
    EnvironmentCreated,
    EnvironmentUpdated,
    EnvironmentDeleted,
}

impl Notice {
    pub const ALL: [Notice; 22] = [
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
        Notice::StageStarted,
        Notice::StageSucceeded,
        Notice::StageFailed,
        Notice::StageCancelled,
        Notice::StageRetried,
        Notice::ApprovalRequested,
        Notice::ApprovalApproved,
        Notice::ApprovalRejected,
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
            Notice::StageStarted => "stage.started",
            Notice::StageSucceeded => "stage.succeeded",
            Notice::StageFailed => "stage.failed",
            Notice::StageCancelled => "stage.cancelled",
            Notice::StageRetried => "stage.retried",
            Notice::ApprovalRequested => "approval.requested",
            Notice::ApprovalApproved => "approval.approved",
            Notice::ApprovalRejected => "approval.rejected",
            Notice::EnvironmentCreated => "environment.created",
            Notice::EnvironmentUpdated => "environment.updated",
            Notice::EnvironmentDeleted => "environment.deleted",
        }
    }
}

impl Event {
    pub(super) fn environment(notice: Notice) -> Self {
        Self { notice, session: None, deployment: None, stage: None }
    }

    pub(super) fn session(notice: Notice, session: SessionId) -> Self {
        Self { notice, session: Some(session), deployment: None, stage: None }
    }

    pub(super) fn deployment(notice: Notice, session: Option<SessionId>, deployment: DeploymentId) -> Self {
        Self { notice, session, deployment: Some(deployment), stage: None }
    }

    pub(super) fn stage(
        notice: Notice,
        session: Option<SessionId>,
        deployment: DeploymentId,
        stage: Identifier,
    ) -> Self {
        Self { notice, session, deployment: Some(deployment), stage: Some(stage) }
    }
}

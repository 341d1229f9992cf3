//! Somebody's leave for a stage to start: asked for, given or refused.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Text, Time, UserView};
use crate::domain::{ApprovalId, ApprovalRecord, ApprovalStatus, DeploymentId, EnvironmentKey, SessionId};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Approval)]
pub struct ApprovalView<'a> {
    #[schema(value_type = String, example = "apr_0199f3c2a4b07f3e9d2c5a1b")]
    approval_id: Text<ApprovalId>,
    #[schema(value_type = ApprovalStatusName)]
    status: &'static str,
    #[schema(value_type = String)]
    deployment_id: Text<DeploymentId>,
    pipeline_id: &'a str,
    env_name: &'a str,
    /// Null for what puts an environment back in order after a release.
    #[schema(value_type = Option<String>, required)]
    session_id: Option<Text<SessionId>>,
    commit_id: &'a str,
    /// Which stage is to start, and for the how manieth time.
    stage: &'a str,
    attempt: u32,
    #[schema(value_type = String, format = DateTime)]
    requested_at: Time,
    /// Whose deployment it is.
    #[schema(required)]
    requested_by: Option<UserView<'a>>,
    /// When it was decided, or ended undecided.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    decided_at: Option<Time>,
    #[schema(required)]
    decided_by: Option<UserView<'a>>,
    /// What they said: the comment of an approval, the reason of a rejection.
    #[schema(required)]
    comment: Option<&'a str>,
}

impl<'a> ApprovalView<'a> {
    pub fn new(key: &'a EnvironmentKey, record: &'a ApprovalRecord) -> Self {
        let approval = &record.approval;
        Self {
            approval_id: Text(approval.id),
            status: approval_status_name(approval.status),
            deployment_id: Text(record.deployment),
            pipeline_id: key.pipeline.pipeline.as_str(),
            env_name: key.name.as_str(),
            session_id: record.session.map(Text),
            commit_id: record.commit.as_str(),
            stage: record.stage.as_str(),
            attempt: record.attempt,
            requested_at: Time(approval.requested_at),
            requested_by: record.requested_by.as_ref().map(UserView::from),
            decided_at: approval.decided_at.map(Time),
            decided_by: approval.decided_by.as_ref().map(UserView::from),
            comment: approval.comment.as_deref(),
        }
    }
}

/// `cancelled`: what it was for has ended before somebody decided.
#[derive(ToSchema)]
#[schema(as = ApprovalStatus, rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
pub enum ApprovalStatusName {
    Pending,
    Approved,
    Rejected,
    Cancelled,
}

pub const APPROVAL_STATUSES: [ApprovalStatus; 4] =
    [ApprovalStatus::Pending, ApprovalStatus::Approved, ApprovalStatus::Rejected, ApprovalStatus::Cancelled];

pub fn approval_status_name(status: ApprovalStatus) -> &'static str {
    match status {
        ApprovalStatus::Pending => "pending",
        ApprovalStatus::Approved => "approved",
        ApprovalStatus::Rejected => "rejected",
        ApprovalStatus::Cancelled => "cancelled",
    }
}

//! An approval for a stage to start: requested, given or refused.

use serde::Serialize;
use utoipa::ToSchema;

use super::values::{Text, Time, UserView};
use crate::domain::{ApprovalId, ApprovalRecord, ApprovalStatus, DeploymentId, EnvironmentKey, SessionId};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Approval)]
pub struct ApprovalView<'a> {
    #[schema(value_type = String, example = "apr_0199f3c2a4b07f3e9d2c5a1b")]
    approval_id: Text<ApprovalId>,
    status: ApprovalStatus,
    #[schema(value_type = String)]
    deployment_id: Text<DeploymentId>,
    pipeline_id: &'a str,
    env_name: &'a str,
    /// Null for the reset of an environment after a release.
    #[schema(value_type = Option<String>)]
    session_id: Option<Text<SessionId>>,
    commit_id: &'a str,
    /// The stage to start, and which attempt it is.
    stage: &'a str,
    attempt: u32,
    requested_at: Time,
    /// The member whose deployment it is.
    requested_by: Option<UserView<'a>>,
    /// When it was decided, or cancelled.
    decided_at: Option<Time>,
    decided_by: Option<UserView<'a>>,
    /// The comment of an approval or the reason of a rejection.
    comment: Option<&'a str>,
}

impl<'a> ApprovalView<'a> {
    pub fn new(key: &'a EnvironmentKey, record: &'a ApprovalRecord) -> Self {
        let approval = &record.approval;
        Self {
            approval_id: Text(approval.id),
            status: approval.status,
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

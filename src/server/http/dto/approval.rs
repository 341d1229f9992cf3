//! An approval for a stage to start: requested, given or refused.

use serde::Serialize;
use utoipa::ToSchema;

use super::ids::{ApprovalId, DeploymentId, SessionId, Written};
use super::statuses::{ApprovalStatus, Named};
use super::values::{Time, UserView};
use domain::{ApprovalRecord, EnvironmentKey};

/// An approval that a stage needs before it starts.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Approval)]
pub struct ApprovalView<'a> {
    approval_id: ApprovalId,
    status: ApprovalStatus,
    deployment_id: DeploymentId,
    /// The deployment's pipeline.
    #[schema(example = "shop")]
    pipeline_id: &'a str,
    /// The deployment's environment.
    #[schema(example = "staging-1")]
    env_name: &'a str,
    /// Null for the reset of an environment after a release.
    session_id: Option<SessionId>,
    /// What would be deployed.
    #[schema(example = "c0ffee1")]
    commit_id: &'a str,
    /// The stage to start.
    #[schema(example = "deploy")]
    stage: &'a str,
    /// Which attempt of the stage it is, from 1.
    #[schema(example = 1)]
    attempt: u32,
    /// When the stage was ready to start.
    requested_at: Time,
    /// The member whose deployment it is.
    requested_by: Option<UserView<'a>>,
    /// When it was decided, or cancelled.
    decided_at: Option<Time>,
    /// The member who decided, or null.
    decided_by: Option<UserView<'a>>,
    /// The comment of an approval or the reason of a rejection.
    #[schema(example = "looks good")]
    comment: Option<&'a str>,
}

impl<'a> ApprovalView<'a> {
    pub fn new(key: &'a EnvironmentKey, record: &'a ApprovalRecord) -> Self {
        let approval = &record.approval;
        Self {
            approval_id: Written(approval.id),
            status: Named(approval.status),
            deployment_id: Written(record.deployment),
            pipeline_id: key.pipeline.pipeline.as_str(),
            env_name: key.name.as_str(),
            session_id: record.session.map(Written),
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

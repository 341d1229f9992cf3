//! A deployment: briefly, in its session; in full, by itself.

use serde::Serialize;
use utoipa::ToSchema;

use super::approval::{ApprovalStatusName, approval_status_name};
use super::{Text, Time, UserView};
use crate::domain::{
    ApprovalId, Deployment, DeploymentId, DeploymentRecord, DeploymentStatus, EnvironmentKey, SessionId, StageRun,
    StepReference, StepRun, StepSource,
};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentBrief<'a> {
    #[schema(value_type = String, example = "dep_0199f3c2a4b07f3e9d2c5a1b")]
    deployment_id: Text<DeploymentId>,
    commit_id: &'a str,
    #[schema(value_type = DeploymentStatusName)]
    status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    started_at: Option<Time>,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    finished_at: Option<Time>,
    #[schema(required)]
    error: Option<&'a str>,
}

impl<'a> From<&'a Deployment> for DeploymentBrief<'a> {
    fn from(deployment: &'a Deployment) -> Self {
        Self {
            deployment_id: Text(deployment.id),
            commit_id: deployment.commit.as_str(),
            status: deployment_status_name(deployment.status),
            created_at: Time(deployment.created_at),
            started_at: deployment.started_at.map(Time),
            finished_at: deployment.finished_at.map(Time),
            error: deployment.error.as_deref(),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Deployment)]
pub struct DeploymentView<'a> {
    #[schema(value_type = String, example = "dep_0199f3c2a4b07f3e9d2c5a1b")]
    deployment_id: Text<DeploymentId>,
    pipeline_id: &'a str,
    env_name: &'a str,
    /// Null for what puts an environment back in order after a release.
    #[schema(value_type = Option<String>, required)]
    session_id: Option<Text<SessionId>>,
    commit_id: &'a str,
    fencing_token: u64,
    /// Whose session it was made in.
    #[schema(required)]
    user: Option<UserView<'a>>,
    #[schema(value_type = DeploymentStatusName)]
    status: &'static str,
    /// The stages it goes through, fixed when it starts; none before, and none for a pipeline without stages.
    stages: Vec<StageRunView<'a>>,
    /// Who last had a stage run again.
    #[schema(required)]
    retried_by: Option<UserView<'a>>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    started_at: Option<Time>,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    finished_at: Option<Time>,
    #[schema(required)]
    error: Option<&'a str>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StageRun)]
pub struct StageRunView<'a> {
    #[schema(example = "build")]
    name: &'a str,
    #[schema(value_type = StageStatusName)]
    status: &'static str,
    /// From 1, with each time it is run; 0 until then.
    attempt: u32,
    /// Somebody's leave for this attempt, if it needs one and has come that far.
    #[schema(value_type = Option<String>, required)]
    approval_id: Option<Text<ApprovalId>>,
    /// The same, with how it stands.
    #[schema(required)]
    approval: Option<StageApprovalView>,
    steps: Vec<StepRunView<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StageApproval)]
pub struct StageApprovalView {
    #[schema(value_type = String)]
    approval_id: Text<ApprovalId>,
    #[schema(value_type = ApprovalStatusName)]
    status: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepRun)]
pub struct StepRunView<'a> {
    name: &'a str,
    /// The step of a registry that it is, if it is one.
    #[schema(required)]
    uses: Option<StepSourceView<'a>>,
    #[schema(value_type = StepStatusName)]
    status: &'static str,
    /// Of a program that ended by itself.
    #[schema(required)]
    exit_code: Option<i32>,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    started_at: Option<Time>,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    finished_at: Option<Time>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepSource)]
pub struct StepSourceView<'a> {
    #[schema(example = "tools")]
    registry: &'a str,
    #[schema(example = "build")]
    step: &'a str,
    #[schema(example = "1.2.0")]
    version: &'a str,
    /// Of the registry's repository, if it has one.
    #[schema(required)]
    commit: Option<&'a str>,
}

impl<'a> From<&'a StepSource> for StepSourceView<'a> {
    fn from(source: &'a StepSource) -> Self {
        let StepReference { registry, step, version } = &source.reference;
        Self {
            registry: registry.as_str(),
            step: step.as_str(),
            version: version.as_str(),
            commit: source.commit.as_deref(),
        }
    }
}

impl<'a> DeploymentView<'a> {
    pub fn new(key: &'a EnvironmentKey, record: &'a DeploymentRecord) -> Self {
        let deployment = &record.deployment;
        Self {
            deployment_id: Text(deployment.id),
            pipeline_id: key.pipeline.pipeline.as_str(),
            env_name: key.name.as_str(),
            session_id: record.session.map(Text),
            commit_id: deployment.commit.as_str(),
            fencing_token: record.fencing_token,
            user: record.user.as_ref().map(UserView::from),
            status: deployment_status_name(deployment.status),
            stages: record.stages.iter().map(StageRunView::from).collect(),
            retried_by: record.retried.as_ref().map(|retried| UserView::from(&retried.by)),
            created_at: Time(deployment.created_at),
            started_at: deployment.started_at.map(Time),
            finished_at: deployment.finished_at.map(Time),
            error: deployment.error.as_deref(),
        }
    }
}

impl<'a> From<&'a StageRun> for StageRunView<'a> {
    fn from(stage: &'a StageRun) -> Self {
        Self {
            name: stage.name.as_str(),
            status: stage.status.as_str(),
            attempt: stage.attempt,
            approval_id: stage.approval.as_ref().map(|approval| Text(approval.id)),
            approval: stage.approval.as_ref().map(|approval| StageApprovalView {
                approval_id: Text(approval.id),
                status: approval_status_name(approval.status),
            }),
            steps: stage.steps.iter().map(StepRunView::from).collect(),
        }
    }
}

impl<'a> From<&'a StepRun> for StepRunView<'a> {
    fn from(step: &'a StepRun) -> Self {
        Self {
            name: step.name.as_str(),
            uses: step.source.as_deref().map(StepSourceView::from),
            status: step.status.as_str(),
            exit_code: step.exit_code,
            started_at: step.started_at.map(Time),
            finished_at: step.finished_at.map(Time),
        }
    }
}

/// How a deployment stands.
#[derive(ToSchema)]
#[schema(as = DeploymentStatus, rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
pub enum DeploymentStatusName {
    Queued,
    Running,
    AwaitingApproval,
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
}

pub const DEPLOYMENT_STATUSES: [DeploymentStatus; 7] = [
    DeploymentStatus::Queued,
    DeploymentStatus::Running,
    DeploymentStatus::AwaitingApproval,
    DeploymentStatus::Cancelling,
    DeploymentStatus::Succeeded,
    DeploymentStatus::Failed,
    DeploymentStatus::Cancelled,
];

pub fn deployment_status_name(status: DeploymentStatus) -> &'static str {
    match status {
        DeploymentStatus::Queued => "queued",
        DeploymentStatus::Running => "running",
        DeploymentStatus::AwaitingApproval => "awaiting_approval",
        DeploymentStatus::Cancelling => "cancelling",
        DeploymentStatus::Succeeded => "succeeded",
        DeploymentStatus::Failed => "failed",
        DeploymentStatus::Cancelled => "cancelled",
    }
}

/// How a stage stands: `queued` means handed to the runner, which has not begun it.
#[derive(ToSchema)]
#[schema(as = StageStatus, rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
pub enum StageStatusName {
    Pending,
    AwaitingApproval,
    Queued,
    Running,
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
    Skipped,
}

/// How a step stands.
#[derive(ToSchema)]
#[schema(as = StepStatus, rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
pub enum StepStatusName {
    Pending,
    Running,
    Succeeded,
    Failed,
    Cancelled,
    Skipped,
}

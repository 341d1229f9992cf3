//! A deployment: brief within its session, and in full.

use serde::Serialize;
use utoipa::ToSchema;

use super::values::{Time, UserView};
use super::written::{ApprovalId, DeploymentId, SessionId, Written};
use super::written::{ApprovalStatus, DeploymentStatus, Named, StageStatus, StepStatus};
use domain::{Deployment, DeploymentRecord, EnvironmentKey, StageRun, StepReference, StepRun, StepSource};

/// A deployment without its stages.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentBrief<'a> {
    deployment_id: DeploymentId,
    /// What is deployed.
    #[schema(example = "c0ffee1")]
    commit_id: &'a str,
    status: DeploymentStatus,
    /// When it was requested.
    created_at: Time,
    /// When it started; null before.
    started_at: Option<Time>,
    /// When it ended; null before.
    finished_at: Option<Time>,
    /// Why it failed; null if it did not.
    #[schema(example = "step compile exited with 1")]
    error: Option<&'a str>,
}

impl<'a> From<&'a Deployment> for DeploymentBrief<'a> {
    fn from(deployment: &'a Deployment) -> Self {
        Self {
            deployment_id: Written(deployment.id),
            commit_id: deployment.commit.as_str(),
            status: Named(deployment.status),
            created_at: Time(deployment.created_at),
            started_at: deployment.started_at.map(Time),
            finished_at: deployment.finished_at.map(Time),
            error: deployment.error.as_deref(),
        }
    }
}

/// The deployment of an environment that runs or waits for an approval, with how far it is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CurrentDeployment)]
pub struct CurrentDeploymentView<'a> {
    #[serde(flatten)]
    brief: DeploymentBrief<'a>,
    /// The stage it is at; null between two of them.
    #[schema(example = "build")]
    stage: Option<&'a str>,
    /// How many of its stages have succeeded.
    #[schema(example = 1)]
    stages_done: usize,
    /// How many stages it has.
    #[schema(example = 4)]
    stages_total: usize,
}

impl<'a> From<&'a Deployment> for CurrentDeploymentView<'a> {
    fn from(deployment: &'a Deployment) -> Self {
        let stages = deployment.run.as_ref().map_or(&[][..], |run| &run.stages);
        Self {
            brief: DeploymentBrief::from(deployment),
            stage: stages.iter().find(|stage| stage.status.is_active()).map(|stage| stage.name.as_str()),
            stages_done: stages.iter().filter(|stage| stage.status == domain::StageStatus::Succeeded).count(),
            stages_total: stages.len(),
        }
    }
}

/// A commit on its way to an environment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Deployment)]
pub struct DeploymentView<'a> {
    deployment_id: DeploymentId,
    /// Its pipeline.
    #[schema(example = "shop")]
    pipeline_id: &'a str,
    /// Its environment.
    #[schema(example = "staging-1")]
    env_name: &'a str,
    /// Null for the reset of an environment after a release.
    session_id: Option<SessionId>,
    /// What is deployed.
    #[schema(example = "c0ffee1")]
    commit_id: &'a str,
    /// That of the grant it belongs to; its steps get it, so that what they touch can refuse an older one.
    #[schema(example = 42)]
    fencing_token: u64,
    /// The holder of its session.
    user: Option<UserView<'a>>,
    status: DeploymentStatus,
    /// Its stages, fixed when it starts; empty before, and for a pipeline without stages.
    stages: Vec<StageRunView<'a>>,
    /// The member who last retried a stage.
    retried_by: Option<UserView<'a>>,
    /// When it was requested.
    created_at: Time,
    /// When it started; null before.
    started_at: Option<Time>,
    /// When it ended; null before.
    finished_at: Option<Time>,
    /// Why it failed; null if it did not.
    #[schema(example = "step compile exited with 1")]
    error: Option<&'a str>,
}

/// A stage of a deployment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StageRun)]
pub struct StageRunView<'a> {
    /// Unique in its pipeline.
    #[schema(example = "build")]
    name: &'a str,
    status: StageStatus,
    /// Counts the runs, from 1; 0 before the first.
    #[schema(example = 1)]
    attempt: u32,
    /// The approval of this attempt, once it is requested; null if it needs none.
    approval_id: Option<ApprovalId>,
    /// The same approval, with its status.
    approval: Option<StageApprovalView>,
    /// In the order in which they run.
    steps: Vec<StepRunView<'a>>,
}

/// The approval of a stage.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StageApproval)]
pub struct StageApprovalView {
    approval_id: ApprovalId,
    status: ApprovalStatus,
}

/// A step of a deployment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepRun)]
pub struct StepRunView<'a> {
    /// Unique in its stage.
    #[schema(example = "compile")]
    name: &'a str,
    /// The step of a registry, if it is one.
    uses: Option<StepSourceView<'a>>,
    status: StepStatus,
    /// Of a program that exited.
    #[schema(example = 0)]
    exit_code: Option<i32>,
    /// When it started; null before.
    started_at: Option<Time>,
    /// When it ended; null before.
    finished_at: Option<Time>,
}

/// Where a step of a registry comes from.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StepSource)]
pub struct StepSourceView<'a> {
    /// The registry's name.
    #[schema(example = "tools")]
    registry: &'a str,
    /// The step's name.
    #[schema(example = "build")]
    step: &'a str,
    /// The step's version.
    #[schema(example = "1.2.0")]
    version: &'a str,
    /// The commit of the registry's repository, if it has one.
    #[schema(example = "2f1c7a9e4b6d8f0a1c3e5d7b9f1a3c5e7d9b1f3a")]
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
            deployment_id: Written(deployment.id),
            pipeline_id: key.pipeline.pipeline.as_str(),
            env_name: key.name.as_str(),
            session_id: record.session.map(Written),
            commit_id: deployment.commit.as_str(),
            fencing_token: record.fencing_token,
            user: record.user.as_ref().map(UserView::from),
            status: Named(deployment.status),
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
            status: Named(stage.status),
            attempt: stage.attempt,
            approval_id: stage.approval.as_ref().map(|approval| Written(approval.id)),
            approval: stage.approval.as_ref().map(|approval| StageApprovalView {
                approval_id: Written(approval.id),
                status: Named(approval.status),
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
            status: Named(step.status),
            exit_code: step.exit_code,
            started_at: step.started_at.map(Time),
            finished_at: step.finished_at.map(Time),
        }
    }
}

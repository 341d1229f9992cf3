//! A deployment: briefly, in its session; in full, by itself.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Text, Time};
use crate::domain::{Deployed, Deployment, DeploymentId, DeploymentStatus, EnvironmentKey, SessionId};

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
    #[schema(value_type = String)]
    deployment_id: Text<DeploymentId>,
    pipeline_id: &'a str,
    env_name: &'a str,
    #[schema(value_type = String)]
    session_id: Text<SessionId>,
    commit_id: &'a str,
    fencing_token: u64,
    #[schema(value_type = DeploymentStatusName)]
    status: &'static str,
    /// The pipeline's stages as they ran; none for a pipeline without stages.
    stages: [&'a str; 0],
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    started_at: Option<Time>,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    finished_at: Option<Time>,
    #[schema(required)]
    error: Option<&'a str>,
}

impl<'a> DeploymentView<'a> {
    pub fn new(key: &'a EnvironmentKey, deployed: &'a Deployed) -> Self {
        let deployment = &deployed.deployment;
        Self {
            deployment_id: Text(deployment.id),
            pipeline_id: key.pipeline.pipeline.as_str(),
            env_name: key.name.as_str(),
            session_id: Text(deployed.session),
            commit_id: deployment.commit.as_str(),
            fencing_token: deployed.fencing_token,
            status: deployment_status_name(deployment.status),
            stages: [],
            created_at: Time(deployment.created_at),
            started_at: deployment.started_at.map(Time),
            finished_at: deployment.finished_at.map(Time),
            error: deployment.error.as_deref(),
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
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
}

pub fn deployment_status_name(status: DeploymentStatus) -> &'static str {
    match status {
        DeploymentStatus::Queued => "queued",
        DeploymentStatus::Running => "running",
        DeploymentStatus::Cancelling => "cancelling",
        DeploymentStatus::Succeeded => "succeeded",
        DeploymentStatus::Failed => "failed",
        DeploymentStatus::Cancelled => "cancelled",
    }
}

//! An environment: with its configuration by itself, without it in a list.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::deployment::{DeploymentStatusName, deployment_status_name};
use super::{DeploymentBrief, Text, Time, UserView};
use crate::domain::{Configuration, DeploymentId, Environment, EnvironmentKey, LockStatus, Session, SessionId};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentListItem<'a> {
    #[schema(example = "review-1")]
    env_name: &'a str,
    #[schema(example = "web")]
    pipeline_id: &'a str,
    #[schema(value_type = LockStatusName)]
    lock_status: &'static str,
    /// Who holds it; null unless it is locked.
    #[schema(required)]
    lock: Option<LockView<'a>>,
    queue_length: u64,
    #[schema(required)]
    current_deployment: Option<DeploymentBrief<'a>>,
    #[schema(required)]
    last_deployment: Option<LastDeploymentView<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Environment)]
pub struct EnvironmentView<'a> {
    #[serde(flatten)]
    item: EnvironmentListItem<'a>,
    configuration: ConfigurationView<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Lock)]
pub struct LockView<'a> {
    #[schema(value_type = String)]
    session_id: Text<SessionId>,
    user: UserView<'a>,
    #[schema(required)]
    commit_id: Option<&'a str>,
    #[schema(required)]
    context: Option<&'a str>,
    #[schema(value_type = String, format = DateTime)]
    claimed_at: Time,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    expires_at: Option<Time>,
    fencing_token: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LastDeployment)]
pub struct LastDeploymentView<'a> {
    #[schema(value_type = String)]
    deployment_id: Text<DeploymentId>,
    commit_id: &'a str,
    #[schema(value_type = DeploymentStatusName)]
    status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    finished_at: Time,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Configuration)]
pub struct ConfigurationView<'a> {
    description: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
    deploy_on_claim: bool,
    #[schema(required)]
    default_ttl_seconds: Option<u64>,
    max_ttl_seconds: u64,
    #[schema(required)]
    max_hold_seconds: Option<u64>,
    max_queue_length: u64,
    #[schema(example = "developer")]
    force_claim_role: &'static str,
    #[schema(value_type = Option<String>, required)]
    on_release: Option<&'a str>,
    disabled: bool,
    variables: BTreeMap<&'a str, &'a str>,
}

/// What leases and the queue will be bounded by; until they are there, the only values they can have.
pub const MAX_TTL_SECONDS: u64 = 86_400;
pub const MAX_QUEUE_LENGTH: u64 = 10_000;

impl<'a> EnvironmentListItem<'a> {
    pub fn new(pipeline_id: &'a str, env_name: &'a str, environment: &'a Environment) -> Self {
        Self {
            env_name,
            pipeline_id,
            lock_status: lock_status_name(environment.lock_status()),
            lock: environment.lock.as_ref().map(LockView::from),
            queue_length: 0,
            current_deployment: environment.current_deployment().map(DeploymentBrief::from),
            last_deployment: environment.last_deployment.as_ref().map(|last| LastDeploymentView {
                deployment_id: Text(last.id),
                commit_id: last.commit.as_str(),
                status: deployment_status_name(last.status),
                finished_at: Time(last.finished_at),
            }),
        }
    }
}

impl<'a> EnvironmentView<'a> {
    pub fn new(key: &'a EnvironmentKey, environment: &'a Environment, configuration: &'a Configuration) -> Self {
        Self {
            item: EnvironmentListItem::new(key.pipeline.pipeline.as_str(), key.name.as_str(), environment),
            configuration: ConfigurationView::from(configuration),
        }
    }
}

impl<'a> From<&'a Session> for LockView<'a> {
    fn from(holder: &'a Session) -> Self {
        Self {
            session_id: Text(holder.id),
            user: UserView::from(&holder.user),
            commit_id: holder.commit.as_ref().map(|commit| commit.as_str()),
            context: holder.context.as_ref().map(|context| context.as_str()),
            claimed_at: Time(holder.claimed_at),
            expires_at: None,
            fencing_token: holder.fencing_token,
        }
    }
}

impl<'a> From<&'a Configuration> for ConfigurationView<'a> {
    fn from(configuration: &'a Configuration) -> Self {
        Self {
            description: configuration.description.as_str(),
            labels: configuration.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            deploy_on_claim: configuration.deploy_on_claim,
            default_ttl_seconds: None,
            max_ttl_seconds: MAX_TTL_SECONDS,
            max_hold_seconds: None,
            max_queue_length: MAX_QUEUE_LENGTH,
            force_claim_role: configuration.force_claim_role.as_str(),
            on_release: None,
            disabled: configuration.disabled,
            variables: configuration.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        }
    }
}

/// How an environment stands.
#[derive(ToSchema)]
#[schema(as = LockStatus, rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
pub enum LockStatusName {
    Unlocked,
    Locked,
    Resetting,
    Disabled,
}

pub fn lock_status_name(status: LockStatus) -> &'static str {
    match status {
        LockStatus::Unlocked => "unlocked",
        LockStatus::Locked => "locked",
        LockStatus::Resetting => "resetting",
        LockStatus::Disabled => "disabled",
    }
}

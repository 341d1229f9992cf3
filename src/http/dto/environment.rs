//! An environment: with its configuration on its own, without it in a list.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::deployment::DeploymentBrief;
use super::values::{Text, Time, UserView};
use crate::domain::{
    Configuration, DeploymentId, DeploymentStatus, Environment, EnvironmentKey, LockStatus, Session, SessionId,
};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentListItem<'a> {
    #[schema(example = "review-1")]
    env_name: &'a str,
    #[schema(example = "web")]
    pipeline_id: &'a str,
    lock_status: LockStatus,
    /// The holder; null unless it is locked.
    lock: Option<LockView<'a>>,
    /// How many sessions wait for it by name.
    queue_length: usize,
    /// Why the server took it out of service, if it did.
    disabled_reason: Option<&'a str>,
    current_deployment: Option<DeploymentBrief<'a>>,
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
    commit_id: Option<&'a str>,
    context: Option<&'a str>,
    claimed_at: Time,
    expires_at: Option<Time>,
    fencing_token: u64,
}

/// The lock of one of several environments.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Holder)]
pub struct HolderView<'a> {
    /// The environment that is held.
    #[schema(example = "review-1")]
    env_name: &'a str,
    #[serde(flatten)]
    lock: LockView<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LastDeployment)]
pub struct LastDeploymentView<'a> {
    #[schema(value_type = String)]
    deployment_id: Text<DeploymentId>,
    commit_id: &'a str,
    status: DeploymentStatus,
    finished_at: Time,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Configuration)]
pub struct ConfigurationView<'a> {
    description: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
    deploy_on_claim: bool,
    default_ttl_seconds: Option<u32>,
    max_ttl_seconds: u32,
    max_hold_seconds: Option<u32>,
    max_queue_length: u32,
    #[schema(example = "developer")]
    force_claim_role: &'static str,
    /// Deployed after a release or an expiry, before anybody else gets the environment.
    on_release: Option<OnReleaseView<'a>>,
    disabled: bool,
    variables: BTreeMap<&'a str, &'a str>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OnRelease)]
pub struct OnReleaseView<'a> {
    commit_id: &'a str,
}

impl<'a> EnvironmentListItem<'a> {
    pub fn new(pipeline_id: &'a str, env_name: &'a str, environment: &'a Environment) -> Self {
        Self {
            env_name,
            pipeline_id,
            lock_status: environment.lock_status(),
            lock: environment.lock.as_ref().map(LockView::from),
            queue_length: environment.queue.len(),
            disabled_reason: environment.disabled_reason.as_deref(),
            current_deployment: environment.current_deployment().map(DeploymentBrief::from),
            last_deployment: environment.last_deployment.as_ref().map(|last| LastDeploymentView {
                deployment_id: Text(last.id),
                commit_id: last.commit.as_str(),
                status: last.status,
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

impl<'a> HolderView<'a> {
    pub fn new(env_name: &'a str, holder: &'a Session) -> Self {
        Self { env_name, lock: LockView::from(holder) }
    }
}

impl<'a> From<&'a Session> for LockView<'a> {
    fn from(holder: &'a Session) -> Self {
        Self {
            session_id: Text(holder.id),
            user: UserView::from(&holder.user),
            commit_id: holder.commit.as_ref().map(|commit| commit.as_str()),
            context: holder.context.as_ref().map(|context| context.as_str()),
            claimed_at: Time(holder.claimed.as_ref().map_or(holder.created_at, |claimed| claimed.at)),
            expires_at: holder.expiry().map(|(until, _)| Time(until.at)),
            fencing_token: holder.fencing_token().unwrap_or_default(),
        }
    }
}

impl<'a> From<&'a Configuration> for ConfigurationView<'a> {
    fn from(configuration: &'a Configuration) -> Self {
        Self {
            description: configuration.description.as_str(),
            labels: configuration.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            deploy_on_claim: configuration.deploy_on_claim,
            default_ttl_seconds: configuration.default_ttl_seconds,
            max_ttl_seconds: configuration.max_ttl_seconds,
            max_hold_seconds: configuration.max_hold_seconds,
            max_queue_length: configuration.max_queue_length,
            force_claim_role: configuration.force_claim_role.as_str(),
            on_release: configuration.on_release.as_ref().map(|commit| OnReleaseView { commit_id: commit.as_str() }),
            disabled: configuration.disabled,
            variables: configuration.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        }
    }
}

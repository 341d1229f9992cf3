//! An environment: in full with its configuration, and without it in a list.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::deployment::CurrentDeploymentView;
use super::values::{Time, UserView};
use super::written::{DeploymentId, SessionId, Written};
use super::written::{DeploymentStatus, LockStatus, Named, Role};
use domain::{Configuration, Environment, EnvironmentKey, Session};

/// An environment without its configuration.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentListItem<'a> {
    /// Unique in its pipeline.
    #[schema(example = "review-1")]
    env_name: &'a str,
    /// Its pipeline.
    #[schema(example = "web")]
    pipeline_id: &'a str,
    /// Those of its configuration, for telling environments apart.
    #[schema(example = json!({ "size": "large" }))]
    labels: BTreeMap<&'a str, &'a str>,
    lock_status: LockStatus,
    /// The holder; null unless it is locked.
    lock: Option<LockView<'a>>,
    /// How many sessions wait for it by name.
    #[schema(example = 3)]
    queue_length: usize,
    /// Why the server took it out of service, if it did.
    #[schema(example = "the deployment of main after a release failed")]
    disabled_reason: Option<&'a str>,
    /// The one that runs or waits for an approval, or null.
    current_deployment: Option<CurrentDeploymentView<'a>>,
    /// The last one that ended, or null.
    last_deployment: Option<LastDeploymentView<'a>>,
}

/// An environment that is handed out to one session at a time.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Environment)]
pub struct EnvironmentView<'a> {
    #[serde(flatten)]
    item: EnvironmentListItem<'a>,
    configuration: ConfigurationView<'a>,
}

/// Who holds an environment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Lock)]
pub struct LockView<'a> {
    session_id: SessionId,
    user: UserView<'a>,
    /// The commit that was named in the claim, or null.
    #[schema(example = "c0ffee1")]
    commit_id: Option<&'a str>,
    /// What the holder said about the claim, or null.
    #[schema(example = "PR 412")]
    context: Option<&'a str>,
    /// Since when.
    claimed_at: Time,
    /// When it expires unless its holder is active before; null: it never expires by itself.
    expires_at: Option<Time>,
    /// Rises by one with each grant of the environment and never restarts.
    #[schema(example = 42)]
    fencing_token: u64,
}

/// The lock of one of several environments.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = HeldEnvironment)]
pub struct HolderView<'a> {
    /// The environment that is held.
    #[schema(example = "review-1")]
    env_name: &'a str,
    #[serde(flatten)]
    lock: LockView<'a>,
}

/// The last deployment of an environment that ended.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LastDeployment)]
pub struct LastDeploymentView<'a> {
    deployment_id: DeploymentId,
    /// What was deployed.
    #[schema(example = "c0ffee1")]
    commit_id: &'a str,
    status: DeploymentStatus,
    /// When it ended.
    finished_at: Time,
}

/// How an environment is set up. It can be sent back with a PUT.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Configuration)]
pub struct ConfigurationView<'a> {
    /// For people.
    #[schema(example = "For looking at a pull request")]
    description: &'a str,
    /// For listing environments and for claiming any of them.
    #[schema(example = json!({ "size": "large" }))]
    labels: BTreeMap<&'a str, &'a str>,
    /// Whether a claim that names a commit also deploys it.
    #[schema(example = true)]
    deploy_on_claim: bool,
    /// The TTL of a session that asks for none; null: such a session does not expire.
    #[schema(example = 900)]
    default_ttl_seconds: Option<u32>,
    /// The longest TTL that a session may have.
    #[schema(example = 86400)]
    max_ttl_seconds: u32,
    /// How long a session may hold the lock in total; null: as long as it is active.
    #[schema(example = 14400)]
    max_hold_seconds: Option<u32>,
    /// How many sessions may wait for the lock.
    #[schema(example = 10000)]
    max_queue_length: u32,
    /// The least role that may take the lock from its holder.
    force_claim_role: Role,
    /// Deployed after a release or an expiry, before anybody else gets the environment.
    on_release: Option<OnReleaseView<'a>>,
    /// A disabled environment is not handed out; its holder may finish.
    #[schema(example = false)]
    disabled: bool,
    /// For the steps of deployments.
    #[schema(example = json!({ "TIER": "review" }))]
    variables: BTreeMap<&'a str, &'a str>,
}

/// What puts an environment in order again after a release.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OnRelease)]
pub struct OnReleaseView<'a> {
    /// Deployed like any other.
    #[schema(example = "main")]
    commit_id: &'a str,
}

impl<'a> EnvironmentListItem<'a> {
    pub fn new(pipeline_id: &'a str, env_name: &'a str, environment: &'a Environment) -> Self {
        Self {
            env_name,
            pipeline_id,
            labels: environment.configuration.as_deref().map(labels).unwrap_or_default(),
            lock_status: Named(environment.lock_status()),
            lock: environment.lock.as_deref().map(LockView::from),
            queue_length: environment.queue.len(),
            disabled_reason: environment.disabled_reason.as_deref(),
            current_deployment: environment.current_deployment().map(CurrentDeploymentView::from),
            last_deployment: environment.last_deployment.as_ref().map(|last| LastDeploymentView {
                deployment_id: Written(last.id),
                commit_id: last.commit.as_str(),
                status: Named(last.status),
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
            session_id: Written(holder.id),
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
            labels: labels(configuration),
            deploy_on_claim: configuration.deploy_on_claim,
            default_ttl_seconds: configuration.default_ttl_seconds,
            max_ttl_seconds: configuration.max_ttl_seconds,
            max_hold_seconds: configuration.max_hold_seconds,
            max_queue_length: configuration.max_queue_length,
            force_claim_role: Named(configuration.force_claim_role),
            on_release: configuration.on_release.as_ref().map(|commit| OnReleaseView { commit_id: commit.as_str() }),
            disabled: configuration.disabled,
            variables: configuration.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        }
    }
}

fn labels(configuration: &Configuration) -> BTreeMap<&str, &str> {
    configuration.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

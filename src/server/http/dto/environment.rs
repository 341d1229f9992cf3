//! An environment: in full with its configuration, and without it in a list.

use std::collections::BTreeMap;

use super::deployment::CurrentDeploymentView;
use super::values::{Time, UserView};
use super::written::{DeploymentId, DeploymentStatus, LockStatus, Named, Role, SessionId, Written};
use domain::{CommitId, Configuration, Environment, EnvironmentKey, LastDeployment, Session};

view! {
    /// An environment without its configuration.
    pub struct EnvironmentListItem<'a> of (pipeline_id: &'a str, env_name: &'a str, environment: &'a Environment) {
        /// The environment's name, unique in its pipeline.
        #[schema(example = "review-1")]
        env_name: &'a str,
        /// The environment's pipeline.
        #[schema(example = "web")]
        pipeline_id: &'a str,
        /// The labels of the environment's configuration, to tell environments apart.
        #[schema(example = json!({ "size": "large" }))]
        labels: BTreeMap<&'a str, &'a str> = environment.configuration.as_deref().map(labels).unwrap_or_default(),
        lock_status: LockStatus = Named(environment.lock_status()),
        /// The holder; null unless the environment is locked.
        lock: Option<LockView<'a>> = environment.lock.as_deref().map(LockView::new),
        /// How many sessions wait for this environment by name.
        #[schema(example = 3)]
        queue_length: usize = environment.queue.len(),
        /// Why the server took the environment out of service, if it did.
        #[schema(example = "the deployment of main after a release failed")]
        disabled_reason: Option<&'a str> = environment.disabled_reason.as_deref(),
        /// The deployment that runs or waits for an approval, or null.
        current_deployment: Option<CurrentDeploymentView<'a>> =
            environment.current_deployment().map(CurrentDeploymentView::new),
        /// The last deployment that ended, or null.
        last_deployment: Option<LastDeploymentView<'a>> =
            environment.last_deployment.as_ref().map(LastDeploymentView::new),
    }
}

view! {
    /// An environment that is handed out to one session at a time.
    pub struct EnvironmentView<'a> as Environment
    of (key: &'a EnvironmentKey, environment: &'a Environment, configuration: &'a Configuration) {
        #[serde(flatten)]
        item: EnvironmentListItem<'a> =
            EnvironmentListItem::new(key.pipeline.pipeline.as_str(), key.name.as_str(), environment),
        configuration: ConfigurationView<'a> = ConfigurationView::new(configuration),
    }
}

view! {
    /// The lock of an environment: its holder.
    pub struct LockView<'a> as Lock of (holder: &'a Session) {
        session_id: SessionId = Written(holder.id),
        user: UserView<'a> = UserView::new(&holder.user),
        /// The commit that was named in the claim, or null.
        #[schema(example = "c0ffee1")]
        commit_id: Option<&'a str> = holder.commit.as_ref().map(|commit| commit.as_str()),
        /// What the holder said about the claim, or null.
        #[schema(example = "PR 412")]
        context: Option<&'a str> = holder.context.as_ref().map(|context| context.as_str()),
        /// When the holder got the lock.
        claimed_at: Time = Time(holder.claimed.as_ref().map_or(holder.created_at, |claimed| claimed.at)),
        /// When the lock expires unless the holder is active before; null if it never expires on its own.
        expires_at: Option<Time> = holder.expiry().map(|(until, _)| Time(until.at)),
        /// Rises by one with each grant of the environment's lock, and never restarts.
        #[schema(example = 42)]
        fencing_token: u64 = holder.fencing_token().unwrap_or_default(),
    }
}

view! {
    /// The lock of one of several environments.
    pub struct HolderView<'a> as HeldEnvironment of (env_name: &'a str, holder: &'a Session) {
        /// The locked environment.
        #[schema(example = "review-1")]
        env_name: &'a str,
        #[serde(flatten)]
        lock: LockView<'a> = LockView::new(holder),
    }
}

view! {
    /// The environment's last deployment that has ended.
    pub struct LastDeploymentView<'a> as LastDeployment of (last: &'a LastDeployment) {
        deployment_id: DeploymentId = Written(last.id),
        /// The commit that was deployed.
        #[schema(example = "c0ffee1")]
        commit_id: &'a str = last.commit.as_str(),
        status: DeploymentStatus = Named(last.status),
        /// When the deployment ended.
        finished_at: Time = Time(last.finished_at),
    }
}

view! {
    /// The configuration of an environment. It can be sent back with a PUT.
    pub struct ConfigurationView<'a> as Configuration of (configuration: &'a Configuration) {
        /// A description for people.
        #[schema(example = "For looking at a pull request")]
        description: &'a str = configuration.description.as_str(),
        /// Labels for listing environments and for claiming any of them.
        #[schema(example = json!({ "size": "large" }))]
        labels: BTreeMap<&'a str, &'a str> = labels(configuration),
        /// Whether a claim that names a commit also deploys it.
        #[schema(example = true)]
        deploy_on_claim: bool = configuration.deploy_on_claim,
        /// The TTL of a session whose claim gives none; null if such a session does not expire.
        #[schema(example = 900)]
        default_ttl_seconds: Option<u32> = configuration.default_ttl_seconds,
        /// The longest TTL that a session may have.
        #[schema(example = 86400)]
        max_ttl_seconds: u32 = configuration.max_ttl_seconds,
        /// How long a session may hold the lock in total; null: as long as it is active.
        #[schema(example = 14400)]
        max_hold_seconds: Option<u32> = configuration.max_hold_seconds,
        /// How many sessions may wait for the lock.
        #[schema(example = 10000)]
        max_queue_length: u32 = configuration.max_queue_length,
        /// The lowest role that may take the lock from its holder.
        force_claim_role: Role = Named(configuration.force_claim_role),
        /// What is deployed after a release or an expiry, before the next session gets the environment.
        on_release: Option<OnReleaseView<'a>> = configuration.on_release.as_ref().map(OnReleaseView::new),
        /// A disabled environment is not handed out; its holder may finish.
        #[schema(example = false)]
        disabled: bool = configuration.disabled,
        /// Variables for the steps of deployments.
        #[schema(example = json!({ "TIER": "review" }))]
        variables: BTreeMap<&'a str, &'a str> =
            configuration.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
    }
}

view! {
    /// How an environment is reset after a release.
    pub struct OnReleaseView<'a> as OnRelease of (commit: &'a CommitId) {
        /// The commit, which is deployed like any other.
        #[schema(example = "main")]
        commit_id: &'a str = commit.as_str(),
    }
}

fn labels(configuration: &Configuration) -> BTreeMap<&str, &str> {
    configuration.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

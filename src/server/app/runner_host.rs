//! Connects the environments, which decide about deployments, with the runner, which executes them; and masks the
//! secrets of pipelines in all output.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, LocalBoxFuture};
use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::http::WallClock;
use accounts::secrets::{PipelineSecrets, SecretError, SecretValue, SecretVersions, Vault};
use ambient::backoff::{Backoff, Retries};
use delivery::registries::Registries;
use delivery::runner::{Host, Mask, Runner, SharedMasks, StageJob, StepInputs, Variable};
use domain::{
    BeginStage, Command, DeploymentId, EndStage, EnvironmentKey, Identifier, PipelineKey, PipelineNow, ReportSteps,
    StageAttempt, StageEnd, StageOrder, StepRun, Swept, Timestamp, VariableName,
};
use locks::pipelines::Pipelines;
use locks::{Definitions, Environments, Executor, Failure};
use store::Store;

/// The length of the queue of reports. If it is full, reporting stages wait.
const REPORTS_MAX: usize = 256;
/// The pauses before a failed report is retried.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// The definitions that deployments start with: pipelines including their registry steps. A deleted pipeline counts as
/// stopped.
pub struct PipelineDefinitions {
    pub pipelines: Pipelines,
    pub registries: Registries,
}

impl Definitions for PipelineDefinitions {
    fn now(&self, pipeline: &PipelineKey) -> PipelineNow {
        let Some(known) = self.pipelines.get(&pipeline.organization, pipeline.pipeline.as_str()) else {
            return PipelineNow { stopped: true, blueprint: Arc::default(), unresolved: None };
        };
        let stopped = known.stopped.is_some();
        match self.registries.resolved(&pipeline.organization, &known.blueprint) {
            Ok(blueprint) => PipelineNow { stopped, blueprint, unresolved: None },
            Err(why) => PipelineNow { stopped, blueprint: known.blueprint.clone(), unresolved: Some(why) },
        }
    }
}

/// Passes the orders of the environments to the runner.
pub struct RunnerExecutor(pub Runner);

impl Executor for RunnerExecutor {
    fn run_stage(&self, environment: &EnvironmentKey, order: StageOrder) {
        self.0.start(StageJob { environment: environment.clone(), order });
    }

    fn stop(&self, environment: &EnvironmentKey, deployment: DeploymentId) {
        self.0.stop(environment, deployment);
    }

    fn sweep(&self, environment: &EnvironmentKey, deployment: DeploymentId) {
        self.0.sweep(environment.clone(), deployment);
    }
}

/// Receives the runner's reports and provides variables. Actors can only start on a thread that runs actors, and the
/// runner's tasks run elsewhere, so reports are queued for such a thread.
pub struct RunnerHost {
    environments: Environments,
    masks: PipelineMasks,
    store: Arc<dyn Store>,
    steps_over_at: Option<Instant>,
    reports: mpsc::Sender<Report>,
}

type Report = Box<dyn FnOnce() -> LocalBoxFuture<'static, ()> + Send>;

impl RunnerHost {
    /// Must be called on a thread that runs actors. Until `steps_over_at`, steps of an earlier owner may still run on
    /// another node.
    pub fn new(
        environments: Environments,
        masks: PipelineMasks,
        store: Arc<dyn Store>,
        steps_over_at: Option<Instant>,
    ) -> Self {
        let (reports, mut queue) = mpsc::channel::<Report>(REPORTS_MAX);
        actix_web::rt::spawn(async move {
            while let Some(report) = queue.recv().await {
                actix_web::rt::spawn(report());
            }
        });
        Self { environments, masks, store, steps_over_at, reports }
    }

    /// Sends a report once. `None` if the outcome is unknown.
    async fn report(
        &self,
        environment: &EnvironmentKey,
        report: impl Command<Reply = ()>,
    ) -> Option<Result<(), Failure>> {
        let (reply, answer) = oneshot::channel();
        let (environments, key) = (self.environments.clone(), environment.clone());
        let ask = || async move { _ = reply.send(environments.ask(&key, report).await) }.boxed_local();
        self.reports.send(Box::new(ask)).await.ok()?;
        answer.await.ok()
    }

    /// Retries until the report is accepted or rejected. Returns whether it was accepted; a rejected report is
    /// outdated.
    async fn report_until_decided(
        &self,
        environment: &EnvironmentKey,
        of: DeploymentId,
        report: impl Command<Reply = ()> + Clone + Sync,
    ) -> bool {
        let mut retries = Retries::new(BACKOFF);
        loop {
            let error = match self.report(environment, report.clone()).await {
                Some(Ok(())) => return true,
                Some(Err(Failure::Rejected(_))) => return false,
                Some(Err(failure)) => failure.to_string(),
                None => "the thread that reports has ended".to_owned(),
            };
            let pause = retries.failed();
            if retries.is_first() {
                tracing::warn!(%environment, deployment = %of, error, "cannot record the progress of a deployment; retrying");
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// The active stage attempt of a deployment. Retries until it can be read, since the environment waits for it.
    async fn active_attempt(&self, environment: &EnvironmentKey, deployment: DeploymentId) -> Option<StageAttempt> {
        let mut retries = Retries::new(BACKOFF);
        let found = loop {
            match self.environments.deployment(&environment.pipeline.organization, deployment) {
                Ok(found) => break found?,
                Err(error) => {
                    tracing::error!(%environment, %deployment, %error, "cannot read a deployment; retrying");
                }
            }
            tokio::time::sleep(retries.failed()).await;
        };
        let active = found.record.stages.iter().enumerate().find(|(_, stage)| stage.status.is_active());
        active.map(|(stage, run)| StageAttempt { deployment, stage, attempt: run.attempt })
    }

    async fn inputs(&self, job: &StageJob) -> Result<StepInputs, String> {
        let variable =
            |name: &VariableName, value: String| Variable { name: name.to_string(), value: Zeroizing::new(value) };
        let plain = job.order.blueprint.variables.iter().chain(&job.order.configuration.variables);
        let mut variables: Vec<_> = plain.map(|(name, value)| variable(name, value.to_string())).collect();
        let (masks, pipeline) = (self.masks.clone(), job.environment.pipeline.clone());
        let opened = tokio::task::spawn_blocking(move || masks.for_steps(&pipeline)).await;
        let secrets = opened.map_err(|error| error.to_string()).and_then(|opened| opened.map_err(|e| e.to_string()));
        let secrets = secrets.map_err(|error| {
            tracing::error!(environment = %job.environment, error, "cannot decrypt the secrets of a pipeline");
            "its secrets cannot be decrypted; the server's log says why".to_owned()
        })?;
        variables.extend(secrets.by_name.iter().map(|(name, value)| variable(name, value.reveal().to_owned())));
        Ok(StepInputs { variables, mask: secrets.mask? })
    }

    async fn begun(&self, job: &StageJob) -> bool {
        let of = attempt(job);
        self.report_until_decided(&job.environment, of.deployment, BeginStage(of)).await
    }

    /// If the parts cannot be read, another node has taken the shard, and this process is about to end.
    fn log_part(&self, job: &StageJob) -> u32 {
        let parts = self.environments.log_parts(&job.environment.pipeline.organization, job.order.deployment);
        parts.ok().and_then(|parts| parts.last().map(|part| part.number)).unwrap_or_default()
    }

    /// Not retried, since the next report includes this one.
    async fn progress(&self, job: &StageJob, steps: Vec<StepRun>) {
        self.report(&job.environment, ReportSteps { of: attempt(job), steps }).await;
    }

    async fn ended(&self, job: &StageJob, end: StageEnd, steps: Vec<StepRun>) {
        let (environment, of) = (&job.environment, attempt(job));
        if let StageEnd::Failed(reason) = &end {
            let stage = job.order.blueprint.stages.get(of.stage).map_or("", |stage| stage.name.as_str());
            tracing::info!(%environment, deployment = %of.deployment, stage, %reason, "a stage failed");
        }
        self.report_until_decided(environment, of.deployment, EndStage { of, end, steps }).await;
    }

    async fn swept(&self, environment: &EnvironmentKey, deployment: DeploymentId) {
        if let Some(over) = self.steps_over_at {
            tokio::time::sleep_until(over).await;
        }
        // Names the current attempt, so that a retried report cannot apply to a later one.
        let Some(of) = self.active_attempt(environment, deployment).await else { return };
        tracing::info!(%environment, %deployment, "all processes of an interrupted deployment have ended");
        self.report_until_decided(environment, deployment, Swept(of)).await;
    }
}

fn attempt(job: &StageJob) -> StageAttempt {
    let StageOrder { deployment, stage, attempt, .. } = job.order;
    StageAttempt { deployment, stage, attempt }
}

/// The hosts of all realms of this process; each organization's stages report to their own host.
pub struct RunnerHosts {
    number_of: Box<dyn Fn(&Identifier) -> u16 + Send + Sync>,
    clock: WallClock,
    hosts: RwLock<HashMap<u16, Arc<RunnerHost>>>,
}

impl RunnerHosts {
    /// `number_of` returns the number of an organization's host.
    pub fn new(clock: WallClock, number_of: impl Fn(&Identifier) -> u16 + Send + Sync + 'static) -> Self {
        Self { number_of: Box::new(number_of), clock, hosts: RwLock::default() }
    }

    pub fn add(&self, number: u16, host: RunnerHost) {
        self.hosts.write().insert(number, Arc::new(host));
    }

    pub fn remove(&self, number: u16) {
        self.hosts.write().remove(&number);
    }

    /// `None` if the realm is not or no longer on this node.
    fn of(&self, environment: &EnvironmentKey) -> Option<Arc<RunnerHost>> {
        let number = (self.number_of)(&environment.pipeline.organization);
        self.hosts.read().get(&number).cloned()
    }
}

impl Host for RunnerHosts {
    fn inputs<'a>(&'a self, job: &'a StageJob) -> BoxFuture<'a, Result<StepInputs, String>> {
        async move {
            match self.of(&job.environment) {
                Some(host) => host.inputs(job).await,
                None => Err("another node runs the deployments of this organization".to_owned()),
            }
        }
        .boxed()
    }

    fn begun<'a>(&'a self, job: &'a StageJob) -> BoxFuture<'a, bool> {
        async move {
            match self.of(&job.environment) {
                Some(host) => host.begun(job).await,
                None => false,
            }
        }
        .boxed()
    }

    fn log_part(&self, job: &StageJob) -> u32 {
        self.of(&job.environment).map_or(0, |host| host.log_part(job))
    }

    fn progress<'a>(&'a self, job: &'a StageJob, steps: Vec<StepRun>) -> BoxFuture<'a, ()> {
        async move {
            if let Some(host) = self.of(&job.environment) {
                host.progress(job, steps).await;
            }
        }
        .boxed()
    }

    fn ended<'a>(&'a self, job: &'a StageJob, end: StageEnd, steps: Vec<StepRun>) -> BoxFuture<'a, ()> {
        async move {
            if let Some(host) = self.of(&job.environment) {
                host.ended(job, end, steps).await;
            }
        }
        .boxed()
    }

    fn swept<'a>(&'a self, environment: &'a EnvironmentKey, deployment: DeploymentId) -> BoxFuture<'a, ()> {
        async move {
            if let Some(host) = self.of(environment) {
                host.swept(environment, deployment).await;
            }
        }
        .boxed()
    }

    fn may_act(&self, environment: &EnvironmentKey) -> bool {
        self.of(environment).is_some_and(|host| host.store.is_current())
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub struct PipelineMasks {
    vault: Arc<Vault>,
    shared: Arc<SharedMasks<SecretVersions>>,
}

/// The secrets of a pipeline's steps, and the mask that hides them in the output.
struct StepSecrets {
    by_name: Vec<(VariableName, SecretValue)>,
    /// The error is one sentence.
    mask: Result<Mask, String>,
}

impl PipelineMasks {
    pub fn new(vault: Arc<Vault>) -> Self {
        Self { vault, shared: Arc::default() }
    }

    fn for_steps(&self, pipeline: &PipelineKey) -> Result<StepSecrets, SecretError> {
        let secrets = self.vault.secrets_for(pipeline)?;
        Ok(StepSecrets { by_name: secrets.by_name()?, mask: self.mask_of(&secrets) })
    }

    /// Masks all secrets that the steps of a pipeline may have seen. The error is one sentence.
    pub fn mask(&self, pipeline: &PipelineKey) -> Result<Mask, String> {
        self.mask_of(&self.vault.secrets_for(pipeline).map_err(|error| error.to_string())?)
    }

    fn mask_of(&self, secrets: &PipelineSecrets) -> Result<Mask, String> {
        self.shared.get(secrets.versions(), || {
            let values = secrets.values().map_err(|error| error.to_string())?;
            Mask::new(values.iter().map(|value| value.reveal()))
        })
    }
}

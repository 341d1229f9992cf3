//! Joins the environments, which decide about deployments, with the runner, which executes them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, LocalBoxFuture};
use tokio::sync::{mpsc, oneshot};
use zeroize::Zeroizing;

use crate::actors::{Definitions, Environments, Executor, Failure};
use crate::domain::{
    BeginStage, DeploymentId, EndStage, EnvironmentKey, Identifier, PipelineKey, PipelineNow, ReportSteps,
    StageAttempt, StageEnd, StageOrder, StepRun, Swept, Timestamp,
};
use crate::http::{Node, Realm, WallClock};
use crate::pipelines::Pipelines;
use crate::registries::Registries;
use crate::runner::{Host, Runner, StageJob, Variable};
use crate::secrets::Vault;
use crate::store::StoreError;

/// Reports on their way to an environment: as many as stages may run, or they wait.
const ERRANDS_MAX: usize = 256;
/// After an environment could not be told: when to try again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often logs and working directories that nobody needs any more are removed.
const TIDIED_EVERY: Duration = Duration::from_secs(60);

/// The pipelines as deployments find them, with what they use of registries. One that is gone starts nothing.
pub struct Registered {
    pub pipelines: Pipelines,
    pub registries: Registries,
}

impl Definitions for Registered {
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

/// What the environments have the runner do.
pub struct Hands(pub Runner);

impl Executor for Hands {
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

/// Removes what deployments have left on the disk, when it is no longer needed. What an organization has that is not
/// declared this time stays, like all else of it: a file that was forgotten at one start costs nothing.
pub async fn tidy(node: Arc<Node>, realm: Arc<Realm>, runner: Runner, declared: Vec<Identifier>) {
    let mut every = tokio::time::interval(TIDIED_EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        let (node, realm) = (node.clone(), realm.clone());
        let (runner, mut organizations) = (runner.clone(), declared.clone());
        let tidied = tokio::task::spawn_blocking(move || {
            let environments = &realm.environments;
            organizations.extend(environments.organizations_with_deployments()?);
            // What cannot be read may be needed.
            let is_known = |id| {
                let mut known = organizations.iter().map(|organization| environments.deployment(organization, id));
                known.any(|found| !matches!(found, Ok(None)))
            };
            runner.remove_work_dirs(|id| environments.holds_work(organizations.iter(), id).unwrap_or(true));
            node.logs.sweep(is_known);
            Ok::<_, StoreError>(())
        });
        let failed = match tidied.await {
            Ok(tidied) => tidied.err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = failed {
            tracing::error!(error, "logs and working directories could not be tidied");
        }
    }
}

/// What the runner reports to. Actors start only on a thread that runs actors, and the runner's tasks are none of
/// those: each report is an errand for one that is.
pub struct Reports {
    environments: Environments,
    vault: Arc<Vault>,
    clock: WallClock,
    errands: mpsc::Sender<Errand>,
}

type Errand = Box<dyn FnOnce() -> LocalBoxFuture<'static, ()> + Send>;

impl Reports {
    /// To be called where actors run.
    pub fn new(environments: Environments, vault: Arc<Vault>, clock: WallClock) -> Self {
        let (errands, mut waiting) = mpsc::channel::<Errand>(ERRANDS_MAX);
        actix_web::rt::spawn(async move {
            while let Some(errand) = waiting.recv().await {
                actix_web::rt::spawn(errand());
            }
        });
        Self { environments, vault, clock, errands }
    }

    /// Tells an environment something, once. None if nobody knows whether it heard.
    async fn tell<F>(&self, tell: impl FnOnce(Environments) -> F + Send + 'static) -> Option<Result<(), Failure>>
    where
        F: Future<Output = Result<(), Failure>> + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let environments = self.environments.clone();
        let errand: Errand = Box::new(move || {
            let told = tell(environments);
            async move { _ = reply.send(told.await) }.boxed_local()
        });
        self.errands.send(errand).await.ok()?;
        answer.await.ok()
    }

    /// The same until it is decided. Says whether it was accepted: what is refused is no longer so.
    async fn tell_until_heard<F>(
        &self,
        environment: &EnvironmentKey,
        of: DeploymentId,
        tell: impl Fn(Environments) -> F + Clone + Send + 'static,
    ) -> bool
    where
        F: Future<Output = Result<(), Failure>> + 'static,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.tell(tell.clone()).await {
                Some(Ok(())) => return true,
                Some(Err(Failure::Rejected(_))) => return false,
                Some(Err(failure)) => failure.to_string(),
                None => "the thread that tells it has ended".to_owned(),
            };
            if pause == FIRST_PAUSE {
                tracing::warn!(%environment, deployment = %of, error, "how a deployment goes cannot be recorded; trying on");
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Which run of which stage a deployment is at. Tries until that can be read: its environment waits for it.
    async fn present(&self, environment: &EnvironmentKey, deployment: DeploymentId) -> Option<StageAttempt> {
        let mut pause = FIRST_PAUSE;
        let found = loop {
            match self.environments.deployment(&environment.pipeline.organization, deployment) {
                Ok(found) => break found?,
                Err(error) => {
                    tracing::error!(%environment, %deployment, %error, "a deployment cannot be read; trying again");
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
        let active = found.record.stages.iter().enumerate().find(|(_, stage)| stage.status.is_active());
        active.map(|(stage, run)| StageAttempt { deployment, stage, attempt: run.attempt })
    }
}

fn attempt(job: &StageJob) -> StageAttempt {
    let StageOrder { deployment, stage, attempt, .. } = job.order;
    StageAttempt { deployment, stage, attempt }
}

impl Host for Reports {
    fn variables<'a>(&'a self, job: &'a StageJob) -> BoxFuture<'a, Result<Vec<Variable>, String>> {
        async move {
            let plain = job.order.blueprint.variables.iter().chain(&job.order.configuration.variables);
            let mut variables: Vec<_> = plain
                .map(|(name, value)| Variable {
                    name: name.to_string(),
                    value: Zeroizing::new(value.to_string()),
                    secret: false,
                })
                .collect();
            let (vault, pipeline) = (self.vault.clone(), job.environment.pipeline.clone());
            let opened = tokio::task::spawn_blocking(move || vault.open_for(&pipeline)).await;
            let secrets =
                opened.map_err(|error| error.to_string()).and_then(|opened| opened.map_err(|e| e.to_string()));
            let secrets = secrets.map_err(|error| {
                tracing::error!(environment = %job.environment, error, "the secrets of a pipeline cannot be opened");
                "its secrets could not be opened; the server's log says why".to_owned()
            })?;
            variables.extend(secrets.into_iter().map(|(name, value)| Variable {
                name: name.to_string(),
                value: Zeroizing::new(value.reveal().to_owned()),
                secret: true,
            }));
            Ok(variables)
        }
        .boxed()
    }

    fn begun<'a>(&'a self, job: &'a StageJob) -> BoxFuture<'a, bool> {
        let (key, of) = (job.environment.clone(), attempt(job));
        let tell = move |environments: Environments| {
            let key = key.clone();
            async move { environments.begin_stage(&key, BeginStage(of)).await }
        };
        self.tell_until_heard(&job.environment, of.deployment, tell).boxed()
    }

    /// The next report says it again, so one that is lost is lost.
    fn progress<'a>(&'a self, job: &'a StageJob, steps: Vec<StepRun>) -> BoxFuture<'a, ()> {
        let (key, of) = (job.environment.clone(), attempt(job));
        let tell = move |environments: Environments| async move {
            environments.report_steps(&key, ReportSteps { of, steps }).await
        };
        self.tell(tell).map(|_| ()).boxed()
    }

    fn ended<'a>(&'a self, job: &'a StageJob, end: StageEnd, steps: Vec<StepRun>) -> BoxFuture<'a, ()> {
        let (key, of) = (job.environment.clone(), attempt(job));
        if let StageEnd::Failed(reason) = &end {
            let stage = job.order.blueprint.stages.get(of.stage).map_or("", |stage| stage.name.as_str());
            tracing::info!(environment = %key, deployment = %of.deployment, stage, %reason, "a stage failed");
        }
        let tell = move |environments: Environments| {
            let (key, end) = (key.clone(), EndStage { of, end: end.clone(), steps: steps.clone() });
            async move { environments.end_stage(&key, end).await }
        };
        self.tell_until_heard(&job.environment, of.deployment, tell).map(|_| ()).boxed()
    }

    fn swept<'a>(&'a self, environment: &'a EnvironmentKey, deployment: DeploymentId) -> BoxFuture<'a, ()> {
        async move {
            // Of what it is at now: said again after it has been run again, it would be about something else.
            let Some(of) = self.present(environment, deployment).await else { return };
            tracing::info!(%environment, %deployment, "nothing of a deployment runs any more that was cut off");
            let key = environment.clone();
            let tell = move |environments: Environments| {
                let key = key.clone();
                async move { environments.swept(&key, Swept(of)).await }
            };
            self.tell_until_heard(environment, deployment, tell).await;
        }
        .boxed()
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

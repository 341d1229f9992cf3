//! One run of a stage: its steps in order, until one fails, the time is over, or it is no longer wanted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::http_step::{self, HttpClient};
use super::mask::Secrets;
use super::output::StepOutput;
use super::step::{Limits, Outcome, Scene, StepEnd, Will, until};
use super::substitute::Variables;
use super::tree::DEPLOYMENT_VARIABLE;
use super::{Host, Options, StageJob, Variable, process_step, work};
use crate::domain::{Action, Stage, StageEnd, Step, StepRun, StepStatus};
use crate::logs::{LogWriter, Logs, Section};

/// Why a stage failed is kept with its deployment for ever.
const REASON_BYTES_MAX: usize = 250;

/// What all stages that run have in common.
pub(super) struct Shared {
    pub options: Options,
    pub logs: Logs,
    pub host: Arc<dyn Host>,
    pub http: HttpClient,
}

pub(super) enum StageOutcome {
    Ended(StageEnd),
    /// Nobody is to be told: it was not wanted, or the server ends.
    Silent,
}

/// What the steps of a stage are before it begins.
pub(super) fn steps_at_first(job: &StageJob) -> Vec<StepRun> {
    let stage = job.order.blueprint.stages.get(job.order.stage);
    let steps = stage.map_or(&[][..], |stage| &stage.steps);
    steps.iter().map(StepRun::pending).collect()
}

/// Those that did not come to an end by themselves.
pub(super) fn close_steps(steps: &mut [StepRun], running_became: StepStatus) {
    for step in steps {
        step.status = match step.status {
            StepStatus::Pending => StepStatus::Skipped,
            StepStatus::Running => running_became,
            ended @ (StepStatus::Succeeded | StepStatus::Failed | StepStatus::Cancelled | StepStatus::Skipped) => ended,
        };
    }
}

/// Runs it to its end; `steps` says all the while how they stand.
pub(super) async fn run(
    shared: &Shared,
    job: &StageJob,
    steps: &mut Vec<StepRun>,
    will: watch::Receiver<Will>,
) -> StageOutcome {
    match unless_abandoned(&will, shared.host.begun(job)).await {
        Some(true) => {}
        Some(false) | None => return StageOutcome::Silent,
    }
    let Some(stage) = job.order.blueprint.stages.get(job.order.stage) else {
        return StageOutcome::Ended(StageEnd::Failed(Arc::from("its pipeline has no such stage")));
    };
    let prepared = tokio::select! {
        biased;
        () = until(will.clone(), Will::Stop) => None,
        prepared = prepare(shared, job) => Some(prepared),
    };
    let end = match prepared {
        None => Some(StageEnd::Cancelled),
        Some(Err(reason)) => Some(StageEnd::Failed(clipped(reason))),
        Some(Ok((scene, log))) => {
            let deadline = Instant::now() + Duration::from_secs(u64::from(stage.timeout_seconds));
            let limits = Limits { will: will.clone(), deadline };
            StageRunner { shared, job, stage, scene, limits, steps }.run(log).await
        }
    };
    close_steps(steps, StepStatus::Failed);
    match end {
        Some(StageEnd::Cancelled) if *will.borrow() == Will::Abandon => StageOutcome::Silent,
        Some(end) => StageOutcome::Ended(end),
        None => StageOutcome::Silent,
    }
}

/// None if the server ends before.
async fn unless_abandoned<T>(will: &watch::Receiver<Will>, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = until(will.clone(), Will::Abandon) => None,
        result = future => Some(result),
    }
}

/// What it needs before its first step. Otherwise one sentence why it cannot begin.
async fn prepare(shared: &Shared, job: &StageJob) -> Result<(Scene, LogWriter), String> {
    let given = shared.host.variables(job).await?;
    let deployment = job.order.deployment;
    let work_dir = work::dir(&shared.options.work_dir, deployment);
    let variables = seen_by_steps(&shared.options, job, &given);
    let logs = shared.logs.clone();
    let blocking = tokio::task::spawn_blocking(move || {
        let values = given.iter().filter(|variable| variable.secret).map(|variable| variable.value.as_str());
        let secrets = Arc::new(Secrets::new(values)?);
        work::make(&work_dir).map_err(|error| format!("its working directory could not be made: {error}"))?;
        Ok((Scene { deployment, variables, secrets, work_dir }, logs.append(deployment)))
    });
    blocking.await.expect("preparing a stage does not panic")
}

/// Everything in the environment of a step.
fn seen_by_steps(options: &Options, job: &StageJob, given: &[Variable]) -> Variables {
    let mut variables = Variables::from([("PATH".to_owned(), Zeroizing::new(options.path.clone()))]);
    variables.extend(given.iter().map(|variable| (variable.name.clone(), variable.value.clone())));
    let order = &job.order;
    let stage = order.blueprint.stages.get(order.stage).map(|stage| stage.name.to_string());
    // Last, so that nothing else can pass for them: by one of these the processes of a deployment are found.
    let ours = [
        ("LOCKKEEPER_ORGANIZATION", job.environment.pipeline.organization.to_string()),
        ("LOCKKEEPER_PIPELINE", job.environment.pipeline.pipeline.to_string()),
        ("LOCKKEEPER_ENVIRONMENT", job.environment.name.to_string()),
        ("LOCKKEEPER_SESSION", order.session.map(|session| session.to_string()).unwrap_or_default()),
        ("LOCKKEEPER_COMMIT", order.commit.to_string()),
        ("LOCKKEEPER_FENCING_TOKEN", order.fencing_token.to_string()),
        (DEPLOYMENT_VARIABLE, order.deployment.to_string()),
        ("LOCKKEEPER_STAGE", stage.unwrap_or_default()),
    ];
    variables.extend(ours.map(|(name, value)| (name.to_owned(), Zeroizing::new(value))));
    variables
}

struct StageRunner<'a> {
    shared: &'a Shared,
    job: &'a StageJob,
    stage: &'a Stage,
    scene: Scene,
    limits: Limits,
    steps: &'a mut Vec<StepRun>,
}

impl StageRunner<'_> {
    /// None if the server ends first.
    async fn run(self, mut log: LogWriter) -> Option<StageEnd> {
        let mut end = StageEnd::Succeeded;
        for (index, step) in self.stage.steps.iter().enumerate() {
            if *self.limits.will.borrow() != Will::Run {
                end = StageEnd::Cancelled;
                break;
            }
            self.steps[index].status = StepStatus::Running;
            self.steps[index].started_at = Some(self.shared.host.now());
            let told = self.shared.host.progress(self.job, self.steps.clone());
            unless_abandoned(&self.limits.will, told).await?;
            let ended;
            (ended, log) = self.run_step(step, log).await;
            self.steps[index].finished_at = Some(self.shared.host.now());
            self.steps[index].exit_code = ended.exit_code;
            let status;
            (status, end) = self.judge(step, ended.outcome);
            self.steps[index].status = status;
            if end != StageEnd::Succeeded {
                break;
            }
        }
        let synced = tokio::task::spawn_blocking(move || log.sync());
        synced.await.expect("syncing a log does not panic");
        Some(end)
    }

    async fn run_step(&self, step: &Step, log: LogWriter) -> (StepEnd, LogWriter) {
        let section =
            Section { stage: self.stage.name.shared(), step: step.name.shared(), attempt: self.job.order.attempt };
        let options = &self.shared.options;
        let log = log.step(section, options.log_bytes_per_step);
        let output = StepOutput::new(log, self.scene.secrets.clone(), self.shared.host.clone());
        let scene = self.scene.with(&step.inputs);
        let (mut ended, output) = match &step.action {
            Action::Run(arguments) => {
                let (supervisor, grace) = (&options.supervisor, options.grace);
                process_step::run(arguments, &scene, supervisor, grace, &self.limits, output).await
            }
            Action::Http(call) => http_step::run(&self.shared.http, call, &scene, &self.limits, output).await,
            Action::Uses(used) => {
                let reason = format!("was not filled in with {} when the deployment started", used.reference);
                (StepEnd::of(Outcome::Failed(reason)), output)
            }
        };
        match &ended.outcome {
            Outcome::Succeeded => {}
            Outcome::Failed(reason) => ended.remarks.push(format!("the step {reason}")),
            Outcome::TimedOut => ended.remarks.push(format!("terminated: {}", self.took_too_long())),
            Outcome::Stopped => ended.remarks.push("terminated: it was cancelled".to_owned()),
        }
        let remarks = std::mem::take(&mut ended.remarks);
        let finished = tokio::task::spawn_blocking(move || output.finish(&remarks));
        (ended, finished.await.expect("writing a log does not panic"))
    }

    /// What became of the step, and of the stage by it.
    fn judge(&self, step: &Step, outcome: Outcome) -> (StepStatus, StageEnd) {
        match outcome {
            Outcome::Succeeded => (StepStatus::Succeeded, StageEnd::Succeeded),
            Outcome::Failed(reason) => {
                let reason = self.scene.secrets.mask(&format!("step `{}` {reason}", step.name));
                (StepStatus::Failed, StageEnd::Failed(clipped(reason)))
            }
            Outcome::TimedOut => (StepStatus::Failed, StageEnd::Failed(clipped(self.took_too_long()))),
            Outcome::Stopped => (StepStatus::Cancelled, StageEnd::Cancelled),
        }
    }

    fn took_too_long(&self) -> String {
        format!("the stage took longer than its {} s", self.stage.timeout_seconds)
    }
}

fn clipped(mut text: String) -> Arc<str> {
    text.truncate(text.floor_char_boundary(REASON_BYTES_MAX));
    Arc::from(text)
}

//! One run of a stage: its steps in order, until one fails, the time is up, or the stage is stopped.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::host::{Host, Options, StageJob, StepInputs, Variable};
use super::output::StepOutput;
use super::process_tree::DEPLOYMENT_VARIABLE;
use super::step::{Directive, DiskUse, Limits, Outcome, StepContext, StepEnd, Variables, until};
use super::step_lease::{Moment, StepLease};
use super::{http_step, process_step, work_dirs};
use crate::logs::{LogWriter, Logs, Section};
use domain::{Action, Stage, StageEnd, Step, StepRun, StepStatus};
use outbound::GuardedClient;
use shares::Paces;

/// The reason of a failure is kept permanently with its deployment.
const REASON_BYTES_MAX: usize = 250;

/// Everything that stages need from the runner.
pub(super) struct StageServices {
    pub options: Options,
    pub logs: Logs,
    pub host: Arc<dyn Host>,
    pub http: GuardedClient,
    pub output_paces: Arc<Paces>,
}

/// The steps of a stage before it begins.
pub(super) fn pending_steps(job: &StageJob) -> Vec<StepRun> {
    let stage = job.order.blueprint.stages.get(job.order.stage);
    let steps = stage.map_or(&[][..], |stage| &stage.steps);
    steps.iter().map(StepRun::pending).collect()
}

/// Gives every unfinished step its final status.
pub(super) fn close_steps(steps: &mut [StepRun], running_becomes: StepStatus) {
    for step in steps {
        step.status = match step.status {
            StepStatus::Pending => StepStatus::Skipped,
            StepStatus::Running => running_becomes,
            ended @ (StepStatus::Succeeded | StepStatus::Failed | StepStatus::Cancelled | StepStatus::Skipped) => ended,
        };
    }
}

/// Runs the stage to its end, keeping `steps` up to date. `None`: nothing is reported, since the stage was no longer
/// wanted or the server is stopping.
pub(super) async fn run(
    services: &StageServices,
    job: &StageJob,
    steps: &mut Vec<StepRun>,
    directive: watch::Receiver<Directive>,
) -> Option<StageEnd> {
    if !unless_abandoned(&directive, services.host.begun(job)).await? {
        return None;
    }
    let Some(stage) = job.order.blueprint.stages.get(job.order.stage) else {
        return Some(StageEnd::Failed(Arc::from("the pipeline has no such stage")));
    };
    let prepared = tokio::select! {
        biased;
        () = until(directive.clone(), Directive::Stop) => None,
        prepared = prepare(services, job) => Some(prepared),
    };
    let end = match prepared {
        None => Some(StageEnd::Cancelled),
        Some(Err(reason)) => Some(StageEnd::Failed(clipped(reason))),
        Some(Ok((context, log))) => {
            let deadline = Instant::now() + Duration::from_secs(u64::from(stage.timeout_seconds));
            let (host, environment) = (services.host.clone(), job.environment.clone());
            let disk = DiskUse::new(&services.options, &environment.pipeline.organization, &context.work_dir);
            let limits = Limits { directive: directive.clone(), deadline, host, environment, disk };
            StageRunner { services, job, stage, context, limits, steps }.run(log).await
        }
    };
    close_steps(steps, StepStatus::Failed);
    end.filter(|end| *end != StageEnd::Cancelled || *directive.borrow() != Directive::Abandon)
}

/// `None` if the server stops first.
async fn unless_abandoned<T>(directive: &watch::Receiver<Directive>, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = until(directive.clone(), Directive::Abandon) => None,
        result = future => Some(result),
    }
}

/// Prepares the stage for its first step. The error is one sentence.
async fn prepare(services: &StageServices, job: &StageJob) -> Result<(StepContext, LogWriter), String> {
    let StepInputs { variables: given, mask } = services.host.inputs(job).await?;
    let deployment = job.order.deployment;
    let work_dir = work_dirs::path(&services.options.work_dir, deployment);
    let mut variables = step_variables(&services.options, job, given);
    let (logs, organization) = (services.logs.clone(), job.environment.pipeline.organization.clone());
    let log_part = services.host.log_part(job);
    if !services.options.isolation.is_known() {
        return Err("how steps are confined on this machine could not be tried yet, since its disk is full".to_owned());
    }
    let isolation = services.options.isolation.as_ref();
    let groups = services.options.isolation.groups().cloned();
    let mut confinement = isolation.map(|isolation| isolation.confinement(&organization, &work_dir));
    if let Some(confinement) = confinement.as_ref().filter(|confinement| !confinement.namespaces) {
        // Without a mount namespace, /tmp is shared and closed to the step.
        let own = || Zeroizing::new(confinement.temporary_dir.clone());
        variables.entry("TMPDIR".to_owned()).or_insert_with(own);
    }
    let blocking = tokio::task::spawn_blocking(move || {
        let user = confinement.as_ref().and_then(|confinement| confinement.user);
        let temporary = confinement.as_ref().map(|confinement| Path::new(&confinement.temporary_dir));
        let created =
            [Some(&*work_dir), temporary].into_iter().flatten().try_for_each(|dir| work_dirs::create(dir, user));
        created.map_err(|error| format!("its working directory could not be created: {error}"))?;
        if let (Some(confinement), Some(groups)) = (&mut confinement, groups) {
            let made = groups.make(&deployment.to_string());
            let made = made.map_err(|error| format!("its control groups could not be created: {error}"))?;
            confinement.control_groups = made.iter().map(|group| group.to_string_lossy().into_owned()).collect();
        }
        let context = StepContext { deployment, variables, mask, work_dir, confinement };
        Ok((context, logs.append_part(&organization, deployment, log_part)))
    });
    blocking.await.expect("preparing a stage does not panic")
}

/// The environment of the steps.
fn step_variables(options: &Options, job: &StageJob, given: Vec<Variable>) -> Variables {
    let mut variables = Variables::from([("PATH".to_owned(), Zeroizing::new(options.path.clone()))]);
    variables.extend(given.into_iter().map(|variable| (variable.name, variable.value)));
    let order = &job.order;
    let stage = order.blueprint.stages.get(order.stage).map(|stage| stage.name.to_string());
    // Last, so that no other variable can replace them: one of them identifies the processes of a deployment.
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
    services: &'a StageServices,
    job: &'a StageJob,
    stage: &'a Stage,
    context: StepContext,
    limits: Limits,
    steps: &'a mut Vec<StepRun>,
}

impl StageRunner<'_> {
    /// `None` if the server stops first.
    async fn run(self, mut log: LogWriter) -> Option<StageEnd> {
        let mut end = StageEnd::Succeeded;
        for (index, step) in self.stage.steps.iter().enumerate() {
            if *self.limits.directive.borrow() != Directive::Run {
                end = StageEnd::Cancelled;
                break;
            }
            self.steps[index].status = StepStatus::Running;
            self.steps[index].started_at = Some(self.services.host.now());
            let reported = self.services.host.progress(self.job, self.steps.clone());
            unless_abandoned(&self.limits.directive, reported).await?;
            let ended;
            (ended, log) = self.run_step(step, log).await;
            self.steps[index].finished_at = Some(self.services.host.now());
            self.steps[index].exit_code = ended.exit_code;
            let status;
            (status, end) = self.judge(step, ended.outcome);
            self.steps[index].status = status;
            if end != StageEnd::Succeeded {
                break;
            }
        }
        let groups = self.services.options.isolation.groups().cloned();
        let deployment = self.job.order.deployment;
        let filled_disk = self.limits.disk.as_ref().is_some_and(|disk| disk.writer.was_ended());
        let freed = filled_disk.then(|| self.context.work_dir.clone());
        let synced = tokio::task::spawn_blocking(move || {
            // Before the log is synced, which may need the space.
            if let Some(work_dir) = freed {
                work_dirs::remove(&work_dir, deployment);
            }
            log.sync();
            if let Some(groups) = groups {
                groups.remove(&deployment.to_string());
            }
        });
        synced.await.expect("syncing a log does not panic");
        Some(end)
    }

    async fn run_step(&self, step: &Step, log: LogWriter) -> (StepEnd, LogWriter) {
        let section =
            Section { stage: self.stage.name.shared(), step: step.name.shared(), attempt: self.job.order.attempt };
        let options = &self.services.options;
        let log = log.step(section, options.log_bytes_per_step);
        let (paces, host) = (self.services.output_paces.clone(), self.services.host.clone());
        let organization = self.job.environment.pipeline.organization.clone();
        let output = StepOutput::new(log, self.context.mask.clone(), host, paces, organization);
        let context = self.context.with(&step.inputs);
        let (mut ended, output) = match self.limits.until_startable().await {
            Ok(owned_at) => self.act(step, &context, owned_at, output).await,
            Err(outcome) => (StepEnd::of(outcome), output),
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

    async fn act(
        &self,
        step: &Step,
        context: &StepContext,
        owned_at: Moment,
        output: StepOutput,
    ) -> (StepEnd, StepOutput) {
        let options = &self.services.options;
        match &step.action {
            Action::Run(arguments) => {
                if let Err(outcome) = self.limits.until_room().await {
                    return (StepEnd::of(outcome), output);
                }
                let lease = options.step_lease.map(|lasts| StepLease::new(lasts, owned_at));
                process_step::run(arguments, context, options, lease, &self.limits, output).await
            }
            Action::Http(call) => http_step::run(&self.services.http, call, context, &self.limits, output).await,
            Action::Uses(used) => {
                let reason = format!("was not replaced by {} when the deployment started", used.reference);
                (StepEnd::of(Outcome::Failed(reason)), output)
            }
        }
    }

    /// The status of the step, and the resulting end of the stage.
    fn judge(&self, step: &Step, outcome: Outcome) -> (StepStatus, StageEnd) {
        match outcome {
            Outcome::Succeeded => (StepStatus::Succeeded, StageEnd::Succeeded),
            Outcome::Failed(reason) => {
                let reason = self.context.mask.apply(&format!("step `{}` {reason}", step.name));
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

//! All stages that run or wait for a slot: starts them, stops them and reports their ends to the host.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tracing::{error, warn};

use super::fair_queue::FairQueue;
use super::host::{Host, Options, RUNNING_MAX, StageJob};
use super::process_tree;
use super::stage::{self, StageServices};
use super::step::Directive;
use super::work_dirs;
use crate::logs::Logs;
use domain::{DeploymentId, EnvironmentKey, Identifier, StageEnd, StepRun, StepStatus};
use outbound::GuardedClient;
use shares::{Capacity, Paces, Permits, ShareMeter};

/// The time that killed processes have to disappear before the server ends without them. A process stuck in the kernel
/// may never disappear; its supervisor stays with it, and the next start waits for both.
const GONE_WITHIN: Duration = Duration::from_secs(10);
/// Each sweep repeatedly scans all processes of the machine.
const SWEEPS_MAX: usize = 2;

/// Runs stages. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Runner {
    inner: Arc<Inner>,
}

struct Inner {
    services: StageServices,
    /// The runtime for all tasks of the runner: callers may be on another one, which ends earlier.
    runtime: Handle,
    state: Mutex<State>,
    activity: watch::Sender<Activity>,
    slots: ShareMeter,
    sweeps: Permits,
}

struct State {
    queue: FairQueue<StageJob>,
    jobs: HashMap<DeploymentId, ActiveJob>,
    /// The number of jobs that run.
    running: usize,
    /// Stages whose end is being reported to the host; meanwhile the deployment's next stage may start.
    reporting: HashMap<DeploymentId, usize>,
    /// Deployments being swept, until the host has recorded it.
    sweeping: HashSet<DeploymentId>,
    accepts_jobs: bool,
}

/// A waiting or running job. A deployment has at most one.
struct ActiveJob {
    directive: watch::Sender<Directive>,
    is_waiting: bool,
}

#[derive(Clone, Copy, Default)]
struct Activity {
    running: usize,
    reporting: usize,
}

impl Runner {
    /// Call it on the runtime for all of the runner's tasks.
    pub fn new(options: Options, logs: Logs, host: Arc<dyn Host>) -> Self {
        let slots = Capacity::turns(options.max_running.min(RUNNING_MAX)).among(options.organizations);
        let sweeps = Capacity::turns(SWEEPS_MAX).among(options.organizations);
        let state = State {
            queue: FairQueue::new(slots),
            jobs: HashMap::new(),
            running: 0,
            reporting: HashMap::new(),
            sweeping: HashSet::new(),
            accepts_jobs: true,
        };
        let http = GuardedClient::new(options.policy.clone());
        let output_paces = Arc::new(Paces::among(options.organizations));
        let inner = Inner {
            services: StageServices { options, logs, host, http, output_paces },
            runtime: Handle::current(),
            state: Mutex::new(state),
            activity: watch::channel(Activity::default()).0,
            slots: ShareMeter::new("runner_slots", slots),
            // Unlimited: after a start, all unfinished deployments may wait.
            sweeps: Permits::new("process_sweeps", sweeps, Capacity::turns(usize::MAX).among(1)),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Runs the stage when a slot is free. Does nothing if a stage of that deployment is already running or waiting.
    pub fn start(&self, job: StageJob) {
        let deployment = job.order.deployment;
        let mut state = self.inner.state.lock();
        if !state.accepts_jobs {
            return;
        }
        if state.jobs.contains_key(&deployment) {
            warn!(%deployment, "a stage of the deployment is already running or waiting");
            return;
        }
        state.jobs.insert(deployment, ActiveJob { directive: watch::channel(Directive::Run).0, is_waiting: true });
        let pipeline = job.environment.pipeline.clone();
        state.queue.push(&pipeline, job);
        self.fill_slots(&mut state);
    }

    /// Ends the deployment's running or waiting stage and reports that. Without one, sweeps the processes that an
    /// earlier run of the server may have left.
    pub fn stop(&self, environment: &EnvironmentKey, deployment: DeploymentId) {
        let mut state = self.inner.state.lock();
        match state.jobs.get(&deployment) {
            Some(job) if !job.is_waiting => {
                job.directive.send_if_modified(|directive| {
                    let changes = *directive < Directive::Stop;
                    *directive = (*directive).max(Directive::Stop);
                    changes
                });
            }
            Some(_) => self.withdraw(&mut state, environment, deployment),
            None if state.reporting.contains_key(&deployment) => {}
            None => {
                drop(state);
                self.sweep(environment.clone(), deployment);
            }
        }
    }

    /// Kills the processes that an earlier run of the server left behind, and reports that. Does nothing if this run
    /// has started the deployment.
    pub fn sweep(&self, environment: EnvironmentKey, deployment: DeploymentId) {
        let mut state = self.inner.state.lock();
        let is_ours = state.jobs.contains_key(&deployment) || state.reporting.contains_key(&deployment);
        if is_ours || !state.accepts_jobs || !state.sweeping.insert(deployment) {
            return;
        }
        let runner = self.clone();
        self.inner.runtime.spawn(async move {
            runner.kill_leftovers(&environment.pipeline.organization, deployment).await;
            runner.inner.services.host.swept(&environment, deployment).await;
            // Only after the host has recorded it: until then it may ask to stop the deployment, and a second sweep
            // could hit processes that have been started since.
            runner.inner.state.lock().sweeping.remove(&deployment);
        });
    }

    /// Accepts no more jobs and waits this long for the running ones. Then it kills the rest without reporting it: the
    /// next start of the server finds those stages interrupted. Returns whether everything has ended.
    pub async fn shut_down(&self, wait: Duration) -> bool {
        let all_gone = self.end_all(wait).await;
        if let Some(groups) = self.inner.services.options.isolation.groups() {
            groups.close();
        }
        all_gone
    }

    async fn end_all(&self, wait: Duration) -> bool {
        {
            let mut state = self.inner.state.lock();
            state.accepts_jobs = false;
            state.queue.clear();
            state.jobs.retain(|_, job| !job.is_waiting);
            self.publish(&state);
        }
        let mut activity = self.inner.activity.subscribe();
        let all_reported = activity.wait_for(|now| now.running == 0 && now.reporting == 0);
        if tokio::time::timeout(wait, all_reported).await.is_ok() {
            return true;
        }
        self.inner.state.lock().jobs.values().for_each(|job| {
            job.directive.send_replace(Directive::Abandon);
        });
        let all_gone = activity.wait_for(|now| now.running == 0);
        tokio::time::timeout(GONE_WITHIN, all_gone).await.is_ok()
    }

    pub fn running(&self) -> usize {
        self.inner.activity.borrow().running
    }

    pub fn waiting(&self) -> usize {
        self.inner.state.lock().queue.waiting()
    }

    /// Removes the working directories of all other deployments. Blocking.
    pub fn remove_work_dirs(&self, keep: impl Fn(DeploymentId) -> bool) {
        let is_active = |deployment| self.inner.state.lock().jobs.contains_key(&deployment);
        let work_dir = &self.inner.services.options.work_dir;
        work_dirs::remove_unless(work_dir, |deployment| is_active(deployment) || keep(deployment));
    }

    /// Counts the working directories left by an earlier run as disk use of their organizations. Blocking.
    pub fn count_work_dirs(&self, owner: impl Fn(DeploymentId) -> Option<Identifier>) {
        let options = &self.inner.services.options;
        let Some(disk) = &options.disk else { return };
        for deployment in work_dirs::deployments(&options.work_dir) {
            let directories = work_dirs::both(&options.work_dir, deployment);
            if disk.counts(&directories) {
                continue;
            }
            if let Some(organization) = owner(deployment) {
                disk.keep(&organization, directories);
            }
        }
    }

    /// Starts waiting jobs while slots are free.
    fn fill_slots(&self, state: &mut State) {
        while let Some(job) = state.queue.next_job() {
            let organization = &job.environment.pipeline.organization;
            let Some(active) = state.jobs.get_mut(&job.order.deployment) else {
                state.queue.free_slot(organization);
                continue;
            };
            self.inner.slots.used(organization, state.queue.running_of(organization));
            active.is_waiting = false;
            state.running += 1;
            let directive = active.directive.subscribe();
            let runner = self.clone();
            self.inner.runtime.spawn(async move { runner.carry_out(job, directive).await });
        }
        self.publish(state);
    }

    async fn carry_out(&self, job: StageJob, directive: watch::Receiver<Directive>) {
        let deployment = job.order.deployment;
        let mut steps = stage::pending_steps(&job);
        let run = stage::run(&self.inner.services, &job, &mut steps, directive);
        let end = match AssertUnwindSafe(run).catch_unwind().await {
            Ok(end) => end,
            Err(_) => {
                error!(%deployment, "the server panicked while running a stage");
                // The supervisor's lifeline is closed by now; the sweep makes sure that its processes are gone.
                self.kill_leftovers(&job.environment.pipeline.organization, deployment).await;
                stage::close_steps(&mut steps, StepStatus::Failed);
                Some(StageEnd::Failed(Arc::from("internal error of the server; see its log")))
            }
        };
        let end = {
            let mut state = self.inner.state.lock();
            let active = state.jobs.remove(&deployment);
            state.running -= 1;
            let organization = &job.environment.pipeline.organization;
            state.queue.free_slot(organization);
            self.inner.slots.used(organization, state.queue.running_of(organization));
            // If the stage was stopped before it began, the host waits for its end.
            let was_stopped = active.is_some_and(|job| *job.directive.borrow() == Directive::Stop);
            let end = end.or(was_stopped.then_some(StageEnd::Cancelled));
            if end.is_some() {
                *state.reporting.entry(deployment).or_default() += 1;
            }
            self.fill_slots(&mut state);
            end
        };
        if let Some(end) = end {
            // Only the steps of a stage that has not begun are still open.
            stage::close_steps(&mut steps, StepStatus::Cancelled);
            self.report_end(&job, end, steps).await;
        }
    }

    /// Removes a waiting job and reports its end.
    fn withdraw(&self, state: &mut State, environment: &EnvironmentKey, deployment: DeploymentId) {
        let Some(job) = state.queue.withdraw(&environment.pipeline, |job| job.order.deployment == deployment) else {
            return;
        };
        state.jobs.remove(&deployment);
        *state.reporting.entry(deployment).or_default() += 1;
        self.publish(state);
        let runner = self.clone();
        self.inner.runtime.spawn(async move {
            let mut steps = stage::pending_steps(&job);
            stage::close_steps(&mut steps, StepStatus::Cancelled);
            runner.report_end(&job, StageEnd::Cancelled, steps).await;
        });
    }

    async fn report_end(&self, job: &StageJob, end: StageEnd, steps: Vec<StepRun>) {
        self.inner.services.host.ended(job, end, steps).await;
        let mut state = self.inner.state.lock();
        if let Some(count) = state.reporting.get_mut(&job.order.deployment) {
            *count -= 1;
            if *count == 0 {
                state.reporting.remove(&job.order.deployment);
            }
        }
        self.publish(&state);
    }

    async fn kill_leftovers(&self, organization: &Identifier, deployment: DeploymentId) {
        let place = self.inner.sweeps.acquire(organization).await;
        let work_dir = work_dirs::path(&self.inner.services.options.work_dir, deployment);
        let (logs, host) = (self.inner.services.logs.clone(), self.inner.services.host.clone());
        let organization = organization.clone();
        let isolation = self.inner.services.options.isolation.clone();
        let swept = tokio::task::spawn_blocking(move || {
            let killed = process_tree::sweep(deployment, &work_dir, &isolation.groups_of(deployment));
            if let Some(groups) = isolation.groups() {
                groups.remove(&deployment.to_string());
            }
            if killed > 0 {
                let text = format!("killed {killed} processes left behind by an earlier run of the server");
                warn!(%deployment, "{text}");
                if let Some(mut log) = logs.append(&organization, deployment) {
                    log.remark(host.now(), &text);
                }
            }
        });
        swept.await.expect("scanning processes does not panic");
        drop(place);
    }

    fn publish(&self, state: &State) {
        let reporting = state.reporting.values().sum();
        self.inner.activity.send_replace(Activity { running: state.running, reporting });
    }
}

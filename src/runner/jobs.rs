//! All stages that run or wait for their turn: who is started when, who is stopped, and who is told.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tracing::{error, warn};

use super::http_step::HttpClient;
use super::stage::{self, Shared, StageOutcome};
use super::step::Will;
use super::turns::Turns;
use super::{Host, Options, RUNNING_MAX, StageJob, tree, work};
use crate::domain::{DeploymentId, EnvironmentKey, PipelineKey, StageEnd, StepStatus};
use crate::logs::Logs;

/// How long killed processes may take to be gone before the server ends without them. One that is stuck in the kernel
/// takes for ever; its supervisor stays with it, and the next start waits for both.
const GONE_WITHIN: Duration = Duration::from_secs(10);
/// Each looks through all processes of the machine, again and again.
const SWEEPS_AT_ONCE: usize = 2;

/// Runs stages. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Runner {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Shared,
    /// Where everything here runs: whoever calls may be on another runtime, which ends before this one.
    runtime: Handle,
    state: Mutex<State>,
    active: watch::Sender<Active>,
    sweeps: Semaphore,
}

struct State {
    turns: Turns<PipelineKey, StageJob>,
    live: HashMap<DeploymentId, Live>,
    /// How many of them run.
    running: usize,
    /// Nothing of them runs any more, but the host is still being told; in between, the next stage may start.
    reporting: HashMap<DeploymentId, usize>,
    /// Being swept, or the host is still being told that they are.
    sweeping: HashSet<DeploymentId>,
    takes_jobs: bool,
}

/// A job that waits or runs.
struct Live {
    will: watch::Sender<Will>,
    waits: bool,
}

#[derive(Clone, Copy, Default)]
struct Active {
    running: usize,
    reporting: usize,
}

impl Runner {
    /// To be called on the runtime that everything is to run on.
    pub fn new(options: Options, logs: Logs, host: Arc<dyn Host>) -> Self {
        let state = State {
            turns: Turns::new(options.max_running.min(RUNNING_MAX)),
            live: HashMap::new(),
            running: 0,
            reporting: HashMap::new(),
            sweeping: HashSet::new(),
            takes_jobs: true,
        };
        let inner = Inner {
            shared: Shared { options, logs, host, http: HttpClient::default() },
            runtime: Handle::current(),
            state: Mutex::new(state),
            active: watch::channel(Active::default()).0,
            sweeps: Semaphore::new(SWEEPS_AT_ONCE),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Has it run when its turn comes. Nothing happens if a stage of that deployment runs or waits already.
    pub fn start(&self, job: StageJob) {
        let deployment = job.order.deployment;
        let mut state = self.inner.state.lock();
        if !state.takes_jobs {
            return;
        }
        if state.live.contains_key(&deployment) {
            warn!(%deployment, "a stage of the deployment runs already");
            return;
        }
        state.live.insert(deployment, Live { will: watch::channel(Will::Run).0, waits: true });
        state.turns.join(job.environment.pipeline.clone(), job);
        self.fill_places(&mut state);
    }

    /// Ends what runs or waits of it and says so as its end. If nothing does, what an earlier run of the server may have
    /// left is swept.
    pub fn stop(&self, environment: &EnvironmentKey, deployment: DeploymentId) {
        let mut state = self.inner.state.lock();
        match state.live.get(&deployment) {
            Some(live) if !live.waits => {
                live.will.send_if_modified(|will| {
                    let changes = *will < Will::Stop;
                    *will = (*will).max(Will::Stop);
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

    /// Sees that nothing is left of what an earlier run of the server has started, and says so; unless it runs now.
    pub fn sweep(&self, environment: EnvironmentKey, deployment: DeploymentId) {
        let mut state = self.inner.state.lock();
        let is_ours = state.live.contains_key(&deployment) || state.reporting.contains_key(&deployment);
        if is_ours || !state.takes_jobs || !state.sweeping.insert(deployment) {
            return;
        }
        let runner = self.clone();
        self.inner.runtime.spawn(async move {
            runner.sweep_away(deployment).await;
            runner.inner.shared.host.swept(&environment, deployment).await;
            // Not before the host has taken it: until then it may say to stop it, and by the time a second look were
            // through, what it finds could be what was started since.
            runner.inner.state.lock().sweeping.remove(&deployment);
        });
    }

    /// Takes no more jobs, and waits this long for those that run. Then all that is left is killed, and nobody is told:
    /// the next start of the server finds them cut off. Says whether nothing runs any more.
    pub async fn shut_down(&self, patience: Duration) -> bool {
        {
            let mut state = self.inner.state.lock();
            state.takes_jobs = false;
            state.turns.withdraw_all();
            state.live.retain(|_, live| !live.waits);
            self.publish(&state);
        }
        let mut active = self.inner.active.subscribe();
        let all_told = active.wait_for(|active| active.running == 0 && active.reporting == 0);
        if tokio::time::timeout(patience, all_told).await.is_ok() {
            return true;
        }
        self.inner.state.lock().live.values().for_each(|live| {
            live.will.send_replace(Will::Abandon);
        });
        let all_gone = active.wait_for(|active| active.running == 0);
        tokio::time::timeout(GONE_WITHIN, all_gone).await.is_ok()
    }

    pub fn running(&self) -> usize {
        self.inner.active.borrow().running
    }

    pub fn waiting(&self) -> usize {
        self.inner.state.lock().turns.waiting()
    }

    /// Removes the working directories that are no longer wanted. Blocking.
    pub fn forget_work(&self, keep: impl Fn(DeploymentId) -> bool) {
        let is_live = |deployment| self.inner.state.lock().live.contains_key(&deployment);
        work::forget(&self.inner.shared.options.work_dir, |deployment| is_live(deployment) || keep(deployment));
    }

    /// Starts those whose turn it is.
    fn fill_places(&self, state: &mut State) {
        while let Some(job) = state.turns.next() {
            let Some(live) = state.live.get_mut(&job.order.deployment) else {
                state.turns.leave();
                continue;
            };
            live.waits = false;
            state.running += 1;
            let will = live.will.subscribe();
            let runner = self.clone();
            self.inner.runtime.spawn(async move { runner.carry_out(job, will).await });
        }
        self.publish(state);
    }

    async fn carry_out(&self, job: StageJob, will: watch::Receiver<Will>) {
        let deployment = job.order.deployment;
        let mut steps = stage::steps_at_first(&job);
        let run = stage::run(&self.inner.shared, &job, &mut steps, will);
        let outcome = match AssertUnwindSafe(run).catch_unwind().await {
            Ok(outcome) => outcome,
            Err(_) => {
                error!(%deployment, "running a stage failed by a fault of the server");
                // The lifeline of what ran is cut; here it is seen that it is gone.
                self.sweep_away(deployment).await;
                stage::close_steps(&mut steps, StepStatus::Failed);
                StageOutcome::Ended(StageEnd::Failed(Arc::from("the server had a fault of its own; see its log")))
            }
        };
        let outcome = {
            let mut state = self.inner.state.lock();
            let live = state.live.remove(&deployment);
            state.running -= 1;
            state.turns.leave();
            // Refused because it had been told to stop by then: whoever told it waits for its end.
            let outcome = match outcome {
                StageOutcome::Silent if live.is_some_and(|live| *live.will.borrow() == Will::Stop) => {
                    stage::close_steps(&mut steps, StepStatus::Cancelled);
                    StageOutcome::Ended(StageEnd::Cancelled)
                }
                outcome @ (StageOutcome::Silent | StageOutcome::Ended(_)) => outcome,
            };
            if matches!(outcome, StageOutcome::Ended(_)) {
                *state.reporting.entry(deployment).or_default() += 1;
            }
            self.fill_places(&mut state);
            outcome
        };
        match outcome {
            StageOutcome::Ended(end) => {
                self.inner.shared.host.ended(&job, end, steps).await;
                self.reported(deployment);
            }
            StageOutcome::Silent => {}
        }
    }

    /// Takes a job out of its line that has not begun.
    fn withdraw(&self, state: &mut State, environment: &EnvironmentKey, deployment: DeploymentId) {
        let Some(job) = state.turns.withdraw(&environment.pipeline, |job| job.order.deployment == deployment) else {
            return;
        };
        state.live.remove(&deployment);
        *state.reporting.entry(deployment).or_default() += 1;
        self.publish(state);
        let runner = self.clone();
        self.inner.runtime.spawn(async move {
            let mut steps = stage::steps_at_first(&job);
            stage::close_steps(&mut steps, StepStatus::Cancelled);
            runner.inner.shared.host.ended(&job, StageEnd::Cancelled, steps).await;
            runner.reported(deployment);
        });
    }

    fn reported(&self, deployment: DeploymentId) {
        let mut state = self.inner.state.lock();
        if let Some(count) = state.reporting.get_mut(&deployment) {
            *count -= 1;
            if *count == 0 {
                state.reporting.remove(&deployment);
            }
        }
        self.publish(&state);
    }

    async fn sweep_away(&self, deployment: DeploymentId) {
        let permit = self.inner.sweeps.acquire().await;
        let work_dir = work::dir(&self.inner.shared.options.work_dir, deployment);
        let (logs, host) = (self.inner.shared.logs.clone(), self.inner.shared.host.clone());
        let swept = tokio::task::spawn_blocking(move || {
            let killed = tree::sweep(deployment, &work_dir);
            if killed > 0 {
                let text = format!("killed {killed} processes that the server had left behind when it ended");
                logs.append(deployment).remark(host.now(), &text);
            }
        });
        swept.await.expect("looking for processes does not panic");
        drop(permit);
    }

    fn publish(&self, state: &State) {
        let reporting = state.reporting.values().sum();
        self.inner.active.send_replace(Active { running: state.running, reporting });
    }
}

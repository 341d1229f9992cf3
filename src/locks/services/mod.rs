//! The services shared by all actors and pools of a store. Each larger service has its own file and uses only those
//! below it. [`Services`] combines them; this file also has the pipelines as deployments see them, and the lock times
//! for operators.

pub mod deadlines;
pub mod session_index;
pub mod settlements;
pub mod signals;
pub mod waiters;
pub mod watchers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use dashmap::DashMap;
use metrics::Histogram;

use deadlines::Deadlines;
use session_index::SessionIndexes;
use settlements::Settlements;
use signals::{ActorDirectory, Inbox, Signal};
use waiters::{ClaimOutcome, HeldClient, WaiterRegistry};
use watchers::Watchers;

use super::ports::{Clock, Definitions, Executor, Options};
use super::state::records::Records;
use ambient::entropy;
use domain::{Boot, DeploymentId, Effect, EnvironmentKey, Now, PipelineKey, PipelineNow, Session, Tick};
use records::Run;
use store::Store;

pub struct Services {
    pub records: Records,
    pub settlements: Settlements,
    pub waiters: WaiterRegistry,
    pub deadlines: Deadlines,
    pub watchers: Arc<Watchers>,
    pub session_indexes: SessionIndexes,
    pub pipelines: PipelineStatus,
    pub lock_times: LockTimes,
    executor: OnceLock<Box<dyn Executor>>,
    clock: Clock,
    pub options: Options,
    directory: Weak<dyn ActorDirectory>,
}

impl Services {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        boot: Boot,
        definitions: Arc<dyn Definitions>,
        options: Options,
        directory: Weak<dyn ActorDirectory>,
    ) -> Self {
        let started = clock();
        let [.., a, b, c, d, e, f, g, h] = entropy::id_seed().0;
        let run = Run { id: u64::from_be_bytes([a, b, c, d, e, f, g, h]), boot, started };
        Self {
            settlements: Settlements::new(store.clone()),
            records: Records::new(store, run, options.history_retention),
            waiters: WaiterRegistry::new(started, options.tickets, options.waiting, options.waiting_per_token),
            deadlines: Deadlines::default(),
            watchers: Arc::default(),
            session_indexes: SessionIndexes::default(),
            pipelines: PipelineStatus::new(definitions),
            lock_times: LockTimes::new(),
            executor: OnceLock::new(),
            clock,
            options,
            directory,
        }
    }

    pub fn store(&self) -> &dyn Store {
        self.records.store()
    }

    pub fn now(&self) -> Now {
        (self.clock)()
    }

    pub fn tick(&self) -> Tick {
        self.now().tick
    }

    /// Sends a signal to an environment's actor, started if necessary. Returns false if the environment does not exist.
    pub fn signal(&self, key: &EnvironmentKey, signal: Signal) -> bool {
        self.directory.upgrade().is_some_and(|directory| directory.signal(key, signal))
    }

    /// Removes the actor with this inbox from the directory, unless it is needed. Returns whether it may stop.
    pub fn remove_unneeded(&self, key: &EnvironmentKey, inbox: &Arc<Inbox>) -> bool {
        self.directory.upgrade().is_none_or(|directory| directory.remove_unneeded(key, inbox))
    }

    /// Answers the client of a claim, once the answer is durable. A grant that does not reach its client is taken back
    /// or, with an idempotency key, kept for a while.
    pub fn deliver(&self, client: HeldClient, outcome: ClaimOutcome) {
        let keyed = client.keyed.is_some();
        drop(client.keyed);
        if let Err(Ok(ClaimOutcome::Granted { environment, session })) = client.reply.send(Ok(outcome)) {
            self.signal(&environment, Signal::Undelivered { session: session.id, keyed });
        }
    }

    pub fn set_executor(&self, executor: Box<dyn Executor>) {
        if self.executor.set(executor).is_err() {
            tracing::warn!("deployments already have an executor; the new one is ignored");
        }
    }

    /// Does nothing without an executor; when one is set, everything begun by then is recovered.
    pub fn perform(&self, key: &EnvironmentKey, effect: Effect) {
        let Some(executor) = self.executor.get() else { return };
        match effect {
            Effect::RunStage(order) => executor.run_stage(key, *order),
            Effect::Stop(deployment) => executor.stop(key, deployment),
            Effect::Sweep(deployment) => executor.sweep(key, deployment),
        }
    }
}

/// Pipelines as deployments see them, and the environments with a deployment that waits for its pipeline to be resumed.
pub struct PipelineStatus {
    definitions: Arc<dyn Definitions>,
    /// Held-back environments with their first waiting deployment.
    held_back: DashMap<EnvironmentKey, DeploymentId>,
    /// Whether the unfinished deployments of the last run have been recovered.
    recovered: AtomicBool,
}

impl PipelineStatus {
    pub fn new(definitions: Arc<dyn Definitions>) -> Self {
        Self { definitions, held_back: DashMap::new(), recovered: AtomicBool::new(false) }
    }

    pub fn now(&self, pipeline: &PipelineKey) -> PipelineNow {
        self.definitions.now(pipeline)
    }

    pub fn hold_back(&self, key: &EnvironmentKey, deployment: DeploymentId) {
        self.held_back.insert(key.clone(), deployment);
    }

    pub fn let_go(&self, key: &EnvironmentKey) {
        self.held_back.remove(key);
    }

    /// The held-back environments of the pipeline, in the order of their deployments.
    pub fn held_back(&self, pipeline: &PipelineKey) -> Vec<EnvironmentKey> {
        let held_back = self.held_back.iter().filter(|entry| entry.key().pipeline == *pipeline);
        let mut waiting: Vec<_> = held_back.map(|entry| (*entry.value(), entry.key().clone())).collect();
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, key)| key).collect()
    }

    pub fn set_recovered(&self) {
        self.recovered.store(true, Ordering::Relaxed);
    }

    pub fn is_recovered(&self) -> bool {
        self.recovered.load(Ordering::Relaxed)
    }
}

/// How long claims wait for their locks and how long locks are held: histograms for operators.
pub struct LockTimes {
    waits: Histogram,
    holds: Histogram,
}

impl LockTimes {
    pub fn new() -> Self {
        Self {
            waits: metrics::histogram!("lockkeeper_wait_seconds"),
            holds: metrics::histogram!("lockkeeper_hold_seconds"),
        }
    }

    /// Records that the lock has passed from one session to another, if they differ.
    pub fn passed(&self, from: Option<&Session>, to: Option<&Session>, now: Now) {
        let (held, waited) = durations(from, to, now);
        if let Some(held) = held {
            self.holds.record(held.as_secs_f64());
        }
        if let Some(waited) = waited {
            self.waits.record(waited.as_secs_f64());
        }
    }
}

/// How long the previous holder has held the lock, and how long the new one has waited for it.
fn durations(from: Option<&Session>, to: Option<&Session>, now: Now) -> (Option<Duration>, Option<Duration>) {
    if from.map(|session| session.id) == to.map(|session| session.id) {
        return (None, None);
    }
    let claimed_at = |session: &Session| session.claimed.as_ref().map(|claimed| claimed.at);
    let held = from.and_then(claimed_at).map(|claimed| now.at.since(claimed));
    let waited = to.and_then(|session| Some(claimed_at(session)?.since(session.created_at)));
    (held, waited)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::samples::{Subject, at, by_force, claim, person};
    use domain::{Claim, Command, Configuration, Heartbeat, KeptBy, Release, Role};

    #[test]
    fn a_hold_counts_to_its_end_and_a_wait_to_its_grant() {
        let mut subject = Subject::with(Configuration::default());
        let mut after = |millis: i64, command: Step| {
            let from = subject.environment.lock.clone();
            let id = from.as_ref().map(|session| session.id);
            let by = person(1);
            match command {
                Step::Claim => run(&mut subject, millis, claim(1)),
                Step::Wait => run(&mut subject, millis, Claim { waits: Some(KeptBy::Polling), ..claim(2) }),
                Step::Heartbeat => {
                    run(&mut subject, millis, Heartbeat { session: id.unwrap().into(), by, fencing_token: None });
                }
                Step::Release => run(&mut subject, millis, Release { session: id.unwrap().into(), by, any: false }),
                Step::Take => run(&mut subject, millis, by_force(claim(3), Role::Admin)),
            }
            let (held, waited) = durations(from.as_deref(), subject.environment.lock.as_deref(), at(millis));
            (held.map(|held| held.as_millis()), waited.map(|waited| waited.as_millis()))
        };
        assert_eq!(after(100, Step::Claim), (None, Some(0)));
        assert_eq!(after(200, Step::Heartbeat), (None, None));
        assert_eq!(after(300, Step::Wait), (None, None));
        assert_eq!(after(1_100, Step::Release), (Some(1_000), Some(800)), "it passes to who waits");
        assert_eq!(after(1_200, Step::Take), (Some(100), Some(0)));
        assert_eq!(after(1_300, Step::Release), (Some(100), None));
    }

    enum Step {
        Claim,
        Wait,
        Heartbeat,
        Release,
        Take,
    }

    fn run<C: Command>(subject: &mut Subject, millis: i64, command: C) {
        assert!(subject.run(millis, command).is_ok());
    }
}

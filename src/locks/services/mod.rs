//! What all actors and pools of a store share. Each service stands in a file of its own and knows none of the others
//! above it; [`Services`] puts them together.

pub mod clients;
pub mod deadlines;
pub mod lock_times;
pub mod pipelines;
pub mod session_index;
pub mod settlements;
pub mod signals;
pub mod waiters;
pub mod waiting_places;
pub mod watchers;

use std::sync::{Arc, OnceLock, Weak};

use clients::{ClaimOutcome, HeldClient};
use deadlines::Deadlines;
use lock_times::LockTimes;
use pipelines::PipelineStatus;
use session_index::SessionIndexes;
use settlements::Settlements;
use signals::{ActorDirectory, Inbox, Signal};
use waiters::WaiterRegistry;
use watchers::Watchers;

use super::ports::{Clock, Definitions, Executor, Options};
use super::state::records::Records;
use ambient::entropy;
use domain::{Boot, Effect, EnvironmentKey, Now, Tick};
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

    /// Sends a signal to an environment's actor, started if need be. Returns false if there is no such environment.
    pub fn signal(&self, key: &EnvironmentKey, signal: Signal) -> bool {
        self.directory.upgrade().is_some_and(|directory| directory.signal(key, signal))
    }

    /// Takes the actor with this inbox out of the directory, unless it is needed. Returns whether it may stop.
    pub fn remove_unneeded(&self, key: &EnvironmentKey, inbox: &Arc<Inbox>) -> bool {
        self.directory.upgrade().is_none_or(|directory| directory.remove_unneeded(key, inbox))
    }

    /// Answers the client of a claim, when the answer is durable. A grant that does not reach its client is taken back, or with an idempotency key
    /// kept for a while.
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

    /// Without an executor nothing is done; when one is set, everything begun by then is looked at again.
    pub fn perform(&self, key: &EnvironmentKey, effect: Effect) {
        let Some(executor) = self.executor.get() else { return };
        match effect {
            Effect::RunStage(order) => executor.run_stage(key, *order),
            Effect::Stop(deployment) => executor.stop(key, deployment),
            Effect::Sweep(deployment) => executor.sweep(key, deployment),
        }
    }
}

//! The way in: asks an environment's actor, or reads what is durable.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::prelude::*;
use dashmap::DashMap;
use tokio::sync::{oneshot, watch};

use super::crowd::Keyed;
use super::deadlines::Deadlines;
use super::directory::{Directory, NotSent, Note};
use super::environment::{Ask, EnvironmentActor, Nudge};
use super::pool::PipelinePool;
use super::restart::KeptPlace;
use super::settlement::Settlements;
use super::stored::Run;
use super::watchers::Watchers;
use super::{Clock, Definitions, Executor, keys};
use crate::domain::{
    Agent, Command, Configure, Configured, Delete, DeploymentId, EnvironmentKey, ForceClaim, ForceClaimed, Heartbeat,
    Now, PipelineKey, Rejection, Release, Seen, Session, SessionId, Tick, Ticket,
};
use crate::entropy;
use crate::store::{Store, StoreError};

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many ended sessions each environment's history keeps.
    pub history_retention: u64,
    /// How many commands may wait for one environment.
    pub mailbox: usize,
    /// How long a caller waits for an answer before it is told that the outcome is not known.
    pub answer_timeout: Duration,
}

/// All environments. Cheap to clone.
#[derive(Clone)]
pub struct Environments {
    pub(super) parts: Arc<Parts>,
    /// In whose name it asks.
    by: Option<Arc<Agent>>,
}

/// What the actors share.
pub(super) struct Parts {
    pub store: Arc<dyn Store>,
    pub directory: Directory,
    pub settlements: Settlements,
    pub clock: Clock,
    pub definitions: Arc<dyn Definitions>,
    pub executor: OnceLock<Box<dyn Executor>>,
    /// Whether what the last run of the server left behind has been taken up.
    pub recovered: AtomicBool,
    pub options: Options,
    pub run: Run,
    pub deadlines: Deadlines,
    pub watchers: Arc<Watchers>,
    pub pools: DashMap<PipelineKey, Arc<PipelinePool>>,
    /// Who comes first: one order for all who may have to wait.
    pub tickets: AtomicU64,
    /// How many wait for an environment by name, as far as it is in memory.
    pub waiting: AtomicUsize,
    /// How many have ended in a queue since the surplus of those was last forgotten.
    pub left: AtomicUsize,
    /// When somebody last asked about those whose place is kept by that.
    pub asked: DashMap<Ticket, Tick>,
    /// Places in a queue whose clients may come back for them.
    pub places: DashMap<Arc<[u8]>, KeptPlace>,
    /// Environments with a queue in the store and no actor that has it in memory.
    pub queues_at_rest: DashMap<EnvironmentKey, ()>,
    /// Environments where a deployment waits for its pipeline to be resumed, and the first of those.
    pub held_back: DashMap<EnvironmentKey, DeploymentId>,
    /// Whether those who wait are sent away, since the server ends.
    pub closing: watch::Sender<bool>,
}

impl Parts {
    pub fn retention(&self) -> u64 {
        self.options.history_retention
    }

    pub fn next_ticket(&self) -> Ticket {
        Ticket(self.tickets.fetch_add(1, Ordering::Relaxed))
    }

    pub fn closing(&self) -> bool {
        *self.closing.borrow()
    }

    pub fn tick(&self) -> Tick {
        (self.clock)().tick
    }

    /// Somebody asks about one whose place is kept by that.
    pub fn ask_about(&self, ticket: Ticket) {
        if let Some(mut asked) = self.asked.get_mut(&ticket) {
            *asked = self.tick();
        }
    }

    /// When somebody last asked about this one; those the last run left behind count as heard of at the start.
    pub fn last_asked(&self, ticket: Ticket) -> Tick {
        self.asked.get(&ticket).map_or(self.run.started.tick, |tick| *tick)
    }
}

/// Later runs give later tickets: each begins with the millisecond it started in, and has a million for each.
fn first_ticket(started: Now) -> u64 {
    started.at.as_millis().unsigned_abs() << 20 | 1
}

/// Why there is no reply to a command.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("too many commands wait for the environment")]
    Overloaded,
    #[error("the environment's actor ended before it answered; whether the command took effect is not known")]
    Unavailable,
    #[error("the disk did not confirm the command in time; whether it took effect is not known")]
    TimedOut,
    #[error("the server ends, and nobody can wait any longer")]
    ComeAgain,
    #[error("the idempotency key was sent with another request before")]
    KeyReused,
}

impl Environments {
    /// Finds those who waited when the last run ended, and what runs out by itself.
    pub fn open(
        store: Arc<dyn Store>,
        clock: Clock,
        definitions: Arc<dyn Definitions>,
        options: Options,
    ) -> Result<Self, StoreError> {
        let started = clock();
        let [.., a, b, c, d, e, f, g, h] = entropy::id_seed().0;
        let id = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let parts = Parts {
            directory: Directory::default(),
            settlements: Settlements::new(store.clone()),
            store,
            clock,
            definitions,
            executor: OnceLock::new(),
            recovered: AtomicBool::new(false),
            options,
            run: Run { id, started },
            deadlines: Deadlines::default(),
            watchers: Arc::default(),
            pools: DashMap::new(),
            tickets: AtomicU64::new(first_ticket(started)),
            waiting: AtomicUsize::new(0),
            // As if one had: what the last run left behind is looked at once.
            left: AtomicUsize::new(1),
            asked: DashMap::new(),
            places: DashMap::new(),
            queues_at_rest: DashMap::new(),
            held_back: DashMap::new(),
            closing: watch::Sender::new(false),
        };
        let environments = Self { parts: Arc::new(parts), by: None };
        environments.find_those_who_waited()?;
        environments.find_what_runs_out()?;
        Ok(environments)
    }

    /// The same environments, asked in somebody's name: what comes of it is theirs in the audit.
    pub fn by(&self, agent: Agent) -> Self {
        Self { parts: self.parts.clone(), by: Some(Arc::new(agent)) }
    }

    /// The same environments, asked in nobody's name.
    fn nameless(&self) -> Self {
        Self { parts: self.parts.clone(), by: None }
    }

    pub(super) fn agent(&self) -> Option<&Arc<Agent>> {
        self.by.as_ref()
    }

    pub async fn force_claim(
        &self,
        key: &EnvironmentKey,
        claim: ForceClaim,
        keyed: Option<Keyed<ForceClaimed>>,
    ) -> Result<ForceClaimed, Failure> {
        self.ask_keyed(key, claim, keyed).await
    }

    pub async fn release(&self, key: &EnvironmentKey, release: Release) -> Result<Session, Failure> {
        self.ask(key, release).await
    }

    pub async fn heartbeat(
        &self,
        key: &EnvironmentKey,
        heartbeat: Heartbeat,
        keyed: Option<Keyed<Session>>,
    ) -> Result<Session, Failure> {
        self.ask_keyed(key, heartbeat, keyed).await
    }

    /// Somebody has asked about a session that was granted while its client was away.
    pub async fn seen(&self, key: &EnvironmentKey, session: SessionId) -> Result<(), Failure> {
        self.ask(key, Seen { session }).await
    }

    pub async fn delete(&self, key: &EnvironmentKey, delete: Delete) -> Result<(), Failure> {
        self.ask(key, delete).await
    }

    /// The only command that an environment need not exist for.
    pub async fn configure(&self, key: &EnvironmentKey, configure: Configure) -> Result<Configured, Failure> {
        let (reply, answer) = oneshot::channel();
        self.start_and_send(key, Ask { command: configure, reply, keyed: None, by: self.by.clone() })?;
        self.wait_for(answer).await
    }

    /// Lets the actors go that nobody has used since the last call.
    pub fn dismiss_unused(&self) {
        self.parts.directory.dismiss_unused();
    }

    /// How many environments have an actor at the moment.
    pub fn resident(&self) -> usize {
        self.parts.directory.len()
    }

    /// How many wait for an environment by name.
    pub fn waiting_by_name(&self) -> usize {
        self.parts.waiting.load(Ordering::Relaxed)
    }

    /// Sends all away who hold a connection open until their turn comes: the server ends.
    pub fn send_waiters_away(&self) {
        self.parts.closing.send_replace(true);
    }

    /// Whether those who wait have been sent away; resolves when they are.
    pub async fn closed(&self) {
        // The sender lives as long as we do.
        self.parts.closing.subscribe().wait_for(|closing| *closing).await.ok();
    }

    /// Asks an environment that must exist: a name out of thin air does not get an actor.
    pub(super) async fn ask<C>(&self, key: &EnvironmentKey, command: C) -> Result<C::Reply, Failure>
    where
        C: Command + Send + 'static,
        C::Reply: Send + 'static,
    {
        self.ask_keyed(key, command, None).await
    }

    pub(super) async fn ask_keyed<C>(
        &self,
        key: &EnvironmentKey,
        command: C,
        keyed: Option<Keyed<C::Reply>>,
    ) -> Result<C::Reply, Failure>
    where
        C: Command + Send + 'static,
        C::Reply: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.send(key, Ask { command, reply, keyed, by: self.by.clone() })?;
        self.wait_for(answer).await
    }

    /// Sends to the actor of an environment that must exist.
    pub(super) fn send<M>(&self, key: &EnvironmentKey, message: M) -> Result<(), Failure>
    where
        M: Message<Result = ()> + Send + 'static,
        EnvironmentActor: Handler<M>,
        Context<EnvironmentActor>: ToEnvelope<EnvironmentActor, M>,
    {
        match self.parts.directory.send(key, message) {
            Ok(()) => Ok(()),
            Err(NotSent::MailboxFull) => Err(Failure::Overloaded),
            Err(NotSent::NoActor(message)) => {
                if self.parts.store.get(&keys::environment(key))?.is_none() {
                    return Err(Rejection::EnvironmentNotFound.into());
                }
                self.start_and_send(key, message)
            }
        }
    }

    /// Tells an environment's actor something, and starts it for that if need be. Says whether there is one to tell.
    pub(super) fn note(&self, key: &EnvironmentKey, note: Note) -> bool {
        // The second time round the actor has been started.
        for _ in 0..2 {
            if self.parts.directory.note(key, note) {
                return true;
            }
            match self.send(key, Nudge) {
                Ok(()) | Err(Failure::Overloaded) => {}
                Err(Failure::Rejected(_)) => return false,
                Err(error) => {
                    tracing::warn!(environment = %key, %error, ?note, "an environment could not be told");
                    return false;
                }
            }
        }
        false
    }

    fn start_and_send<M>(&self, key: &EnvironmentKey, message: M) -> Result<(), Failure>
    where
        M: Message<Result = ()> + Send + 'static,
        EnvironmentActor: Handler<M>,
        Context<EnvironmentActor>: ToEnvelope<EnvironmentActor, M>,
    {
        let start = |desk| EnvironmentActor::start(key.clone(), self.nameless(), desk);
        self.parts.directory.send_starting(key, message, start).map_err(|not_sent| match not_sent {
            NotSent::MailboxFull => Failure::Overloaded,
            NotSent::NoActor(_) => Failure::Unavailable,
        })
    }

    async fn wait_for<R>(&self, answer: oneshot::Receiver<Result<R, Failure>>) -> Result<R, Failure> {
        match tokio::time::timeout(self.parts.options.answer_timeout, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Failure::Unavailable),
            Err(_) => Err(Failure::TimedOut),
        }
    }
}

//! The way in: asks an environment's actor, or reads what is durable.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::directory::{Directory, NotSent};
use super::environment::{Ask, EnvironmentActor};
use super::settlement::Settlements;
use super::{Clock, Observer, keys};
use crate::domain::{
    Claim, Command, Configure, Configured, Delete, Deploy, Deployed, EnvironmentKey, FinishDeployment, ForceClaim,
    ForceClaimed, Rejection, Release, Session,
};
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
}

/// What the actors share.
pub(super) struct Parts {
    pub store: Arc<dyn Store>,
    pub directory: Directory,
    pub settlements: Settlements,
    pub clock: Clock,
    pub observer: Box<dyn Observer>,
    pub options: Options,
}

impl Parts {
    pub fn retention(&self) -> u64 {
        self.options.history_retention
    }
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
}

impl Environments {
    pub fn new(store: Arc<dyn Store>, clock: Clock, observer: Box<dyn Observer>, options: Options) -> Self {
        let settlements = Settlements::new(store.clone());
        let directory = Directory::default();
        Self { parts: Arc::new(Parts { store, directory, settlements, clock, observer, options }) }
    }

    pub async fn claim(&self, key: &EnvironmentKey, claim: Claim) -> Result<Session, Failure> {
        self.ask(key, claim).await
    }

    pub async fn force_claim(&self, key: &EnvironmentKey, claim: ForceClaim) -> Result<ForceClaimed, Failure> {
        self.ask(key, claim).await
    }

    pub async fn release(&self, key: &EnvironmentKey, release: Release) -> Result<Session, Failure> {
        self.ask(key, release).await
    }

    pub async fn deploy(&self, key: &EnvironmentKey, deploy: Deploy) -> Result<Deployed, Failure> {
        self.ask(key, deploy).await
    }

    /// For whoever runs the deployments: this one has really ended.
    pub async fn finish_deployment(&self, key: &EnvironmentKey, finish: FinishDeployment) -> Result<(), Failure> {
        self.ask(key, finish).await
    }

    pub async fn delete(&self, key: &EnvironmentKey, delete: Delete) -> Result<(), Failure> {
        self.ask(key, delete).await
    }

    /// The only command that an environment need not exist for.
    pub async fn configure(&self, key: &EnvironmentKey, configure: Configure) -> Result<Configured, Failure> {
        let (reply, answer) = oneshot::channel();
        self.start_and_send(key, Ask { command: configure, reply })?;
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

    /// Asks an environment that must exist: a name out of thin air does not get an actor.
    pub(super) async fn ask<C>(&self, key: &EnvironmentKey, command: C) -> Result<C::Reply, Failure>
    where
        C: Command + Send + 'static,
        C::Reply: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        match self.parts.directory.send(key, Ask { command, reply }) {
            Ok(()) => {}
            Err(NotSent::MailboxFull) => return Err(Failure::Overloaded),
            Err(NotSent::NoActor(ask)) => {
                if self.parts.store.get(&keys::environment(key))?.is_none() {
                    return Err(Rejection::EnvironmentNotFound.into());
                }
                self.start_and_send(key, ask)?;
            }
        }
        self.wait_for(answer).await
    }

    fn start_and_send<C>(&self, key: &EnvironmentKey, ask: Ask<C>) -> Result<(), Failure>
    where
        C: Command + Send + 'static,
        C::Reply: Send + 'static,
    {
        let start = |desk| EnvironmentActor::start(key.clone(), self.parts.clone(), desk);
        self.parts.directory.send_starting(key, ask, start).map_err(|not_sent| match not_sent {
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

//! Finds the actor of an environment, or starts it on the calling thread, and dismisses unused actors.

use std::cell::Cell;
use std::sync::{Arc, Weak};

use actix::prelude::*;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use foldhash::fast::RandomState;
use tokio::sync::oneshot;

use super::actor::messages::{Ask, Leave, Nudge};
use super::actor::{ActorLinks, EnvironmentActor, PublishedView};
use super::pool::Pools;
use super::ports::Failure;
use super::services::Services;
use super::services::signals::{ActorDirectory, Inbox, Signal};
use super::services::waiters::Keyed;
use super::time_limit;
use domain::{Command, Environment, EnvironmentKey, Initiator, Rejection};
use store::StoreError;

pub struct Directory {
    actors: DashMap<EnvironmentKey, Resident, RandomState>,
    pub services: Arc<Services>,
    pub pools: Pools,
}

struct Resident {
    address: Addr<EnvironmentActor>,
    inbox: Arc<Inbox>,
    view: Arc<PublishedView>,
}

impl Directory {
    /// `open` creates the services shared by actors; its argument gives them access to the directory.
    pub fn new(open: impl FnOnce(Weak<dyn ActorDirectory>) -> Services) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| Self {
            actors: DashMap::default(),
            services: Arc::new(open(this.clone())),
            pools: Pools::default(),
        })
    }

    pub fn len(&self) -> usize {
        self.actors.len()
    }

    /// The last durable view, if the environment has an actor that has loaded it.
    pub fn view(&self, key: &EnvironmentKey) -> Option<Arc<Environment>> {
        let resident = self.actors.get(key)?;
        resident.inbox.mark_used();
        resident.view.get()
    }

    /// The environment in its durable state, if it exists.
    pub fn environment(&self, key: &EnvironmentKey) -> Result<Option<Arc<Environment>>, StoreError> {
        let known = match self.view(key) {
            Some(view) => Some(view),
            None => {
                let stored = self.services.records.environment_with_queue(key)?;
                // An actor may have loaded the environment and its queue meanwhile.
                self.view(key).or_else(|| stored.map(|stored| stored.environment))
            }
        };
        Ok(known.filter(|environment| environment.exists()))
    }

    /// Like [`Self::view`], for readers of many environments: reading does not keep an actor in memory.
    pub fn peek(&self, key: &EnvironmentKey) -> Option<Arc<Environment>> {
        self.actors.get(key)?.view.get()
    }

    /// Asks an environment that must exist: unknown names get no actor.
    pub async fn ask<C: Command>(
        &self,
        key: &EnvironmentKey,
        command: C,
        keyed: Option<Keyed<C::Reply>>,
        by: Option<Initiator>,
    ) -> Result<C::Reply, Failure> {
        let (reply, answer) = oneshot::channel();
        self.send(key, Ask { command, reply, keyed, by })?;
        self.wait_for(answer).await
    }

    /// Asks an environment that need not exist.
    pub async fn ask_or_create<C: Command>(
        &self,
        key: &EnvironmentKey,
        command: C,
        by: Option<Initiator>,
    ) -> Result<C::Reply, Failure> {
        let (reply, answer) = oneshot::channel();
        self.start_and_send(key, Ask { command, reply, keyed: None, by })?;
        self.wait_for(answer).await
    }

    /// Sends to the actor of an environment that must exist.
    pub fn send<M>(&self, key: &EnvironmentKey, message: M) -> Result<(), Failure>
    where
        M: Message<Result = ()> + Send + 'static,
        EnvironmentActor: Handler<M>,
    {
        let sent = match self.actors.get(key) {
            Some(resident) => resident.send(message),
            None => Err(SendError::Closed(message)),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(SendError::Full(_)) => Err(Failure::Overloaded),
            Err(SendError::Closed(message)) => {
                if !self.services.records.has_environment(key)? {
                    return Err(Rejection::EnvironmentNotFound.into());
                }
                self.start_and_send(key, message)
            }
        }
    }

    /// Asks every actor that was not used since the last call to leave, and removes those that have died.
    pub fn dismiss_unused(&self) {
        self.actors.retain(|_, resident| {
            if !resident.inbox.take_used() {
                // A full mailbox refuses the message, correctly: that actor is in use.
                resident.send(Leave).ok();
                resident.inbox.take_used();
            }
            resident.address.connected()
        });
    }

    async fn wait_for<R>(&self, answer: oneshot::Receiver<Result<R, Failure>>) -> Result<R, Failure> {
        match time_limit::within(self.services.options.answer_timeout, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Failure::Unavailable),
            Err(_) => Err(Failure::TimedOut),
        }
    }

    fn start_and_send<M>(&self, key: &EnvironmentKey, message: M) -> Result<(), Failure>
    where
        M: Message<Result = ()> + Send + 'static,
        EnvironmentActor: Handler<M>,
    {
        let sent = match self.actors.entry(key.clone()) {
            Entry::Occupied(mut known) => {
                if !known.get().address.connected() {
                    known.insert(self.start(key));
                }
                known.get().send(message)
            }
            Entry::Vacant(vacant) => vacant.insert(self.start(key)).send(message),
        };
        sent.map_err(|not_sent| match not_sent {
            SendError::Full(_) => Failure::Overloaded,
            SendError::Closed(_) => Failure::Unavailable,
        })
    }

    fn start(&self, key: &EnvironmentKey) -> Resident {
        let (inbox, view): (Arc<Inbox>, Arc<PublishedView>) = Default::default();
        let (services, pool) = (self.services.clone(), self.pools.get(&key.pipeline));
        let (inbox_of, view_of, pending) = (inbox.clone(), view.clone(), Cell::default());
        let session_index = services.session_indexes.get(&key.pipeline.organization);
        let links =
            ActorLinks { key: key.clone(), services, pool, inbox: inbox_of, view: view_of, session_index, pending };
        Resident { address: EnvironmentActor::start(links), inbox, view }
    }

    /// Leaves a signal for the environment's actor, if it has one, and makes sure that the actor reads it.
    fn signal_resident(&self, key: &EnvironmentKey, signal: Signal) -> bool {
        let Some(resident) = self.actors.get(key) else { return false };
        // If other signals are unread, the actor has already been woken.
        if !resident.inbox.leave_signal(signal) && resident.address.connected() {
            return true;
        }
        match resident.send(Nudge) {
            // A full mailbox makes the actor read its signals too.
            Ok(()) | Err(SendError::Full(_)) => true,
            Err(SendError::Closed(_)) => false,
        }
    }
}

impl ActorDirectory for Directory {
    fn signal(&self, key: &EnvironmentKey, signal: Signal) -> bool {
        // The second attempt finds the started actor.
        for _ in 0..2 {
            if self.signal_resident(key, signal) {
                return true;
            }
            match self.send(key, Nudge) {
                Ok(()) | Err(Failure::Overloaded) => {}
                Err(Failure::Rejected(_)) => return false,
                Err(error) => {
                    tracing::warn!(environment = %key, %error, ?signal, "could not signal an environment");
                    return false;
                }
            }
        }
        false
    }

    fn remove_unneeded(&self, key: &EnvironmentKey, inbox: &Arc<Inbox>) -> bool {
        let is_unneeded = |resident: &Resident| Arc::ptr_eq(&resident.inbox, inbox) && inbox.is_empty();
        self.actors.remove_if(key, |_, resident| is_unneeded(resident)).is_some()
    }
}

impl Resident {
    fn send<M>(&self, message: M) -> Result<(), SendError<M>>
    where
        M: Message<Result = ()> + Send + 'static,
        EnvironmentActor: Handler<M>,
    {
        self.inbox.sending();
        self.address.try_send(message).inspect_err(|_| self.inbox.handled())
    }
}

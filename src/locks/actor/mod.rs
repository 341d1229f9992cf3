//! The actor of one environment: takes one command after another, decides, hands the outcome to the store, and answers
//! once it is durable. It decides the next command without waiting for the disk; only the answers wait. After each
//! message it reports whether the environment is free, when to check it again, and whether a deployment waits for its
//! pipeline.
//!
//! `messages` handles messages, `signals` handles signals. Both decide and commit through `commit`, which also does the
//! work after a commit is durable.

mod commit;
pub mod messages;
mod signals;

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix::prelude::*;
use parking_lot::RwLock;

use super::pool::PipelinePool;
use super::services::Services;
use super::services::session_index::SessionIndex;
use super::services::signals::{Inbox, Signal};
use super::services::waiters::HeldClient;
use super::state::memory::Loaded;
use domain::{Availability, Environment, EnvironmentKey, Tick, Ticket, Timestamp};
use records::StoredEnvironment;
use store::{Sequence, StoreError, durable_up_to};

pub struct EnvironmentActor {
    links: Rc<ActorLinks>,
    held: HashMap<Ticket, HeldClient>,
    /// Signals whose commit the store has refused so far.
    undone: Vec<Signal>,
    /// The environment, or why loading failed. No message is handled until loading succeeds or fails.
    loaded: Result<Loaded, StoreError>,
    /// When the environment's deadline is due.
    armed: Option<Tick>,
    /// The last report to the pool: vacancy, configuration revision, last use.
    reported: Option<(bool, u64, Option<Timestamp>)>,
}

/// The actor's key and everything it works with. Counted per thread, since every settlement holds a reference.
pub struct ActorLinks {
    pub key: EnvironmentKey,
    pub services: Arc<Services>,
    pub pool: Arc<PipelinePool>,
    pub inbox: Arc<Inbox>,
    pub view: Arc<PublishedView>,
    /// The session index of the organization.
    pub session_index: Arc<SessionIndex>,
    /// The number of settlements that wait for the disk, or behind one of another environment.
    pub pending: Cell<usize>,
}

impl EnvironmentActor {
    pub fn start(links: ActorLinks) -> Addr<Self> {
        Self::create(|context| {
            context.set_mailbox_capacity(links.services.options.mailbox);
            Self {
                links: Rc::new(links),
                held: HashMap::new(),
                undone: Vec::new(),
                loaded: Err(StoreError::Read("the environment is still being loaded".to_owned())),
                armed: None,
                reported: None,
            }
        })
    }

    fn services(&self) -> &Arc<Services> {
        &self.links.services
    }
}

impl Actor for EnvironmentActor {
    type Context = Context<Self>;

    /// Commands wait in the mailbox until the environment is loaded.
    fn started(&mut self, context: &mut Self::Context) {
        let load = load(self.services().clone(), self.links.key.clone()).into_actor(self);
        context.wait(load.map(|loaded, actor, _| match loaded {
            Ok((stored, settled)) => {
                let ActorLinks { key, services, .. } = &*actor.links;
                let loaded = Loaded::new(stored, settled, services.tick());
                actor.links.publish(&loaded.environment, settled);
                services.records.queue_loaded(key);
                services.waiters.joined(loaded.environment.queue.len());
                actor.loaded = Ok(loaded);
                services.deadlines.loaded(key);
                actor.note_held_back_after_load();
                actor.arm();
            }
            Err(error) => {
                tracing::error!(environment = %actor.links.key, %error, "an environment cannot be loaded");
                actor.loaded = Err(error);
            }
        }));
    }
}

/// Reads the environment once everything handed in so far is durable: an earlier actor may have died with commits in
/// progress, which must not be contradicted.
async fn load(services: Arc<Services>, key: EnvironmentKey) -> Result<(StoredEnvironment, Sequence), StoreError> {
    let settled = services.store().handed_in();
    durable_up_to(services.store(), settled).await;
    let has_queue = services.records.has_unloaded_queue(&key);
    let read = move || match services.records.complete_environment(&key)? {
        Some(stored) => Ok(stored),
        None => services.records.new_environment(),
    };
    // Reading one record is faster than switching threads for it; a queue may have ten thousand.
    let stored = if has_queue {
        tokio::task::spawn_blocking(read).await.map_err(|error| StoreError::Read(error.to_string()))??
    } else {
        read()?
    };
    Ok((stored, settled))
}

/// A stopping actor has an empty queue, unless it died; then its clients see their channels closed.
impl Drop for EnvironmentActor {
    fn drop(&mut self) {
        let ActorLinks { key, services, .. } = &*self.links;
        if let Ok(loaded) = &self.loaded {
            let queue = &loaded.environment.queue;
            services.waiters.left(queue.len());
            if !queue.is_empty() {
                services.records.queue_unloaded(key);
            }
        }
        let waiting = self.held.values().filter(|client| !client.is_gone()).count();
        if waiting > 0 {
            tracing::warn!(environment = %key, waiting, "an environment's actor ended while clients waited");
        }
    }
}

// Reports after each message: whether the environment is free (to the pool), and when to check it again (to the timer).
impl EnvironmentActor {
    /// Reports to the pool, if it is in use and something has changed. Returns whether a waiter in the pool wants the
    /// environment.
    fn report(&mut self) -> bool {
        let Ok(loaded) = &self.loaded else { return false };
        if !self.links.pool.is_active() {
            self.reported = None;
            return false;
        }
        let environment = &loaded.environment;
        // While the store refuses changes, the environment cannot be granted: an offer would be refused, and
        // immediately repeated.
        let can_be_had = !loaded.retry.is_due();
        let status = (can_be_had && environment.is_vacant(), environment.configuration_revision, environment.last_used);
        if self.reported == Some(status) {
            return false;
        }
        self.reported = Some(status);
        let availability = match &environment.configuration {
            Some(configuration) if !can_be_had => Availability::Taken { configuration: configuration.clone() },
            Some(_) | None => environment.availability(),
        };
        self.links.pool.report(&self.links.services, &self.links.key.name, availability)
    }

    /// Makes the next report go out even if nothing has changed, after an answered offer.
    fn report_anew(&mut self) {
        self.reported = None;
        self.report();
    }

    /// Sets the deadline at which the timer signals that something may have expired.
    fn arm(&mut self) {
        let Ok(loaded) = &self.loaded else { return };
        let wake = loaded.wake();
        let sooner = match (wake, self.armed) {
            (Some(wake), Some(armed)) => wake < armed,
            (Some(_), None) => true,
            (None, armed) => armed.is_some(),
        };
        // A deadline that is too early is harmless: the actor finds nothing due and sets a new one.
        if sooner {
            self.armed = wake;
            self.services().deadlines.arm(&self.links.key, wake);
        }
    }
}

// An environment first registers as held back and then checks again whether the pipeline is stopped. Resuming a
// pipeline first changes it and then signals the registered environments. So neither misses the other.
impl EnvironmentActor {
    /// An earlier actor may have received the signal that the pipeline is resumed, and died before handling it.
    fn note_held_back_after_load(&self) {
        // At a start of the server, unfinished deployments are recovered anyway.
        if self.note_held_back(false) && self.services().pipelines.is_recovered() {
            self.resume_if_running();
        }
    }

    /// The pipeline may have been resumed since the decision, before this environment was registered as held back.
    fn note_held_back_after_decision(&self, was_held_back: bool) {
        if self.note_held_back(was_held_back) {
            self.resume_if_running();
        }
    }

    fn note_held_back(&self, was_held_back: bool) -> bool {
        let Ok(loaded) = &self.loaded else { return false };
        let (environment, pipelines) = (&loaded.environment, &self.services().pipelines);
        match environment.held_back.then(|| environment.waiting_deployment()).flatten() {
            Some(waiting) => pipelines.hold_back(&self.links.key, waiting),
            None if was_held_back => pipelines.let_go(&self.links.key),
            None => {}
        }
        environment.held_back
    }

    fn resume_if_running(&self) {
        if !self.services().pipelines.now(&self.links.key.pipeline).stopped {
            self.services().signal(&self.links.key, Signal::Resume);
        }
    }
}

/// The last durable state of an environment, for readers.
#[derive(Default)]
pub struct PublishedView {
    environment: RwLock<Option<Arc<Environment>>>,
    settled: AtomicU64,
}

impl PublishedView {
    /// None while the environment is being loaded.
    pub fn get(&self) -> Option<Arc<Environment>> {
        self.environment.read().clone()
    }

    /// Shows readers a state that is durable since `sequence`.
    pub fn publish(&self, environment: Arc<Environment>, sequence: Sequence) {
        *self.environment.write() = Some(environment);
        self.settle(sequence);
    }

    /// Everything up to `sequence` is durable, without a change that readers see.
    pub fn settle(&self, sequence: Sequence) {
        self.settled.store(sequence.0, Ordering::Release);
    }

    /// Whether everything up to `sequence` has been shown to readers.
    pub fn has_settled(&self, sequence: Sequence) -> bool {
        self.settled.load(Ordering::Acquire) >= sequence.0
    }
}

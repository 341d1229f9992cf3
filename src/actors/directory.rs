//! Finds the actor of an environment, or starts it on the thread that asks, and lets the unused ones go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use actix::dev::ToEnvelope;
use actix::prelude::*;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use parking_lot::{Mutex, RwLock};

use super::environment::{EnvironmentActor, Leave, Nudge};
use crate::domain::{Environment, EnvironmentKey, SessionId, Ticket};
use crate::store::Sequence;

#[derive(Default)]
pub struct Directory {
    actors: DashMap<EnvironmentKey, Resident>,
}

struct Resident {
    address: Addr<EnvironmentActor>,
    desk: Arc<Desk>,
}

/// What an actor and those who deal with it share: the last durable view, and whether anybody needs the actor.
#[derive(Default)]
pub struct Desk {
    view: RwLock<Option<Arc<Environment>>>,
    settled: AtomicU64,
    /// Messages sent and not yet handled. Raised under the directory's guard, so that at zero, under the same guard,
    /// nothing can be in the mailbox.
    underway: AtomicU32,
    used: AtomicBool,
    /// What the actor must hear of, also while its mailbox is full: it looks here before it does anything else.
    notes: Mutex<Vec<Note>>,
}

/// Something an actor is told that nobody waits for the answer of.
#[derive(Debug, Clone, Copy)]
pub enum Note {
    /// The client of one who waits has gone.
    HungUp(Ticket),
    /// One who waits has done so as long as it wanted to.
    LongEnough(Ticket),
    /// A grant could not be told to its client.
    Undelivered { session: SessionId, keyed: bool },
    /// Somebody who waits for any environment may want this one.
    Offer,
    /// Something may have run out.
    Due,
    /// The pipeline starts deployments again.
    Resume,
}

impl Desk {
    pub fn view(&self) -> Option<Arc<Environment>> {
        self.view.read().clone()
    }

    /// Shows readers a state that is durable since `sequence`.
    pub fn publish(&self, environment: Arc<Environment>, sequence: Sequence) {
        *self.view.write() = Some(environment);
        self.settled.store(sequence.0, Ordering::Release);
    }

    /// The same for a place in the log that changes nothing for readers.
    pub fn settle(&self, sequence: Sequence) {
        self.settled.store(sequence.0, Ordering::Release);
    }

    /// Whether everything up to `sequence` has been shown to readers.
    pub fn has_settled(&self, sequence: Sequence) -> bool {
        self.settled.load(Ordering::Acquire) >= sequence.0
    }

    pub fn take_notes(&self) -> Vec<Note> {
        std::mem::take(&mut *self.notes.lock())
    }

    /// Says whether it is the first that has not been read.
    pub fn leave_note(&self, note: Note) -> bool {
        let mut notes = self.notes.lock();
        notes.push(note);
        notes.len() == 1
    }

    pub fn has_notes(&self) -> bool {
        !self.notes.lock().is_empty()
    }

    pub fn handled(&self) {
        self.underway.fetch_sub(1, Ordering::Release);
    }
}

/// Why a message did not reach its actor.
pub enum NotSent<M> {
    MailboxFull,
    /// There is none, or it has ended; here is the message.
    NoActor(M),
}

impl Directory {
    pub fn len(&self) -> usize {
        self.actors.len()
    }

    /// The last durable view, if the environment has an actor that has loaded it.
    pub fn view(&self, key: &EnvironmentKey) -> Option<Arc<Environment>> {
        let resident = self.actors.get(key)?;
        resident.desk.used.store(true, Ordering::Relaxed);
        resident.desk.view()
    }

    /// The same for those who look at all environments: that alone keeps none in memory.
    pub fn peek(&self, key: &EnvironmentKey) -> Option<Arc<Environment>> {
        self.actors.get(key)?.desk.view()
    }

    /// Sends to the environment's actor, if it has one.
    pub fn send<M>(&self, key: &EnvironmentKey, message: M) -> Result<(), NotSent<M>>
    where
        M: Message<Result = ()> + Send + 'static,
        EnvironmentActor: Handler<M>,
        Context<EnvironmentActor>: ToEnvelope<EnvironmentActor, M>,
    {
        match self.actors.get(key) {
            Some(resident) => resident.send(message),
            None => Err(NotSent::NoActor(message)),
        }
    }

    /// Sends to the environment's actor, which `start` starts if there is none by now.
    pub fn send_starting<M>(
        &self,
        key: &EnvironmentKey,
        message: M,
        start: impl FnOnce(Arc<Desk>) -> Addr<EnvironmentActor>,
    ) -> Result<(), NotSent<M>>
    where
        M: Message<Result = ()> + Send + 'static,
        EnvironmentActor: Handler<M>,
        Context<EnvironmentActor>: ToEnvelope<EnvironmentActor, M>,
    {
        match self.actors.entry(key.clone()) {
            Entry::Occupied(mut known) => {
                if !known.get().address.connected() {
                    known.insert(Resident::start(start));
                }
                known.get().send(message)
            }
            Entry::Vacant(place) => place.insert(Resident::start(start)).send(message),
        }
    }

    /// Leaves a note for the environment's actor, if it has one, and sees to it that it is read.
    pub fn note(&self, key: &EnvironmentKey, note: Note) -> bool {
        let Some(resident) = self.actors.get(key) else { return false };
        // With the others that have not been read, somebody has seen to it already.
        if !resident.desk.leave_note(note) && resident.address.connected() {
            return true;
        }
        match resident.send(Nudge) {
            // What fills the mailbox makes the actor look at its notes as well.
            Ok(()) | Err(NotSent::MailboxFull) => true,
            Err(NotSent::NoActor(_)) => false,
        }
    }

    /// Takes an actor out if nobody needs it: from then on nothing can be sent to it.
    pub fn remove_unneeded(&self, key: &EnvironmentKey, desk: &Arc<Desk>) -> bool {
        self.actors
            .remove_if(key, |_, resident| {
                Arc::ptr_eq(&resident.desk, desk)
                    && resident.desk.underway.load(Ordering::Acquire) == 0
                    && !resident.desk.has_notes()
            })
            .is_some()
    }

    /// Asks every actor that was not used since the last call to leave, and forgets those that have died.
    pub fn dismiss_unused(&self) {
        self.actors.retain(|_, resident| {
            if !resident.desk.used.swap(false, Ordering::Relaxed) {
                // A full mailbox refuses it, rightly: that one is in use.
                resident.send(Leave).ok();
                resident.desk.used.store(false, Ordering::Relaxed);
            }
            resident.address.connected()
        });
    }
}

impl Resident {
    fn start(start: impl FnOnce(Arc<Desk>) -> Addr<EnvironmentActor>) -> Self {
        let desk = Arc::new(Desk::default());
        Self { address: start(desk.clone()), desk }
    }

    fn send<M>(&self, message: M) -> Result<(), NotSent<M>>
    where
        M: Message<Result = ()> + Send + 'static,
        EnvironmentActor: Handler<M>,
        Context<EnvironmentActor>: ToEnvelope<EnvironmentActor, M>,
    {
        self.desk.used.store(true, Ordering::Relaxed);
        self.desk.underway.fetch_add(1, Ordering::Relaxed);
        self.address.try_send(message).map_err(|error| {
            self.desk.handled();
            match error {
                SendError::Full(_) => NotSent::MailboxFull,
                SendError::Closed(message) => NotSent::NoActor(message),
            }
        })
    }
}

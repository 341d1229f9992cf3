//! Signals: messages that reach an actor even while its mailbox is full, and that no sender awaits an answer to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use domain::{EnvironmentKey, SessionId, Ticket};

/// A fire-and-forget signal to an actor.
#[derive(Debug, Clone, Copy)]
pub enum Signal {
    /// The client of a waiter has disconnected.
    HungUp(Ticket),
    /// A waiter has waited as long as it wanted to.
    WaitedEnough(Ticket),
    /// A grant could not be delivered to its client.
    Undelivered { session: SessionId, keyed: bool },
    /// A client has read that its session holds the lock, and the store has refused to record that so far.
    Seen(SessionId),
    /// A waiter for any environment may want this one.
    Offer,
    /// Something may have expired.
    Due,
    /// The pipeline starts deployments again.
    Resume,
}

impl Signal {
    /// Whether its consequence ends something ([`domain::Command::ENDS`]).
    pub fn ends(self) -> bool {
        match self {
            Self::HungUp(_) | Self::WaitedEnough(_) | Self::Undelivered { .. } | Self::Due => true,
            Self::Seen(_) | Self::Offer | Self::Resume => false,
        }
    }
}

/// The directory of actors, as seen by actors and pools.
pub trait ActorDirectory: Send + Sync {
    /// Sends a signal to an environment's actor, started if necessary. Returns false if the environment does not exist.
    fn signal(&self, key: &EnvironmentKey, signal: Signal) -> bool;

    /// Removes the actor with this inbox from the directory, unless something was sent to it. Nothing can be sent to it
    /// afterwards.
    fn remove_unneeded(&self, key: &EnvironmentKey, inbox: &Arc<Inbox>) -> bool;
}

/// The pending input of an actor: its unread signals, the number of messages in its mailbox, and whether it was used.
#[derive(Default)]
pub struct Inbox {
    signals: Mutex<Vec<Signal>>,
    /// Messages sent and not yet handled. Incremented under the directory's guard: if it is zero under that guard, the
    /// mailbox is empty.
    pending: AtomicU32,
    used: AtomicBool,
}

impl Inbox {
    /// Returns whether this is the only unread signal.
    pub fn leave_signal(&self, signal: Signal) -> bool {
        let mut signals = self.signals.lock();
        signals.push(signal);
        signals.len() == 1
    }

    pub fn take_signals(&self) -> Vec<Signal> {
        std::mem::take(&mut *self.signals.lock())
    }

    /// A message is about to be sent.
    pub fn sending(&self) {
        self.mark_used();
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// A message was handled, or could not be sent.
    pub fn handled(&self) {
        self.pending.fetch_sub(1, Ordering::Release);
    }

    pub fn is_empty(&self) -> bool {
        self.pending.load(Ordering::Acquire) == 0 && self.signals.lock().is_empty()
    }

    pub fn mark_used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Whether the actor was used since the last call.
    pub fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }
}

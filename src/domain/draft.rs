//! A decision in the making: the environment as it will be, and everything that goes with it.

use std::sync::Arc;

use super::{Crowd, Environment, Event, Now, Session, Ticket, Waiter};

/// What the commands write on. Nothing of it takes effect before the decision is finished.
pub struct Draft<'a> {
    pub(super) now: Now,
    pub(super) next: Environment,
    pub(super) crowd: &'a mut dyn Crowd,
    pub(super) outcome: Outcome,
    touched: bool,
}

/// What a decision entails, besides the next state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Sessions that had the lock and have ended, as they go into the history (again, if a deployment of theirs
    /// outlived them).
    pub ended: Vec<Session>,
    /// Sessions that have ended in the queue.
    pub left: Vec<Session>,
    pub enqueued: Option<Arc<Waiter>>,
    /// Who is no longer in the queue, whatever the reason.
    pub dequeued: Vec<Arc<Waiter>>,
    /// Who got the lock after waiting for it.
    pub granted: Option<GrantedWaiter>,
    pub events: Vec<Event>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedWaiter {
    pub waiter: Arc<Waiter>,
    pub session: Session,
    /// Whether it waited for any environment, not in this one's queue.
    pub outsider: bool,
}

/// What a command leads to: all of it, or nothing, becomes durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition<Reply> {
    pub next: Environment,
    pub outcome: Outcome,
    pub reply: Reply,
}

impl<'a> Draft<'a> {
    pub(super) fn new(environment: &Environment, now: Now, crowd: &'a mut dyn Crowd) -> Self {
        Self { now, next: environment.clone(), crowd, outcome: Outcome::default(), touched: false }
    }

    /// The environment itself changes, not only its queue.
    pub(super) fn touch(&mut self) {
        if !self.touched {
            self.touched = true;
            self.next.revision += 1;
        }
    }

    pub(super) fn enqueue(&mut self, waiter: Waiter) -> Arc<Waiter> {
        let waiter = Arc::new(waiter);
        self.next.queue.insert(waiter.clone());
        self.outcome.enqueued = Some(waiter.clone());
        waiter
    }

    pub(super) fn dequeue(&mut self, ticket: Ticket) -> Option<Arc<Waiter>> {
        let waiter = self.next.queue.remove(ticket)?;
        self.outcome.dequeued.push(waiter.clone());
        Some(waiter)
    }

    pub(super) fn finish<Reply>(self, reply: Reply) -> Transition<Reply> {
        Transition { next: self.next, outcome: self.outcome, reply }
    }
}

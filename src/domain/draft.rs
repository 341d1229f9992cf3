//! A decision in the making: the environment as it will be, and everything that goes with it.

use std::sync::Arc;

use super::stages::{Maker, Scene};
use super::{
    ApprovalRecord, Blueprint, Crowd, Deployment, DeploymentId, DeploymentRecord, Effect, Environment, Event, Now,
    Session, Ticket, Waiter,
};

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
    /// Deployments that have changed, as they are now; each once.
    pub deployments: Vec<DeploymentRecord>,
    /// What the stages of those that have started do.
    pub blueprints: Vec<(DeploymentId, Arc<Blueprint>)>,
    pub approvals: Vec<ApprovalRecord>,
    /// Deployments of which nothing is kept any more, though their session may be.
    pub forgotten: Vec<DeploymentId>,
    /// In order.
    pub effects: Vec<Effect>,
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

    /// What changing a deployment takes.
    pub(super) fn scene(&mut self) -> Scene<'_> {
        Scene {
            at: self.now.at,
            outcome: &mut self.outcome,
            crowd: &mut *self.crowd,
            configuration: &self.next.configuration,
            last: &mut self.next.last_deployment,
        }
    }

    /// A deployment that has not ended, to be changed, with whose it is and what changing it takes.
    pub(super) fn deployment(&mut self, id: DeploymentId) -> Option<(&mut Deployment, Maker, Scene<'_>)> {
        let Draft { next, outcome, crowd, now, .. } = self;
        let Environment { lock, leaving, reset, last_reset, configuration, last_deployment, .. } = next;
        let scene = Scene { at: now.at, outcome, crowd: &mut **crowd, configuration, last: last_deployment };
        for session in [leaving, lock].into_iter().flatten() {
            let place = session.deployments.iter().position(|d| d.id == id && !d.status.is_finished());
            if let Some(place) = place {
                let maker = Maker::of(session);
                session.revision += 1;
                return Some((&mut session.deployments[place], maker, scene));
            }
        }
        let reset = reset.as_mut().filter(|deployment| deployment.id == id)?;
        Some((reset, Maker::system(*last_reset), scene))
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

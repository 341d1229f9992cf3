//! A decision in progress: the next state of the environment, and the outcome.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{
    ApprovalRecord, Blueprint, Configuration, DecisionPorts, Deployment, DeploymentId, DeploymentRecord, DeploymentRef,
    Effect, Ended, EndedHow, Environment, Event, Expiry, LastDeployment, LastReset, Now, Person, Rejection, Session,
    SessionId, SessionRef, Ticket, Timestamp, Waiter,
};

/// A command to one environment.
pub trait Command: Send + 'static {
    type Reply: Send + 'static;

    /// Whether the command ends something, and so must also be possible on a full disk.
    const ENDS: bool = false;

    /// Like [`Self::ENDS`], for a command whose fields decide.
    fn ends(&self) -> bool {
        Self::ENDS
    }

    /// Called through [`decide`], which also hands over a free lock, starts waiting deployments and checks the
    /// invariants.
    fn decide(self, decision: &mut Decision<'_>) -> Result<Self::Reply, Rejection>;

    /// The session that the command refers to: the actor looks it up if the environment no longer has it.
    fn subject(&mut self) -> Option<&mut SessionRef> {
        None
    }

    /// The ended deployment that the command refers to, looked up in the same way.
    fn deployment(&mut self) -> Option<&mut DeploymentRef> {
        None
    }

    /// The session that the reply names as the holder. If the reply does not reach its client, the lock is taken back.
    fn grants(_reply: &Self::Reply) -> Option<SessionId> {
        None
    }

    /// For replies that show the environment after the whole decision.
    fn complete(_reply: &mut Self::Reply, _next: &Environment) {}
}

/// The working state of commands. Nothing takes effect before the decision is finished.
pub struct Decision<'a> {
    pub(super) now: Now,
    pub(super) next: &'a mut Environment,
    pub(super) ports: &'a mut dyn DecisionPorts,
    pub(super) outcome: &'a mut Outcome,
    touched: bool,
}

/// The consequences of a decision, besides the next state. One event is stored inline, since nearly every command has
/// one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Ended sessions that had the lock, for the history. A session appears again when its deployment ends later.
    pub ended: SmallVec<[Arc<Session>; 1]>,
    /// Sessions that have ended in the queue.
    pub left: Vec<Arc<Session>>,
    pub enqueued: Option<Arc<Waiter>>,
    /// The waiter whose client receives the id of its session.
    pub made_known: Option<Arc<Waiter>>,
    /// Waiters that have left the queue, for any reason.
    pub dequeued: Vec<Arc<Waiter>>,
    /// The waiter that got the lock.
    pub granted: Option<GrantedWaiter>,
    /// Whether the waiters that left the queue are refused because the environment is taken out of service.
    pub retired: bool,
    pub events: SmallVec<[Event; 1]>,
    /// Changed deployments, each once, in their new state.
    pub deployments: Vec<DeploymentRecord>,
    /// The blueprints of the started deployments.
    pub blueprints: Vec<(DeploymentId, Arc<Blueprint>)>,
    pub approvals: Vec<ApprovalRecord>,
    /// Deployments whose records are deleted, although their session may be kept.
    pub forgotten: Vec<DeploymentId>,
    /// In the order of execution.
    pub effects: Vec<Effect>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedWaiter {
    pub waiter: Arc<Waiter>,
    pub session: Arc<Session>,
    /// Whether the waiter was in the pool, not in this environment's queue.
    pub from_pool: bool,
}

/// The result of a command. It becomes durable together with its [`Outcome`] or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition<Reply> {
    pub next: Arc<Environment>,
    pub reply: Reply,
}

/// The session that a deployment belongs to.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    pub session: Option<SessionId>,
    pub user: Option<Person>,
    pub fencing_token: u64,
}

impl Owner {
    pub fn of(session: &Session) -> Self {
        let fencing_token = session.fencing_token().unwrap_or_default();
        Self { session: Some(session.id), user: Some(session.user.clone()), fencing_token }
    }

    /// A reset belongs to no session.
    pub fn system(reset: Option<LastReset>) -> Self {
        Self { session: None, user: None, fencing_token: reset.map_or(0, |reset| reset.fencing_token) }
    }

    /// The owner of a deployment: this session, or the reset.
    pub fn of_deployment(session: Option<&Session>, environment: &Environment) -> Self {
        session.map_or_else(|| Self::system(environment.last_reset), Self::of)
    }
}

/// The context for changing a deployment.
pub(super) struct ChangeContext<'a> {
    pub at: Timestamp,
    pub outcome: &'a mut Outcome,
    pub ports: &'a mut dyn DecisionPorts,
    pub configuration: &'a Option<Arc<Configuration>>,
    pub last: &'a mut Option<LastDeployment>,
}

impl<'a> Decision<'a> {
    /// `next` must still be the current state, and `outcome` empty.
    pub(super) fn new(
        next: &'a mut Environment,
        outcome: &'a mut Outcome,
        now: Now,
        ports: &'a mut dyn DecisionPorts,
    ) -> Self {
        Self { now, next, ports, outcome, touched: false }
    }

    /// Marks a change of the environment itself, not only of its queue.
    pub(super) fn touch(&mut self) {
        if !self.touched {
            self.touched = true;
            self.next.revision += 1;
        }
    }

    /// The context for changing a deployment.
    pub(super) fn context(&mut self) -> ChangeContext<'_> {
        ChangeContext {
            at: self.now.at,
            outcome: &mut *self.outcome,
            ports: &mut *self.ports,
            configuration: &self.next.configuration,
            last: &mut self.next.last_deployment,
        }
    }

    /// An unfinished deployment to be changed, with its owner and the context for the change.
    pub(super) fn deployment(
        &mut self,
        id: DeploymentId,
    ) -> Result<(&mut Deployment, Owner, ChangeContext<'_>), Rejection> {
        let Decision { next, outcome, ports, now, .. } = self;
        let Environment { lock, leaving, reset, last_reset, configuration, last_deployment, .. } = next;
        let context = ChangeContext { at: now.at, outcome, ports: &mut **ports, configuration, last: last_deployment };
        for session in [leaving, lock].into_iter().flatten() {
            let place = session.deployments.iter().position(|d| d.id == id && !d.status.is_finished());
            if let Some(place) = place {
                let session = Arc::make_mut(session);
                let owner = Owner::of(session);
                session.revision += 1;
                return Ok((&mut session.deployments[place], owner, context));
            }
        }
        let reset = reset.as_mut().filter(|deployment| deployment.id == id).ok_or(Rejection::DeploymentNotFound)?;
        Ok((reset, Owner::system(*last_reset), context))
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

    /// Removes a waiter whose client is gone.
    pub(super) fn expire(&mut self, ticket: Ticket, why: Expiry) {
        let ended = Ended { at: self.now.at, by: None, how: EndedHow::Expired(why) };
        self.leave(ticket, ended);
    }

    /// Removes a waiter. If its client knows it as a session, the session ends.
    pub(super) fn leave(&mut self, ticket: Ticket, ended: Ended) -> Option<Arc<Session>> {
        let departure = self.dequeue(ticket)?.departure(ended);
        if let Some(event) = departure.event() {
            self.outcome.events.push(event);
            self.outcome.left.push(departure.session.clone());
        }
        Some(departure.session)
    }
}

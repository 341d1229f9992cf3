//! The messages of an environment's actor, and their handlers: commands, claims, returning clients, and the request to
//! leave memory.

use actix::prelude::*;
use tokio::sync::oneshot;

use super::EnvironmentActor;
use crate::ports::Failure;
use crate::services::waiters::{ClaimOutcome, HeldClient, Keyed};
use domain::{Claim, Command, HandOver, Initiator, Ticket};

/// A command and the channel for its answer.
pub struct Ask<C: Command> {
    pub command: C,
    pub reply: oneshot::Sender<Result<C::Reply, Failure>>,
    pub keyed: Option<Keyed<C::Reply>>,
    /// The caller.
    pub by: Option<Initiator>,
}

impl<C: Command> Message for Ask<C> {
    type Result = ();
}

/// A claim, which may be answered much later.
#[derive(Message)]
#[rtype(result = "()")]
pub struct AskClaim {
    pub claim: Claim,
    /// Whether the caller waits for its turn on its connection.
    pub hold: bool,
    pub client: HeldClient,
}

/// A client returns for its place in the queue.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Attach {
    pub ticket: Ticket,
    pub client: HeldClient,
    /// `Ok` if attached; otherwise returns the key, since there is no such place.
    pub reply: oneshot::Sender<Result<(), Option<Box<Keyed<ClaimOutcome>>>>>,
}

/// Asks the actor to read its signals.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Nudge;

/// Asks the actor to leave memory, unless it is needed.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Leave;

impl<C: Command> Handler<Ask<C>> for EnvironmentActor {
    type Result = ();

    fn handle(&mut self, ask: Ask<C>, context: &mut Self::Context) {
        self.with_signals_handled(context, |actor, context| actor.answer(ask, context));
    }
}

impl Handler<AskClaim> for EnvironmentActor {
    type Result = ();

    fn handle(&mut self, ask: AskClaim, context: &mut Self::Context) {
        self.with_signals_handled(context, |actor, context| actor.answer_claim(ask, context));
    }
}

impl Handler<Attach> for EnvironmentActor {
    type Result = ();

    fn handle(&mut self, attach: Attach, context: &mut Self::Context) {
        self.with_signals_handled(context, |actor, context| {
            let Attach { ticket, client, reply } = attach;
            let waits = actor.loaded.as_ref().is_ok_and(|loaded| loaded.environment.queue.get(ticket).is_some());
            if !waits {
                reply.send(Err(client.keyed)).ok();
                return;
            }
            actor.held.insert(ticket, client);
            reply.send(Ok(())).ok();
            actor.perform(HandOver, context);
        });
    }
}

impl Handler<Nudge> for EnvironmentActor {
    type Result = ();

    fn handle(&mut self, _: Nudge, context: &mut Self::Context) {
        self.with_signals_handled(context, |actor, context| {
            if actor.loaded.is_err() {
                actor.leave_if_unneeded(context);
            }
        });
    }
}

impl Handler<Leave> for EnvironmentActor {
    type Result = ();

    fn handle(&mut self, _: Leave, context: &mut Self::Context) {
        self.with_signals_handled(context, |_, _| {});
        // A successor cannot read this state from the store, so it must not be lost.
        let needed = !self.undone.is_empty()
            || self
                .loaded
                .as_ref()
                .is_ok_and(|loaded| !self.links.has_settled(loaded.handed_in) || !loaded.environment.queue.is_empty());
        if !needed {
            self.leave_if_unneeded(context);
        }
    }
}

impl EnvironmentActor {
    /// Handles one message. Signals come first; afterwards the actor reports the environment's status to the pool and
    /// sets the next deadline.
    fn with_signals_handled(&mut self, context: &mut Context<Self>, work: impl FnOnce(&mut Self, &mut Context<Self>)) {
        self.links.inbox.handled();
        self.read_signals(context);
        work(self, context);
        if self.report() {
            // A waiter for any environment may have joined just before this environment was reported free.
            self.perform(HandOver, context);
            self.report();
        }
        self.arm();
    }

    pub(super) fn leave_if_unneeded(&mut self, context: &mut Context<Self>) {
        if self.services().remove_unneeded(&self.links.key, &self.links.inbox) {
            context.stop();
        }
    }
}

//! The messages of an environment's actor, and their handlers: commands, claims, returning clients, and the request to
//! leave memory.

use actix::prelude::*;
use tokio::sync::oneshot;

use super::commit::Executed;
use super::{ActorLinks, EnvironmentActor};
use crate::ports::Failure;
use crate::services::signals::Signal;
use crate::services::waiters::{ClaimOutcome, HeldClient, Keyed};
use domain::{Claim, ClaimReply, Command, HandOver, Initiator, Ticket};

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
    /// Whether the caller waits for its turn.
    pub hold: bool,
    pub client: HeldClient,
}

/// A client returns for its place in the queue.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Attach {
    pub ticket: Ticket,
    pub client: HeldClient,
    /// Returns the key if there is no such place.
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
        // A successor cannot read this from the store, so it must not be lost.
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
    /// Handles one message: signals come first; afterwards the pool learns the environment's status and the next
    /// deadline is set.
    fn with_signals_handled(&mut self, context: &mut Context<Self>, work: impl FnOnce(&mut Self, &mut Context<Self>)) {
        self.links.inbox.handled();
        self.read_signals(context);
        work(self, context);
        if self.report() {
            // A waiter for any environment may have arrived just before this one was known to be free.
            self.perform(HandOver, context);
            self.report();
        }
        self.arm();
    }

    fn answer<C: Command>(&mut self, ask: Ask<C>, context: &mut Context<Self>) {
        let Ask { command, reply, keyed, by } = ask;
        // A caller that has given up must not be granted anything afterwards.
        if reply.is_closed() {
            return;
        }
        let record = |outcome: &C::Reply, batch: &mut _, now| {
            if let Some(keyed) = &keyed {
                keyed.record(batch, outcome, now);
            }
        };
        match self.execute(command, by.as_ref(), record) {
            Ok(Executed { reply: outcome, settlement }) => {
                self.settle(settlement, context, move |links| {
                    let (granted, has_key) = (C::grants(&outcome), keyed.is_some());
                    drop(keyed);
                    if reply.send(Ok(outcome)).is_err()
                        && let Some(session) = granted
                    {
                        links.services.signal(&links.key, Signal::Undelivered { session, keyed: has_key });
                    }
                });
            }
            Err(failure) => self.refuse(context, move |_| {
                drop(keyed);
                reply.send(Err(failure)).ok();
            }),
        }
    }

    fn answer_claim(&mut self, ask: AskClaim, context: &mut Context<Self>) {
        let AskClaim { claim, hold, mut client } = ask;
        if client.is_gone() {
            return;
        }
        let (ticket, links) = (claim.ticket, self.links.clone());
        // A queued session exists from now on, even if its client waits on the connection and is disconnected.
        let record = |reply: &ClaimReply, batch: &mut _, now| {
            if let Some(keyed) = &client.keyed
                && let Some(outcome) = ClaimOutcome::of(reply.clone(), &links.key)
            {
                keyed.record(batch, &outcome, now);
            }
        };
        let by = Initiator { person: claim.request.user.clone(), via: claim.via.clone() };
        let Executed { reply, settlement } = match self.execute(claim, Some(&by), record) {
            Ok(executed) => executed,
            Err(failure) => return self.refuse(context, move |_| client.refuse(failure)),
        };
        let queued = matches!(reply, ClaimReply::Queued { .. });
        if queued {
            self.services().waiters.start_polling(ticket, self.services().tick());
            self.services().waiters.keep(ticket, client.place.take());
        }
        if let ClaimReply::Refused(rejection) = reply {
            return self.settle(settlement, context, move |_| client.refuse(rejection));
        }
        match ClaimOutcome::of(reply, &links.key).filter(|_| !(queued && hold)) {
            Some(outcome) => self.settle(settlement, context, move |links| links.services.deliver(client, outcome)),
            None => {
                self.held.insert(ticket, client);
                self.settle(settlement, context, |_| {});
            }
        }
    }

    fn refuse(&mut self, context: &mut Context<Self>, answer: impl FnOnce(&ActorLinks) + 'static) {
        // A refusal also describes a state, which could still be lost.
        self.when_settled(answer);
        if self.loaded.is_err() {
            self.leave_if_unneeded(context);
        }
    }

    /// Answers when everything handed in so far is durable.
    pub(super) fn when_settled(&self, answer: impl FnOnce(&ActorLinks) + 'static) {
        match &self.loaded {
            Ok(loaded) if !self.links.has_settled(loaded.handed_in) => self.when_durable(loaded.handed_in, answer),
            Ok(_) | Err(_) => answer(&self.links),
        }
    }

    fn leave_if_unneeded(&mut self, context: &mut Context<Self>) {
        if self.services().remove_unneeded(&self.links.key, &self.links.inbox) {
            context.stop();
        }
    }
}

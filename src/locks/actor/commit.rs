//! From a command to its answer: the command is decided and its batch handed to the store. Once the batch is durable,
//! the view is published, watchers are woken, effects performed and answers sent.

use std::collections::HashMap;
use std::sync::Arc;

use actix::prelude::*;

use super::messages::{Ask, AskClaim};
use super::{ActorLinks, EnvironmentActor};
use crate::ports::Failure;
use crate::services::signals::Signal;
use crate::services::waiters::{ClaimOutcome, HeldClient};
use crate::state::change::Change;
use crate::state::memory::{Advance, ChangedSessions, Committed};
use ambient::entropy;
use domain::{
    self, ClaimReply, Command, Configuration, DecisionPorts, DeploymentId, Effect, Environment, IdSeed, Initiator, Now,
    Origin, Outcome, PipelineNow, Presence, Rejection, Session, Tick, Ticket, Timestamp, Transition, Turn, Waiter,
};
use store::{Batch, Sequence, StoreError};

impl EnvironmentActor {
    pub(super) fn answer<C: Command>(&mut self, ask: Ask<C>, context: &mut Context<Self>) {
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

    pub(super) fn answer_claim(&mut self, ask: AskClaim, context: &mut Context<Self>) {
        let AskClaim { claim, hold, mut client } = ask;
        if client.is_gone() {
            return;
        }
        let (ticket, links) = (claim.ticket, self.links.clone());
        // Recorded because a queued session exists from now on, even if its client waits on the connection and
        // disconnects.
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
        // A refusal also describes a state that could still be lost.
        self.when_settled(answer);
        if self.loaded.is_err() {
            self.leave_if_unneeded(context);
        }
    }

    /// Answers once everything handed in so far is durable.
    pub(super) fn when_settled(&self, answer: impl FnOnce(&ActorLinks) + 'static) {
        match &self.loaded {
            Ok(loaded) if !self.links.has_settled(loaded.handed_in) => self.when_durable(loaded.handed_in, answer),
            Ok(_) | Err(_) => answer(&self.links),
        }
    }
}

impl EnvironmentActor {
    /// Decides a command of `by` and hands in the outcome; `record` may add to the batch. If the store refuses, nothing
    /// has changed.
    pub(super) fn execute<C: Command>(
        &mut self,
        mut command: C,
        by: Option<&Initiator>,
        record: impl FnOnce(&C::Reply, &mut Batch, Timestamp),
    ) -> Result<Executed<C::Reply>, Failure> {
        let links = self.links.clone();
        let ActorLinks { key, services, pool, .. } = &*links;
        let loaded = self.loaded.as_ref().map_err(StoreError::clone)?;
        if let Some(subject) = command.subject()
            && loaded.environment.session(subject.id).is_none()
        {
            subject.ended = loaded.ended_session(&services.records, key, subject.id)?;
        }
        if let Some(target) = command.deployment()
            && loaded.environment.unfinished_deployment(target.id).is_none()
        {
            target.ended = loaded.ended_deployment(&services.records, key, target.id)?.map(Box::new);
        }
        let now = services.now();
        let mut context = DecisionContext { links: &links, held: &self.held, now: now.tick, taken: None };
        let mut outcome = Outcome::default();
        let ends = command.ends();
        let Transition { next, reply } = domain::decide(&loaded.environment, command, now, &mut context, &mut outcome)?;

        let record = |batch: &mut Batch| {
            if ends {
                batch.mark_as_end();
            }
            record(&reply, batch, now.at);
        };
        match self.hand_in(&next, &outcome, by, now, record) {
            Ok(committed) => {
                let settlement = self.accept(next, &mut outcome, committed, C::ENDS, now);
                Ok(Executed { reply, settlement })
            }
            Err(error) => {
                if let Some(granted) = outcome.granted.filter(|granted| granted.from_pool) {
                    // The waiter is offered to other environments first, and to this one when it tries again.
                    self.retry(C::ENDS);
                    self.report_anew();
                    pool.put_back(services, granted.waiter.ticket);
                }
                Err(error.into())
            }
        }
    }

    /// Hands the changes of a decision to the store.
    fn hand_in(
        &self,
        next: &Environment,
        outcome: &Outcome,
        by: Option<&Initiator>,
        now: Now,
        record: impl FnOnce(&mut Batch),
    ) -> Result<Committed, StoreError> {
        let loaded = self.loaded.as_ref().map_err(StoreError::clone)?;
        let mut change = Change::new(&self.services().records, &self.links.key, loaded);
        change.deployments(next, outcome)?;
        change.environment(next, outcome, now)?;
        change.queue(outcome);
        change.events(outcome, by, now);
        self.record_grant(outcome, change.batch(), now);
        record(change.batch());
        change.commit()
    }

    /// Stores the answer to a waiter with an idempotency key together with its grant.
    fn record_grant(&self, outcome: &Outcome, batch: &mut Batch, now: Now) {
        let Some(granted) = &outcome.granted else { return };
        let mut keep = |client: &HeldClient| {
            if let Some(keyed) = &client.keyed {
                let session = granted.session.clone();
                keyed.record(batch, &ClaimOutcome::Granted { environment: self.links.key.clone(), session }, now.at);
            }
        };
        if granted.from_pool {
            self.links.pool.with_taken(granted.waiter.ticket, keep);
        } else if let Some(client) = self.held.get(&granted.waiter.ticket) {
            keep(client);
        }
    }

    /// Replaces the environment's state by the decided one. Takes the parts of the outcome that are still needed.
    fn accept(
        &mut self,
        next: Arc<Environment>,
        outcome: &mut Outcome,
        committed: Committed,
        ends: bool,
        now: Now,
    ) -> Settlement {
        let ActorLinks { services, pool, view, .. } = &*self.links;
        let granted = outcome.granted.take().map(|granted| {
            let ticket = granted.waiter.ticket;
            let client = if granted.from_pool { pool.granted(ticket) } else { self.held.remove(&ticket) };
            services.waiters.forget(&granted.waiter);
            Box::new(Granted { ticket, client, session: granted.session, from_pool: granted.from_pool })
        });
        // A queued session may have been released while its client still waits on its connection.
        let client_of = |session: &Arc<Session>| match session.id.origin {
            Origin::Queued(ticket) => {
                let ended = Rejection::SessionEnded { session: session.clone() };
                self.held.remove(&ticket).map(|client| (client, ended))
            }
            Origin::Granted(_) => None,
        };
        let sent_away = if outcome.retired {
            let disabled = || Rejection::EnvironmentDisabled { reason: next.disabled_reason.clone() };
            let clients = outcome.dequeued.iter().filter_map(|waiter| self.held.remove(&waiter.ticket));
            clients.map(|client| (client, disabled())).collect()
        } else {
            outcome.left.iter().filter_map(client_of).collect()
        };
        // Only after the new holder has left `held`: it must get its answer, or the grant is taken back.
        for waiter in &outcome.dequeued {
            services.waiters.forget(waiter);
            // The code that answers a connected client also removes it.
            if self.held.get(&waiter.ticket).is_some_and(HeldClient::is_gone) {
                self.held.remove(&waiter.ticket);
            }
        }
        services.waiters.joined(usize::from(outcome.enqueued.is_some()));
        services.waiters.left(outcome.dequeued.len());
        services.waiters.sessions_ended(outcome.left.len());

        let (sequence, trim_on) = (committed.sequence, committed.trim_on);
        let effects = std::mem::take(&mut outcome.effects);
        let Ok(loaded) = &mut self.loaded else { unreachable!("only a loaded environment decides") };
        if sequence > loaded.handed_in {
            loaded.retry.accepted(ends, now.tick);
        }
        services.lock_times.passed(loaded.environment.lock.as_deref(), next.lock.as_deref(), now);
        let Advance { view, sessions, deployments, was_held_back } =
            loaded.advance(next, outcome, committed, now, |written| view.has_settled(written));
        self.note_held_back_after_decision(was_held_back);
        Settlement { sequence, view, sessions, deployments, effects, granted, sent_away, trim_on }
    }
}

/// Implements the ports of the rules during a decision.
struct DecisionContext<'a> {
    links: &'a ActorLinks,
    held: &'a HashMap<Ticket, HeldClient>,
    now: Tick,
    /// The waiter taken from the pool for this decision.
    taken: Option<(Ticket, Presence)>,
}

impl DecisionPorts for DecisionContext<'_> {
    fn presence(&self, waiter: &Waiter) -> Presence {
        match self.taken {
            Some((ticket, presence)) if ticket == waiter.ticket => presence,
            Some(_) | None => self.links.services.waiters.presence(waiter, self.held.get(&waiter.ticket), self.now),
        }
    }

    fn take_from_pool(&mut self, configuration: &Configuration, before: Option<Turn>) -> Option<Arc<Waiter>> {
        let (waiter, presence) = self.links.pool.take(&self.links.services, configuration, before, self.now)?;
        self.taken = Some((waiter.ticket, presence));
        Some(waiter)
    }

    fn seed(&mut self) -> IdSeed {
        entropy::id_seed()
    }

    fn pipeline(&self) -> PipelineNow {
        self.links.services.pipelines.now(&self.links.key.pipeline)
    }
}

/// Continues dropping the history beyond the retention.
#[derive(Message)]
#[rtype(result = "()")]
struct Trim;

impl Handler<Trim> for EnvironmentActor {
    type Result = ();

    fn handle(&mut self, _: Trim, context: &mut Self::Context) {
        let Ok(loaded) = &self.loaded else { return };
        let ActorLinks { key, services, .. } = &*self.links;
        let (next, now) = (loaded.environment.clone(), services.now());
        let mut change = Change::new(&services.records, key, loaded);
        // If the store refuses, the environment's next commit continues.
        let Ok(()) = change.trim(&next) else { return };
        change.put_environment(&next);
        let Ok(committed) = change.commit() else { return };
        let settlement = self.accept(next, &mut Outcome::default(), committed, false, now);
        self.settle(settlement, context, |_| {});
    }
}

/// A command that was decided and handed in.
pub struct Executed<R> {
    pub reply: R,
    pub settlement: Settlement,
}

impl ActorLinks {
    /// Whether everything up to `sequence` is durable and visible to readers. A later settlement must not overtake a
    /// waiting one, or readers would see an older state after a newer one.
    pub(super) fn has_settled(&self, sequence: Sequence) -> bool {
        self.pending.get() == 0 && self.view.has_settled(sequence)
    }

    /// Shows readers a state that has been durable since `sequence`. The view comes first: the first list activates the
    /// index and reads the views afterwards.
    pub(super) fn publish(&self, environment: &Arc<Environment>, sequence: Sequence) {
        self.view.publish(environment.clone(), sequence);
        self.session_index.published(&self.key, environment, sequence);
    }
}

/// The work to do once the store is durable up to `sequence`.
pub struct Settlement {
    pub sequence: Sequence,
    pub view: Option<Arc<Environment>>,
    pub sessions: ChangedSessions,
    pub deployments: Vec<DeploymentId>,
    pub effects: Vec<Effect>,
    /// Boxed, since it is large and most settlements have none.
    pub granted: Option<Box<Granted>>,
    /// Clients that waited on their connection and no longer can.
    pub sent_away: Vec<(HeldClient, Rejection)>,
    pub trim_on: bool,
}

/// A waiter that got the lock.
pub struct Granted {
    pub ticket: Ticket,
    pub client: Option<HeldClient>,
    pub session: Arc<Session>,
    /// Whether the waiter came from the pool.
    pub from_pool: bool,
}

impl EnvironmentActor {
    /// Settles when the commit is durable, then answers.
    pub(super) fn settle(
        &mut self,
        settlement: Settlement,
        context: &mut Context<Self>,
        answer: impl FnOnce(&ActorLinks) + 'static,
    ) {
        let sequence = settlement.sequence;
        let trim_on = settlement.trim_on.then(|| context.address());
        let already_durable = self.links.has_settled(sequence);
        let settle = move |links: &ActorLinks| {
            match &settlement.view {
                Some(view) => links.publish(view, sequence),
                None if already_durable => {}
                None => links.view.settle(sequence),
            }
            settlement.apply(links);
            answer(links);
            // A long history is dropped in pieces, each once the previous one is durable, to let other work through. If
            // the mailbox is full, other messages are more urgent, and the next commit continues.
            if let Some(actor) = trim_on {
                actor.try_send(Trim).ok();
            }
        };
        if already_durable {
            settle(&self.links);
        } else {
            self.when_durable(sequence, settle);
        }
    }
}

impl EnvironmentActor {
    /// Runs `settle` when the store is durable up to `sequence`, after every earlier settlement of this environment.
    pub(super) fn when_durable(&self, sequence: Sequence, settle: impl FnOnce(&ActorLinks) + 'static) {
        let links = self.links.clone();
        links.pending.update(|pending| pending + 1);
        let in_turn = move || {
            links.pending.update(|pending| pending - 1);
            settle(&links);
        };
        self.services().settlements.when_durable(sequence, Box::new(in_turn));
    }
}

impl Settlement {
    /// Publishes the new state before any answer or notification about it.
    fn apply(self, links: &ActorLinks) {
        let ActorLinks { key, services, pool, .. } = links;
        if let Some(granted) = self.granted.as_ref().filter(|granted| granted.from_pool) {
            pool.settled(granted.ticket);
        }
        if self.view.is_some() {
            services.watchers.environments.changed(key);
        }
        for session in self.sessions {
            services.watchers.sessions.changed(&session);
        }
        for deployment in self.deployments {
            services.watchers.deployments.changed(&deployment);
        }
        for effect in self.effects {
            services.perform(key, effect);
        }
        for (client, rejection) in self.sent_away {
            client.refuse(rejection);
        }
        if let Some(granted) = self.granted
            && let Granted { client: Some(client), session, .. } = *granted
        {
            services.deliver(client, ClaimOutcome::Granted { environment: key.clone(), session });
        }
    }
}

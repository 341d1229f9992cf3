//! Handles signals: clients that disconnect or stop waiting, offers, deadlines.

use std::sync::Arc;

use actix::prelude::*;

use super::EnvironmentActor;
use super::commit::Executed;
use crate::ports::Failure;
use crate::services::signals::Signal;
use crate::services::waiters::{ClaimOutcome, HeldClient};
use domain::{
    AfterHangUp, Availability, Command, Elapse, HandOver, HangUp, KeptBy, MakeKnown, Resume, Seen, SessionId,
    StopWaiting, Ticket, Undelivered,
};

/// Disconnected waiters removed per commit. Limits the size of the batch.
const HUNG_UP_AT_ONCE: usize = 50;

impl EnvironmentActor {
    pub(super) fn read_signals(&mut self, context: &mut Context<Self>) {
        if self.loaded.is_err() {
            return self.drop_signals();
        }
        let signals = self.links.inbox.take_signals();
        if signals.is_empty() && self.undone.is_empty() {
            return;
        }
        let mut gone = Vec::new();
        let undone = self.take_undone();
        for signal in undone.into_iter().chain(signals) {
            match signal {
                Signal::HungUp(ticket) => gone.push(ticket),
                Signal::WaitedEnough(ticket) => self.stop_waiting(ticket, context),
                Signal::Undelivered { session, keyed } => {
                    if !self.perform(Undelivered { session, keyed }, context) {
                        self.undone.push(signal);
                    }
                }
                Signal::Seen(session) => self.note_seen(session, context),
                Signal::Offer => self.perform_offer(context),
                Signal::Due => self.elapse(context),
                Signal::Resume => {
                    if !self.perform(Resume, context) {
                        self.undone.push(signal);
                    }
                }
            }
        }
        for gone in gone.chunks(HUNG_UP_AT_ONCE) {
            self.hang_up(gone, context);
        }
    }

    /// Signals that the store refused earlier, if it is time to try again.
    fn take_undone(&mut self) -> Vec<Signal> {
        let now = self.services().tick();
        let Ok(loaded) = &mut self.loaded else { return Vec::new() };
        let mut due = Vec::new();
        for ends in [true, false] {
            let pause = loaded.retry.of(ends);
            if !pause.is_pausing(now) {
                pause.begin();
                due.extend(self.undone.extract_if(.., |signal| signal.ends() == ends));
            }
        }
        due
    }

    /// An environment that cannot be loaded can do nothing. Its next user starts a new actor; so does the timer, since
    /// expired leases must end without a user.
    fn drop_signals(&mut self) {
        for signal in self.links.inbox.take_signals() {
            if let Signal::Due = signal {
                self.services().deadlines.arm_again(&self.links.key, self.services().tick());
                continue;
            }
            tracing::warn!(environment = %self.links.key, ?signal, "dropped a signal to an environment that cannot be loaded");
            if let Signal::Offer = signal {
                self.links.pool.report(self.services(), &self.links.key.name, Availability::Gone);
                self.links.pool.offer_around(self.services());
            }
        }
    }

    /// Executes a command without a waiting caller. Returns false if the store refuses; the command is then repeated
    /// soon.
    pub(super) fn perform<C: Command>(&mut self, command: C, context: &mut Context<Self>) -> bool {
        match self.execute(command, None, |_, _, _| {}) {
            Ok(Executed { settlement, .. }) => {
                self.settle(settlement, context, |_| {});
                true
            }
            Err(Failure::Store(error)) => {
                tracing::warn!(environment = %self.links.key, %error, "the store refused a command; trying again soon");
                self.retry(C::ENDS);
                false
            }
            Err(_) => true,
        }
    }

    fn perform_offer(&mut self, context: &mut Context<Self>) {
        if self.perform(HandOver, context) {
            self.report_anew();
        }
        self.links.pool.offer_around(self.services());
    }

    fn elapse(&mut self, context: &mut Context<Self>) {
        // The timer has dropped the deadline.
        self.armed = None;
        let now = self.services().tick();
        if self.loaded.as_ref().is_ok_and(|loaded| loaded.retry.ends.is_pausing(now)) {
            return;
        }
        match self.execute(Elapse, None, |_, _, _| {}) {
            Ok(Executed { reply: queue_due, settlement }) => {
                if let Ok(loaded) = &mut self.loaded {
                    loaded.queue_due = queue_due;
                }
                self.settle(settlement, context, |_| {});
            }
            Err(error) => {
                tracing::warn!(environment = %self.links.key, %error, "could not end what has expired; trying again soon");
                self.retry(true);
            }
        }
    }

    fn hang_up(&mut self, gone: &[Ticket], context: &mut Context<Self>) {
        let mut tickets = Vec::new();
        for &ticket in gone {
            let Ok(loaded) = &self.loaded else { return };
            let Some(waiter) = loaded.environment.queue.get(ticket) else { continue };
            match waiter.after_hang_up(HeldClient::connection(self.held.get(&ticket))) {
                AfterHangUp::Stays => {}
                AfterHangUp::Polls => {
                    self.held.remove(&ticket);
                    self.services().waiters.polled(ticket, self.services().tick());
                }
                AfterHangUp::Leaves => tickets.push(ticket),
            }
        }
        if !tickets.is_empty() && !self.perform(HangUp { tickets: tickets.clone() }, context) {
            self.undone.extend(tickets.into_iter().map(Signal::HungUp));
        }
    }

    fn stop_waiting(&mut self, ticket: Ticket, context: &mut Context<Self>) {
        let Ok(loaded) = &self.loaded else { return };
        let Some(waiter) = loaded.environment.queue.get(ticket).cloned() else { return };
        if waiter.kept_by == KeptBy::Polling {
            let position = loaded.environment.queue.position(&waiter);
            let holder_never_expires = loaded.environment.holder_never_expires();
            let session = Arc::new(waiter.session.clone());
            return self.leave_queued(
                ticket,
                ClaimOutcome::Queued { session, position, holder_never_expires },
                context,
            );
        }
        match self.execute(StopWaiting { ticket }, None, |_, _, _| {}) {
            Ok(Executed { reply, settlement }) => {
                let client = self.held.remove(&ticket);
                self.settle(settlement, context, move |_| {
                    if let (Some(client), Some(rejection)) = (client, reply) {
                        client.refuse(rejection);
                    }
                });
            }
            Err(failure) => {
                if let Some(client) = self.held.remove(&ticket) {
                    client.refuse(failure);
                }
                self.leave_later(ticket);
            }
        }
    }

    /// A client was refused, but the store does not accept the end of its place yet. Until then the waiter gets no
    /// lock.
    fn leave_later(&mut self, ticket: Ticket) {
        self.undone.push(Signal::HungUp(ticket));
        self.retry(true);
    }

    /// The client stops waiting on its connection, and keeps its place by polling from now on.
    fn leave_queued(&mut self, ticket: Ticket, outcome: ClaimOutcome, context: &mut Context<Self>) {
        let Some(client) = self.held.remove(&ticket) else { return };
        self.services().waiters.start_polling(ticket, self.services().tick());
        let record = |_: &(), batch: &mut _, now| client.record(batch, &outcome, now);
        match self.execute(MakeKnown { ticket }, None, record) {
            Ok(Executed { settlement, .. }) => {
                self.settle(settlement, context, move |links| links.services.deliver(client, outcome));
            }
            // The key has led to the session since it was queued, so this answer is true whether or not it is stored.
            Err(Failure::Store(_)) if client.keyed.is_some() => {
                self.when_settled(move |links| links.services.deliver(client, outcome));
            }
            Err(failure) => {
                // The journal has the session's start and will get its end, so the error names the session.
                let failure = match (failure, &outcome) {
                    (Failure::Store(error), ClaimOutcome::Queued { session, .. }) => {
                        Failure::PlaceGivenUp { session: session.id, error }
                    }
                    (failure, _) => failure,
                };
                client.refuse(failure);
                // The store refused this batch, but may accept one that removes the waiter.
                self.hang_up(&[ticket], context);
            }
        }
    }

    /// The client has seen that its session has the lock.
    fn note_seen(&mut self, session: SessionId, context: &mut Context<Self>) {
        let is_noted = self.undone.iter().any(|undone| matches!(undone, Signal::Seen(noted) if *noted == session));
        if !is_noted && !self.perform(Seen { session }, context) {
            self.undone.push(Signal::Seen(session));
        }
    }

    /// `ends`: whether the refused command ends something.
    pub(super) fn retry(&mut self, ends: bool) {
        if let Ok(loaded) = &mut self.loaded {
            loaded.retry.of(ends).refused(self.links.services.tick());
        }
    }
}

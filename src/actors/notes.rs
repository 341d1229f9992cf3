//! What an actor is told and nobody waits for the answer of: clients that go or give up, offers, deadlines.

use actix::prelude::*;

use super::claiming::ClaimOutcome;
use super::committing::Executed;
use super::crowd::Held;
use super::directory::Note;
use super::environment::{EnvironmentActor, deliver};
use super::environments::Failure;
use crate::domain::{Command, Elapse, HandOver, HangUp, Kept, Resume, Standing, StopWaiting, Ticket, Undelivered};

/// How many of those who have hung up one commit takes out of the queue, so that the store takes it.
const HUNG_UP_AT_ONCE: usize = 50;
/// After the store has refused what nobody waits for the answer of: when to try again.
const RETRY_MILLIS: i64 = 1_000;

impl EnvironmentActor {
    pub(super) fn read_notes(&mut self, context: &mut Context<Self>) {
        if self.loaded.is_err() {
            return self.drop_notes();
        }
        let mut gone = Vec::new();
        let undone = std::mem::take(&mut self.undone);
        for note in undone.into_iter().chain(self.home.desk.take_notes()) {
            match note {
                Note::HungUp(ticket) => gone.push(ticket),
                Note::LongEnough(ticket) => self.stop_waiting(ticket, context),
                Note::Undelivered { session, keyed } => {
                    if !self.perform(Undelivered { session, keyed }, context) {
                        self.undone.push(note);
                    }
                }
                Note::Offer => self.perform_offer(context),
                Note::Due => self.elapse(context),
                Note::Resume => {
                    if !self.perform(Resume, context) {
                        self.undone.push(note);
                    }
                }
            }
        }
        for gone in gone.chunks(HUNG_UP_AT_ONCE) {
            self.hang_up(gone, context);
        }
    }

    /// What cannot be loaded can do nothing of what it is told; the next to need it starts it anew.
    fn drop_notes(&mut self) {
        for note in self.home.desk.take_notes() {
            tracing::warn!(environment = %self.home.key, ?note, "an environment that cannot be loaded was told something");
            if let Note::Offer = note {
                self.home.pool.report(&self.home.environments.parts, &self.home.key.name, Standing::Gone);
                self.home.pool.offer_around(&self.home.environments);
            }
        }
    }

    /// Carries out what nobody waits for the answer of. If the store refuses, it is tried again soon.
    pub(super) fn perform<C: Command>(&mut self, command: C, context: &mut Context<Self>) -> bool
    where
        C::Reply: 'static,
    {
        match self.execute(command, None, |_, _, _| {}) {
            Ok(Executed { settlement, .. }) => {
                self.settle(settlement, context, || {});
                true
            }
            Err(Failure::Store(error)) => {
                tracing::warn!(environment = %self.home.key, %error, "the store refuses; trying again soon");
                self.retry();
                false
            }
            Err(_) => true,
        }
    }

    fn perform_offer(&mut self, context: &mut Context<Self>) {
        if self.perform(HandOver, context) {
            self.report_anew();
        }
        self.home.pool.offer_around(&self.home.environments);
    }

    fn elapse(&mut self, context: &mut Context<Self>) {
        self.disarmed();
        match self.execute(Elapse, None, |_, _, _| {}) {
            Ok(Executed { reply: queue_due, settlement }) => {
                if let Ok(loaded) = &mut self.loaded {
                    loaded.queue_due = queue_due;
                }
                self.settle(settlement, context, || {});
                // Their next try was set before the deadline that has come was cleared, and went with it.
                if !self.undone.is_empty() {
                    self.retry();
                }
            }
            Err(error) => {
                tracing::warn!(environment = %self.home.key, %error, "what has run out could not be ended; trying again soon");
                self.retry();
            }
        }
    }

    fn hang_up(&mut self, gone: &[Ticket], context: &mut Context<Self>) {
        let mut tickets = Vec::new();
        for &ticket in gone {
            let Ok(loaded) = &self.loaded else { return };
            let Some(waiter) = loaded.environment.queue.get(ticket) else { continue };
            match self.held.get(&ticket) {
                // It came back meanwhile, on another connection.
                Some(held) if !held.reply.is_closed() => {}
                // A queued session with a key: from now on its place is kept by asking.
                Some(Held { keyed: Some(_), .. }) if waiter.kept == Kept::ByAsking => {
                    self.held.remove(&ticket);
                    self.parts().ask_about(ticket);
                }
                Some(_) | None => tickets.push(ticket),
            }
        }
        if !tickets.is_empty() && !self.perform(HangUp { tickets: tickets.clone() }, context) {
            self.undone.extend(tickets.into_iter().map(Note::HungUp));
        }
    }

    fn stop_waiting(&mut self, ticket: Ticket, context: &mut Context<Self>) {
        let Ok(loaded) = &self.loaded else { return };
        let Some(waiter) = loaded.environment.queue.get(ticket).cloned() else { return };
        if waiter.kept == Kept::ByAsking {
            let position = loaded.environment.queue.position(&waiter);
            return self.leave_queued(
                ticket,
                ClaimOutcome::Queued { session: Box::new(waiter.session.clone()), position },
                context,
            );
        }
        match self.execute(StopWaiting { ticket }, None, |_, _, _| {}) {
            Ok(Executed { reply, settlement }) => {
                let held = self.held.remove(&ticket);
                self.settle(settlement, context, move || {
                    if let (Some(held), Some(rejection)) = (held, reply) {
                        held.reply.send(Err(Failure::Rejected(rejection))).ok();
                    }
                });
            }
            Err(failure) => {
                if let Some(held) = self.held.remove(&ticket) {
                    held.reply.send(Err(failure)).ok();
                }
            }
        }
    }

    /// Its client has waited long enough on the line; from now on its place is kept by asking.
    fn leave_queued(&mut self, ticket: Ticket, outcome: ClaimOutcome, context: &mut Context<Self>) {
        let Some(held) = self.held.remove(&ticket) else { return };
        self.parts().asked.insert(ticket, self.parts().tick());
        let record = |_: &(), batch: &mut _, now| {
            if let Some(keyed) = &held.keyed {
                keyed.record(batch, &outcome, now);
            }
        };
        match self.execute(HandOver, None, record) {
            Ok(Executed { settlement, .. }) => {
                let environments = self.home.environments.clone();
                self.settle(settlement, context, move || deliver(&environments, held, outcome));
            }
            Err(failure) => {
                held.reply.send(Err(failure)).ok();
            }
        }
    }

    fn retry(&mut self) {
        if let Ok(loaded) = &mut self.loaded {
            loaded.retry_at = Some(self.home.environments.parts.tick().plus(RETRY_MILLIS));
        }
    }
}

//! How those in the pool are answered, and how they leave it without a lock.

use std::sync::Arc;

use super::{Inner, PipelinePool};
use crate::actors::failure::Failure;
use crate::actors::services::Services;
use crate::actors::services::clients::{ClaimOutcome, HeldClient};
use crate::actors::state::change::record_events;
use crate::actors::{keys, stored};
use crate::domain::{Agent, Ended, EndedHow, Expiry, Kept, Rejection, Session, Ticket, Waiter};
use crate::store::{Batch, Sequence, StoreError};

/// How many of those who wait are let go in one go; the rest the next time.
const EXPIRED_AT_ONCE: usize = 200;

pub(super) enum Told {
    Queued(ClaimOutcome),
    Refused(Failure),
}

impl PipelinePool {
    /// Those who do not wait, or not on the line, and for whom there is nothing free, nor may be in a moment.
    pub(super) fn decide_now(&self, services: &Services, inner: &mut Inner) -> Vec<(HeldClient, Told)> {
        let Inner { pool, undecided, clients, .. } = inner;
        let hopeless = |ticket: &Ticket| clients.get(ticket).is_none_or(|client| !pool.is_offered(&client.labels));
        let tickets: Vec<_> = undecided.extract_if(hopeless).collect();
        tickets.into_iter().filter_map(|ticket| self.tell(services, inner, ticket)).collect()
    }

    /// What one is told who has not been served: that it is queued, or that all are taken.
    fn tell(&self, services: &Services, inner: &mut Inner, ticket: Ticket) -> Option<(HeldClient, Told)> {
        let waiter = inner.pool.get(ticket)?.clone();
        if waiter.kept == Kept::ByAsking {
            let held = inner.clients.get_mut(&ticket)?.held.take()?;
            services.waiters.polled(ticket, services.tick());
            let position = inner.pool.position(&waiter);
            let outcome = ClaimOutcome::Queued { session: Box::new(waiter.session.clone()), position };
            return Some((held, Told::Queued(outcome)));
        }
        let (waiter, client) = inner.leave(ticket)?;
        self.drop_record(services, &waiter);
        let rejection = Rejection::AllLocked { queue_length: inner.pool.len() };
        Some((client.held?, Told::Refused(rejection.into())))
    }

    pub(super) fn answer(&self, services: &Arc<Services>, told: Vec<(HeldClient, Told)>) {
        for (held, told) in told {
            match told {
                Told::Refused(failure) => {
                    held.refuse(failure);
                }
                Told::Queued(outcome) => self.answer_queued(services, held, outcome),
            }
        }
    }

    /// Its place has been handed in before; with a key, what it is told replaces what was kept for it then.
    fn answer_queued(&self, services: &Arc<Services>, held: HeldClient, outcome: ClaimOutcome) {
        let mut sequence = services.store().handed_in();
        if let Some(keyed) = &held.keyed {
            let mut batch = Batch::default();
            keyed.record(&mut batch, &outcome, services.now().at);
            match services.store().commit(batch) {
                Ok(kept) => sequence = kept,
                Err(error) => {
                    held.refuse(error);
                    return;
                }
            }
        }
        let deliverer = services.clone();
        let settle = move || deliverer.deliver(held, outcome);
        services.settlements.when_durable(sequence, Box::new(settle));
    }

    /// One has waited long enough. If it has been taken meanwhile, its grant is on its way.
    pub fn give_up(&self, services: &Arc<Services>, ticket: Ticket) {
        let mut inner = self.inner.lock();
        let told = self.tell(services, &mut inner, ticket);
        drop(inner);
        self.answer(services, told.into_iter().collect());
    }

    /// The client of one who waits has gone.
    pub fn hang_up(&self, services: &Arc<Services>, ticket: Ticket) {
        let mut inner = self.inner.lock();
        let Some(waiter) = inner.pool.get(ticket).cloned() else { return };
        let Some(client) = inner.clients.get_mut(&ticket) else { return };
        match &client.held {
            // It came back meanwhile, on another connection.
            Some(held) if !held.reply.is_closed() => {}
            // A queued session with a key: from now on its place is kept by asking.
            Some(HeldClient { keyed: Some(_), .. }) if waiter.kept == Kept::ByAsking => {
                client.held = None;
                services.waiters.polled(ticket, services.tick());
            }
            Some(_) | None => {
                inner.leave(ticket);
                self.drop_record(services, &waiter);
            }
        }
    }

    /// If the store refuses, the place is found again after a restart, and given up then for want of a sign of life.
    pub(super) fn drop_record(&self, services: &Services, waiter: &Waiter) {
        services.waiters.forget(waiter);
        if waiter.is_durable() {
            let mut batch = Batch::default();
            batch.delete(keys::outsider(&self.pipeline, waiter.ticket));
            if waiter.kept == Kept::ByAsking {
                let how = EndedHow::Expired(Expiry::Vanished);
                let session = waiter.ended(Ended { at: services.now().at, by: None, how });
                self.record_end(&mut batch, &session, None);
            }
            services.store().commit(batch).ok();
        }
    }

    fn record_end(&self, batch: &mut Batch, session: &Session, by: Option<&Agent>) {
        let Some(ended) = &session.ended else { return };
        if let Some(event) = session.end_event() {
            record_events(batch, &self.pipeline, None, &[event], by, ended.at);
        }
    }

    /// Lets those go that nothing has been heard of for too long.
    pub fn expire(self: &Arc<Self>, services: &Arc<Services>) {
        let now = services.now();
        let mut inner = self.inner.lock();
        let presence = Inner::presence(&inner.clients, services, now.tick);
        let is_due = |waiter: &&Arc<Waiter>| waiter.due(presence(waiter)).is_some_and(|due| due <= now.tick);
        let overdue: Vec<_> = inner.pool.iter().filter(is_due).take(EXPIRED_AT_ONCE).map(|w| w.ticket).collect();
        drop(presence);
        for ticket in overdue {
            let ended = Ended { at: now.at, by: None, how: EndedHow::Expired(Expiry::Unasked) };
            // If the store refuses, it is tried again the next time.
            if self.end(services, &mut inner, ticket, ended, None).is_err() {
                return;
            }
        }
    }

    /// Ends the session of one who waits, at its own wish.
    pub fn release(
        self: &Arc<Self>,
        services: &Arc<Services>,
        ticket: Ticket,
        ended: Ended,
        by: Option<&Agent>,
    ) -> Result<Option<(Session, Sequence)>, StoreError> {
        self.end(services, &mut self.inner.lock(), ticket, ended, by)
    }

    /// Takes one out who has not got anything. Until that is durable, it is queued as far as anybody is told.
    fn end(
        self: &Arc<Self>,
        services: &Arc<Services>,
        inner: &mut Inner,
        ticket: Ticket,
        ended: Ended,
        by: Option<&Agent>,
    ) -> Result<Option<(Session, Sequence)>, StoreError> {
        let Some(waiter) = inner.pool.get(ticket).cloned() else { return Ok(None) };
        let session = waiter.ended(ended);
        let mut batch = Batch::default();
        batch.delete(keys::outsider(&self.pipeline, ticket));
        if waiter.kept == Kept::ByAsking {
            self.record_end(&mut batch, &session, by);
            batch.put(keys::left(ticket), stored::encode_left(&self.pipeline, None, &session));
            services.waiters.sessions_ended(1);
        }
        let sequence = services.store().commit(batch)?;
        if let Some(taken) = inner.leave(ticket) {
            inner.taken.insert(ticket, taken);
        }
        let (pool, settled_services, id) = (self.clone(), services.clone(), session.id);
        let settle = move || {
            settled_services.waiters.forget(&waiter);
            pool.settled(ticket);
            settled_services.watchers.session_changed(id);
        };
        services.settlements.when_durable(sequence, Box::new(settle));
        Ok(Some((session, sequence)))
    }
}

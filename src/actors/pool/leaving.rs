//! How those in the pool are answered, and how they leave it without a lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Inner, PipelinePool};
use crate::actors::batching::record_events;
use crate::actors::claiming::ClaimOutcome;
use crate::actors::crowd::Held;
use crate::actors::environment::deliver;
use crate::actors::environments::{Environments, Failure, Parts};
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
    pub(super) fn decide_now(&self, parts: &Parts, inner: &mut Inner) -> Vec<(Held, Told)> {
        let Inner { pool, undecided, clients, .. } = inner;
        let hopeless = |ticket: &Ticket| clients.get(ticket).is_none_or(|client| !pool.is_offered(&client.labels));
        let tickets: Vec<_> = undecided.extract_if(hopeless).collect();
        tickets.into_iter().filter_map(|ticket| self.tell(parts, inner, ticket)).collect()
    }

    /// What one is told who has not been served: that it is queued, or that all are taken.
    fn tell(&self, parts: &Parts, inner: &mut Inner, ticket: Ticket) -> Option<(Held, Told)> {
        let waiter = inner.pool.get(ticket)?.clone();
        if waiter.kept == Kept::ByAsking {
            let held = inner.clients.get_mut(&ticket)?.held.take()?;
            parts.ask_about(ticket);
            let position = inner.pool.position(&waiter);
            let outcome = ClaimOutcome::Queued { session: Box::new(waiter.session.clone()), position };
            return Some((held, Told::Queued(outcome)));
        }
        let (waiter, client) = inner.leave(ticket)?;
        self.drop_record(parts, &waiter);
        let rejection = Rejection::AllLocked { queue_length: inner.pool.len() };
        Some((client.held?, Told::Refused(rejection.into())))
    }

    pub(super) fn answer(&self, environments: &Environments, told: Vec<(Held, Told)>) {
        for (held, told) in told {
            match told {
                Told::Refused(failure) => {
                    held.reply.send(Err(failure)).ok();
                }
                Told::Queued(outcome) => self.answer_queued(environments, held, outcome),
            }
        }
    }

    /// Its place has been handed in before; with a key, what it is told replaces what was kept for it then.
    fn answer_queued(&self, environments: &Environments, held: Held, outcome: ClaimOutcome) {
        let parts = &environments.parts;
        let mut sequence = parts.store.handed_in();
        if let Some(keyed) = &held.keyed {
            let mut batch = Batch::default();
            keyed.record(&mut batch, &outcome, (parts.clock)().at);
            match parts.store.commit(batch) {
                Ok(kept) => sequence = kept,
                Err(error) => {
                    held.reply.send(Err(error.into())).ok();
                    return;
                }
            }
        }
        let environments = environments.clone();
        let settle = move || deliver(&environments, held, outcome);
        parts.settlements.when_durable(sequence, Box::new(settle));
    }

    /// One has waited long enough. If it has been taken meanwhile, its grant is on its way.
    pub fn give_up(&self, environments: &Environments, ticket: Ticket) {
        let mut inner = self.inner.lock();
        let told = self.tell(&environments.parts, &mut inner, ticket);
        drop(inner);
        self.answer(environments, told.into_iter().collect());
    }

    /// The client of one who waits has gone.
    pub fn hang_up(&self, environments: &Environments, ticket: Ticket) {
        let mut inner = self.inner.lock();
        let Some(waiter) = inner.pool.get(ticket).cloned() else { return };
        let Some(client) = inner.clients.get_mut(&ticket) else { return };
        match &client.held {
            // It came back meanwhile, on another connection.
            Some(held) if !held.reply.is_closed() => {}
            // A queued session with a key: from now on its place is kept by asking.
            Some(Held { keyed: Some(_), .. }) if waiter.kept == Kept::ByAsking => {
                client.held = None;
                environments.parts.ask_about(ticket);
            }
            Some(_) | None => {
                inner.leave(ticket);
                self.drop_record(&environments.parts, &waiter);
            }
        }
    }

    /// If the store refuses, the place is found again after a restart, and given up then for want of a sign of life.
    pub(super) fn drop_record(&self, parts: &Parts, waiter: &Waiter) {
        parts.forget(waiter);
        if waiter.is_durable() {
            let mut batch = Batch::default();
            batch.delete(keys::outsider(&self.pipeline, waiter.ticket));
            if waiter.kept == Kept::ByAsking {
                let how = EndedHow::Expired(Expiry::Vanished);
                let session = waiter.ended(Ended { at: (parts.clock)().at, by: None, how });
                self.record_end(&mut batch, &session, None);
            }
            parts.store.commit(batch).ok();
        }
    }

    fn record_end(&self, batch: &mut Batch, session: &Session, by: Option<&Agent>) {
        let Some(ended) = &session.ended else { return };
        if let Some(event) = session.end_event() {
            record_events(batch, &self.pipeline, None, &[event], by, ended.at);
        }
    }

    /// Lets those go that nothing has been heard of for too long.
    pub fn expire(&self, environments: &Environments) {
        let parts = &environments.parts;
        let now = (parts.clock)();
        let mut inner = self.inner.lock();
        let presence = Inner::presence(&inner.clients, parts, now.tick);
        let is_due = |waiter: &&Arc<Waiter>| waiter.due(presence(waiter)).is_some_and(|due| due <= now.tick);
        let overdue: Vec<_> = inner.pool.iter().filter(is_due).take(EXPIRED_AT_ONCE).map(|w| w.ticket).collect();
        drop(presence);
        for ticket in overdue {
            let ended = Ended { at: now.at, by: None, how: EndedHow::Expired(Expiry::Unasked) };
            // If the store refuses, it is tried again the next time.
            if self.end(environments, &mut inner, ticket, ended).is_err() {
                return;
            }
        }
    }

    /// Takes one out who has not got anything. Until that is durable, it is queued as far as anybody is told.
    pub(super) fn end(
        &self,
        environments: &Environments,
        inner: &mut Inner,
        ticket: Ticket,
        ended: Ended,
    ) -> Result<Option<(Session, Sequence)>, StoreError> {
        let parts = &environments.parts;
        let Some(waiter) = inner.pool.get(ticket).cloned() else { return Ok(None) };
        let session = waiter.ended(ended);
        let mut batch = Batch::default();
        batch.delete(keys::outsider(&self.pipeline, ticket));
        if waiter.kept == Kept::ByAsking {
            self.record_end(&mut batch, &session, environments.agent().map(|agent| &**agent));
            batch.put(keys::left(ticket), stored::encode_left(&self.pipeline, None, &session));
            parts.left.fetch_add(1, Ordering::Relaxed);
        }
        let sequence = parts.store.commit(batch)?;
        if let Some(taken) = inner.leave(ticket) {
            inner.taken.insert(ticket, taken);
        }
        let (environments, pipeline, id) = (environments.clone(), self.pipeline.clone(), session.id);
        let settle = move || {
            environments.parts.forget(&waiter);
            environments.pool(&pipeline).settled(ticket);
            environments.parts.watchers.session_changed(id);
        };
        parts.settlements.when_durable(sequence, Box::new(settle));
        Ok(Some((session, sequence)))
    }
}

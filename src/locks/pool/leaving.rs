//! How waiters are answered that get no environment, and how they leave without a lock.

use std::sync::Arc;

use super::pipeline_pool::{Inner, PipelinePool, presence};
use crate::failure::Failure;
use crate::keys;
use crate::services::Services;
use crate::services::clients::{ClaimOutcome, HeldClient};
use crate::state::change::record_events;
use domain::{Departure, HungUp, Initiator, Person, Rejection, Session, SessionId, Ticket, Unserved, Waiter};
use store::{Batch, Sequence, StoreError};

/// How many overdue waiters are let go at once; the rest the next time.
const EXPIRED_AT_ONCE: usize = 200;

/// What the client of a waiter is told, once the store is durable up to there.
pub(super) struct Answer {
    client: HeldClient,
    reply: Result<(ClaimOutcome, Sequence), Failure>,
}

impl PipelinePool {
    /// The claims that are answered now.
    pub(super) fn take_unserved(&self, services: &Services, inner: &mut Inner) -> Vec<Answer> {
        let unserved = inner.pool.unserved();
        unserved.into_iter().filter_map(|unserved| self.prepare(services, inner, unserved)).collect()
    }

    fn prepare(&self, services: &Services, inner: &mut Inner, unserved: Unserved) -> Option<Answer> {
        match unserved {
            Unserved::Queued { waiter, position } => {
                let client = inner.clients.remove(&waiter.ticket)?;
                services.waiters.polled(waiter.ticket, services.tick());
                let outcome = ClaimOutcome::queued_for_any(&waiter, position);
                let reply = match self.make_known(services, inner, &waiter, &client, &outcome) {
                    Ok(sequence) => Ok((outcome, sequence)),
                    // Its key has led to the session since it was queued, so this answer is true whether it is stored.
                    Err(_) if client.keyed.is_some() => Ok((outcome, services.store().handed_in())),
                    // Without a connection, and unknown to its client, it gets no lock and is let go of soon.
                    Err(error) => Err(Failure::PlaceGivenUp { session: waiter.session.id, error }),
                };
                Some(Answer { client, reply })
            }
            Unserved::Refused { waiter, rejection } => {
                self.drop_record(services, &waiter);
                inner.clients.remove(&waiter.ticket).map(|client| Answer { client, reply: Err(rejection.into()) })
            }
        }
    }

    /// Stores that the client of a waiter knows its session, and with a key the answer in place of the one stored with it.
    fn make_known(
        &self,
        services: &Services,
        inner: &mut Inner,
        waiter: &Waiter,
        client: &HeldClient,
        outcome: &ClaimOutcome,
    ) -> Result<Sequence, StoreError> {
        let mut batch = Batch::default();
        client.record(&mut batch, outcome, services.now().at);
        if !waiter.known {
            let labels = inner.pool.labels(waiter.ticket).map(|labels| &**labels);
            let known = records::encode_waiter(&waiter.made_known(), labels);
            batch.put(keys::outsider(&self.pipeline, waiter.ticket), known);
        }
        if batch.is_empty() {
            return Ok(services.store().handed_in());
        }
        let sequence = services.store().commit(batch)?;
        inner.pool.make_known(waiter.ticket);
        Ok(sequence)
    }

    /// If the store refuses, the place is found again after a restart, and expires then.
    fn drop_record(&self, services: &Services, waiter: &Waiter) {
        services.waiters.forget(waiter);
        if waiter.is_durable() {
            let mut batch = Batch::default();
            batch.delete(keys::outsider(&self.pipeline, waiter.ticket));
            services.store().commit(batch).ok();
        }
    }

    pub(super) fn answer(&self, services: &Arc<Services>, answers: Vec<Answer>) {
        for Answer { client, reply } in answers {
            match reply {
                Err(failure) => client.refuse(failure),
                Ok((outcome, sequence)) => {
                    let settled_services = services.clone();
                    let settle = move || settled_services.deliver(client, outcome);
                    services.settlements.when_durable(sequence, Box::new(settle));
                }
            }
        }
    }

    /// A client stops waiting on its connection.
    pub fn give_up(&self, services: &Arc<Services>, ticket: Ticket) {
        let mut inner = self.inner.lock();
        let unserved = inner.pool.stop_waiting(ticket);
        let answer = unserved.and_then(|unserved| self.prepare(services, &mut inner, unserved));
        drop(inner);
        self.answer(services, answer.into_iter().collect());
    }

    /// The client of a waiter is gone.
    pub fn hang_up(self: &Arc<Self>, services: &Arc<Services>, ticket: Ticket) {
        let mut inner = self.inner.lock();
        let connection = HeldClient::connection(inner.clients.get(&ticket));
        match inner.pool.hang_up(ticket, connection, services.now()) {
            HungUp::Stays => {}
            HungUp::Polls => {
                inner.clients.remove(&ticket);
                services.waiters.polled(ticket, services.tick());
            }
            HungUp::Leaves(departure) => {
                // If the store refuses, the waiter is overdue from now on.
                if self.end(services, &mut inner, *departure, None).is_ok()
                    && let Some(removed) = inner.removed.get_mut(&ticket)
                {
                    // Its client may use its key again at once.
                    removed.client = None;
                }
            }
        }
    }

    /// Removes the waiters without a sign of life for too long.
    pub fn expire(self: &Arc<Self>, services: &Arc<Services>) {
        let now = services.now();
        let mut inner = self.inner.lock();
        if inner.expiry.is_pausing(now.tick) {
            return;
        }
        inner.expiry.begin();
        let overdue = inner.pool.overdue(presence(&inner.clients, services, now.tick), now, EXPIRED_AT_ONCE);
        for departure in overdue {
            if self.end(services, &mut inner, departure, None).is_err() {
                return inner.expiry.refused(now.tick);
            }
        }
        inner.expiry.accepted(now.tick);
    }

    /// Ends a queued session at the wish of its user or of somebody who may release any. None if nobody waits under this
    /// id.
    pub fn release(
        self: &Arc<Self>,
        services: &Arc<Services>,
        id: SessionId,
        by: &Person,
        any: bool,
        initiator: Option<&Initiator>,
    ) -> Result<Option<(Arc<Session>, Sequence)>, Failure> {
        let mut inner = self.inner.lock();
        let Some(departure) = inner.pool.release(id, by, any, services.now())? else { return Ok(None) };
        let session = departure.session.clone();
        Ok(Some((session, self.end(services, &mut inner, departure, initiator)?)))
    }

    /// Removes a waiter without a lock. Until that is durable, it is queued as far as anybody is told.
    fn end(
        self: &Arc<Self>,
        services: &Arc<Services>,
        inner: &mut Inner,
        departure: Departure,
        by: Option<&Initiator>,
    ) -> Result<Sequence, StoreError> {
        let event = departure.event();
        let Departure { waiter, session } = departure;
        let ticket = waiter.ticket;
        if !waiter.is_durable() {
            inner.pool.leave(ticket);
            inner.clients.remove(&ticket);
            return Ok(services.store().handed_in());
        }
        let mut batch = Batch::default();
        batch.mark_as_end();
        batch.delete(keys::outsider(&self.pipeline, ticket));
        if let (Some(event), Some(ended)) = (event, &session.ended) {
            record_events(&mut batch, &self.pipeline, None, &[event], by, ended.at);
            batch.put(keys::left(ticket), records::encode_left(&self.pipeline, None, &session));
            services.waiters.sessions_ended(1);
        }
        let sequence = services.store().commit(batch)?;
        inner.remove(ticket);
        let (pool, settled_services) = (self.clone(), services.clone());
        let settle = move || {
            settled_services.waiters.forget(&waiter);
            let client = pool.settled(ticket);
            settled_services.watchers.sessions.changed(&session.id.seed);
            // Somebody may have released it while its client waited on its connection.
            if let Some(client) = client {
                client.refuse(Rejection::SessionEnded { session });
            }
        };
        services.settlements.when_durable(sequence, Box::new(settle));
        Ok(sequence)
    }
}

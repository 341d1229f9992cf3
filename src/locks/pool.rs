//! The waiters for any environment of a pipeline. The domain's [`Pool`](domain::Pool) decides; this file adds its lock,
//! the clients to answer and the records to keep. A pipeline's actors share its pool: while `inner` is locked, nothing
//! waits and nothing is sent; offers and answers are sent afterwards.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dashmap::DashMap;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::keys;
use crate::ports::Failure;
use crate::services::Services;
use crate::services::signals::Signal;
use crate::services::waiters::{ClaimOutcome, HeldClient, Keyed};
use crate::state::change::record_events;
use crate::state::memory::Pause;
use domain::{
    Availability, ClaimAny, Configuration, Departure, Environment, EnvironmentKey, HungUp, Identifier, Initiator,
    KeptBy, Labels, Now, Origin, Person, PipelineKey, Pool, Presence, Rejection, Session, SessionId, Tick, Ticket,
    Timestamp, Turn, Unserved, Waiter,
};
use store::{Batch, Sequence, StoreError, durable_up_to};

/// The pools of all pipelines.
#[derive(Default)]
pub struct Pools {
    of: DashMap<PipelineKey, Arc<PipelinePool>, RandomState>,
}

impl Pools {
    pub fn get(&self, pipeline: &PipelineKey) -> Arc<PipelinePool> {
        if let Some(pool) = self.of.get(pipeline) {
            return pool.clone();
        }
        let pool = || Arc::new(PipelinePool::new(pipeline.clone()));
        self.of.entry(pipeline.clone()).or_insert_with(pool).clone()
    }

    /// The pools of an organization in which a client has ever waited.
    pub fn active_in(&self, organization: &Identifier) -> Vec<Arc<PipelinePool>> {
        let own = self.of.iter().filter(|pool| pool.key().organization == *organization && pool.is_active());
        own.map(|pool| pool.clone()).collect()
    }

    /// The pools in which a client has ever waited.
    pub fn active(&self) -> Vec<Arc<PipelinePool>> {
        self.of.iter().map(|pool| pool.clone()).filter(|pool| pool.is_active()).collect()
    }
}

pub struct PipelinePool {
    pub pipeline: PipelineKey,
    /// Whether a client has ever waited here; until then, actors need not report to the pool.
    active: AtomicBool,
    learned: OnceCell<()>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    pub pool: Pool,
    /// The clients of waiters, if connected.
    pub clients: HashMap<Ticket, HeldClient>,
    /// Waiters removed from the pool, but not durably yet: readers still see them as queued.
    pub removed: HashMap<Ticket, Removed>,
    /// The pause after the store refused to end overdue waiters.
    pub expiry: Pause,
}

struct Removed {
    waiter: Arc<Waiter>,
    labels: Arc<Labels>,
    pub client: Option<HeldClient>,
}

impl Inner {
    pub fn remove(&mut self, ticket: Ticket) {
        let labels = self.pool.labels(ticket).cloned();
        if let Some((waiter, labels)) = self.pool.leave(ticket).zip(labels) {
            let client = self.clients.remove(&ticket);
            self.removed.insert(ticket, Removed { waiter, labels, client });
        }
    }
}

fn presence<'a>(
    clients: &'a HashMap<Ticket, HeldClient>,
    services: &'a Services,
    now: Tick,
) -> impl Fn(&Waiter) -> Presence + 'a {
    move |waiter| services.waiters.presence(waiter, clients.get(&waiter.ticket), now)
}

impl PipelinePool {
    pub fn new(pipeline: PipelineKey) -> Self {
        Self { pipeline, active: AtomicBool::new(false), learned: OnceCell::new(), inner: Mutex::default() }
    }

    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    /// On first use, reads which environments are free.
    pub async fn learn(&self, services: &Arc<Services>) -> Result<(), StoreError> {
        self.learned.get_or_try_init(|| self.learn_all(services)).await.copied()
    }

    async fn learn_all(&self, services: &Arc<Services>) -> Result<(), StoreError> {
        // From now on every actor reports its decisions. Once this sequence is durable, earlier decisions are in the
        // store.
        self.active.store(true, Ordering::SeqCst);
        durable_up_to(services.store(), services.store().handed_in()).await;
        let (reader, pipeline) = (services.clone(), self.pipeline.clone());
        let read = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            let visit = |name, environment: &Environment| all.push((name, environment.availability()));
            reader.records.each_environment(&pipeline, visit).map(|()| all)
        });
        let all = read.await.map_err(|error| StoreError::Read(error.to_string()))??;
        let mut inner = self.inner.lock();
        for (name, standing) in all {
            if !inner.pool.knows(&name) {
                inner.pool.report(&name, standing);
            }
        }
        drop(inner);
        self.offer_around(services);
        Ok(())
    }

    /// Takes the first waiter that the environment suits, if it comes before `before`. Called during a decision.
    pub fn take(
        &self,
        services: &Services,
        configuration: &Configuration,
        before: Option<Turn>,
        now: Tick,
    ) -> Option<(Arc<Waiter>, Presence)> {
        if !self.is_active() {
            return None;
        }
        let mut inner = self.inner.lock();
        let presence = presence(&inner.clients, services, now);
        let waiter = inner.pool.first(configuration, before, &presence)?;
        let present = presence(&waiter);
        drop(presence);
        inner.remove(waiter.ticket);
        Some((waiter, present))
    }

    /// Puts back a waiter that was taken but could not be granted the lock.
    pub fn put_back(&self, services: &Arc<Services>, ticket: Ticket) {
        let mut inner = self.inner.lock();
        let Some(Removed { waiter, labels, client }) = inner.removed.remove(&ticket) else { return };
        inner.pool.put_back(waiter, labels);
        inner.clients.extend(client.map(|client| (ticket, client)));
        drop(inner);
        self.offer_around(services);
    }

    pub fn with_taken(&self, ticket: Ticket, look: impl FnOnce(&HeldClient)) {
        let inner = self.inner.lock();
        if let Some(client) = inner.removed.get(&ticket).and_then(|removed| removed.client.as_ref()) {
            look(client);
        }
    }

    /// Called when the grant of a taken waiter was handed to the store. Returns the client to answer.
    pub fn granted(&self, ticket: Ticket) -> Option<HeldClient> {
        self.inner.lock().removed.get_mut(&ticket)?.client.take()
    }

    /// Called when the removal of a waiter is durable. Returns its client, unless it has been answered.
    pub fn settled(&self, ticket: Ticket) -> Option<HeldClient> {
        self.inner.lock().removed.remove(&ticket)?.client
    }

    /// Records whether an environment is free, and returns whether a waiter here wants it.
    pub fn report(&self, services: &Services, name: &Identifier, standing: Availability) -> bool {
        let mut inner = self.inner.lock();
        let free = match &standing {
            Availability::Free { configuration, .. } => Some(configuration.clone()),
            Availability::Taken { .. } | Availability::Gone => None,
        };
        inner.pool.report(name, standing);
        let presence = presence(&inner.clients, services, services.tick());
        free.is_some_and(|configuration| inner.pool.wants(&configuration, presence))
    }

    pub fn join(&self, services: &Arc<Services>, claim: ClaimAny, mut client: HeldClient) -> Result<(), Failure> {
        let (now, labels) = (services.now(), claim.labels.clone());
        let mut inner = self.inner.lock();
        let waiter = inner.pool.join(claim, now)?;
        // Stored before the waiter can be taken, so that its end is later in the log than its beginning.
        if waiter.is_durable()
            && let Err(error) = self.keep(services, &inner.pool, &waiter, &labels, &client, now)
        {
            inner.pool.leave(waiter.ticket);
            return Err(error.into());
        }
        if waiter.kept_by == KeptBy::Polling {
            services.waiters.start_polling(waiter.ticket, now.tick);
            services.waiters.keep(waiter.ticket, client.place.take());
        }
        let offer = inner.pool.offer(&labels);
        inner.clients.insert(waiter.ticket, client);
        let unserved = self.take_unserved(services, &mut inner);
        drop(inner);
        self.answer(services, unserved);
        self.send_offers(services, offer);
        Ok(())
    }

    /// Stores the waiter's place and, with an idempotency key, the answer for a client that returns before it is
    /// served.
    fn keep(
        &self,
        services: &Services,
        pool: &Pool,
        waiter: &Waiter,
        labels: &Labels,
        client: &HeldClient,
        now: Now,
    ) -> Result<Sequence, StoreError> {
        let mut batch = Batch::default();
        batch.put(keys::pool_waiter(&self.pipeline, waiter.ticket), records::encode_waiter(waiter, Some(labels)));
        if waiter.kept_by == KeptBy::Polling {
            let position = pool.position(waiter);
            let outcome = ClaimOutcome::queued_for_any(waiter, position);
            client.record(&mut batch, &outcome, now.at);
            let by = Initiator { person: waiter.session.user.clone(), via: waiter.via.clone() };
            record_events(&mut batch, &self.pipeline, None, &[waiter.queued(position)], Some(&by), now.at);
        }
        services.store().commit(batch)
    }

    /// Attaches a client that returns for its place. Returns its key if there is no such place.
    pub fn attach(
        &self,
        services: &Arc<Services>,
        ticket: Ticket,
        client: HeldClient,
    ) -> Result<(), Option<Box<Keyed<ClaimOutcome>>>> {
        let mut inner = self.inner.lock();
        if inner.pool.get(ticket).is_none() {
            return Err(client.keyed);
        }
        inner.clients.insert(ticket, client);
        drop(inner);
        self.offer_around(services);
        Ok(())
    }

    /// Offers the free environments to the waiters, and answers the claims that no longer wait. Called whenever an
    /// environment has handled an offer, whether or not it has taken a waiter.
    pub fn offer_around(&self, services: &Arc<Services>) {
        let mut inner = self.inner.lock();
        let Inner { pool, clients, .. } = &mut *inner;
        let offers = pool.offers(presence(clients, services, services.tick()));
        let unserved = self.take_unserved(services, &mut inner);
        drop(inner);
        self.answer(services, unserved);
        self.send_offers(services, offers);
    }

    fn send_offers(&self, services: &Arc<Services>, offers: impl IntoIterator<Item = Identifier>) {
        for name in offers {
            let key = EnvironmentKey { pipeline: self.pipeline.clone(), name };
            if !services.signal(&key, Signal::Offer) {
                self.inner.lock().pool.report(&key.name, Availability::Gone);
                self.offer_around(services);
            }
        }
    }

    /// The waiter with this session id, and its position.
    pub fn session(&self, id: SessionId) -> Option<(Arc<Waiter>, usize)> {
        let Origin::Queued(ticket) = id.origin else { return None };
        let inner = self.inner.lock();
        let (waiter, position) = match inner.pool.get(ticket) {
            Some(waiter) => (waiter, inner.pool.position(waiter)),
            None => (&inner.removed.get(&ticket)?.waiter, 1),
        };
        (waiter.session.id == id).then(|| (waiter.clone(), position))
    }

    /// Some locked environments with these labels, in no particular order.
    pub fn taken(&self, labels: &Labels, at_most: usize) -> Vec<Identifier> {
        self.inner.lock().pool.taken(labels).take(at_most).cloned().collect()
    }

    /// All waiters, including those whose end or grant is not durable yet. Their own state may not be durable either.
    pub fn waiters(&self) -> Vec<Arc<Waiter>> {
        let inner = self.inner.lock();
        inner.pool.iter().chain(inner.removed.values().map(|removed| &removed.waiter)).cloned().collect()
    }

    /// The waiters that would accept this environment.
    pub fn waiting_for(&self, configuration: &Configuration) -> Vec<Arc<Waiter>> {
        if !self.is_active() {
            return Vec::new();
        }
        self.inner.lock().pool.waiting_for(configuration).cloned().collect()
    }

    /// How many of the waiters that would accept this environment come before this turn.
    pub fn ahead(&self, configuration: &Configuration, turn: Turn) -> usize {
        if !self.is_active() {
            return 0;
        }
        self.inner.lock().pool.waiting_for(configuration).filter(|waiter| waiter.turn() < turn).count()
    }

    /// Restores a waiter of the last run.
    pub fn restore(&self, waiter: Waiter, labels: Labels) {
        self.active.store(true, Ordering::SeqCst);
        self.inner.lock().pool.put_back(Arc::new(waiter), Arc::new(labels));
    }

    pub fn len(&self) -> usize {
        self.inner.lock().pool.len()
    }

    /// The start of the pool's oldest waiter.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.inner.lock().pool.iter().map(|waiter| waiter.session.created_at).min()
    }
}

/// Overdue waiters removed per call; the next call removes more.
const EXPIRED_AT_ONCE: usize = 200;

/// The answer to a waiter's client, sent once the store is durable up to this sequence.
struct Answer {
    client: HeldClient,
    reply: Result<(ClaimOutcome, Sequence), Failure>,
}

// Answers to waiters that get no environment, and leaving without a lock.
impl PipelinePool {
    /// The claims to answer now.
    fn take_unserved(&self, services: &Services, inner: &mut Inner) -> Vec<Answer> {
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
                    // The key has led to the session since it was queued, so this answer is true whether or not it is
                    // stored.
                    Err(_) if client.keyed.is_some() => Ok((outcome, services.store().handed_in())),
                    // Without a connection, and with a session its client does not know, the waiter gets no lock and is
                    // soon removed.
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

    /// Stores that the client of a waiter knows its session. With a key, the new answer replaces the stored one.
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
            batch.put(keys::pool_waiter(&self.pipeline, waiter.ticket), known);
        }
        if batch.is_empty() {
            return Ok(services.store().handed_in());
        }
        let sequence = services.store().commit(batch)?;
        inner.pool.make_known(waiter.ticket);
        Ok(sequence)
    }

    /// Deletes the stored place. If the store refuses, the place is restored at the next start and expires then.
    fn drop_record(&self, services: &Services, waiter: &Waiter) {
        services.waiters.forget(waiter);
        if waiter.is_durable() {
            let mut batch = Batch::default();
            batch.delete(keys::pool_waiter(&self.pipeline, waiter.ticket));
            services.store().commit(batch).ok();
        }
    }

    fn answer(&self, services: &Arc<Services>, answers: Vec<Answer>) {
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
                    // The client may reuse its key immediately.
                    removed.client = None;
                }
            }
        }
    }

    /// Removes the waiters whose last poll is too long ago.
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

    /// Ends a queued session at the request of its user, or of a member who may release any session. None if no waiter
    /// has this id.
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

    /// Removes a waiter without a lock. Readers see it as queued until the removal is durable.
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
        batch.delete(keys::pool_waiter(&self.pipeline, ticket));
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
            // The session may have been released while its client waited on the connection.
            if let Some(client) = client {
                client.refuse(Rejection::SessionEnded { session });
            }
        };
        services.settlements.when_durable(sequence, Box::new(settle));
        Ok(sequence)
    }
}

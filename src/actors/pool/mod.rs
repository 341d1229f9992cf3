//! Those who wait for any environment of a pipeline: the domain's pool, shared by the pipeline's actors, with the
//! clients to answer and the records to keep.
//!
//! Whoever holds the lock of `inner` neither waits nor sends: offers go out after it.

mod leaving;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::failure::Failure;
use super::services::Services;
use super::services::clients::{ClaimOutcome, HeldClient, Keyed};
use super::services::signals::Signal;
use super::state::change::record_events;
use super::{keys, stored};
use crate::domain::{
    Agent, Claim, Configuration, Environment, EnvironmentKey, Identifier, Kept, Labels, Origin, PipelineKey, Pool,
    Presence, Rejection, SessionId, Standing, Tick, Ticket, Turn, Waiter,
};
use crate::store::{Batch, Sequence, StoreError, durable_up_to};

pub struct PipelinePool {
    pipeline: PipelineKey,
    /// Whether anybody has ever waited here; until then, nobody has to tell the pool anything.
    active: AtomicBool,
    learned: OnceCell<()>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    pool: Pool,
    clients: HashMap<Ticket, Client>,
    /// Taken by an environment and not yet durably its own: still queued, as far as anybody is told.
    taken: HashMap<Ticket, (Arc<Waiter>, Client)>,
    /// Who is to be told at once, if an offer gives them nothing: they do not wait, or not on the line.
    undecided: HashSet<Ticket>,
}

struct Client {
    labels: Arc<Labels>,
    held: Option<HeldClient>,
}

impl Inner {
    fn presence<'a>(
        clients: &'a HashMap<Ticket, Client>,
        services: &'a Services,
        now: Tick,
    ) -> impl Fn(&Waiter) -> Presence + 'a {
        move |waiter| {
            let held = clients.get(&waiter.ticket).and_then(|client| client.held.as_ref());
            services.waiters.presence(waiter, held, now)
        }
    }

    fn leave(&mut self, ticket: Ticket) -> Option<(Arc<Waiter>, Client)> {
        let waiter = self.pool.leave(ticket)?;
        self.undecided.remove(&ticket);
        Some((waiter, self.clients.remove(&ticket)?))
    }
}

impl PipelinePool {
    pub fn new(pipeline: PipelineKey) -> Self {
        Self { pipeline, active: AtomicBool::new(false), learned: OnceCell::new(), inner: Mutex::default() }
    }

    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    /// Finds out how the pipeline's environments stand, the first time anybody wants to know.
    pub async fn learn(&self, services: &Arc<Services>) -> Result<(), StoreError> {
        self.learned.get_or_try_init(|| self.learn_all(services)).await.copied()
    }

    async fn learn_all(&self, services: &Arc<Services>) -> Result<(), StoreError> {
        // From now on every actor reports what it decides. What was decided before is in the store once this is durable.
        self.active.store(true, Ordering::SeqCst);
        durable_up_to(services.store(), services.store().handed_in()).await;
        let (reader, pipeline) = (services.clone(), self.pipeline.clone());
        let read = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            let visit = |name, environment| all.push((name, standing_of(&environment)));
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

    /// For an environment's decision: the first of those it would do for, if it comes before `before`.
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
        let Inner { pool, clients, .. } = &mut *inner;
        let presence = Inner::presence(clients, services, now);
        let waiter = pool.take(configuration, before, &presence)?;
        let present = presence(&waiter);
        drop(presence);
        let client = inner.clients.remove(&waiter.ticket)?;
        inner.undecided.remove(&waiter.ticket);
        inner.taken.insert(waiter.ticket, (waiter.clone(), client));
        Some((waiter, present))
    }

    /// It could not be granted after all.
    pub fn put_back(&self, services: &Arc<Services>, ticket: Ticket) {
        let mut inner = self.inner.lock();
        let Some((waiter, client)) = inner.taken.remove(&ticket) else { return };
        inner.pool.put_back(waiter, client.labels.clone());
        inner.clients.insert(ticket, client);
        drop(inner);
        self.offer_around(services);
    }

    pub fn with_taken(&self, ticket: Ticket, look: impl FnOnce(&HeldClient)) {
        let inner = self.inner.lock();
        if let Some(held) = inner.taken.get(&ticket).and_then(|(_, client)| client.held.as_ref()) {
            look(held);
        }
    }

    /// It is handed in as an environment's holder: here is whom to answer.
    pub fn granted(&self, ticket: Ticket) -> Option<HeldClient> {
        self.inner.lock().taken.get_mut(&ticket)?.1.held.take()
    }

    /// And now that is durable.
    pub fn settled(&self, ticket: Ticket) {
        self.inner.lock().taken.remove(&ticket);
    }

    /// Notes how an environment stands, and says whether somebody here wants it.
    pub fn report(&self, services: &Services, name: &Identifier, standing: Standing) -> bool {
        let mut inner = self.inner.lock();
        let free = match &standing {
            Standing::Free { configuration, .. } => Some(configuration.clone()),
            Standing::Taken { .. } | Standing::Gone => None,
        };
        inner.pool.report(name, standing);
        let presence = Inner::presence(&inner.clients, services, services.tick());
        free.is_some_and(|configuration| inner.pool.wants(&configuration, presence))
    }

    pub fn arrive(
        &self,
        services: &Arc<Services>,
        labels: Labels,
        claim: Claim,
        hold: bool,
        held: HeldClient,
    ) -> Result<(), Failure> {
        let now = services.now();
        let at_once = claim.waits.is_none();
        let (waiter, labels) = (Arc::new(claim.into_waiter(now)), Arc::new(labels));
        let ticket = waiter.ticket;
        let mut inner = self.inner.lock();
        if !inner.pool.has_match(&labels) {
            return Err(Rejection::NoneMatches.into());
        }
        if inner.pool.all_disabled(&labels) {
            return Err(Rejection::EnvironmentDisabled { reason: None }.into());
        }
        inner.pool.arrive(waiter.clone(), labels.clone())?;
        // Before anybody can take it, so that its end is later in the log than its beginning.
        if !at_once
            && waiter.is_durable()
            && let Err(error) = self.keep(services, &inner.pool, &waiter, &labels, &held)
        {
            inner.pool.leave(ticket);
            return Err(error.into());
        }
        if waiter.kept == Kept::ByAsking {
            services.waiters.start_polling(ticket, now.tick);
        }
        let offer = inner.pool.offer(&labels);
        inner.clients.insert(ticket, Client { labels, held: Some(held) });
        if at_once || (waiter.kept == Kept::ByAsking && !hold) {
            inner.undecided.insert(ticket);
        }
        let unserved = self.decide_now(services, &mut inner);
        drop(inner);
        self.answer(services, unserved);
        self.send_offers(services, offer.into_iter().collect());
        Ok(())
    }

    /// Its place; and with a key, what its client is told of it if that comes back before it is served.
    fn keep(
        &self,
        services: &Services,
        pool: &Pool,
        waiter: &Waiter,
        labels: &Labels,
        held: &HeldClient,
    ) -> Result<Sequence, StoreError> {
        let mut batch = Batch::default();
        batch.put(keys::outsider(&self.pipeline, waiter.ticket), stored::encode_waiter(waiter, Some(labels)));
        if waiter.kept == Kept::ByAsking {
            let (at, position) = (services.now().at, pool.position(waiter));
            if let Some(keyed) = &held.keyed {
                let session = Box::new(waiter.session.clone());
                keyed.record(&mut batch, &ClaimOutcome::Queued { session, position }, at);
            }
            let by = Agent { person: waiter.session.user.clone(), via: waiter.via.clone() };
            record_events(&mut batch, &self.pipeline, None, &[waiter.queued(position)], Some(&by), at);
        }
        services.store().commit(batch)
    }

    /// A client comes back for its place. Gives its key back if there is none.
    pub fn attach(
        &self,
        services: &Arc<Services>,
        ticket: Ticket,
        held: HeldClient,
    ) -> Result<(), Option<Keyed<ClaimOutcome>>> {
        let mut inner = self.inner.lock();
        let Some(client) = inner.clients.get_mut(&ticket) else { return Err(held.keyed) };
        client.held = Some(held);
        drop(inner);
        self.offer_around(services);
        Ok(())
    }

    /// Offers what is free to all who are there, and answers those who do not wait for more. Called whenever an environment
    /// has looked at what was offered to it, whether it has taken somebody or not.
    pub fn offer_around(&self, services: &Arc<Services>) {
        let mut inner = self.inner.lock();
        let Inner { pool, clients, .. } = &mut *inner;
        let offers = pool.offers(Inner::presence(clients, services, services.tick()));
        let unserved = self.decide_now(services, &mut inner);
        drop(inner);
        self.answer(services, unserved);
        self.send_offers(services, offers);
    }

    fn send_offers(&self, services: &Arc<Services>, offers: Vec<Identifier>) {
        for name in offers {
            let key = EnvironmentKey { pipeline: self.pipeline.clone(), name };
            if !services.signal(&key, Signal::Offer) {
                self.inner.lock().pool.report(&key.name, Standing::Gone);
                self.offer_around(services);
            }
        }
    }

    /// One who waits here under this session id, and its position.
    pub fn session(&self, id: SessionId) -> Option<(Arc<Waiter>, usize)> {
        let Origin::Queued(ticket) = id.origin else { return None };
        let inner = self.inner.lock();
        let (waiter, position) = match inner.pool.get(ticket) {
            Some(waiter) => (waiter, inner.pool.position(waiter)),
            None => (&inner.taken.get(&ticket)?.0, 1),
        };
        (waiter.session.id == id).then(|| (waiter.clone(), position))
    }

    /// Those who would take such an environment.
    pub fn waiting_for(&self, configuration: &Configuration) -> Vec<Arc<Waiter>> {
        if !self.is_active() {
            return Vec::new();
        }
        self.inner.lock().pool.waiting_for(configuration).cloned().collect()
    }

    /// How many of those come before this turn.
    pub fn ahead(&self, configuration: &Configuration, turn: Turn) -> usize {
        if !self.is_active() {
            return 0;
        }
        self.inner.lock().pool.waiting_for(configuration).filter(|waiter| waiter.turn() < turn).count()
    }

    /// Puts one back that waited when the last run ended.
    pub fn restore(&self, waiter: Waiter, labels: Labels) {
        self.active.store(true, Ordering::SeqCst);
        let labels = Arc::new(labels);
        let mut inner = self.inner.lock();
        inner.clients.insert(waiter.ticket, Client { labels: labels.clone(), held: None });
        inner.pool.put_back(Arc::new(waiter), labels);
    }

    pub fn len(&self) -> usize {
        self.inner.lock().pool.len()
    }
}

pub fn standing_of(environment: &Environment) -> Standing {
    match &environment.configuration {
        None => Standing::Gone,
        Some(configuration) if environment.is_vacant() => {
            Standing::Free { configuration: configuration.clone(), last_used: environment.last_used }
        }
        Some(configuration) => Standing::Taken { configuration: configuration.clone() },
    }
}

/// The pools of all pipelines.
#[derive(Default)]
pub struct Pools {
    of: DashMap<PipelineKey, Arc<PipelinePool>>,
}

impl Pools {
    pub fn get(&self, pipeline: &PipelineKey) -> Arc<PipelinePool> {
        if let Some(pool) = self.of.get(pipeline) {
            return pool.clone();
        }
        let pool = || Arc::new(PipelinePool::new(pipeline.clone()));
        self.of.entry(pipeline.clone()).or_insert_with(pool).clone()
    }

    /// Those in which anybody has ever waited.
    pub fn active(&self) -> Vec<Arc<PipelinePool>> {
        self.of.iter().map(|pool| pool.clone()).filter(|pool| pool.is_active()).collect()
    }
}

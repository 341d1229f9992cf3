//! The batch that makes a decision durable.

mod deployments;
mod history;

use std::collections::BTreeMap;

use super::loaded::{Committed, Loaded};
use super::page_list::PageList;
use super::recent::DeploymentUpdate;
use super::records::Records;
use crate::keys;
use domain::{
    Deadline, DeploymentId, Environment, EnvironmentKey, Event, Identifier, Initiator, Now, Origin, Outcome,
    PipelineKey, Session, Ticket, Timestamp,
};
use events::NewEvent;
use records::{Keeping, Page};
use store::{Batch, StoreError};

/// What one decision changes in the store.
pub struct Change<'a> {
    records: &'a Records,
    key: &'a EnvironmentKey,
    loaded: &'a Loaded,
    batch: Batch,
    /// Changed pages of the history.
    pages: PageList<Page>,
    keeping: Keeping,
    /// Changes to deployments besides their records.
    updates: BTreeMap<DeploymentId, DeploymentUpdate>,
    /// Whether more of the history is to be dropped.
    trim_on: bool,
}

impl<'a> Change<'a> {
    pub fn new(records: &'a Records, key: &'a EnvironmentKey, loaded: &'a Loaded) -> Self {
        let (batch, pages, keeping) = (Batch::with_room(), PageList::default(), loaded.keeping);
        Self { records, key, loaded, batch, pages, keeping, updates: BTreeMap::new(), trim_on: false }
    }

    /// For records that belong to the decision and are not the environment's own.
    pub fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// The environment's own record, its history and its wake record.
    pub fn environment(&mut self, next: &Environment, outcome: &Outcome, now: Now) -> Result<(), StoreError> {
        if next.revision == self.loaded.environment.revision {
            return Ok(());
        }
        self.remember(next, outcome)?;
        if let Some((ticket, token)) = outcome.granted.as_ref().and_then(|granted| pointed(&granted.session)) {
            self.batch.put(keys::pointer(ticket), records::encode_pointer(self.key, token));
            self.keeping.pointers += 1;
        }
        self.trim(next)?;
        let expiry = |environment: &Environment| environment.lock.as_deref().and_then(Session::expiry);
        // A record that is too early does no harm, and is not written again with every heartbeat.
        let is_sooner =
            |until: Deadline| expiry(&self.loaded.environment).is_none_or(|(before, _)| until.due < before.due);
        match expiry(next) {
            Some((until, _)) if !self.loaded.has_wake_record || is_sooner(until) => {
                self.batch.put(keys::wake(self.key), records::encode_wake(until, now, self.records.run));
            }
            None if self.loaded.has_wake_record => self.batch.delete(keys::wake(self.key)),
            Some(_) | None => {}
        }
        self.put_environment(next);
        Ok(())
    }

    pub fn put_environment(&mut self, next: &Environment) {
        let (keeping, run) = (self.keeping, self.records.run);
        let write = |out: &mut Vec<u8>| records::write_environment(next, keeping, run, out);
        self.batch.put_with(keys::environment(self.key), write);
    }

    /// Waiters that joined or left the queue.
    pub fn queue(&mut self, outcome: &Outcome) {
        if let Some(waiter) = outcome.enqueued.as_ref().filter(|waiter| waiter.is_durable()) {
            self.batch.put(keys::waiter(self.key, waiter.ticket), records::encode_waiter(waiter, None));
        }
        // Before the deletions: the same decision may have granted it the lock.
        if let Some(waiter) = &outcome.made_known {
            self.batch.put(keys::waiter(self.key, waiter.ticket), records::encode_waiter(waiter, None));
        }
        for waiter in outcome.dequeued.iter().filter(|waiter| waiter.is_durable()) {
            self.batch.delete(keys::waiter(self.key, waiter.ticket));
        }
        if let Some(granted) =
            outcome.granted.as_ref().filter(|granted| granted.outsider && granted.waiter.is_durable())
        {
            self.batch.delete(keys::outsider(&self.key.pipeline, granted.waiter.ticket));
        }
        for session in &outcome.left {
            if let Origin::Queued(ticket) = session.id.origin {
                let record = records::encode_left(&self.key.pipeline, Some(&self.key.name), session);
                self.batch.put(keys::left(ticket), record);
            }
        }
    }

    pub fn events(&mut self, outcome: &Outcome, by: Option<&Initiator>, now: Now) {
        record_events(&mut self.batch, &self.key.pipeline, Some(&self.key.name), &outcome.events, by, now.at);
    }

    /// Hands the batch to the store, unless it is empty.
    pub fn commit(self) -> Result<Committed, StoreError> {
        let Self { records, key, loaded, mut batch, pages, keeping, updates, trim_on } = self;
        for (number, page) in pages.iter() {
            match page.record() {
                Some(record) => batch.put(keys::page(key, number), record),
                None => batch.delete(keys::page(key, number)),
            }
        }
        let sequence = if batch.is_empty() { loaded.handed_in } else { records.store().commit(batch)? };
        Ok(Committed { sequence, pages, keeping, deployments: updates, trim_on })
    }
}

/// Adds events to a batch. An event is attributed to its own initiator, else to the caller `by`; an automatic one to nobody.
pub fn record_events(
    batch: &mut Batch,
    pipeline: &PipelineKey,
    environment: Option<&Identifier>,
    events: &[Event],
    by: Option<&Initiator>,
    at: Timestamp,
) {
    for event in events {
        let happening = NewEvent {
            event_type: event.event_type,
            at,
            by: event.by.as_ref().or(by).filter(|_| !event.automatic),
            pipeline: Some(&pipeline.pipeline),
            environment,
            session: event.session,
            deployment: event.deployment,
            data: &event.data,
        };
        events::record(batch, &pipeline.organization, &happening);
    }
}

/// The ticket and fencing token of a session whose id comes from the queue.
fn pointed(session: &Session) -> Option<(Ticket, u64)> {
    match session.id.origin {
        Origin::Queued(ticket) => Some((ticket, session.fencing_token()?)),
        Origin::Granted(_) => None,
    }
}

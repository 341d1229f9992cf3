//! The batch that makes a decision durable.

use std::collections::BTreeMap;

use super::committing::Loaded;
use super::deployments::Traces;
use super::environments::Parts;
use super::keys;
use super::stored::{self, Keeping, Page};
use crate::domain::{
    Agent, DeploymentId, Environment, EnvironmentKey, Event, Identifier, Now, Origin, Outcome, PipelineKey, Session,
    Ticket, Timestamp,
};
use crate::events::{self, Happening};
use crate::store::{Batch, Sequence, StoreError};

/// What one decision changes in the store.
pub struct Change<'a> {
    pub(super) parts: &'a Parts,
    pub(super) key: &'a EnvironmentKey,
    pub(super) loaded: &'a Loaded,
    pub batch: Batch,
    /// Pages of the history as they will be.
    pub(super) pages: BTreeMap<u64, Page>,
    pub(super) keeping: Keeping,
    /// What it does to deployments, beside changing their records.
    pub(super) traces: BTreeMap<DeploymentId, Traces>,
    /// Whether there is more of the history to drop.
    pub(super) trim_on: bool,
}

/// A change that was handed in, and what the store has of the history with it.
pub struct Committed {
    /// Up to where the store must be durable.
    pub sequence: Sequence,
    pub pages: BTreeMap<u64, Page>,
    pub keeping: Keeping,
    pub traces: BTreeMap<DeploymentId, Traces>,
    pub trim_on: bool,
}

impl<'a> Change<'a> {
    pub fn new(parts: &'a Parts, key: &'a EnvironmentKey, loaded: &'a Loaded) -> Self {
        let (batch, pages, keeping) = (Batch::default(), BTreeMap::new(), loaded.keeping);
        Self { parts, key, loaded, batch, pages, keeping, traces: BTreeMap::new(), trim_on: false }
    }

    /// The environment's own record and its history.
    pub fn environment(&mut self, next: &Environment, outcome: &Outcome, now: Now) -> Result<(), StoreError> {
        if next.revision == self.loaded.environment.revision {
            return Ok(());
        }
        self.remember(next, outcome)?;
        if let Some((ticket, token)) = outcome.granted.as_ref().and_then(|granted| pointed(&granted.session)) {
            self.batch.put(keys::pointer(ticket), stored::encode_pointer(self.key, token));
            self.keeping.pointers += 1;
        }
        self.trim(next)?;
        let expiry = next.lock.as_ref().and_then(Session::expiry);
        match expiry {
            Some((until, _)) if !self.loaded.marked => {
                let within = until.due.0.saturating_sub(now.tick.0);
                self.batch.put(keys::wake(self.key), stored::encode_wake(until.at, within));
            }
            None if self.loaded.marked => self.batch.delete(keys::wake(self.key)),
            Some(_) | None => {}
        }
        self.put_environment(next);
        Ok(())
    }

    pub fn put_environment(&mut self, next: &Environment) {
        let record = stored::encode_environment(next, self.keeping, self.parts.run);
        self.batch.put(keys::environment(self.key), record);
    }

    /// Who came to wait, and who does no longer.
    pub fn queue(&mut self, outcome: &Outcome) {
        if let Some(waiter) = outcome.enqueued.as_ref().filter(|waiter| waiter.is_durable()) {
            self.batch.put(keys::waiter(self.key, waiter.ticket), stored::encode_waiter(waiter, None));
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
                let record = stored::encode_left(&self.key.pipeline, Some(&self.key.name), session);
                self.batch.put(keys::left(ticket), record);
            }
        }
    }

    /// What happens with it.
    pub fn events(&mut self, outcome: &Outcome, by: Option<&Agent>, now: Now) {
        record_events(&mut self.batch, &self.key.pipeline, Some(&self.key.name), &outcome.events, by, now.at);
    }

    /// Hands it to the store, if there is anything to it.
    pub fn commit(self) -> Result<Committed, StoreError> {
        let Self { parts, key, loaded, mut batch, pages, keeping, traces, trim_on } = self;
        for (number, page) in &pages {
            match page.record() {
                Some(record) => batch.put(keys::page(key, *number), record.to_vec()),
                None => batch.delete(keys::page(key, *number)),
            }
        }
        let sequence = if batch.is_empty() { loaded.handed_in } else { parts.store.commit(batch)? };
        Ok(Committed { sequence, pages, keeping, traces, trim_on })
    }
}

/// Writes down what happens with a batch, in the name of whose doing it is: unless an event says otherwise, of who asked.
pub(super) fn record_events(
    batch: &mut Batch,
    pipeline: &PipelineKey,
    environment: Option<&Identifier>,
    events: &[Event],
    by: Option<&Agent>,
    at: Timestamp,
) {
    for event in events {
        let happening = Happening {
            notice: event.notice,
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

/// The ticket and the token of a session that has an id from the queue.
pub(super) fn pointed(session: &Session) -> Option<(Ticket, u64)> {
    match session.id.origin {
        Origin::Queued(ticket) => Some((ticket, session.fencing_token()?)),
        Origin::Granted(_) => None,
    }
}

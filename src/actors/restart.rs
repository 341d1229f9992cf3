//! What a run finds when it starts: who waited when the last one ended, and what runs out by itself.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use super::directory::Note;
use super::environments::{Environments, Parts};
use super::{keys, reading, stored};
use crate::domain::{ASK_WITHIN_MILLIS, EnvironmentKey, Kept, PipelineKey, Ticket, Waiter};
use crate::store::{Batch, StoreError, durable_up_to, end_of_prefix, walk};

/// How many records one commit drops.
const FORGOTTEN_AT_ONCE: usize = 512;
/// How many environments are looked at in one go when their time has come; the rest a moment later.
const DUE_AT_ONCE: usize = 256;
/// When to look again at an environment that could not be told.
const RETRY_MILLIS: i64 = 1_000;
/// How many sessions that ended in a queue are remembered.
const LEFT_KEPT: usize = 10_000;

/// Where somebody waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Environment(EnvironmentKey),
    Pool(PipelineKey),
}

/// A place whose client may come back for it with its idempotency key.
#[derive(Debug, Clone)]
pub struct KeptPlace {
    pub place: Place,
    pub ticket: Ticket,
    pub fingerprint: [u8; 16],
}

impl Environments {
    pub(super) fn find_those_who_waited(&self) -> Result<(), StoreError> {
        let parts = &self.parts;
        let due = parts.run.started.tick.plus(ASK_WITHIN_MILLIS);
        each(parts, keys::WAITERS, |key, record| {
            let (waiter, _) = reading::readable(stored::decode_waiter(record))?;
            if let Some(key) = keys::parse_environment(key, keys::WAITERS) {
                parts.queues_at_rest.insert(key.clone(), ());
                parts.deadlines.arm(&key, Some(due));
                parts.waited(&waiter, Place::Environment(key));
            }
            Ok(())
        })?;
        each(parts, keys::OUTSIDERS, |key, record| {
            let (waiter, labels) = reading::readable(stored::decode_waiter(record))?;
            if let Some(pipeline) = keys::parse_pipeline(key, keys::OUTSIDERS) {
                parts.waited(&waiter, Place::Pool(pipeline.clone()));
                self.pool(&pipeline).restore(waiter, labels.unwrap_or_default());
            }
            Ok(())
        })
    }

    pub(super) fn find_what_runs_out(&self) -> Result<(), StoreError> {
        let parts = &self.parts;
        let started = parts.run.started;
        each(parts, keys::WAKES, |key, record| {
            let (at, within) = reading::readable(stored::decode_wake(record))?;
            if let Some(key) = keys::parse_environment(key, keys::WAKES) {
                let left = at.as_millis().saturating_sub(started.at.as_millis()).min(within).max(0);
                let sooner = if parts.queues_at_rest.contains_key(&key) { left.min(ASK_WITHIN_MILLIS) } else { left };
                parts.deadlines.arm(&key, Some(started.tick.plus(sooner)));
            }
            Ok(())
        })
    }

    /// Looks at every environment of which something has run out by now.
    pub fn elapse(&self) {
        loop {
            let due = self.parts.deadlines.take_due(self.parts.tick(), DUE_AT_ONCE);
            let more = due.len() == DUE_AT_ONCE;
            for key in due {
                if !self.note(&key, Note::Due) {
                    self.parts.deadlines.arm(&key, self.exists(&key).then(|| self.parts.tick().plus(RETRY_MILLIS)));
                }
            }
            if !more {
                return;
            }
        }
    }

    /// Whether there is such an environment, or nobody can tell at the moment.
    fn exists(&self, key: &EnvironmentKey) -> bool {
        self.environment(key).map_or(true, |environment| environment.is_some())
    }

    /// Does so for ever, at the right moments.
    pub async fn keep_time(&self) {
        loop {
            self.parts.deadlines.next(|| self.parts.tick()).await;
            self.elapse();
        }
    }

    /// Forgets the oldest of those that ended in a queue, beyond what is remembered.
    pub async fn forget_those_who_left(&self) -> Result<(), StoreError> {
        // Nobody has left since the last time, so there are no more than there were.
        if self.parts.left.swap(0, Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let parts = self.parts.clone();
        let read = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            each(&parts, keys::LEFT, |key, _| {
                all.push(key.to_vec());
                Ok(())
            })
            .map(|()| all)
        });
        let all = read.await.map_err(|error| StoreError::Read(error.to_string()))??;
        let surplus = all.len().saturating_sub(LEFT_KEPT);
        for keys in all[..surplus].chunks(FORGOTTEN_AT_ONCE) {
            let mut batch = Batch::default();
            keys.iter().for_each(|key| batch.delete(key.clone()));
            durable_up_to(&*self.parts.store, self.parts.store.commit(batch)?).await;
        }
        Ok(())
    }
}

impl Parts {
    fn waited(&self, waiter: &Waiter, place: Place) {
        self.tickets.fetch_max(waiter.ticket.0 + 1, Ordering::Relaxed);
        match &waiter.kept {
            Kept::ByConnection => {}
            Kept::ByKey(key) => {
                let kept = KeptPlace { place, ticket: waiter.ticket, fingerprint: key.fingerprint };
                self.places.insert(key.record.clone(), kept);
            }
            Kept::ByAsking => _ = self.asked.insert(waiter.ticket, self.run.started.tick),
        }
    }
}

pub(super) fn each(
    parts: &Parts,
    prefix: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    walk(&*parts.store, prefix, &end_of_prefix(prefix), |key, record| {
        visit(key, record).map(|()| ControlFlow::Continue(()))
    })
}

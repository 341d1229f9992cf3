//! How long events are kept: old ones go page by page, oldest first, and the journal notes where it begins then.

use std::collections::HashMap;
use std::time::Duration;

use super::form;
use super::reading::{Events, Span, first_key, unreadable};
use crate::domain::{Identifier, Timestamp};
use crate::store::journal::{self, PAGE_ENTRIES, PageView};
use crate::store::{Batch, StoreError, durable_up_to};

/// Dropped in one batch: a few kilobytes of keys, so that it does not crowd out others.
const PAGES_AT_ONCE: u64 = 256;
/// What those who have not been told of an event yet can hold back, in multiples of what is kept anyway.
const HELD_BACK_MAX: u64 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Of one organization.
    pub max_events: u64,
    pub max_age: Duration,
}

/// Drops what is too old or too much.
pub struct Sweeper {
    events: Events,
    retention: Retention,
    /// Where each journal ended at the last sweep. What was its newest page then may be all that the database has of it
    /// after a crash, and numbers go on from there: so it stays until the next sweep, when the database has long had a
    /// newer one.
    seen: HashMap<Identifier, u64>,
}

impl Sweeper {
    pub fn new(events: Events, retention: Retention) -> Self {
        Self { events, retention, seen: HashMap::new() }
    }

    /// One sweep over all organizations; says how many events it dropped. Somebody who has still to be told of events from
    /// `keep_from` on holds those back, up to twice as many as are kept.
    pub async fn sweep(
        &mut self,
        now: Timestamp,
        keep_from: impl Fn(&Identifier) -> Option<u64>,
    ) -> Result<u64, StoreError> {
        let (mut dropped, mut failed) = (0, Ok(()));
        for organization in self.events.organizations()? {
            let keep_from = keep_from(&organization);
            // One whose journal cannot be read does not keep the others from being swept.
            match self.sweep_one(&organization, now, keep_from).await {
                Ok(more) => dropped += more,
                Err(error) => failed = Err(error),
            }
        }
        failed.map(|()| dropped)
    }

    async fn sweep_one(
        &mut self,
        organization: &Identifier,
        now: Timestamp,
        keep_from: Option<u64>,
    ) -> Result<u64, StoreError> {
        let span = self.events.span(organization)?;
        let Some(seen) = self.seen.insert(organization.clone(), span.next) else { return Ok(0) };
        let bound = self.bound(span, seen, keep_from);
        let (events, retention, name) = (self.events.clone(), self.retention, organization.clone());
        let plan = move || events.outlived(&name, span, bound, retention, now);
        let planned =
            tokio::task::spawn_blocking(plan).await.map_err(|error| StoreError::Read(error.to_string()))??;
        self.drop_before(organization, span.first, planned).await?;
        Ok(planned - span.first)
    }

    /// Up to which number anything may go at all.
    fn bound(&self, span: Span, seen: u64, keep_from: Option<u64>) -> u64 {
        let newest = seen.min(span.next).saturating_sub(1);
        let held_back_max = self.retention.max_events.saturating_mul(HELD_BACK_MAX);
        let held_back = keep_from.map_or(u64::MAX, |from| from.max(span.next.saturating_sub(held_back_max)));
        page_start(newest.min(held_back))
    }

    async fn drop_before(&self, organization: &Identifier, first: u64, until: u64) -> Result<(), StoreError> {
        let (mut page, last) = (first / PAGE_ENTRIES, until / PAGE_ENTRIES);
        while page < last {
            let end = last.min(page + PAGES_AT_ONCE);
            let mut batch = Batch::default();
            for number in page..end {
                batch.delete(journal::page_key(organization.as_str(), number));
            }
            batch.put(first_key(organization), (end * PAGE_ENTRIES).to_be_bytes().to_vec());
            let sequence = self.events.store.commit(batch)?;
            durable_up_to(&*self.events.store, sequence).await;
            page = end;
        }
        Ok(())
    }
}

impl Events {
    /// The number that the first kept event should have.
    fn outlived(
        &self,
        organization: &Identifier,
        span: Span,
        bound: u64,
        retention: Retention,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let oldest = now.plus(-i64::try_from(retention.max_age.as_millis()).unwrap_or(i64::MAX));
        let by_number = page_start(span.next.saturating_sub(retention.max_events)).min(bound);
        let mut first = span.first.max(by_number);
        while first < bound {
            let Some(bytes) = self.page_bytes(organization, first / PAGE_ENTRIES)? else { break };
            let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
            // Clocks jump: a page goes when all of it is old.
            let is_old = |body: &[u8]| form::glance(body).is_ok_and(|event| event.at < oldest);
            if !page.entries.iter().all(|entry| is_old(entry.body)) {
                break;
            }
            first += PAGE_ENTRIES;
        }
        Ok(first)
    }
}

fn page_start(number: u64) -> u64 {
    number / PAGE_ENTRIES * PAGE_ENTRIES
}

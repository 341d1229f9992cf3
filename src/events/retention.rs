//! Retention: old events are dropped in whole pages, oldest first, and the number of the first kept event is stored.
//! Security events among them move to the archive in the same batch; the archive has separate limits.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::archive::{Archive, ArchivedEvent};
use super::event::{self, unreadable};
use super::journal::{Events, Span, first_key};
use domain::{Identifier, SecurityClass, Timestamp};
use store::journal::{self, PAGE_ENTRIES, PageView};
use store::{Batch, Sequence, StoreError, commit_durably};

/// Pages dropped per batch: a few kilobytes of keys, so that other batches are not delayed.
const PAGES_AT_ONCE: u64 = 256;
/// Bytes of events archived per batch: a small part of a batch's maximum.
const ARCHIVED_AT_ONCE: usize = 64 * 1024;
/// How many events undelivered webhooks can hold back, as a multiple of `max_events`.
const HELD_BACK_MAX: u64 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Per organization.
    pub max_events: u64,
    pub max_age: Duration,
    /// Per organization and class.
    pub max_security_events: u64,
    pub security_max_age: Duration,
}

impl Retention {
    /// The time before which events are too old.
    fn oldest(max_age: Duration, now: Timestamp) -> Timestamp {
        now.plus(-i64::try_from(max_age.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Drops events that are too old or too many.
pub struct Sweeper {
    events: Events,
    retention: Retention,
    /// The end of each journal at an earlier sweep. After a crash, the database may only have the journal's newest page
    /// of that time, and numbering continues from there. So that page is kept until the log is no longer needed for the
    /// events up to it.
    seen: HashMap<Identifier, Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    next: u64,
    by: Sequence,
}

impl Sweeper {
    pub fn new(events: Events, retention: Retention) -> Self {
        Self { events, retention, seen: HashMap::new() }
    }

    /// Sweeps all organizations and returns the number of dropped events. Events from `keep_from` on are kept for their
    /// webhooks, up to twice `max_events`.
    pub async fn sweep(
        &mut self,
        now: Timestamp,
        keep_from: impl Fn(&Identifier) -> Option<u64>,
    ) -> Result<u64, StoreError> {
        let (mut dropped, mut failed) = (0, Ok(()));
        for organization in self.events.organizations()? {
            let keep_from = keep_from(&organization);
            // An unreadable journal must not stop the sweep of other journals.
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
        let now_seen = Seen { next: span.next, by: self.events.store.handed_in() };
        let seen = *self.seen.entry(organization.clone()).or_insert(now_seen);
        if self.events.store.applied() < seen.by {
            return Ok(0);
        }
        self.seen.insert(organization.clone(), now_seen);
        let bound = self.bound(span, seen.next, keep_from);
        let (events, retention, name) = (self.events.clone(), self.retention, organization.clone());
        let plan = move || events.outlived(&name, span, bound, retention, now);
        let planned = blocking(plan).await?;
        self.drop_before(organization, span.first, planned).await?;
        self.shorten_archives(organization, now).await?;
        Ok(planned - span.first)
    }

    /// The number from which on events are never dropped.
    fn bound(&self, span: Span, seen: u64, keep_from: Option<u64>) -> u64 {
        let newest = seen.min(span.next).saturating_sub(1);
        let held_back_max = self.retention.max_events.saturating_mul(HELD_BACK_MAX);
        let held_back = keep_from.map_or(u64::MAX, |from| from.max(span.next.saturating_sub(held_back_max)));
        page_start(newest.min(held_back))
    }

    async fn drop_before(&self, organization: &Identifier, first: u64, until: u64) -> Result<(), StoreError> {
        let (mut page, last) = (first / PAGE_ENTRIES, until / PAGE_ENTRIES);
        while page < last {
            let (events, name) = (self.events.clone(), organization.clone());
            let (batch, end) = blocking(move || events.dropping(&name, page, last)).await?;
            commit_durably(&*self.events.store, batch).await?;
            page = end;
        }
        Ok(())
    }

    async fn shorten_archives(&self, organization: &Identifier, now: Timestamp) -> Result<(), StoreError> {
        for class in SecurityClass::ALL {
            let (events, name, retention) = (self.events.clone(), organization.clone(), self.retention);
            let batch = blocking(move || shortening(&events.archive(&name, class), retention, now)).await?;
            commit_durably(&*self.events.store, batch).await?;
        }
        Ok(())
    }
}

/// Reads on a thread that may block.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(read).await.map_err(|error| StoreError::Read(error.to_string()))?
}

impl Events {
    /// The number of the first event to keep.
    fn outlived(
        &self,
        organization: &Identifier,
        span: Span,
        bound: u64,
        retention: Retention,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let oldest = Retention::oldest(retention.max_age, now);
        let is_old = |page| {
            let Some(bytes) = self.page_bytes(organization, page)? else { return Ok(false) };
            let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
            Ok(page.entries.iter().all(|entry| is_before(oldest, entry.body)))
        };
        first_kept(span.first, span.next.saturating_sub(retention.max_events), bound, is_old)
    }

    /// Drops some pages from `page` on, before page `last`, and archives their security events. Returns the batch and
    /// the first kept page.
    fn dropping(&self, organization: &Identifier, mut page: u64, last: u64) -> Result<(Batch, u64), StoreError> {
        let (mut batch, mut archived, mut bytes) = (Batch::default(), BTreeMap::<_, Vec<_>>::new(), 0);
        let last = last.min(page + PAGES_AT_ONCE);
        while page < last && bytes < ARCHIVED_AT_ONCE {
            let stored = self.page_bytes(organization, page)?;
            for (class, event) in stored.iter().filter_map(|stored| PageView::decode(stored)).flat_map(security_events)
            {
                bytes += event.body.len();
                archived.entry(class).or_default().push(event);
            }
            batch.delete(journal::page_key(organization.as_str(), page));
            page += 1;
        }
        let first = page * PAGE_ENTRIES;
        batch.put(first_key(organization), first.to_be_bytes());
        self.drop_seals(organization, first, &mut batch)?;
        for (class, events) in archived {
            self.archive(organization, class).add(&events, &mut batch)?;
        }
        Ok((batch, page))
    }
}

/// Drops the pages of an archive that are too old or too many.
fn shortening(archive: &Archive<'_>, retention: Retention, now: Timestamp) -> Result<Batch, StoreError> {
    let (mut batch, head) = (Batch::default(), archive.head()?);
    let oldest = Retention::oldest(retention.security_max_age, now);
    let bound = page_start(head.next).min(head.first + PAGES_AT_ONCE * PAGE_ENTRIES);
    let is_old = |page| {
        let Some(page) = archive.page(page)? else { return Ok(false) };
        let mut events = page.entries.iter().map(|entry| ArchivedEvent::decode(&entry.body));
        Ok(events.all(|event| event.is_some_and(|event| is_before(oldest, &event.body))))
    };
    let first = first_kept(head.first, head.next.saturating_sub(retention.max_security_events), bound, is_old)?;
    if first > head.first {
        archive.shorten(first, &mut batch)?;
    }
    Ok(batch)
}

/// The first position to keep, at most `bound`. The pages before it are beyond the maximum number, or all their events
/// are old: clocks jump, so one new event keeps a page.
fn first_kept(
    first: u64,
    by_number: u64,
    bound: u64,
    is_old: impl Fn(u64) -> Result<bool, StoreError>,
) -> Result<u64, StoreError> {
    let mut kept = first.max(page_start(by_number).min(bound));
    while kept < bound && is_old(kept / PAGE_ENTRIES)? {
        kept += PAGE_ENTRIES;
    }
    Ok(kept)
}

fn is_before(oldest: Timestamp, body: &[u8]) -> bool {
    event::decode_head(body).is_ok_and(|event| event.at < oldest)
}

/// The security events of a page in archived form.
fn security_events(page: PageView<'_>) -> Vec<(SecurityClass, ArchivedEvent)> {
    let mut before = *page.before;
    let events = page.numbered().filter_map(|(number, entry)| {
        let event = ArchivedEvent {
            number,
            before: std::mem::replace(&mut before, *entry.hash),
            hash: *entry.hash,
            body: Vec::new(),
        };
        let class = event::notice_of(entry.body)?.security_class()?;
        Some((class, ArchivedEvent { body: entry.body.to_vec(), ..event }))
    });
    events.collect()
}

fn page_start(number: u64) -> u64 {
    number / PAGE_ENTRIES * PAGE_ENTRIES
}

//! Lists an organization's events: newest first by page, or ascending from a number.

use super::archive::ArchivedEvent;
use super::event::{EventId, RecordedEvent};
use super::filter::Filter;
use super::form;
use super::reading::{Events, Span, decoded, unreadable};
use domain::Identifier;
use store::journal::{self, EntryView, PAGE_ENTRIES, PageView};
use store::{StoreError, for_each};

/// One page of events, newest first, and their total number.
#[derive(Debug, Default)]
pub struct EventList {
    pub events: Vec<RecordedEvent>,
    pub total: u64,
}

/// Matching events in order, and the number up to which all events were examined.
#[derive(Debug)]
pub struct EventRange {
    pub events: Vec<RecordedEvent>,
    pub next: u64,
}

/// Where a reader continues who has seen everything up to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    /// The number of the next event.
    Next(u64),
    /// The event is no longer kept, and maybe neither are later ones.
    Expired,
    /// The organization never had this event.
    Unknown,
}

impl Events {
    pub fn get(&self, organization: &Identifier, id: EventId) -> Result<Option<RecordedEvent>, StoreError> {
        let Some(bytes) = self.page_bytes(organization, id.number / PAGE_ENTRIES)? else {
            let archived = self.archived_event(organization, id.number)?;
            let archived = archived.filter(|event| EventId::new(event.number, &event.hash) == id);
            return archived.map(|event| unarchived(&event)).transpose();
        };
        let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
        let entry = page.entries.get((id.number % PAGE_ENTRIES) as usize);
        let entry = entry.filter(|entry| EventId::new(id.number, entry.hash) == id);
        entry.map(|entry| decoded(id.number, entry)).transpose()
    }

    /// The id of the event with this number, if it is kept.
    pub fn id_of(&self, organization: &Identifier, number: u64) -> Result<Option<EventId>, StoreError> {
        let Some(bytes) = self.page_bytes(organization, number / PAGE_ENTRIES)? else { return Ok(None) };
        let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
        let entry = page.entries.get((number % PAGE_ENTRIES) as usize);
        Ok(entry.map(|entry| EventId::new(number, entry.hash)))
    }

    pub fn after(&self, organization: &Identifier, id: EventId) -> Result<Resumption, StoreError> {
        if self.id_of(organization, id.number)? == Some(id) {
            return Ok(Resumption::Next(id.number + 1));
        }
        let Span { first, .. } = self.span(organization)?;
        Ok(if id.number < first { Resumption::Expired } else { Resumption::Unknown })
    }

    /// Up to `limit` matching events, after the `offset` newest. Reads all events unless the filter is open.
    pub fn list(
        &self,
        organization: &Identifier,
        filter: &Filter,
        offset: u64,
        limit: u64,
    ) -> Result<EventList, StoreError> {
        if filter.is_open() {
            return self.newest(organization, offset, limit);
        }
        let (mut listed, mut oldest) = (EventList::default(), u64::MAX);
        for_each(&*self.store, &journal::pages_of(organization.as_str()), |_, bytes| {
            let page = PageView::decode(bytes).ok_or_else(|| unreadable("a page"))?;
            oldest = oldest.min(page.first);
            for (number, entry) in page.numbered().rev() {
                if !is_wanted(entry, filter)? {
                    continue;
                }
                if listed.total >= offset && (listed.events.len() as u64) < limit {
                    listed.events.push(decoded(number, entry)?);
                }
                listed.total += 1;
            }
            Ok(())
        })?;
        let mut archive = self.newest_archived(organization)?;
        while let Some(event) = archive.next()? {
            // What has been archived since its page was read is not listed twice.
            if event.number >= oldest || !filter.wants(&form::decode_head(&event.body)?) {
                continue;
            }
            if listed.total >= offset && (listed.events.len() as u64) < limit {
                listed.events.push(unarchived(&event)?);
            }
            listed.total += 1;
        }
        Ok(listed)
    }

    /// Reads only the pages of these numbers. Again if retention has dropped some meanwhile, which is rare.
    fn newest(&self, organization: &Identifier, offset: u64, limit: u64) -> Result<EventList, StoreError> {
        /// Each drops a whole batch of pages; more of them while one page is read are not to be expected.
        const TRIES: usize = 5;
        for _ in 1..TRIES {
            let span = self.span(organization)?;
            let listed = self.newest_of(organization, span, offset, limit)?;
            if self.first(organization)? == span.first {
                return Ok(listed);
            }
        }
        self.newest_of(organization, self.span(organization)?, offset, limit)
    }

    fn newest_of(
        &self,
        organization: &Identifier,
        Span { first, next }: Span,
        offset: u64,
        limit: u64,
    ) -> Result<EventList, StoreError> {
        let in_journal = next.saturating_sub(first);
        let total = in_journal + self.archived(organization)?;
        let mut listed = EventList { events: Vec::new(), total };
        let mut end = next.saturating_sub(offset).max(first);
        let start = end.saturating_sub(limit).max(first);
        while end > start {
            let page = (end - 1) / PAGE_ENTRIES;
            // Dropped by retention meanwhile.
            let Some(bytes) = self.page_bytes(organization, page)? else { break };
            let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
            let wanted = page.numbered().filter(|(number, _)| (start..end).contains(number));
            for (number, entry) in wanted.rev() {
                listed.events.push(decoded(number, entry)?);
            }
            end = page.first.min(end - 1);
        }
        if offset.saturating_add(limit) > in_journal {
            let mut archive = self.newest_archived(organization)?;
            let mut skipped = in_journal;
            while (listed.events.len() as u64) < limit
                && let Some(event) = archive.next()?
            {
                if skipped >= offset {
                    listed.events.push(unarchived(&event)?);
                }
                skipped += 1;
            }
        }
        Ok(listed)
    }

    /// Examines the next few pages from number `from` on; fewer if many events match.
    pub fn onwards(&self, organization: &Identifier, from: u64, filter: &Filter) -> Result<EventRange, StoreError> {
        /// Pages read per call: a quarter of a megabyte of ordinary events.
        const PAGES_AT_ONCE: u64 = 32;
        /// Events decoded per call.
        const WANTED_AT_ONCE: usize = 128;
        let mut range = EventRange { events: Vec::new(), next: from };
        for _ in 0..PAGES_AT_ONCE {
            let Some(bytes) = self.page_bytes(organization, range.next / PAGE_ENTRIES)? else { break };
            let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
            for (number, entry) in page.numbered().filter(|(number, _)| *number >= from) {
                if is_wanted(entry, filter)? {
                    range.events.push(decoded(number, entry)?);
                }
                range.next = number + 1;
            }
            let is_full = page.entries.len() as u64 >= PAGE_ENTRIES;
            if !is_full || range.events.len() >= WANTED_AT_ONCE {
                break;
            }
        }
        Ok(range)
    }
}

fn unarchived(event: &ArchivedEvent) -> Result<RecordedEvent, StoreError> {
    Ok(form::decode(event.number, event.hash, &event.body)?)
}

fn is_wanted(entry: &EntryView<'_>, filter: &Filter) -> Result<bool, StoreError> {
    Ok(filter.wants(&form::decode_head(entry.body)?))
}

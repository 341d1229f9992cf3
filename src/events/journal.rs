//! An organization's events: read by number, listed newest first by page or ascending from a number; and the archive.

use std::sync::Arc;

use tokio::sync::watch;

use super::archive::{Archive, ArchiveReader, ArchivedEvent};
use super::event::{self, EventId, RecordedEvent, unreadable};
use super::filter::Filter;
use super::seal::AuditKey;
use domain::{Identifier, SecurityClass};
use store::journal::{self, EntryView, Head, PAGE_ENTRIES, PageView};
use store::keys::FIRST_EVENTS;
use store::{Sequence, Store, StoreError, for_each};

/// The events of all organizations. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    pub(super) store: Arc<dyn Store>,
    pub(super) key: Option<AuditKey>,
}

/// The numbers of an organization's events: events from `first` on are kept, and the next one gets `next`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub first: u64,
    pub next: u64,
}

impl Events {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, key: None }
    }

    /// Sets the key for sealing and checking.
    pub fn with_key(self, key: AuditKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// Changes whenever a batch has become durable, which may contain an event.
    pub fn durable(&self) -> watch::Receiver<Sequence> {
        self.store.durable()
    }

    /// The number of the next event.
    pub fn next(&self, organization: &Identifier) -> Result<u64, StoreError> {
        let head = self.store.get(&journal::head_key(organization.as_str()))?;
        head.map_or(Ok(0), |bytes| Head::decode(&bytes).map(|head| head.next).ok_or_else(|| unreadable("the head")))
    }

    pub fn span(&self, organization: &Identifier) -> Result<Span, StoreError> {
        Ok(Span { first: self.first(organization)?, next: self.next(organization)? })
    }

    pub(super) fn first(&self, organization: &Identifier) -> Result<u64, StoreError> {
        let first = self.store.get(&first_key(organization))?;
        first.map_or(Ok(0), |bytes| {
            bytes.as_slice().try_into().map(u64::from_be_bytes).map_err(|_| unreadable("the beginning"))
        })
    }

    /// The events from number `from` to the end of its page, ascending. Empty only if there are none yet, or they were
    /// dropped.
    pub fn read(&self, organization: &Identifier, from: u64) -> Result<Vec<RecordedEvent>, StoreError> {
        let Some(bytes) = self.page_bytes(organization, from / PAGE_ENTRIES)? else { return Ok(Vec::new()) };
        let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
        page.numbered().filter(|(number, _)| *number >= from).map(|(number, entry)| decoded(number, entry)).collect()
    }

    /// Whether an event with this id is kept.
    pub fn knows(&self, organization: &Identifier, id: EventId) -> Result<bool, StoreError> {
        Ok(self.id_of(organization, id.number)? == Some(id))
    }

    pub(super) fn page_bytes(&self, organization: &Identifier, page: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(&journal::page_key(organization.as_str(), page))
    }

    /// The organizations that have events.
    pub fn organizations(&self) -> Result<Vec<Identifier>, StoreError> {
        Ok(self.heads()?.into_iter().map(|(organization, _)| organization).collect())
    }

    pub(super) fn archive<'a>(&'a self, organization: &'a Identifier, class: SecurityClass) -> Archive<'a> {
        Archive { store: &*self.store, key: self.key.as_ref(), organization, class }
    }

    pub(super) fn archives<'a>(&'a self, organization: &'a Identifier) -> impl Iterator<Item = Archive<'a>> {
        SecurityClass::ALL.into_iter().map(move |class| self.archive(organization, class))
    }

    /// The archived event with this number.
    pub(super) fn archived_event(
        &self,
        organization: &Identifier,
        number: u64,
    ) -> Result<Option<ArchivedEvent>, StoreError> {
        self.archives(organization).find_map(|archive| archive.find(number).transpose()).transpose()
    }

    /// The head of every journal.
    pub(super) fn heads(&self) -> Result<Vec<(Identifier, Head)>, StoreError> {
        let prefix = journal::head_key("");
        let mut found = Vec::new();
        for_each(&*self.store, &prefix, |key, bytes| {
            let name = std::str::from_utf8(&key[prefix.len()..]).unwrap_or_default();
            let name = Identifier::parse(name).map_err(|_| unreadable("the name"))?;
            found.push((name, Head::decode(bytes).ok_or_else(|| unreadable("the head"))?));
            Ok(())
        })?;
        Ok(found)
    }
}

pub(super) fn decoded(number: u64, entry: &EntryView<'_>) -> Result<RecordedEvent, StoreError> {
    Ok(event::decode(number, *entry.hash, entry.body)?)
}

/// `EF/{organization}`: the number of the first event that is kept.
pub(super) fn first_key(organization: &Identifier) -> Vec<u8> {
    [FIRST_EVENTS, organization.as_str().as_bytes()].concat()
}

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

/// Where a reader continues after the last event it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    /// The number of the next event.
    Next(u64),
    /// The event is no longer kept, and later ones may not be either.
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

    /// Up to `limit` matching events after the `offset` newest. Reads all events unless the filter is open.
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
        let mut archive = ArchiveReader::new(self.archives(organization))?;
        while let Some(event) = archive.next()? {
            // An event archived since its page was read must not be listed twice.
            if event.number >= oldest || !filter.wants(&event::decode_head(&event.body)?) {
                continue;
            }
            if listed.total >= offset && (listed.events.len() as u64) < limit {
                listed.events.push(unarchived(&event)?);
            }
            listed.total += 1;
        }
        Ok(listed)
    }

    /// A page of the unfiltered list; reads only the journal pages it needs. Retries if retention has dropped some
    /// meanwhile, which is rare.
    fn newest(&self, organization: &Identifier, offset: u64, limit: u64) -> Result<EventList, StoreError> {
        /// Retention drops many pages per batch, so it hardly interferes twice during one read.
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
        let archived: u64 =
            self.archives(organization).map(|archive| Ok(archive.head()?.len())).sum::<Result<_, StoreError>>()?;
        let total = in_journal + archived;
        let mut listed = EventList { events: Vec::new(), total };
        let mut end = next.saturating_sub(offset).max(first);
        let start = end.saturating_sub(limit).max(first);
        while end > start {
            let page = (end - 1) / PAGE_ENTRIES;
            // Retention has dropped the page meanwhile.
            let Some(bytes) = self.page_bytes(organization, page)? else { break };
            let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
            let wanted = page.numbered().filter(|(number, _)| (start..end).contains(number));
            for (number, entry) in wanted.rev() {
                listed.events.push(decoded(number, entry)?);
            }
            end = page.first.min(end - 1);
        }
        if offset.saturating_add(limit) > in_journal {
            let mut archive = ArchiveReader::new(self.archives(organization))?;
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

    /// Examines a few pages, beginning with number `from`; fewer if many events match.
    pub fn onwards(&self, organization: &Identifier, from: u64, filter: &Filter) -> Result<EventRange, StoreError> {
        /// Pages read per call: a quarter of a megabyte of typical events.
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
    Ok(event::decode(event.number, event.hash, &event.body)?)
}

fn is_wanted(entry: &EntryView<'_>, filter: &Filter) -> Result<bool, StoreError> {
    Ok(filter.wants(&event::decode_head(entry.body)?))
}

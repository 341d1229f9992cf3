//! An organization's events: read by number, listed newest first by page or ascending from a number, and archived.
//!
//! The archive keeps the security events of pages dropped by retention. Each class of an organization has a separate
//! list, in pages chained like those of a journal, so that a missing or changed event is detected.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::event::{self, EventId, RecordedEvent};
use super::filter::Filter;
use super::seal::{ArchiveSeal, AuditKey};
use domain::{Identifier, SecurityClass};
use store::journal::{self, Entry, EntryView, Hash, Head, PAGE_ENTRIES, Page, PageView};
use store::keys::{ARCHIVE_HEADS, ARCHIVE_PAGES, FIRST_EVENTS};
use store::record::{self, encode, records};
use store::{Batch, Sequence, Store, StoreError, for_each};

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

    /// Changes whenever a batch, which may contain an event, has become durable.
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

    /// The events from number `from` to the end of its page, ascending; empty only if there are none yet or they were
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

pub(super) fn unreadable(what: &str) -> StoreError {
    StoreError::Read(format!("{what} of a journal is malformed; run `lockkeeper audit verify` for details"))
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

/// Where a reader continues that has seen everything up to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    /// The number of the next event.
    Next(u64),
    /// The event is no longer kept, and perhaps later ones are not either.
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
            // Events archived since their page was read must not be listed twice.
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

    /// Reads only the pages with these numbers. Retries if retention has dropped some meanwhile, which is rare.
    fn newest(&self, organization: &Identifier, offset: u64, limit: u64) -> Result<EventList, StoreError> {
        /// Retention drops a whole batch of pages at a time, so it hardly interferes twice during one read.
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

records! {
    ArchiveHeadV1 = "end of an event archive",
}

/// An event in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArchivedEvent {
    pub number: u64,
    /// The hash of the previous event in the journal, on which its own hash depends.
    pub before: Hash,
    pub hash: Hash,
    pub body: Vec<u8>,
}

/// The range of one class: positions in the archive, which rise by one with each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArchiveHead {
    /// The first kept position.
    pub first: u64,
    pub next: u64,
    /// The hash of the last event in the archive.
    pub hash: Hash,
    /// Proves that a server with the audit key wrote it.
    pub mac: Option<Hash>,
}

#[derive(Serialize, Deserialize)]
struct ArchiveHeadV1 {
    first: u64,
    next: u64,
    hash: Hash,
    mac: Option<Hash>,
}

impl ArchivedEvent {
    pub fn is_genuine(&self) -> bool {
        journal::chained(&self.before, self.number, &self.body) == self.hash
    }

    pub fn encode(&self) -> Vec<u8> {
        [self.number.to_be_bytes().as_slice(), &self.before, &self.hash, &self.body].concat()
    }

    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let number = u64::from_be_bytes(bytes.split_off(..8)?.try_into().ok()?);
        let before = bytes.split_off(..32)?.try_into().ok()?;
        let hash = bytes.split_off(..32)?.try_into().ok()?;
        Some(Self { number, before, hash, body: bytes.to_vec() })
    }
}

impl ArchiveHead {
    pub fn origin(organization: &Identifier, class: SecurityClass) -> Self {
        let hash = journal::origin(&format!("{organization}/{class}"));
        Self { first: 0, next: 0, hash, mac: None }
    }

    pub fn seal(&self) -> ArchiveSeal<'_> {
        ArchiveSeal { first: self.first, next: self.next, hash: &self.hash }
    }

    pub fn len(&self) -> u64 {
        self.next.saturating_sub(self.first)
    }
}

impl Events {
    pub(super) fn archive_head(
        &self,
        organization: &Identifier,
        class: SecurityClass,
    ) -> Result<ArchiveHead, StoreError> {
        Ok(self.find_archive_head(organization, class)?.unwrap_or_else(|| ArchiveHead::origin(organization, class)))
    }

    pub(super) fn find_archive_head(
        &self,
        organization: &Identifier,
        class: SecurityClass,
    ) -> Result<Option<ArchiveHead>, StoreError> {
        let Some(bytes) = self.store.get(&head_key(organization, class))? else { return Ok(None) };
        let ArchiveHeadV1 { first, next, hash, mac } = record::decode(&bytes)?;
        Ok(Some(ArchiveHead { first, next, hash, mac }))
    }

    /// Stores a head for every class, so that a missing one must have been removed.
    pub(super) fn begin_archives(&self, organization: &Identifier, batch: &mut Batch) -> Result<(), StoreError> {
        for class in SecurityClass::ALL {
            let head = self.archive_head(organization, class)?;
            self.put_archive_head(organization, class, head, batch);
        }
        Ok(())
    }

    pub(super) fn archive_page(
        &self,
        organization: &Identifier,
        class: SecurityClass,
        page: u64,
    ) -> Result<Option<Page>, StoreError> {
        let bytes = self.store.get(&page_key(organization, class, page))?;
        bytes.map(|bytes| Page::decode(&bytes).ok_or_else(|| unreadable("a page of the archive"))).transpose()
    }

    /// The number of archived events.
    pub(super) fn archived(&self, organization: &Identifier) -> Result<u64, StoreError> {
        let heads = SecurityClass::ALL.iter().map(|class| self.archive_head(organization, *class));
        heads.map(|head| head.map(|head| head.len())).sum()
    }

    /// The archived event with this number.
    pub(super) fn archived_event(
        &self,
        organization: &Identifier,
        number: u64,
    ) -> Result<Option<ArchivedEvent>, StoreError> {
        for class in SecurityClass::ALL {
            let head = self.archive_head(organization, class)?;
            let (mut low, mut high) = (head.first / PAGE_ENTRIES, head.next.div_ceil(PAGE_ENTRIES));
            // Binary search for the last page whose first event is not after the number.
            while low < high {
                let middle = low + (high - low) / 2;
                let events = self.events_of_page(organization, class, middle)?;
                match events.iter().find(|event| event.number == number) {
                    Some(found) => return Ok(Some(found.clone())),
                    None if events.first().is_some_and(|first| first.number < number) => low = middle + 1,
                    None => high = middle,
                }
            }
        }
        Ok(None)
    }

    /// In ascending order; empty if the page was dropped.
    fn events_of_page(
        &self,
        organization: &Identifier,
        class: SecurityClass,
        page: u64,
    ) -> Result<Vec<ArchivedEvent>, StoreError> {
        let Some(page) = self.archive_page(organization, class, page)? else { return Ok(Vec::new()) };
        let events = page.entries.iter().map(|entry| ArchivedEvent::decode(&entry.body));
        events.collect::<Option<_>>().ok_or_else(|| unreadable("an event of the archive"))
    }

    /// Adds events in ascending order to the batch that drops them from the journal.
    pub(super) fn add_to_archive(
        &self,
        organization: &Identifier,
        class: SecurityClass,
        events: &[ArchivedEvent],
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        let mut head = self.archive_head(organization, class)?;
        let newest = head.next / PAGE_ENTRIES;
        let empty = |head: &ArchiveHead| Page { first: head.next, before: head.hash, entries: Vec::new() };
        let mut page = self.archive_page(organization, class, newest)?.unwrap_or_else(|| empty(&head));
        for event in events {
            let body = event.encode();
            head.hash = journal::chained(&head.hash, head.next, &body);
            page.entries.push(Entry { sequence: 0, hash: head.hash, body });
            head.next += 1;
            if head.next.is_multiple_of(PAGE_ENTRIES) {
                batch.put(page_key(organization, class, page.first / PAGE_ENTRIES), page.encode());
                page = empty(&head);
            }
        }
        if !page.entries.is_empty() {
            batch.put(page_key(organization, class, page.first / PAGE_ENTRIES), page.encode());
        }
        self.put_archive_head(organization, class, head, batch);
        Ok(())
    }

    /// Drops pages at the beginning, up to position `first`.
    pub(super) fn shorten_archive(
        &self,
        organization: &Identifier,
        class: SecurityClass,
        first: u64,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        let head = self.archive_head(organization, class)?;
        for page in head.first / PAGE_ENTRIES..first / PAGE_ENTRIES {
            batch.delete(page_key(organization, class, page));
        }
        self.put_archive_head(organization, class, ArchiveHead { first, ..head }, batch);
        Ok(())
    }

    /// Adds the MAC of this key.
    pub(super) fn put_archive_head(
        &self,
        organization: &Identifier,
        class: SecurityClass,
        head: ArchiveHead,
        batch: &mut Batch,
    ) {
        let mac = self.key.as_ref().map(|key| key.mac_of_archive(organization, class, &head.seal()));
        let ArchiveHead { first, next, hash, .. } = head;
        batch.put(head_key(organization, class), encode(&ArchiveHeadV1 { first, next, hash, mac }));
    }

    /// The archived events of an organization in all classes, newest first.
    fn newest_archived<'a>(&'a self, organization: &'a Identifier) -> Result<ArchiveReader<'a>, StoreError> {
        let classes = SecurityClass::ALL.iter().map(|class| {
            let head = self.archive_head(organization, *class)?;
            let (first, end) = (head.first / PAGE_ENTRIES, head.next.div_ceil(PAGE_ENTRIES));
            Ok(ClassReader { class: *class, first, end, unread: Vec::new() })
        });
        Ok(ArchiveReader { events: self, organization, classes: classes.collect::<Result<_, StoreError>>()? })
    }
}

/// Merges the classes by number.
pub(super) struct ArchiveReader<'a> {
    events: &'a Events,
    organization: &'a Identifier,
    classes: Vec<ClassReader>,
}

struct ClassReader {
    class: SecurityClass,
    first: u64,
    /// Pages from here on have been read.
    end: u64,
    /// The rest of the page read last, ascending.
    unread: Vec<ArchivedEvent>,
}

impl ArchiveReader<'_> {
    pub fn next(&mut self) -> Result<Option<ArchivedEvent>, StoreError> {
        for class in &mut self.classes {
            while class.unread.is_empty() && class.end > class.first {
                class.end -= 1;
                class.unread = self.events.events_of_page(self.organization, class.class, class.end)?;
            }
        }
        let newest = self.classes.iter_mut().max_by_key(|class| class.unread.last().map(|event| event.number));
        Ok(newest.and_then(|class| class.unread.pop()))
    }
}

/// `EA/{organization}/{class}/{page, inverted}`
pub(super) fn page_key(organization: &Identifier, class: SecurityClass, page: u64) -> Vec<u8> {
    let class = class.as_str().as_bytes();
    [ARCHIVE_PAGES, organization.as_str().as_bytes(), b"/", class, b"/", &(u64::MAX - page).to_be_bytes()].concat()
}

/// `EB/{organization}/{class}`
pub(super) fn head_key(organization: &Identifier, class: SecurityClass) -> Vec<u8> {
    [ARCHIVE_HEADS, organization.as_str().as_bytes(), b"/", class.as_str().as_bytes()].concat()
}

//! The archive: the security events of pages that retention has dropped. Each class of an organization has its own list,
//! in pages like those of a journal and chained like them, so that a missing or changed event is noticed.

use super::reading::{Events, unreadable};
use super::seal::ArchiveSeal;
use super::security::SecurityClass;
use domain::Identifier;
use serde::{Deserialize, Serialize};
use store::journal::{self, Entry, Hash, PAGE_ENTRIES, Page};
use store::record::{self, encode, records};
use store::{Batch, StoreError};

records! {
    ArchiveHeadV1 = "end of an event archive",
}

const PAGES: &[u8] = b"EA/";
const HEADS: &[u8] = b"EB/";

/// An event in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArchivedEvent {
    pub number: u64,
    /// The hash of the event before it in the journal, from which its own follows.
    pub before: Hash,
    pub hash: Hash,
    pub body: Vec<u8>,
}

/// The ends of one class: positions in the archive, which rise by one with each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArchiveHead {
    /// The first that is kept.
    pub first: u64,
    pub next: u64,
    /// Of the last event in the archive.
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

    /// Gives every class an end, so that from then on one that is missing has been removed.
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
            // The page is searched whose first event is the last that is not after the number.
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

    /// Ascending; empty if the page has been dropped.
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

    /// Adds events, ascending, in the batch that drops them from the journal.
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

    /// Drops pages from the beginning, up to position `first`.
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

    /// With the code of this key.
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

    /// The archived events of an organization, of all classes, newest first.
    pub(super) fn newest_archived<'a>(&'a self, organization: &'a Identifier) -> Result<ArchiveReader<'a>, StoreError> {
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
    /// Of the page that was read last, ascending.
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
    [PAGES, organization.as_str().as_bytes(), b"/", class, b"/", &(u64::MAX - page).to_be_bytes()].concat()
}

/// `EB/{organization}/{class}`
pub(super) fn head_key(organization: &Identifier, class: SecurityClass) -> Vec<u8> {
    [HEADS, organization.as_str().as_bytes(), b"/", class.as_str().as_bytes()].concat()
}

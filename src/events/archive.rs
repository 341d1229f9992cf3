//! The archive: security events from pages that retention has dropped. Each class of an organization has a separate
//! list, in pages chained like those of a journal, so that a missing or changed event is detected.

use super::event::unreadable;
use super::seal::{ArchiveHead, AuditKey};
use domain::{Identifier, SecurityClass};
use records::stored::{self, Stored};
use store::journal::{self, Entry, Hash, PAGE_ENTRIES, Page};
use store::keys::{ARCHIVE_HEADS, ARCHIVE_PAGES};
use store::record::encode;
use store::{Batch, Store, StoreError};

/// The archive of one class of an organization.
pub(super) struct Archive<'a> {
    pub store: &'a dyn Store,
    pub key: Option<&'a AuditKey>,
    pub organization: &'a Identifier,
    pub class: SecurityClass,
}

/// An event in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArchivedEvent {
    pub number: u64,
    /// The hash of the previous event in the journal, from which this event's own hash is computed.
    pub before: Hash,
    pub hash: Hash,
    pub body: Vec<u8>,
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

impl Archive<'_> {
    pub fn find_head(&self) -> Result<Option<ArchiveHead>, StoreError> {
        let bytes = self.store.get(&head_key(self.organization, self.class))?;
        bytes.map(|bytes| Ok(stored::read(&bytes)?)).transpose()
    }

    pub fn head(&self) -> Result<ArchiveHead, StoreError> {
        Ok(self.find_head()?.unwrap_or_else(|| ArchiveHead::origin(self.organization, self.class)))
    }

    /// Stores the head, with a MAC if there is an audit key.
    pub fn put_head(&self, head: ArchiveHead, batch: &mut Batch) {
        let mac = self.key.map(|key| key.mac_of_archive(self.organization, self.class, &head));
        batch.put(head_key(self.organization, self.class), encode(&ArchiveHead { mac, ..head }.to_form()));
    }

    pub fn page(&self, page: u64) -> Result<Option<Page>, StoreError> {
        let bytes = self.store.get(&page_key(self.organization, self.class, page))?;
        bytes.map(|bytes| Page::decode(&bytes).ok_or_else(|| unreadable("a page of the archive"))).transpose()
    }

    /// The events of a page in ascending order; empty if the page was dropped.
    fn events_of_page(&self, page: u64) -> Result<Vec<ArchivedEvent>, StoreError> {
        let Some(page) = self.page(page)? else { return Ok(Vec::new()) };
        let events = page.entries.iter().map(|entry| ArchivedEvent::decode(&entry.body));
        events.collect::<Option<_>>().ok_or_else(|| unreadable("an event of the archive"))
    }

    /// The event with this number.
    pub fn find(&self, number: u64) -> Result<Option<ArchivedEvent>, StoreError> {
        let head = self.head()?;
        let (mut low, mut high) = (head.first / PAGE_ENTRIES, head.next.div_ceil(PAGE_ENTRIES));
        // Binary search for the last page whose first event is not after the number.
        while low < high {
            let middle = low + (high - low) / 2;
            let events = self.events_of_page(middle)?;
            match events.iter().find(|event| event.number == number) {
                Some(found) => return Ok(Some(found.clone())),
                None if events.first().is_some_and(|first| first.number < number) => low = middle + 1,
                None => high = middle,
            }
        }
        Ok(None)
    }

    /// Adds events in ascending order to the batch that drops them from the journal.
    pub fn add(&self, events: &[ArchivedEvent], batch: &mut Batch) -> Result<(), StoreError> {
        let mut head = self.head()?;
        let empty = |head: &ArchiveHead| Page { first: head.next, before: head.hash, entries: Vec::new() };
        let mut put = |page: &Page| {
            batch.put(page_key(self.organization, self.class, page.first / PAGE_ENTRIES), page.encode());
        };
        let mut page = self.page(head.next / PAGE_ENTRIES)?.unwrap_or_else(|| empty(&head));
        for event in events {
            let body = event.encode();
            head.hash = journal::chained(&head.hash, head.next, &body);
            page.entries.push(Entry { sequence: 0, hash: head.hash, body });
            head.next += 1;
            if head.next.is_multiple_of(PAGE_ENTRIES) {
                put(&page);
                page = empty(&head);
            }
        }
        if !page.entries.is_empty() {
            put(&page);
        }
        self.put_head(head, batch);
        Ok(())
    }

    /// Drops pages at the beginning, up to position `first`.
    pub fn shorten(&self, first: u64, batch: &mut Batch) -> Result<(), StoreError> {
        let head = self.head()?;
        for page in head.first / PAGE_ENTRIES..first / PAGE_ENTRIES {
            batch.delete(page_key(self.organization, self.class, page));
        }
        self.put_head(ArchiveHead { first, ..head }, batch);
        Ok(())
    }
}

/// Reads the events of an organization's archives, newest first, merged by number.
pub(super) struct ArchiveReader<'a>(Vec<ClassReader<'a>>);

struct ClassReader<'a> {
    archive: Archive<'a>,
    first: u64,
    /// Pages from this one on have been read.
    end: u64,
    /// The unread rest of the current page, ascending.
    unread: Vec<ArchivedEvent>,
}

impl<'a> ArchiveReader<'a> {
    pub fn new(archives: impl Iterator<Item = Archive<'a>>) -> Result<Self, StoreError> {
        let classes = archives.map(|archive| {
            let head = archive.head()?;
            let (first, end) = (head.first / PAGE_ENTRIES, head.next.div_ceil(PAGE_ENTRIES));
            Ok(ClassReader { archive, first, end, unread: Vec::new() })
        });
        Ok(Self(classes.collect::<Result<_, StoreError>>()?))
    }

    pub fn next(&mut self) -> Result<Option<ArchivedEvent>, StoreError> {
        for class in &mut self.0 {
            while class.unread.is_empty() && class.end > class.first {
                class.end -= 1;
                class.unread = class.archive.events_of_page(class.end)?;
            }
        }
        let newest = self.0.iter_mut().max_by_key(|class| class.unread.last().map(|event| event.number));
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

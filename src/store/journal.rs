//! Journals: append-only lists. A batch contains the entries. Once the batch is durable, and its place in the order of
//! all batches is fixed, each entry gets its number and the hash that chains it to the previous entry.
//!
//! Entries are stored in pages of [`PAGE_ENTRIES`] consecutive numbers, under ordinary keys. A page is rewritten
//! whenever it grows. This is cheap: the redo log has only the entries, and the database gets only the last state of a
//! page that grew many times. Numbers and hashes follow from the order of the log, so a replay produces the same pages.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use ring::digest;
use sha2::{Digest, Sha256};

use super::batch::{Append, Batch, BatchRef, Key, Pair, key_of};
use super::contract::{StoreError, end_of_prefix};
use super::keys::{JOURNAL_HEADS, JOURNAL_PAGES};

/// Large enough for few page writes per entry, small enough to rewrite a page quickly.
pub const PAGE_ENTRIES: u64 = 32;

/// The prefix of the keys of all pages.
const VERSION: u8 = 1;
const HASH_BYTES: usize = 32;

pub type Hash = [u8; HASH_BYTES];

/// A stored page, read without copying its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageView<'a> {
    pub first: u64,
    pub before: &'a Hash,
    pub entries: Vec<EntryView<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryView<'a> {
    pub sequence: u64,
    pub hash: &'a Hash,
    pub body: &'a [u8],
}

/// The entries of one page, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The number of the first entry; numbers begin with 0.
    pub first: u64,
    /// The hash of the entry before the first.
    pub before: Hash,
    pub entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The sequence of the entry's batch.
    pub sequence: u64,
    pub hash: Hash,
    pub body: Vec<u8>,
}

/// The end of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of the next entry.
    pub next: u64,
    /// The hash of the last entry.
    pub hash: Hash,
}

/// `E/{journal}/{page, inverted}`: sorts newest first.
pub fn page_key(journal: &str, page: u64) -> Key {
    key_of(&[JOURNAL_PAGES, journal.as_bytes(), b"/", &(u64::MAX - page).to_be_bytes()])
}

/// The prefix of the keys of all pages of a journal.
pub fn pages_of(journal: &str) -> Key {
    key_of(&[JOURNAL_PAGES, journal.as_bytes(), b"/"])
}

/// The number of the page with this key.
pub fn page_of(key: &[u8]) -> Option<u64> {
    let (_, inverted) = key.split_last_chunk()?;
    Some(u64::MAX - u64::from_be_bytes(*inverted))
}

/// `EH/{journal}`
pub fn head_key(journal: &str) -> Key {
    key_of(&[JOURNAL_HEADS, journal.as_bytes()])
}

/// The hash before a journal's first entry. It differs per journal, so that no entry is valid in another journal.
pub fn origin(journal: &str) -> Hash {
    Sha256::new_with_prefix(b"lockkeeper journal ").chain_update(journal.as_bytes()).finalize().into()
}

pub fn chained(before: &Hash, number: u64, body: &[u8]) -> Hash {
    // ring needs a third fewer instructions on processors without SHA-256 instructions.
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(before);
    hash.update(&number.to_be_bytes());
    hash.update(body);
    hash.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

impl<'a> PageView<'a> {
    /// `None` if the bytes are not a page.
    pub fn decode(mut bytes: &'a [u8]) -> Option<PageView<'a>> {
        let [version] = *bytes.split_off(..1)? else { return None };
        if version != VERSION {
            return None;
        }
        let first = take_u64(&mut bytes)?;
        let before = take_hash(&mut bytes)?;
        let mut entries = Vec::with_capacity(PAGE_ENTRIES as usize);
        while !bytes.is_empty() {
            let sequence = take_u64(&mut bytes)?;
            let hash = take_hash(&mut bytes)?;
            let length = u32::from_be_bytes(bytes.split_off(..4)?.try_into().ok()?);
            let body = bytes.split_off(..length as usize)?;
            entries.push(EntryView { sequence, hash, body });
        }
        Some(PageView { first, before, entries })
    }

    /// The entries with their numbers.
    pub fn numbered(&self) -> impl DoubleEndedIterator<Item = (u64, &EntryView<'a>)> {
        self.entries.iter().enumerate().map(|(place, entry)| (self.first.saturating_add(place as u64), entry))
    }
}

impl Page {
    /// `None` if the bytes are not a page.
    pub fn decode(bytes: &[u8]) -> Option<Page> {
        let PageView { first, before, entries } = PageView::decode(bytes)?;
        let owned =
            |entry: EntryView<'_>| Entry { sequence: entry.sequence, hash: *entry.hash, body: entry.body.to_vec() };
        Some(Page { first, before: *before, entries: entries.into_iter().map(owned).collect() })
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        begin_page(&mut bytes, self.first, &self.before);
        for entry in &self.entries {
            write_entry(&mut bytes, entry.sequence, &entry.hash, &entry.body);
        }
        bytes
    }
}

impl Head {
    pub fn decode(mut bytes: &[u8]) -> Option<Head> {
        let head = Head { next: take_u64(&mut bytes)?, hash: *take_hash(&mut bytes)? };
        bytes.is_empty().then_some(head)
    }

    pub fn encode(&self) -> [u8; 8 + HASH_BYTES] {
        let mut bytes = [0; 8 + HASH_BYTES];
        bytes[..8].copy_from_slice(&self.next.to_be_bytes());
        bytes[8..].copy_from_slice(&self.hash);
        bytes
    }
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.split_off(..8)?.try_into().ok()?))
}

fn take_hash<'a>(bytes: &mut &'a [u8]) -> Option<&'a Hash> {
    bytes.split_off(..HASH_BYTES)?.try_into().ok()
}

/// Called with each journal and appended entry once it is durable. Must be fast: all commits wait for it.
pub type Appended = Arc<dyn Fn(&str, &[u8]) + Send + Sync>;

/// The durable state of all journals.
#[derive(Default)]
pub struct Journals {
    known: HashMap<Arc<str>, Journal, RandomState>,
    appended: Option<Appended>,
    /// The journals with new entries, and their changed pages. Fields, so that the buffers are reused.
    changed: Vec<Arc<str>>,
    pages: Batch,
}

#[derive(Debug)]
struct Journal {
    name: Arc<str>,
    head: Head,
    /// The stored bytes of the page that the next entry belongs to; empty for a new page.
    page: Vec<u8>,
    changed: bool,
}

impl Journals {
    /// Loads the journals of a database in their state after exactly the batches up to `applied`. The database may also
    /// contain any part of the batches that were being applied when the server ended. The returned batch removes that
    /// part, and replaying the log recreates it.
    ///
    /// Heads are left unchanged. The replay corrects a head that is ahead of its pages; a difference that remains is
    /// evidence of tampering with the journal.
    pub fn load(
        applied: u64,
        scan: impl Fn(&[u8], &[u8], usize) -> Result<Vec<Pair>, StoreError>,
    ) -> Result<(Journals, Batch), StoreError> {
        let mut surplus = Batch::default();
        let mut journals = Journals::default();
        let mut from = JOURNAL_PAGES.to_vec();
        let end = end_of_prefix(JOURNAL_PAGES);
        while let Some((key, value)) = scan(&from, &end, 1)?.pop() {
            let name = key
                .get(JOURNAL_PAGES.len()..key.len().saturating_sub(9))
                .and_then(|name| std::str::from_utf8(name).ok());
            let name = name.ok_or_else(|| unreadable("the key of a page of a journal"))?;
            let page = Page::decode(&value).ok_or_else(|| unreadable("a page of a journal"))?;
            let found = page.entries.len();
            match page.ending_by(name, applied) {
                Some((journal, kept)) => {
                    if kept < found {
                        surplus.put(&key, &journal.page);
                    }
                    from = end_of_prefix(&pages_of(name));
                    journals.known.insert(journal.name.clone(), journal);
                }
                // Every entry of this page is newer, so the journal ends in an older page or is empty.
                None => {
                    from = [key.as_slice(), &[0]].concat();
                    surplus.delete(key);
                }
            }
        }
        Ok((journals, surplus))
    }

    /// Sets the function to call with appended entries.
    pub fn on_append(&mut self, appended: Option<Appended>) {
        self.appended = appended;
    }

    /// Appends the entries of consecutive batches, beginning with sequence `first`. Returns the changed pages.
    pub fn extend<'a>(&mut self, first: u64, batches: impl Iterator<Item = BatchRef<'a>>) -> BatchRef<'_> {
        let Self { known, appended, changed, pages } = self;
        pages.clear();
        for (batch, sequence) in batches.zip(first..) {
            for Append { journal: name, body } in batch.appends() {
                let journal = match known.get_mut(name) {
                    Some(journal) => journal,
                    None => known.entry(name.into()).or_insert_with_key(Journal::new),
                };
                if !std::mem::replace(&mut journal.changed, true) {
                    changed.push(journal.name.clone());
                }
                if let Some(page) = journal.append(sequence, body) {
                    pages.put(page_key(name, page), &journal.page);
                    journal.page.clear();
                }
                if let Some(appended) = appended {
                    appended(name, body);
                }
            }
        }
        for name in changed.drain(..) {
            let Some(journal) = known.get_mut(&name) else { continue };
            journal.changed = false;
            if !journal.page.is_empty() {
                pages.put(page_key(&name, journal.head.next / PAGE_ENTRIES), &journal.page);
            }
            pages.put(head_key(&name), journal.head.encode());
        }
        pages.as_ref()
    }
}

impl Journal {
    fn new(name: &Arc<str>) -> Journal {
        Journal { name: name.clone(), head: Head { next: 0, hash: origin(name) }, page: Vec::new(), changed: false }
    }

    /// Returns the page number if the page is now full.
    fn append(&mut self, sequence: u64, body: &[u8]) -> Option<u64> {
        let Head { next: number, hash: before } = self.head;
        let hash = chained(&before, number, body);
        if self.page.is_empty() {
            self.begin_page();
        }
        write_entry(&mut self.page, sequence, &hash, body);
        self.head = Head { next: number + 1, hash };
        self.head.next.is_multiple_of(PAGE_ENTRIES).then_some(number / PAGE_ENTRIES)
    }

    fn begin_page(&mut self) {
        /// Fits a page of typical entries, so that the buffer rarely grows.
        const USUAL_BYTES: usize = 8 * 1024;
        self.page.shrink_to(USUAL_BYTES);
        self.page.reserve(USUAL_BYTES);
        begin_page(&mut self.page, self.head.next, &self.head.hash);
    }
}

fn begin_page(page: &mut Vec<u8>, first: u64, before: &Hash) {
    page.push(VERSION);
    page.extend_from_slice(&first.to_be_bytes());
    page.extend_from_slice(before);
}

fn write_entry(page: &mut Vec<u8>, sequence: u64, hash: &Hash, body: &[u8]) {
    page.extend_from_slice(&sequence.to_be_bytes());
    page.extend_from_slice(hash);
    page.extend_from_slice(&(body.len() as u32).to_be_bytes());
    page.extend_from_slice(body);
}

impl Page {
    /// The journal as of the sequence `applied` and the number of its entries in this page; `None` if all of them are
    /// later.
    fn ending_by(mut self, name: &str, applied: u64) -> Option<(Journal, usize)> {
        self.entries.retain(|entry| entry.sequence <= applied);
        let last = self.entries.last()?;
        let head = Head { next: self.first.saturating_add(self.entries.len() as u64), hash: last.hash };
        let beginning = Head { next: self.first, hash: self.before };
        let mut journal = Journal { name: name.into(), head: beginning, page: Vec::new(), changed: false };
        if !head.next.is_multiple_of(PAGE_ENTRIES) {
            journal.begin_page();
            for entry in &self.entries {
                write_entry(&mut journal.page, entry.sequence, &entry.hash, &entry.body);
            }
        }
        journal.head = head;
        Some((journal, self.entries.len()))
    }
}

fn unreadable(what: &str) -> StoreError {
    StoreError::Read(format!("{what} is malformed; restore a backup"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type EventData = BTreeMap<Vec<u8>, Vec<u8>>;

    fn apply(data: &mut EventData, batch: BatchRef<'_>) {
        for change in batch.changes() {
            match change.value {
                Some(value) => data.insert(change.key.to_vec(), value.to_vec()),
                None => data.remove(change.key),
            };
        }
    }

    fn load(data: &mut EventData, applied: u64) -> Journals {
        let scan = |from: &[u8], to: &[u8], limit: usize| {
            let range = data.range(from.to_vec()..to.to_vec());
            Ok(range.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
        };
        let (journals, surplus) = Journals::load(applied, scan).unwrap();
        apply(data, surplus.as_ref());
        journals
    }

    fn batch(appends: &[(u8, Vec<u8>)]) -> Batch {
        let mut batch = Batch::default();
        for (journal, body) in appends {
            batch.append(&format!("journal-{journal}"), body);
        }
        batch
    }

    #[test]
    fn entries_are_numbered_and_chained_in_the_order_of_the_log() {
        let mut data = EventData::new();
        let mut journals = Journals::default();
        for number in 0..PAGE_ENTRIES + 3 {
            let appended = batch(&[(1, vec![number as u8]), (2, vec![0])]);
            apply(&mut data, journals.extend(number + 1, [appended.as_ref()].into_iter()));
        }
        let head = Head::decode(&data[&*head_key("journal-1")]).unwrap();
        assert_eq!(head.next, PAGE_ENTRIES + 3);
        let mut before = origin("journal-1");
        let mut number = 0;
        for page in 0..2 {
            let found = Page::decode(&data[&*page_key("journal-1", page)]).unwrap();
            assert_eq!((found.first, found.before), (number, before));
            for entry in found.entries {
                assert_eq!((entry.sequence, &entry.body), (number + 1, &vec![number as u8]));
                assert_eq!(entry.hash, chained(&before, number, &entry.body));
                before = entry.hash;
                number += 1;
            }
        }
        assert_eq!((number, before), (head.next, head.hash));
        let newest = data.range(pages_of("journal-1").to_vec()..).next().unwrap().0;
        assert_eq!(page_of(newest), Some(1), "the newest page comes first");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn whatever_part_of_the_pages_reached_the_database_replaying_makes_the_same_ones_again(
            batches in prop::collection::vec(
                prop::collection::vec((0u8..3, prop::collection::vec(any::<u8>(), 0..4)), 0..12), 1..40),
            applied in any::<prop::sample::Index>(),
            written in prop::collection::vec(any::<bool>(), 64),
        ) {
            let batches: Vec<_> = batches.iter().map(|appends| batch(appends)).collect();
            let applied = applied.index(batches.len());
            let mut whole = EventData::new();
            let mut journals = Journals::default();
            let mut database = EventData::new();
            for (place, batch) in batches.iter().enumerate() {
                if place == applied {
                    database = whole.clone();
                }
                apply(&mut whole, journals.extend(place as u64 + 1, [batch.as_ref()].into_iter()));
            }
            let before = database.clone();
            // After a power cut, any part of the writes in progress may be in the database.
            for ((key, value), written) in whole.iter().zip(written.iter().cycle()) {
                if *written {
                    database.insert(key.clone(), value.clone());
                }
            }
            let mut journals = load(&mut database, applied as u64);
            let pages = |data: &EventData| data.iter().filter(|(key, _)| key.starts_with(JOURNAL_PAGES)).count();
            let kept = database.iter().filter(|(key, _)| key.starts_with(JOURNAL_PAGES)).all(|pair| before.get(pair.0) == Some(pair.1));
            prop_assert!(kept && pages(&database) == pages(&before), "what is beyond that is not there");
            apply(&mut database, journals.extend(applied as u64 + 1, batches[applied..].iter().map(Batch::as_ref)));
            prop_assert_eq!(database, whole);
        }

        #[test]
        fn decoding_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (Page::decode(&bytes), Head::decode(&bytes));
        }
    }
}

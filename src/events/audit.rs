//! Whether an organization's events are those that were recorded: each is chained to the one before by its hash, and the
//! journal has noted where it begins and ends.
//!
//! Whoever can write to the data directory can also make a new chain. A head that was noted elsewhere in time (an
//! [`Expectation`]) is no longer part of that one.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::event::EventId;
use super::reading::{Events, FIRSTS, unreadable};
use crate::domain::{Identifier, Malformed};
use crate::store::journal::{self, EntryView, Hash, Head, PAGE_ENTRIES, PageView};
use crate::store::{StoreError, end_of_prefix};

/// An event that somebody knows to have been there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expectation {
    pub number: u64,
    pub hash: Hash,
}

/// What became of an expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    There,
    Absent,
    /// Too old to be kept, so nobody can tell.
    NoLongerKept,
}

/// What was found in one organization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub organization: Identifier,
    /// The first number that should be there.
    pub first: u64,
    /// The number that the next event gets.
    pub next: u64,
    /// The last event as the chain has it.
    pub head: Option<Expectation>,
    /// The first thing that is wrong.
    pub fault: Option<Fault>,
    pub expected: Vec<(Expectation, Found)>,
}

/// What is wrong, at which event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub number: u64,
    pub wrong: Wrong,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// It and those up to this one are not there.
    Missing {
        last: u64,
    },
    /// What stands in its place belongs later.
    Removed,
    /// It stands where this one belongs.
    Moved {
        to: u64,
    },
    /// More events than were recorded stand here.
    Inserted,
    Changed,
    HashChanged,
    /// The page it lies in has no form of a page.
    Unreadable,
    /// The page it lies in is that of other events.
    Misplaced {
        says: u64,
    },
    /// The page it lies in does not go on where the one before ends.
    Unchained,
    /// It was written before the one in front of it.
    OutOfOrder,
    /// It is not among the numbers that the journal has noted.
    BeyondTheNotes,
    /// The journal has noted another last event.
    OtherHead,
    /// A server has found the journal cut or rewritten at its start, and noted where it had ended before.
    Lost {
        head: Expectation,
    },
}

impl Report {
    pub fn is_intact(&self) -> bool {
        self.fault.is_none() && self.expected.iter().all(|(_, found)| *found != Found::Absent)
    }

    pub fn events(&self) -> u64 {
        self.next.saturating_sub(self.first)
    }
}

/// Walks along the chain of one organization.
struct Walk<'a> {
    events: &'a Events,
    organization: &'a Identifier,
    first: u64,
    /// The next number, and the hash of the event before it.
    number: u64,
    before: Hash,
    sequence: u64,
    expected: Vec<(Expectation, Found)>,
}

impl Events {
    /// Every organization that anything is noted of.
    pub fn audited(&self) -> Result<BTreeSet<Identifier>, StoreError> {
        let mut found = BTreeSet::new();
        for (prefix, has_pages) in [(&*journal::head_key(""), false), (FIRSTS, false), (journal::PAGES, true)] {
            let (mut from, end) = (prefix.to_vec(), end_of_prefix(prefix));
            while let Some((key, _)) = self.store.scan(&from, &end, 1)?.pop() {
                let name = key[prefix.len()..].split(|byte| *byte == b'/').next().unwrap_or_default();
                let name = std::str::from_utf8(name).ok().and_then(|name| Identifier::parse(name).ok());
                let name = name.ok_or_else(|| unreadable("the name"))?;
                from = match has_pages {
                    true => end_of_prefix(&journal::pages_of(name.as_str())),
                    false => [key.as_slice(), &[0]].concat(),
                };
                found.insert(name);
            }
        }
        Ok(found)
    }

    /// Looks at all that is kept of an organization, from its beginning to the first thing that is wrong.
    pub fn audit(&self, organization: &Identifier, expected: &[Expectation]) -> Result<Report, StoreError> {
        let noted = self.store.get(&journal::head_key(organization.as_str()))?.and_then(|bytes| Head::decode(&bytes));
        let first = self.first(organization)?;
        let mut walk = Walk {
            events: self,
            organization,
            first,
            number: first,
            before: journal::origin(organization.as_str()),
            sequence: 0,
            expected: expected.iter().map(|expected| (*expected, Found::Absent)).collect(),
        };
        let lost = self.lost_heads(organization)?;
        let known = walk.expected.len();
        walk.expected.extend(lost.iter().map(|head| (*head, Found::Absent)));
        let fault = walk.chain(noted)?;
        let lost = walk.expected.split_off(known);
        let lost = lost.into_iter().find(|(_, found)| *found == Found::Absent).map(|(head, _)| head);
        let last = (walk.number > first).then(|| Expectation { number: walk.number - 1, hash: walk.before });
        Ok(Report {
            organization: organization.clone(),
            first,
            next: walk.number,
            head: last,
            fault: fault.or_else(|| lost.map(|head| Fault { number: head.number, wrong: Wrong::Lost { head } })),
            expected: walk.expected,
        })
    }
}

impl Walk<'_> {
    fn chain(&mut self, noted: Option<Head>) -> Result<Option<Fault>, StoreError> {
        let end = noted.map_or(0, |head| head.next);
        if let Some(number) = self.strayed(end)? {
            return Ok(Some(Fault { number, wrong: Wrong::BeyondTheNotes }));
        }
        if !self.first.is_multiple_of(PAGE_ENTRIES) {
            return Ok(Some(Fault { number: self.first, wrong: Wrong::BeyondTheNotes }));
        }
        while self.number < end {
            if let Some(fault) = self.page(end, noted)? {
                return Ok(Some(fault));
            }
        }
        let other_head = noted.is_some_and(|head| head.next == self.number && head.hash != self.before);
        Ok(other_head.then(|| Fault { number: end.saturating_sub(1), wrong: Wrong::OtherHead }))
    }

    /// A page that there should not be: before the beginning or beyond the end. Says which event it begins with.
    fn strayed(&self, end: u64) -> Result<Option<u64>, StoreError> {
        let (all, store) = (journal::pages_of(self.organization.as_str()), &self.events.store);
        let name = self.organization.as_str();
        // The newest comes first.
        let newest = store.scan(&all, &end_of_prefix(&all), 1)?.pop().and_then(|(key, _)| journal::page_of(&key));
        let too_old = match self.first / PAGE_ENTRIES {
            0 => None,
            oldest => store.scan(&journal::page_key(name, oldest - 1), &end_of_prefix(&all), 1)?.pop(),
        };
        let too_new = newest.filter(|newest| newest * PAGE_ENTRIES >= end);
        let too_old = too_old.and_then(|(key, _)| journal::page_of(&key));
        Ok(too_old.or(too_new).map(|page| page.saturating_mul(PAGE_ENTRIES)))
    }

    fn page(&mut self, end: u64, noted: Option<Head>) -> Result<Option<Fault>, StoreError> {
        let place = self.number / PAGE_ENTRIES;
        let full = ((place + 1) * PAGE_ENTRIES).min(end);
        let fault = |number, wrong| Ok(Some(Fault { number, wrong }));
        let Some(bytes) = self.events.page_bytes(self.organization, place)? else {
            return fault(self.number, Wrong::Missing { last: full - 1 });
        };
        let Some(page) = PageView::decode(&bytes) else { return fault(self.number, Wrong::Unreadable) };
        if page.first != self.number {
            return fault(self.number, Wrong::Misplaced { says: page.first });
        }
        // Of those before the beginning only this is left.
        if self.number == self.first && self.first > 0 {
            self.before = *page.before;
            self.meet(self.first - 1);
        }
        if *page.before != self.before {
            return fault(self.number, Wrong::Unchained);
        }
        for (place, entry) in page.entries.iter().enumerate() {
            let computed = journal::chained(&self.before, self.number, entry.body);
            if computed != *entry.hash {
                let follows = self.follower(&page.entries, place, noted)?;
                return fault(self.number, self.diagnosed(&page.entries, place, full, &computed, follows));
            }
            if self.number >= full {
                return fault(self.number, Wrong::BeyondTheNotes);
            }
            if entry.sequence < self.sequence {
                return fault(self.number, Wrong::OutOfOrder);
            }
            self.sequence = entry.sequence;
            self.before = computed;
            self.meet(self.number);
            self.number += 1;
        }
        if self.number < full {
            return fault(self.number, Wrong::Missing { last: full - 1 });
        }
        Ok(None)
    }

    /// Settles what is expected of an event, once the chain has come to it.
    fn meet(&mut self, number: u64) {
        for (expected, found) in &mut self.expected {
            if expected.number < number && *found == Found::Absent && number < self.first {
                *found = Found::NoLongerKept;
            }
            if expected.number == number && expected.hash == self.before {
                *found = Found::There;
            }
        }
    }

    /// What comes after an entry and tells of its hash: the next one, or the note of it where the page or the journal ends.
    fn follower<'e>(
        &self,
        entries: &'e [EntryView<'e>],
        place: usize,
        noted: Option<Head>,
    ) -> Result<Option<Follower<'e>>, StoreError> {
        if let Some(next) = entries.get(place + 1) {
            return Ok(Some(Follower::Entry(*next)));
        }
        let number = self.number + 1;
        if let Some(head) = noted.filter(|head| head.next == number) {
            return Ok(Some(Follower::Note(head.hash)));
        }
        let next = self.events.page_bytes(self.organization, number / PAGE_ENTRIES)?;
        let next = next.as_deref().and_then(PageView::decode).filter(|page| page.first == number);
        Ok(next.map(|page| Follower::Note(*page.before)))
    }

    /// What has been done to an entry whose hash is not the one that it should have.
    fn diagnosed(
        &self,
        entries: &[EntryView<'_>],
        place: usize,
        full: u64,
        computed: &Hash,
        follower: Option<Follower<'_>>,
    ) -> Wrong {
        let should_have = full - self.number + place as u64;
        let belongs_here =
            |entry: &EntryView<'_>| journal::chained(&self.before, self.number, entry.body) == *entry.hash;
        let follows = |hash: &Hash| follower.is_some_and(|follower| follower.follows(hash, self.number + 1));
        match (entries.len() as u64).cmp(&should_have) {
            std::cmp::Ordering::Less => Wrong::Removed,
            std::cmp::Ordering::Greater => Wrong::Inserted,
            std::cmp::Ordering::Equal => match entries.iter().skip(place + 1).position(belongs_here) {
                Some(later) => Wrong::Moved { to: self.number + 1 + later as u64 },
                None if !follows(entries[place].hash) && follows(computed) => Wrong::HashChanged,
                None => Wrong::Changed,
            },
        }
    }
}

#[derive(Clone, Copy)]
enum Follower<'a> {
    Entry(EntryView<'a>),
    Note(Hash),
}

impl Follower<'_> {
    fn follows(&self, hash: &Hash, number: u64) -> bool {
        match self {
            Follower::Entry(entry) => journal::chained(hash, number, entry.body) == *entry.hash,
            Follower::Note(noted) => noted == hash,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        match &self.wrong {
            Wrong::Missing { last } if *last == number => write!(f, "event {number} has been removed"),
            Wrong::Missing { last } => write!(f, "events {number} to {last} have been removed"),
            Wrong::Removed => write!(f, "event {number} has been removed, and a later one stands in its place"),
            Wrong::Moved { to } => write!(f, "event {number} has been moved to the place of event {to}"),
            Wrong::Inserted => write!(f, "what stands as event {number} has been inserted"),
            Wrong::Changed => write!(f, "event {number} has been changed"),
            Wrong::HashChanged => write!(f, "the hash of event {number} has been changed"),
            Wrong::Unreadable => write!(f, "the page of event {number} cannot be read"),
            Wrong::Misplaced { says } => {
                write!(f, "where event {number} should be stands the page that begins with event {says}")
            }
            Wrong::Unchained => write!(f, "event {number} does not follow the one before it"),
            Wrong::OutOfOrder => write!(f, "event {number} was written before the one in front of it"),
            Wrong::BeyondTheNotes => {
                write!(
                    f,
                    "event {number} is none of those that the journal has noted: it has been inserted, or a note changed"
                )
            }
            Wrong::OtherHead => write!(f, "the journal has noted another hash for its last event, {number}"),
            Wrong::Lost { head } => write!(
                f,
                "the journal once ended with {head}, which is no longer part of it: a server found that at its start"
            ),
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.number)?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Expectation {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        const WRONG: Malformed =
            Malformed("is no NUMBER:HASH, as an earlier run has printed it, and no EVENT_ID:HASH of an event");
        let (which, digits) = text.split_once(':').ok_or(WRONG)?;
        let by_id = which.parse::<EventId>().map(|id| id.number);
        let number = by_id.or_else(|_| which.parse()).map_err(|_| WRONG)?;
        let mut hash = Hash::default();
        if digits.len() != 2 * hash.len() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(WRONG);
        }
        for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| WRONG)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| WRONG)?;
        }
        Ok(Self { number, hash })
    }
}

//! The audit: checks that an organization's events are those that were recorded. Each event is chained to the previous
//! one by its hash, and the beginning and the end of the journal are stored separately from its pages. Heads that do
//! not match the pages of their journal are repaired.
//!
//! An attacker who can write to the data directory can forge a whole chain, but not its seals, which require the audit
//! key. The attacker can still restore a complete older state. A head that was noted elsewhere (an [`Expectation`])
//! reveals that, since it is missing from the older state.
//!
//! The server may be running. Events are only added at the end, so an audit reads the end once and ignores later
//! events: an event beyond that end is new if the stored end has moved past it. Retention drops events at the front; an
//! audit that finds a fault restarts if events were dropped meanwhile.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::audit_archive::ArchiveFault;
use super::audit_seals::SealCheck;
use super::event::{EventId, unreadable};
use super::journal::Events;
use super::seal::ArchiveHead;
use domain::{Identifier, Malformed, SecurityClass, read_hex};
use store::journal::{self, EntryView, Hash, Head, PAGE_ENTRIES, PageView};
use store::keys::{FIRST_EVENTS, JOURNAL_PAGES, LOST_HEADS, in_organization};
use store::{Batch, StoreError, commit_durably, end_of_prefix, next_piece};

pub use super::audit_seals::{SealFault, SealStatus};

/// How often an audit restarts because retention dropped events meanwhile. Events are dropped at the front, where an
/// audit begins, so one attempt is nearly always enough.
const ATTEMPTS_MAX: usize = 10;

/// An event that is known to have been recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expectation {
    pub number: u64,
    pub hash: Hash,
}

/// Whether an expected event was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectationStatus {
    Present,
    Absent,
    /// Older than the kept events, so its presence cannot be verified.
    NoLongerKept,
}

/// The result for one organization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditReport {
    pub organization: Identifier,
    /// The number of the first event that should be kept.
    pub first: u64,
    /// The number of the next event.
    pub next: u64,
    /// The last event of the chain, for later use as an expectation.
    pub head: Option<Expectation>,
    /// Number of archived security events.
    pub archived: u64,
    pub seals: SealStatus,
    /// The first fault.
    pub fault: Option<Fault>,
    pub expected: Vec<(Expectation, ExpectationStatus)>,
}

/// A fault, and the event at which it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub number: u64,
    pub kind: FaultKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// The events from this one to `last` are missing.
    Missing {
        last: u64,
    },
    /// A later event is in the event's place.
    Removed,
    /// This event is in the place of event `to`.
    Moved {
        to: u64,
    },
    /// The page has more events than were recorded.
    Inserted,
    Changed,
    HashChanged,
    /// The event's page is malformed.
    Unreadable,
    /// The event's page belongs to other events.
    Misplaced {
        says: u64,
    },
    /// The event's page does not continue the previous page.
    Unchained,
    /// The event was written before the previous event.
    OutOfOrder,
    /// The event's number is outside the stored range of the journal.
    BeyondTheNotes,
    /// The stored head is another event.
    OtherHead,
    /// A starting server found the journal truncated or rewritten, and kept its old head.
    Lost {
        head: Expectation,
    },
    Seal(SealFault),
    Archive(SecurityClass, ArchiveFault),
}

impl AuditReport {
    pub fn is_intact(&self) -> bool {
        self.fault.is_none() && self.expected.iter().all(|(_, found)| *found != ExpectationStatus::Absent)
    }

    pub fn events(&self) -> u64 {
        self.next.saturating_sub(self.first)
    }
}

/// A walk along the chain of one organization.
struct Walk<'a> {
    events: &'a Events,
    organization: &'a Identifier,
    first: u64,
    /// The number of the next event; `before` is the hash of the previous one.
    number: u64,
    before: Hash,
    sequence: u64,
    expected: Vec<(Expectation, ExpectationStatus)>,
    seals: SealCheck,
}

impl Events {
    /// All organizations with a journal or remains of one.
    pub fn audited(&self) -> Result<BTreeSet<Identifier>, StoreError> {
        let mut found = BTreeSet::new();
        for (prefix, has_pages) in [(&*journal::head_key(""), false), (FIRST_EVENTS, false), (JOURNAL_PAGES, true)] {
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

    /// Verifies all kept events of an organization, up to the first fault.
    pub fn audit(&self, organization: &Identifier, expected: &[Expectation]) -> Result<AuditReport, StoreError> {
        for _ in 0..ATTEMPTS_MAX {
            let kept = self.kept(organization)?;
            let report = self.audit_once(organization, expected)?;
            if report.is_intact() || self.kept(organization)? == kept {
                return Ok(report);
            }
        }
        Err(StoreError::Read("events were dropped again and again while they were verified; try again".to_owned()))
    }

    /// The state that retention changes.
    fn kept(&self, organization: &Identifier) -> Result<(u64, Vec<Option<ArchiveHead>>), StoreError> {
        let heads = self.archives(organization).map(|archive| archive.find_head());
        Ok((self.first(organization)?, heads.collect::<Result<_, _>>()?))
    }

    fn audit_once(&self, organization: &Identifier, expected: &[Expectation]) -> Result<AuditReport, StoreError> {
        // Seals are read before the end, so that the newest one is not beyond the end.
        let seals = self.seals(organization)?;
        let noted = self.store.get(&journal::head_key(organization.as_str()))?.and_then(|bytes| Head::decode(&bytes));
        let first = self.first(organization)?;
        let is_sealed = !seals.is_empty();
        let mut walk = Walk {
            events: self,
            organization,
            first,
            number: first,
            before: journal::origin(organization.as_str()),
            sequence: 0,
            expected: expected.iter().map(|expected| (*expected, ExpectationStatus::Absent)).collect(),
            seals: SealCheck::new(organization, self.key.as_ref(), seals),
        };
        let lost = self.lost_heads(organization)?;
        let known = walk.expected.len();
        walk.expected.extend(lost.iter().map(|head| (*head, ExpectationStatus::Absent)));
        let mut archived = 0;
        let mut archive_fault = None;
        for archive in self.archives(organization) {
            let audit = archive.audit(first, is_sealed, &mut |number, hash| walk.meet_archived(number, hash))?;
            archived += audit.events;
            let kind = |fault| FaultKind::Archive(archive.class, fault);
            archive_fault = archive_fault.or(audit.fault.map(|(number, fault)| Fault { number, kind: kind(fault) }));
        }
        let chain_fault = walk.chain(noted)?;
        let (seals, seal_fault) = walk.seals.finish(walk.number, chain_fault.is_none());
        let seal_fault = seal_fault.map(|(number, fault)| Fault { number, kind: FaultKind::Seal(fault) });
        let lost = walk.expected.split_off(known);
        let lost = lost.into_iter().find(|(_, found)| *found == ExpectationStatus::Absent);
        let lost = lost.map(|(head, _)| Fault { number: head.number, kind: FaultKind::Lost { head } });
        let fault = match (chain_fault, seal_fault) {
            (Some(chain), Some(seal)) if seal.number < chain.number => Some(seal),
            (Some(chain), _) => Some(chain),
            // A starting server has already located the fault.
            (None, seal) => lost.or(seal),
        };
        let last = (walk.number > first).then(|| Expectation { number: walk.number - 1, hash: walk.before });
        Ok(AuditReport {
            organization: organization.clone(),
            first,
            next: walk.number,
            head: last,
            archived,
            seals,
            // Archived events are older than those in the journal.
            fault: archive_fault.or(fault),
            expected: walk.expected,
        })
    }
}

impl Walk<'_> {
    fn chain(&mut self, noted: Option<Head>) -> Result<Option<Fault>, StoreError> {
        let end = noted.map_or(0, |head| head.next);
        if let Some(number) = self.strayed(end)? {
            return Ok(Some(Fault { number, kind: FaultKind::BeyondTheNotes }));
        }
        if !self.first.is_multiple_of(PAGE_ENTRIES) {
            return Ok(Some(Fault { number: self.first, kind: FaultKind::BeyondTheNotes }));
        }
        while self.number < end {
            next_piece()?;
            if let Some(fault) = self.page(end, noted)? {
                return Ok(Some(fault));
            }
        }
        let other_head = noted.is_some_and(|head| head.next == self.number && head.hash != self.before);
        Ok(other_head.then(|| Fault { number: end.saturating_sub(1), kind: FaultKind::OtherHead }))
    }

    /// Finds a page before the beginning or after the end of the journal. Returns the number of the page's first event.
    fn strayed(&self, end: u64) -> Result<Option<u64>, StoreError> {
        let (all, store) = (journal::pages_of(self.organization.as_str()), &self.events.store);
        let name = self.organization.as_str();
        // Pages are sorted newest first.
        let newest = store.scan(&all, &end_of_prefix(&all), 1)?.pop().and_then(|(key, _)| journal::page_of(&key));
        let too_old = match self.first / PAGE_ENTRIES {
            0 => None,
            oldest => store.scan(&journal::page_key(name, oldest - 1), &end_of_prefix(&all), 1)?.pop(),
        };
        let too_new = newest.map(|newest| newest.saturating_mul(PAGE_ENTRIES)).filter(|newest| *newest >= end);
        let too_new = match too_new {
            Some(newest) if self.is_new(newest)? => None,
            too_new => too_new,
        };
        let too_old = too_old.and_then(|(key, _)| journal::page_of(&key));
        Ok(too_old.map(|page| page.saturating_mul(PAGE_ENTRIES)).or(too_new))
    }

    /// Whether this event beyond the end was recorded after the end was read.
    fn is_new(&self, number: u64) -> Result<bool, StoreError> {
        let head = self.events.store.get(&journal::head_key(self.organization.as_str()))?;
        Ok(head.and_then(|bytes| Head::decode(&bytes)).is_some_and(|head| head.next > number))
    }

    /// Removes events of the newest page that were recorded after the end was read.
    fn without_new_ones(&self, page: &mut PageView<'_>, end: u64) -> Result<(), StoreError> {
        let next = page.first.saturating_add(page.entries.len() as u64);
        let is_newest = end < page.first.saturating_add(PAGE_ENTRIES);
        if is_newest && next > end && page.entries.len() as u64 <= PAGE_ENTRIES && self.is_new(next - 1)? {
            page.entries.truncate(usize::try_from(end.saturating_sub(page.first)).unwrap_or(usize::MAX));
        }
        Ok(())
    }

    fn page(&mut self, end: u64, noted: Option<Head>) -> Result<Option<Fault>, StoreError> {
        let place = self.number / PAGE_ENTRIES;
        let full = ((place + 1) * PAGE_ENTRIES).min(end);
        let fault = |number, kind| Ok(Some(Fault { number, kind }));
        let Some(bytes) = self.events.page_bytes(self.organization, place)? else {
            return fault(self.number, FaultKind::Missing { last: full - 1 });
        };
        let Some(mut page) = PageView::decode(&bytes) else { return fault(self.number, FaultKind::Unreadable) };
        if page.first != self.number {
            return fault(self.number, FaultKind::Misplaced { says: page.first });
        }
        self.without_new_ones(&mut page, end)?;
        // This hash is the only trace of the events before the beginning.
        if self.number == self.first && self.first > 0 {
            self.before = *page.before;
            self.meet(self.first - 1);
        }
        if *page.before != self.before {
            return fault(self.number, FaultKind::Unchained);
        }
        for (place, entry) in page.entries.iter().enumerate() {
            let computed = journal::chained(&self.before, self.number, entry.body);
            if computed != *entry.hash {
                let follows = self.follower(&page.entries, place, noted)?;
                return fault(self.number, self.diagnosed(&page.entries, place, full, &computed, follows));
            }
            if self.number >= full {
                return fault(self.number, FaultKind::BeyondTheNotes);
            }
            if entry.sequence < self.sequence {
                return fault(self.number, FaultKind::OutOfOrder);
            }
            self.sequence = entry.sequence;
            self.before = computed;
            self.meet(self.number);
            self.number += 1;
        }
        if self.number < full {
            return fault(self.number, FaultKind::Missing { last: full - 1 });
        }
        Ok(None)
    }

    /// Looks for expectations among the archived events, which are no longer in the journal.
    fn meet_archived(&mut self, number: u64, hash: &Hash) {
        for (expected, found) in &mut self.expected {
            if expected.number == number && expected.hash == *hash {
                *found = ExpectationStatus::Present;
            }
        }
    }

    /// Updates expectations and seals when the chain has reached an event.
    fn meet(&mut self, number: u64) {
        self.seals.meet(number, &self.before);
        for (expected, found) in &mut self.expected {
            if expected.number < number && *found == ExpectationStatus::Absent && number < self.first {
                *found = ExpectationStatus::NoLongerKept;
            }
            if expected.number == number && expected.hash == self.before {
                *found = ExpectationStatus::Present;
            }
        }
    }

    /// The record that confirms an entry's hash: the next entry, or the stored hash at the end of the page or journal.
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

    /// Determines the fault of an entry with a wrong hash.
    fn diagnosed(
        &self,
        entries: &[EntryView<'_>],
        place: usize,
        full: u64,
        computed: &Hash,
        follower: Option<Follower<'_>>,
    ) -> FaultKind {
        let should_have = full - self.number + place as u64;
        let belongs_here =
            |entry: &EntryView<'_>| journal::chained(&self.before, self.number, entry.body) == *entry.hash;
        let follows = |hash: &Hash| follower.is_some_and(|follower| follower.follows(hash, self.number + 1));
        match (entries.len() as u64).cmp(&should_have) {
            std::cmp::Ordering::Less => FaultKind::Removed,
            std::cmp::Ordering::Greater => FaultKind::Inserted,
            std::cmp::Ordering::Equal => match entries.iter().skip(place + 1).position(belongs_here) {
                Some(later) => FaultKind::Moved { to: self.number + 1 + later as u64 },
                None if !follows(entries[place].hash) && follows(computed) => FaultKind::HashChanged,
                None => FaultKind::Changed,
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
        match &self.kind {
            FaultKind::Missing { last } if *last == number => write!(f, "event {number} has been removed"),
            FaultKind::Missing { last } => write!(f, "events {number} to {last} have been removed"),
            FaultKind::Removed => write!(f, "event {number} has been removed, and a later one is in its place"),
            FaultKind::Moved { to } => write!(f, "event {number} has been moved to the place of event {to}"),
            FaultKind::Inserted => write!(f, "event {number} has been inserted"),
            FaultKind::Changed => write!(f, "event {number} has been changed"),
            FaultKind::HashChanged => write!(f, "the hash of event {number} has been changed"),
            FaultKind::Unreadable => write!(f, "the page of event {number} cannot be read"),
            FaultKind::Misplaced { says } => {
                write!(f, "the page of event {number} has been replaced by the page that begins with event {says}")
            }
            FaultKind::Unchained => write!(f, "event {number} does not follow the one before it"),
            FaultKind::OutOfOrder => write!(f, "event {number} was written before the one in front of it"),
            FaultKind::BeyondTheNotes => {
                write!(
                    f,
                    "event {number} is outside the stored beginning and end of the journal: it has been inserted, or those changed"
                )
            }
            FaultKind::OtherHead => {
                write!(f, "the stored head of the journal has another hash for its last event, {number}")
            }
            FaultKind::Seal(fault) => fault.write(number, f),
            FaultKind::Archive(class, fault) => {
                write!(f, "the archive of security events ({class}) {fault}, at or after event {number}")
            }
            FaultKind::Lost { head } => write!(
                f,
                "the journal once ended with {head}, which is no longer part of it; a server noticed that at its start"
            ),
        }
    }
}

impl SealFault {
    fn write(&self, number: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = |next: &u64| next.saturating_sub(1);
        match self {
            SealFault::Forged { next } => {
                write!(f, "the seal over events {number} to {} was not made with the key of this server", last(next))
            }
            SealFault::Removed { next } => {
                write!(f, "the seal before the one over events {number} to {} has been removed or replaced", last(next))
            }
            SealFault::Rewritten { next } => write!(
                f,
                "events {number} to {} do not match their seal: the chain was rewritten here, without the key of this server",
                last(next)
            ),
            SealFault::CutOff { next } => {
                write!(f, "events {number} to {} were sealed and have been removed", last(next))
            }
        }
    }
}

impl fmt::Display for ArchiveFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArchiveFault::NoEnd => "has been removed",
            ArchiveFault::Forged => "was not written with the key of this server",
            ArchiveFault::OtherEnd => "does not end where it should",
            ArchiveFault::Missing => "lacks events",
            ArchiveFault::Changed => "has an event that has been changed",
            ArchiveFault::OutOfOrder => "has an event in a wrong place",
        })
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
            Malformed("must be NUMBER:HASH, as printed by an earlier run, or EVENT_ID:HASH of an event");
        let (which, digits) = text.split_once(':').ok_or(WRONG)?;
        let by_id = which.parse::<EventId>().map(|id| id.number);
        let number = by_id.or_else(|_| which.parse()).map_err(|_| WRONG)?;
        let mut hash = Hash::default();
        if read_hex(digits, &mut hash) { Ok(Self { number, hash }) } else { Err(WRONG) }
    }
}

/// `EL/{organization}/{number of its next event}`: an earlier end of a journal.
/// More than honest causes explain; later ones add nothing to the evidence.
const LOST_HEADS_MAX: usize = 100;

impl Events {
    /// Sets every head to the end of its pages, and logs heads that did not match: the journal was truncated or
    /// rewritten, or damaged records of the redo log were discarded. The server continues from the pages, and keeps the
    /// old head as evidence. Called once at startup.
    pub async fn repair_heads(&self) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        for organization in self.audited()? {
            let key = journal::head_key(organization.as_str());
            let noted = self.store.get(&key)?.and_then(|bytes| Head::decode(&bytes));
            let found = self.head_of_pages(&organization)?;
            if noted == found {
                continue;
            }
            tracing::error!(
                %organization,
                noted = noted.map(|head| head.next),
                found = found.map(|head| head.next),
                "the events of an organization do not end where they should; run `lockkeeper audit verify` to see what is missing"
            );
            let lost = noted.filter(|head| head.next > 0);
            if let Some(lost) = lost.filter(|_| self.lost_heads(&organization).is_ok_and(|l| l.len() < LOST_HEADS_MAX))
            {
                let place = [&*lost_heads_of(&organization), &lost.next.to_be_bytes()].concat();
                batch.put(place, lost.encode());
            }
            match found {
                Some(head) => batch.put(key, head.encode()),
                None => batch.delete(key),
            }
        }
        commit_durably(&*self.store, batch).await
    }

    /// The head according to the newest page.
    fn head_of_pages(&self, organization: &Identifier) -> Result<Option<Head>, StoreError> {
        let pages = journal::pages_of(organization.as_str());
        let Some((_, bytes)) = self.store.scan(&pages, &end_of_prefix(&pages), 1)?.pop() else { return Ok(None) };
        let page = PageView::decode(&bytes).ok_or_else(|| unreadable("a page"))?;
        let next = page.first.saturating_add(page.entries.len() as u64);
        Ok(Some(Head { next, hash: page.entries.last().map_or(*page.before, |last| *last.hash) }))
    }

    /// The last events, according to heads that did not match.
    pub(super) fn lost_heads(&self, organization: &Identifier) -> Result<Vec<Expectation>, StoreError> {
        let prefix = lost_heads_of(organization);
        let found = self.store.scan(&prefix, &end_of_prefix(&prefix), LOST_HEADS_MAX)?;
        let heads = found.iter().map(|(_, bytes)| Head::decode(bytes).ok_or_else(|| unreadable("a lost end")));
        heads
            .map(|head| head.map(|head| Expectation { number: head.next.saturating_sub(1), hash: head.hash }))
            .collect()
    }
}

fn lost_heads_of(organization: &Identifier) -> Vec<u8> {
    in_organization(LOST_HEADS, organization.as_str())
}

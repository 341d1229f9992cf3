//! The audit of the archive: checks that the archived security events are those that were recorded.

use super::archive::{Archive, ArchivedEvent};
use super::seal::ArchiveHead;
use store::StoreError;
use store::journal::{self, Hash, PAGE_ENTRIES, Page};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFault {
    /// The archive's head is missing, and perhaps all of the archive.
    NoEnd,
    /// The archive's head was not written by a server with the audit key.
    Forged,
    /// The archive's events do not lead to its head.
    OtherEnd,
    /// A page is missing, or has too few or wrong events.
    Missing,
    /// An event differs from the recorded one.
    Changed,
    /// An event is not older than the next one, or than the events in the journal.
    OutOfOrder,
}

/// The result for one class.
pub(super) struct ArchiveAudit {
    pub events: u64,
    /// The fault, with the number of the last event before it.
    pub fault: Option<(u64, ArchiveFault)>,
}

impl Archive<'_> {
    /// Verifies the archive, and calls `meet` with the number and the hash of each event. `first` is the first number
    /// in the journal; `is_sealed` says whether a server that creates archives has run.
    pub(super) fn audit(
        &self,
        first: u64,
        is_sealed: bool,
        meet: &mut dyn FnMut(u64, &Hash),
    ) -> Result<ArchiveAudit, StoreError> {
        let Some(head) = self.find_head()? else {
            let fault = is_sealed.then_some((first, ArchiveFault::NoEnd));
            return Ok(ArchiveAudit { events: 0, fault });
        };
        let origin = ArchiveHead::origin(self.organization, self.class).hash;
        let mut walk = ArchiveWalk { head, origin, next: head.first, before: head.hash, number: None, first };
        let mut fault = None;
        while walk.next < head.next && fault.is_none() {
            fault = walk.page(self.page(walk.next / PAGE_ENTRIES)?.as_ref(), meet);
        }
        let at = walk.number.unwrap_or(first);
        if fault.is_none() && walk.before != head.hash {
            fault = Some(ArchiveFault::OtherEnd);
        }
        if fault.is_none() && self.key.is_some_and(|key| !key.made_archive(self.organization, self.class, &head)) {
            fault = Some(ArchiveFault::Forged);
        }
        Ok(ArchiveAudit { events: head.len(), fault: fault.map(|fault| (at, fault)) })
    }
}

struct ArchiveWalk {
    head: ArchiveHead,
    /// The hash before the first event of a class.
    origin: Hash,
    /// The next position.
    next: u64,
    before: Hash,
    /// The number of the last event.
    number: Option<u64>,
    first: u64,
}

impl ArchiveWalk {
    fn page(&mut self, page: Option<&Page>, meet: &mut dyn FnMut(u64, &Hash)) -> Option<ArchiveFault> {
        let end = (self.next / PAGE_ENTRIES + 1) * PAGE_ENTRIES;
        let Some(page) = page.filter(|page| page.first == self.next) else { return Some(ArchiveFault::Missing) };
        if self.next == self.head.first {
            // This hash is the only trace of the events before the beginning.
            self.before = if self.next == 0 { self.origin } else { page.before };
        }
        if page.before != self.before || page.entries.len() as u64 != end.min(self.head.next) - self.next {
            return Some(ArchiveFault::Missing);
        }
        for entry in &page.entries {
            let computed = journal::chained(&self.before, self.next, &entry.body);
            let event = ArchivedEvent::decode(&entry.body);
            let Some(event) = event.filter(|event| computed == entry.hash && event.is_genuine()) else {
                return Some(ArchiveFault::Changed);
            };
            if self.number.is_some_and(|before| before >= event.number) || event.number >= self.first {
                return Some(ArchiveFault::OutOfOrder);
            }
            (self.before, self.number) = (computed, Some(event.number));
            self.next += 1;
            meet(event.number, &event.hash);
        }
        None
    }
}

//! The audit of the archive: checks that the archived security events are those that were recorded.

use super::journal::{ArchiveHead, ArchivedEvent, Events};
use domain::{Identifier, SecurityClass};
use store::StoreError;
use store::journal::{self, Hash, PAGE_ENTRIES, Page};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFault {
    /// Its head is missing, and perhaps all of it.
    NoEnd,
    /// Its head was not written by a server with the audit key.
    Forged,
    /// Its events do not lead to its head.
    OtherEnd,
    /// A page is missing, or has too few or wrong events.
    Missing,
    /// An event differs from the recorded one.
    Changed,
    /// An event is not older than the next one, or than those in the journal.
    OutOfOrder,
}

/// The result for one class.
pub(super) struct ArchiveAudit {
    pub events: u64,
    /// The fault, with the number of the last event before it.
    pub fault: Option<(u64, ArchiveFault)>,
}

impl Events {
    /// Verifies the archive of one class, and calls `meet` with the number and the hash of each event. `first` is the
    /// first number in the journal; `is_sealed` says whether a server that creates archives has run.
    pub(super) fn audit_archive(
        &self,
        organization: &Identifier,
        class: SecurityClass,
        first: u64,
        is_sealed: bool,
        meet: &mut dyn FnMut(u64, &Hash),
    ) -> Result<ArchiveAudit, StoreError> {
        let found = self.find_archive_head(organization, class)?;
        let Some(head) = found else {
            let fault = is_sealed.then_some((first, ArchiveFault::NoEnd));
            return Ok(ArchiveAudit { events: 0, fault });
        };
        let mut walk = ArchiveWalk { next: head.first, before: head.hash, number: None, first };
        let mut fault = None;
        while walk.next < head.next && fault.is_none() {
            let page = self.archive_page(organization, class, walk.next / PAGE_ENTRIES)?;
            fault = walk.page(organization, class, head, page.as_ref(), meet);
        }
        let at = walk.number.unwrap_or(first);
        let is_genuine = |key: &super::AuditKey| {
            head.mac.is_some_and(|mac| key.made_archive(organization, class, &head.seal(), &mac))
        };
        if fault.is_none() && walk.before != head.hash {
            fault = Some(ArchiveFault::OtherEnd);
        }
        if fault.is_none() && self.key.as_ref().is_some_and(|key| !is_genuine(key)) {
            fault = Some(ArchiveFault::Forged);
        }
        Ok(ArchiveAudit { events: head.len(), fault: fault.map(|fault| (at, fault)) })
    }
}

struct ArchiveWalk {
    /// The next position.
    next: u64,
    before: Hash,
    /// The number of the last event.
    number: Option<u64>,
    first: u64,
}

impl ArchiveWalk {
    fn page(
        &mut self,
        organization: &Identifier,
        class: SecurityClass,
        head: ArchiveHead,
        page: Option<&Page>,
        meet: &mut dyn FnMut(u64, &Hash),
    ) -> Option<ArchiveFault> {
        let end = (self.next / PAGE_ENTRIES + 1) * PAGE_ENTRIES;
        let Some(page) = page.filter(|page| page.first == self.next) else { return Some(ArchiveFault::Missing) };
        // The only trace of the events before the beginning.
        match (self.next == head.first, self.next) {
            (true, 0) => self.before = ArchiveHead::origin(organization, class).hash,
            (true, _) => self.before = page.before,
            (false, _) => {}
        }
        if page.before != self.before || page.entries.len() as u64 != end.min(head.next) - self.next {
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

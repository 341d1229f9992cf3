//! Seals the ends of growing journals, separately from commits: one small batch per second, however many events there
//! are. After a kill, the next start seals the events of the last second.
//!
//! Also reseals with another audit key: each shard of a cluster has its own key, a data directory has one for all
//! organizations.

use std::collections::HashMap;

use super::event::unreadable;
use super::journal::Events;
use super::seal::{AuditKey, Seal, seal_key, seals_of};
use domain::Identifier;
use store::journal::{Hash, Head, PAGE_ENTRIES};
use store::{Batch, StoreError, commit_durably, end_of_prefix};

/// A seal that covers fewer events is replaced by the next one, so tampering is located to this many events or to one
/// second.
const EVENTS_PER_SEAL: u64 = PAGE_ENTRIES;
/// Old seals dropped per batch.
const DROPPED_AT_ONCE: usize = 1_024;

pub struct Sealer {
    events: Events,
    key: AuditKey,
    newest: HashMap<Identifier, Newest>,
}

#[derive(Clone, Copy)]
struct Newest {
    seal: Seal,
    /// Whether the seal does not match its journal. It is then kept as evidence.
    is_evidence: bool,
}

impl Sealer {
    /// `None` without the audit key.
    pub fn new(events: Events) -> Option<Self> {
        Some(Self { key: events.key.clone()?, events, newest: HashMap::new() })
    }

    /// Seals the events recorded since the last call. Returns the number of new seals.
    pub async fn seal(&mut self) -> Result<usize, StoreError> {
        let (mut batch, mut made) = (Batch::default(), Vec::new());
        for (organization, head) in self.events.heads()? {
            let last = match self.newest.get(&organization) {
                Some(known) => Some(*known),
                None => self.load(&organization)?,
            };
            if last.is_some_and(|last| last.seal.next >= head.next) {
                self.newest.extend(last.map(|last| (organization, last)));
                continue;
            }
            let (seal, replaced) = following(&self.key, &organization, last, head);
            if last.is_none() {
                // Every class gets a head, so that a missing head must have been removed.
                for archive in self.events.archives(&organization) {
                    archive.put_head(archive.head()?, &mut batch);
                }
            }
            if let Some(replaced) = replaced {
                batch.delete(seal_key(&organization, replaced));
            }
            batch.put(seal_key(&organization, seal.next), seal.encode());
            made.push((organization, Newest { seal, is_evidence: false }));
        }
        commit_durably(&*self.events.store, batch).await?;
        let count = made.len();
        self.newest.extend(made);
        Ok(count)
    }

    /// Loads the newest stored seal and checks whether it still matches the journal. Called once, at startup.
    fn load(&self, organization: &Identifier) -> Result<Option<Newest>, StoreError> {
        let Some(seal) = self.events.newest_seal(organization)? else { return Ok(None) };
        let matches = self.events.matches(organization, &seal)? && self.key.made(organization, &seal);
        if !matches {
            tracing::error!(
                %organization,
                event = seal.next.saturating_sub(1),
                "the events of an organization do not match their seal; run `lockkeeper audit verify` to see where they were changed"
            );
        }
        Ok(Some(Newest { seal, is_evidence: !matches }))
    }
}

/// The next seal, and the `next` of the seal that it replaces.
fn following(key: &AuditKey, organization: &Identifier, last: Option<Newest>, head: Head) -> (Seal, Option<u64>) {
    let Head { next, hash } = head;
    match last {
        None => (key.seal(organization, next, next, hash, Hash::default()), None),
        Some(Newest { seal: last, is_evidence: false })
            if last.since < last.next && next - last.since <= EVENTS_PER_SEAL =>
        {
            (key.seal(organization, last.since, next, hash, last.before), Some(last.next))
        }
        Some(Newest { seal: last, .. }) => (key.seal(organization, last.next, next, hash, last.mac), None),
    }
}

impl Events {
    fn newest_seal(&self, organization: &Identifier) -> Result<Option<Seal>, StoreError> {
        let prefix = seals_of(organization);
        let found = self.store.scan(&prefix, &end_of_prefix(&prefix), 1)?.pop();
        found.map(|(_, bytes)| Ok(Seal::decode(&bytes)?)).transpose()
    }

    /// Whether the journal still has the event that the seal ends with, or has dropped it.
    fn matches(&self, organization: &Identifier, seal: &Seal) -> Result<bool, StoreError> {
        let Some(last) = seal.next.checked_sub(1) else { return Ok(true) };
        if last < self.first(organization)? {
            return Ok(true);
        }
        let events = self.read(organization, last)?;
        Ok(events.first().is_some_and(|event| event.id.number == last && event.hash == seal.hash))
    }

    /// An organization's seals, oldest first.
    pub(super) fn seals(&self, organization: &Identifier) -> Result<Vec<Seal>, StoreError> {
        let mut seals = Vec::new();
        store::for_each(&*self.store, &seals_of(organization), |_, bytes| {
            seals.push(Seal::decode(bytes).map_err(|_| unreadable("a seal"))?);
            Ok(())
        })?;
        seals.reverse();
        Ok(seals)
    }

    /// Drops the seals of events before `first`, except the newest, to which later seals are chained.
    pub(super) fn drop_seals(
        &self,
        organization: &Identifier,
        first: u64,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        let end = end_of_prefix(&seals_of(organization));
        let old = self.store.scan(&seal_key(organization, first), &end, DROPPED_AT_ONCE)?;
        old.into_iter().skip(1).for_each(|(key, _)| batch.delete(key));
        Ok(())
    }
}

impl Events {
    /// Remakes the seals and archive heads made with the current key, with the key `to`. Seals made with another key,
    /// or unreadable, stay unchanged as evidence.
    pub fn resealed(&self, to: &AuditKey) -> Result<Batch, StoreError> {
        let mut batch = Batch::default();
        let Some(from) = &self.key else { return Ok(batch) };
        let other = self.clone().with_key(to.clone());
        for organization in self.audited()? {
            let seals = self.seals(&organization).unwrap_or_default();
            for seal in anew(&organization, &seals, from, to) {
                batch.put(seal_key(&organization, seal.next), seal.encode());
            }
            for archive in other.archives(&organization) {
                if let Ok(Some(head)) = archive.find_head()
                    && from.made_archive(&organization, archive.class, &head)
                {
                    archive.put_head(head, &mut batch);
                }
            }
        }
        Ok(batch)
    }
}

/// The remade seals of an organization, oldest first. Each contains the MAC of the previous one, which has changed too.
fn anew(organization: &Identifier, seals: &[Seal], from: &AuditKey, to: &AuditKey) -> Vec<Seal> {
    let mut before: Option<(Hash, Hash)> = None;
    let anew = |seal: &Seal| {
        let named = before.filter(|(old, _)| *old == seal.before).map_or(seal.before, |(_, new)| new);
        let new = match from.made(organization, seal) {
            true => to.seal(organization, seal.since, seal.next, seal.hash, named),
            false => *seal,
        };
        before = Some((seal.mac, new.mac));
        new
    };
    seals.iter().map(anew).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::audit_seals::{SealCheck, SealFault};

    fn acme() -> Identifier {
        Identifier::parse("acme").unwrap()
    }

    fn sealed(key: &AuditKey) -> Vec<Seal> {
        let mut seals = vec![key.seal(&acme(), 5, 5, [5; 32], [0; 32])];
        for next in [37, 69, 101] {
            let last = *seals.last().unwrap();
            seals.push(key.seal(&acme(), last.next, next, [1; 32], last.mac));
        }
        seals
    }

    fn fault(key: &AuditKey, seals: Vec<Seal>) -> Option<SealFault> {
        SealCheck::new(&acme(), Some(key), seals).finish(101, true).1.map(|(_, fault)| fault)
    }

    #[test]
    fn genuine_seals_are_genuine_under_the_other_key_too() {
        let [from, to] = [(); 2].map(|()| AuditKey::generate());
        let seals = sealed(&from);
        assert!(fault(&from, seals.clone()).is_none() && fault(&to, seals.clone()).is_some());
        let other = anew(&acme(), &seals, &from, &to);
        assert_eq!(fault(&to, other.clone()), None);
        assert!(
            other
                .iter()
                .zip(&seals)
                .all(|(new, old)| (new.since, new.next, new.hash) == (old.since, old.next, old.hash))
        );
        // This also holds if the first seals were dropped with their events.
        assert_eq!(fault(&to, anew(&acme(), &seals[2..], &from, &to)), None);
    }

    #[test]
    fn a_forged_or_missing_seal_is_still_found() {
        let [from, to] = [(); 2].map(|()| AuditKey::generate());
        let seals = sealed(&from);
        let mut forged = seals.clone();
        forged[1].hash = [9; 32];
        assert!(matches!(fault(&to, anew(&acme(), &forged, &from, &to)), Some(SealFault::Forged { next: 37 })));
        let mut missing = seals;
        missing.remove(2);
        assert!(matches!(fault(&to, anew(&acme(), &missing, &from, &to)), Some(SealFault::Removed { next: 101 })));
    }
}

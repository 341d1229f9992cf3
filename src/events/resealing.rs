//! Seals under another audit key: the shards of a cluster have one each, and a data directory has one for all.

use super::reading::Events;
use super::seal::{AuditKey, Seal, seal_key};
use super::security::SecurityClass;
use domain::Identifier;
use store::journal::Hash;
use store::{Batch, StoreError};

impl Events {
    /// The seals and the ends of archives that were made with the key of these events, made with `to`. Whatever that key has
    /// not made, or cannot be read, stays as it is: it is evidence.
    pub fn resealed(&self, to: &AuditKey) -> Result<Batch, StoreError> {
        let mut batch = Batch::default();
        let Some(from) = &self.key else { return Ok(batch) };
        let other = self.clone().with_key(to.clone());
        for organization in self.audited()? {
            let seals = self.seals(&organization).unwrap_or_default();
            for seal in anew(&organization, &seals, from, to) {
                batch.put(seal_key(&organization, seal.next), seal.encode());
            }
            for class in SecurityClass::ALL {
                let Ok(Some(head)) = self.find_archive_head(&organization, class) else { continue };
                if head.mac.is_some_and(|mac| from.made_archive(&organization, class, &head.seal(), &mac)) {
                    other.put_archive_head(&organization, class, head, &mut batch);
                }
            }
        }
        Ok(batch)
    }
}

/// The seals of an organization, oldest first. Each names the code of the one before it, which has changed too.
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
        // Also where the first ones were dropped with their events.
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

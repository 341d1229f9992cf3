//! Checks the seals while walking the chain. Whether a seal matches the chain can be checked without the audit key;
//! whether the seal is genuine only with the key.

use super::seal::{AuditKey, Seal};
use domain::Identifier;
use store::journal::Hash;

/// What the seals prove about the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealStatus {
    /// There are no seals: no server that creates them has run on this data directory yet.
    None,
    /// The seals match the chain, but may be forged, since there is no audit key to check them.
    Unchecked,
    /// The seals are genuine, from the first, made when `from` was the number of the next event, to the last.
    Checked { from: u64, next: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SealFault {
    /// The seal that ends with the event before `next` was not made with the audit key.
    Forged { next: u64 },
    /// A seal is missing before the one that ends with the event before `next`.
    Removed { next: u64 },
    /// The events up to the one before `next` are not those that were sealed.
    Rewritten { next: u64 },
    /// The journal ends here, but the events up to the one before `next` were sealed.
    CutOff { next: u64 },
}

pub(super) struct SealCheck {
    seals: Vec<Seal>,
    has_key: bool,
    /// The index of the first seal that the walk has not reached.
    place: usize,
    /// The first fault, with its event.
    fault: Option<(u64, SealFault)>,
}

impl SealCheck {
    /// `seals` are the organization's seals, oldest first.
    pub fn new(organization: &Identifier, key: Option<&AuditKey>, seals: Vec<Seal>) -> Self {
        let mut check = Self { has_key: key.is_some(), place: 0, fault: None, seals: Vec::new() };
        let mut before: Option<Seal> = None;
        for seal in &seals {
            let number = seal.since.min(seal.next.saturating_sub(1));
            if key.is_some_and(|key| !key.made(organization, seal)) {
                check.note(number, SealFault::Forged { next: seal.next });
            }
            if before.is_some_and(|before| before.mac != seal.before || before.next != seal.since) {
                check.note(number, SealFault::Removed { next: seal.next });
            }
            before = Some(*seal);
        }
        Self { seals, ..check }
    }

    /// Called when the chain has reached an event.
    pub fn meet(&mut self, number: u64, hash: &Hash) {
        while let Some(seal) = self.seals.get(self.place).copied().filter(|seal| seal.next <= number + 1) {
            self.place += 1;
            if seal.next == number + 1 && seal.hash != *hash {
                self.note(seal.since.min(number), SealFault::Rewritten { next: seal.next });
            }
        }
    }

    /// Called when the walk has ended before event `end`; `whole` if that is the end of the journal.
    pub fn finish(mut self, end: u64, whole: bool) -> (SealStatus, Option<(u64, SealFault)>) {
        if let Some(last) = self.seals.last().copied().filter(|last| whole && last.next > end) {
            self.note(end, SealFault::CutOff { next: last.next });
        }
        let status = match (self.seals.first(), self.seals.last()) {
            (Some(_), Some(_)) if !self.has_key => SealStatus::Unchecked,
            (Some(first), Some(last)) => SealStatus::Checked { from: first.since, next: last.next },
            _ => SealStatus::None,
        };
        (status, self.fault)
    }

    fn note(&mut self, number: u64, fault: SealFault) {
        if self.fault.as_ref().is_none_or(|(first, _)| number < *first) {
            self.fault = Some((number, fault));
        }
    }
}

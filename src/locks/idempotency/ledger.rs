//! The number of answers of each organization, and whether it may store another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;

use super::answer;
use domain::{IdSeed, Identifier};
use shares::{Capacity, ShareMeter, may_grow};
use store::keys::ANSWERS_IN_ORDER;
use store::{Store, StoreError, end_of_prefix, for_each};

/// The answers of one organization.
pub(super) struct Ledger {
    pub organization: Identifier,
    pub index: Vec<u8>,
    /// The number of the next answer. Answers that the store refused leave gaps.
    pub next_number: AtomicU64,
    /// The number of index entries, or a few more: answers that the store refused are counted until the next recount.
    kept: AtomicU64,
}

pub(super) struct Ledgers {
    pub keys_max: u64,
    of_organizations: DashMap<Identifier, Arc<Ledger>>,
    /// The number of entries in all ledgers.
    total: AtomicU64,
    meter: ShareMeter,
}

impl Ledgers {
    pub fn open(store: &dyn Store, keys_max: u64) -> Result<Self, StoreError> {
        let (of_organizations, mut total) = (DashMap::new(), 0);
        let mut from = ANSWERS_IN_ORDER.to_vec();
        while let Some((key, _)) = store.scan(&from, &end_of_prefix(ANSWERS_IN_ORDER), 1)?.first() {
            let organization = answer::organization_of(key).ok_or_else(unreadable)?;
            let ledger = Ledger::open(store, organization.clone())?;
            from = end_of_prefix(&ledger.index);
            total += ledger.kept();
            of_organizations.insert(organization, Arc::new(ledger));
        }
        let meter = ShareMeter::new("idempotency_keys", Capacity::turns(keys_max as usize).among(1));
        Ok(Self { keys_max, of_organizations, total: AtomicU64::new(total), meter })
    }

    pub fn of(&self, organization: &Identifier) -> Arc<Ledger> {
        if let Some(known) = self.of_organizations.get(organization) {
            return known.clone();
        }
        let entry = self.of_organizations.entry(organization.clone());
        entry.or_insert_with(|| Arc::new(Ledger::new(organization.clone()))).clone()
    }

    /// In no particular order.
    pub fn all(&self) -> Vec<Arc<Ledger>> {
        self.of_organizations.iter().map(|entry| entry.value().clone()).collect()
    }

    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Shows operators the organizations with many answers.
    pub fn show(&self) {
        for ledger in &self.of_organizations {
            self.meter.used(ledger.key(), ledger.kept() as usize);
        }
    }

    /// Whether the organization may have another answer.
    pub fn has_room(&self, ledger: &Ledger) -> bool {
        let total = self.total();
        let has_room =
            total < self.keys_max || may_grow(self.keys_max, total, ledger.kept(), self.of_organizations.len());
        if !has_room {
            self.meter.refused(&ledger.organization);
        }
        has_room
    }

    /// Counts an answer and returns its number.
    pub fn add(&self, ledger: &Ledger) -> u64 {
        self.total.fetch_add(1, Ordering::Relaxed);
        ledger.kept.fetch_add(1, Ordering::Relaxed);
        ledger.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Called when this many entries have been dropped.
    pub fn subtract(&self, ledger: &Ledger, entries: u64) {
        self.correct(ledger, |kept| kept.saturating_sub(entries));
    }

    /// Corrects the ledger: there were `counted` entries when it said `kept`.
    pub fn recounted(&self, ledger: &Ledger, kept: u64, counted: u64) {
        self.correct(ledger, |now| (now + counted).saturating_sub(kept));
    }

    /// Keeps the total equal to the sum of all ledgers.
    fn correct(&self, ledger: &Ledger, correction: impl Fn(u64) -> u64) {
        let corrected = ledger.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |kept| Some(correction(kept)));
        let before = corrected.unwrap_or_else(|unchanged| unchanged);
        // A subtraction wraps around, and the addition wraps back.
        self.total.fetch_add(correction(before).wrapping_sub(before), Ordering::Relaxed);
    }
}

/// Visits the scope of every recorded answer, with its organization.
pub fn indexed_scopes(store: &dyn Store, mut visit: impl FnMut(IdSeed, Identifier)) -> Result<(), StoreError> {
    for_each(store, ANSWERS_IN_ORDER, |key, record_key| {
        let (organization, scope) = (answer::organization_of(key), answer::scope_of(record_key));
        visit(scope.ok_or_else(unreadable)?, organization.ok_or_else(unreadable)?);
        Ok(())
    })
}

impl Ledger {
    fn new(organization: Identifier) -> Self {
        let index = answer::index_of(&organization);
        Self { organization, index, next_number: AtomicU64::new(0), kept: AtomicU64::new(0) }
    }

    fn open(store: &dyn Store, organization: Identifier) -> Result<Self, StoreError> {
        let ledger = Self::new(organization);
        let next = next_number(store, &ledger.index)?;
        let oldest = match store.scan(&ledger.index, &end_of_prefix(&ledger.index), 1)?.first() {
            Some((key, _)) => answer::number_of(&ledger.index, key).ok_or_else(unreadable)?,
            None => next,
        };
        Ok(Self { next_number: AtomicU64::new(next), kept: AtomicU64::new(next - oldest), ..ledger })
    }

    pub fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }
}

/// The number after the last in the index, by binary search, since the index may be long.
fn next_number(store: &dyn Store, index: &[u8]) -> Result<u64, StoreError> {
    let end = end_of_prefix(index);
    // Invariant: the entry before `next` exists, unless that is 0, and no entry from `unused` on exists.
    let (mut next, mut unused) = (0, u64::MAX);
    while next < unused {
        let middle = next + (unused - next) / 2;
        match store.scan(&answer::index_key(index, middle), &end, 1)?.first() {
            Some((key, _)) => next = answer::number_of(index, key).ok_or_else(unreadable)?.saturating_add(1),
            None => unused = middle,
        }
    }
    Ok(next)
}

fn unreadable() -> StoreError {
    StoreError::Read("a key of the idempotency index is malformed".to_owned())
}

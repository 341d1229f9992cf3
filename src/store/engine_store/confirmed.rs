//! What the engine has confirmed, whole in memory, and why the store refuses.

use std::ops::Bound;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use crate::batch::{Changes, Pair};
use crate::contract::StoreError;
use crate::engine::{Pairs, Room};

#[derive(Default)]
pub struct Confirmed {
    pairs: RwLock<Pairs>,
    /// Why nothing is read or written any more.
    end: OnceLock<StoreError>,
    /// The engine has refused a transaction for want of room, and has taken none since.
    is_exhausted: AtomicBool,
    /// The engine is so full that nothing more should be handed in.
    is_full: AtomicBool,
    /// The engine says that it takes no more writes at all.
    says_exhausted: AtomicBool,
}

impl Confirmed {
    pub fn loaded(pairs: Pairs) -> Confirmed {
        Confirmed { pairs: RwLock::new(pairs), ..Confirmed::default() }
    }

    /// Takes the changes of a transaction, and calls `publish` before anybody can read them.
    pub fn apply(&self, changes: Changes, publish: impl FnOnce()) {
        let mut pairs = self.pairs.write();
        for (key, value) in changes {
            match value {
                Some(value) => pairs.insert(key, value),
                None => pairs.remove(&key),
            };
        }
        publish();
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.check_not_ended()?;
        Ok(self.pairs.read().get(key).cloned())
    }

    pub fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError> {
        self.check_not_ended()?;
        if from >= to {
            return Ok(Vec::new());
        }
        let pairs = self.pairs.read();
        let range = pairs.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        Ok(range.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// Refuses everything from now on.
    pub fn end(&self, why: StoreError) {
        // The first reason stays.
        self.end.set(why).ok();
    }

    pub fn set_exhausted(&self, is_exhausted: bool) {
        self.is_exhausted.store(is_exhausted, Ordering::Relaxed);
    }

    pub fn set_full(&self, room: Room) {
        self.is_full.store(room.is_full(), Ordering::Relaxed);
        self.says_exhausted.store(room.is_exhausted, Ordering::Relaxed);
    }

    /// Whether ends and removals are still taken when writes are refused: the engine keeps a fifth of its quota for them.
    pub fn takes_ends(&self) -> bool {
        let is_exhausted = self.is_exhausted.load(Ordering::Relaxed) || self.says_exhausted.load(Ordering::Relaxed);
        self.end.get().is_none() && !is_exhausted
    }

    pub fn refusing_writes(&self) -> Option<StoreError> {
        let is_full = self.is_full.load(Ordering::Relaxed) || self.is_exhausted.load(Ordering::Relaxed);
        self.end.get().cloned().or_else(|| is_full.then_some(StoreError::EngineFull))
    }

    fn check_not_ended(&self) -> Result<(), StoreError> {
        self.end.get().map_or(Ok(()), |why| Err(why.clone()))
    }
}

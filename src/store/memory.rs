//! A store in memory, for tests: commits are durable immediately, unless it is set to hold or refuse batches.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::batch::{Batch, Change, Pair, Sequence};
use super::contract::{Store, StoreError};
use super::journal::Journals;
use super::log::format::MAX_BATCH_BYTES;

#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    durable: watch::Sender<Sequence>,
}

#[derive(Default)]
struct State {
    data: BTreeMap<Vec<u8>, Vec<u8>>,
    waiting: VecDeque<Batch>,
    journals: Journals,
    last: u64,
    holding: bool,
    /// The reported applied sequence, if it stays behind the durable one.
    behind: Option<Sequence>,
    refusal: Option<StoreError>,
    /// Whether ends are still accepted, as on a disk that is full except for the reserve.
    takes_ends: bool,
    /// Number of refused commits.
    refused: u64,
}

impl MemoryStore {
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// From now on, batches are accepted but not made durable until released.
    pub fn hold(&self) {
        self.state.lock().holding = true;
    }

    /// Makes all held batches durable, and later ones immediately durable again.
    pub fn release(&self) {
        let mut state = self.state.lock();
        state.holding = false;
        while self.make_next_durable(&mut state) {}
    }

    /// Makes the oldest held batch durable; `false` if there was none.
    pub fn release_one(&self) -> bool {
        self.make_next_durable(&mut self.state.lock())
    }

    /// Sets whether the reported applied sequence stays unchanged from now on.
    pub fn fall_behind(&self, behind: bool) {
        self.state.lock().behind = behind.then(|| *self.durable.borrow());
    }

    /// Refuses every commit with this error, or with `None` accepts them again.
    pub fn refuse_with(&self, refusal: Option<StoreError>) {
        let mut state = self.state.lock();
        state.refusal = refusal;
        state.takes_ends = false;
    }

    /// Refuses every commit that may not use the reserve of a full disk with this error.
    pub fn refuse_all_but_ends(&self, refusal: StoreError) {
        let mut state = self.state.lock();
        state.refusal = Some(refusal);
        state.takes_ends = true;
    }

    /// Number of commits refused on request.
    pub fn refused(&self) -> u64 {
        self.state.lock().refused
    }

    /// The store after a power cut, with only the durable batches.
    pub fn crash(&self) -> MemoryStore {
        let state = self.state.lock();
        let durable = *self.durable.borrow();
        let data = state.data.clone();
        let journals = Journals::load(durable.0, |from, to, limit| Ok(pairs(&data, from, to, limit)));
        let (journals, _) = journals.expect("it has written the pages itself");
        let after = State { data, last: durable.0, journals, ..State::default() };
        MemoryStore { state: Mutex::new(after), durable: watch::Sender::new(durable) }
    }

    fn make_next_durable(&self, state: &mut State) -> bool {
        let Some(batch) = state.waiting.pop_front() else {
            return false;
        };
        let sequence = state.last - state.waiting.len() as u64;
        let State { journals, data, .. } = state;
        let pages = journals.extend(sequence, std::iter::once(batch.as_ref()));
        for Change { key, value } in batch.changes().chain(pages.changes()) {
            match value {
                Some(value) => data.insert(key.to_vec(), value.to_vec()),
                None => data.remove(key),
            };
        }
        // Sent under the lock, so that reads see everything published as durable.
        self.durable.send_replace(Sequence(sequence));
        true
    }
}

impl Store for MemoryStore {
    fn commit(&self, batch: Batch) -> Result<Sequence, StoreError> {
        let mut state = self.state.lock();
        if let Some(refusal) = state.refusal.as_ref().filter(|_| !(state.takes_ends && batch.may_use_reserve())) {
            let refusal = refusal.clone();
            state.refused += 1;
            return Err(refusal);
        }
        let bytes = batch.encoded_len();
        if bytes > MAX_BATCH_BYTES {
            return Err(StoreError::BatchTooLarge { bytes, limit: MAX_BATCH_BYTES });
        }
        state.last += 1;
        let sequence = Sequence(state.last);
        state.waiting.push_back(batch);
        if !state.holding {
            while self.make_next_durable(&mut state) {}
        }
        Ok(sequence)
    }

    fn durable(&self) -> watch::Receiver<Sequence> {
        self.durable.subscribe()
    }

    fn handed_in(&self) -> Sequence {
        Sequence(self.state.lock().last)
    }

    fn applied(&self) -> Sequence {
        self.state.lock().behind.unwrap_or_else(|| *self.durable.borrow())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state.lock().data.get(key).cloned())
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError> {
        if from >= to {
            return Ok(Vec::new());
        }
        Ok(pairs(&self.state.lock().data, from, to, limit))
    }

    fn refusing_writes(&self) -> Option<StoreError> {
        self.state.lock().refusal.clone()
    }
}

fn pairs(data: &BTreeMap<Vec<u8>, Vec<u8>>, from: &[u8], to: &[u8], limit: usize) -> Vec<Pair> {
    let range = data.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
    range.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::conformance::{self, Harness, commit_durably, put};

    struct InMemory;

    impl Harness for InMemory {
        type Store = MemoryStore;

        fn open(&mut self) -> MemoryStore {
            MemoryStore::new()
        }

        fn reopen(&mut self, store: MemoryStore) -> MemoryStore {
            store.crash()
        }

        fn crash(&mut self, store: MemoryStore) -> MemoryStore {
            store.crash()
        }
    }

    conformance::conformance_tests!(InMemory);

    #[test]
    fn what_is_held_is_not_read_and_does_not_survive() {
        let store = MemoryStore::new();
        commit_durably(&store, put("a", "1"));
        store.hold();
        assert_eq!(store.commit(put("a", "2")).unwrap(), Sequence(2));
        assert_eq!(store.commit(put("a", "3")).unwrap(), Sequence(3));
        assert_eq!((*store.durable().borrow(), store.handed_in()), (Sequence(1), Sequence(3)));
        assert_eq!(store.get(b"a").unwrap().unwrap(), b"1");
        assert!(store.release_one());
        assert_eq!((*store.durable().borrow(), store.get(b"a").unwrap().unwrap()), (Sequence(2), b"2".to_vec()));
        let after = store.crash();
        assert_eq!((after.handed_in(), after.get(b"a").unwrap().unwrap()), (Sequence(2), b"2".to_vec()));
        store.release();
        assert_eq!((*store.durable().borrow(), store.get(b"a").unwrap().unwrap()), (Sequence(3), b"3".to_vec()));
    }

    #[test]
    fn a_refusal_hands_nothing_in() {
        let store = MemoryStore::new();
        store.refuse_with(Some(StoreError::Overloaded));
        assert!(matches!(store.commit(put("a", "1")), Err(StoreError::Overloaded)));
        assert!(store.refusing_writes().is_some());
        store.refuse_with(None);
        assert_eq!(store.commit(put("a", "1")).unwrap(), Sequence(1));
    }
}

//! Applies changes to memory and the store in the same order: a writer decides on the newest state, durable or not,
//! commits its batch, and answers when the batch is durable.

use std::sync::Arc;

use parking_lot::Mutex;

use super::batch::{Batch, Sequence};
use super::contract::{Store, StoreError, durable_up_to};

/// The newest state, which may be ahead of the durable one. Its lock is held while the store and the state take a
/// change, but never while waiting for the disk: a cancelled caller cannot make the two diverge.
pub struct Ordered<S> {
    store: Arc<dyn Store>,
    newest: Mutex<Newest<S>>,
}

struct Newest<S> {
    state: S,
    last_change: Sequence,
}

/// Commits batches on behalf of the writer that holds the lock.
pub struct Committer<'a> {
    store: &'a dyn Store,
    last_change: &'a mut Sequence,
    refused: bool,
}

impl<S> Ordered<S> {
    pub fn new(store: Arc<dyn Store>, state: S) -> Self {
        Self { store, newest: Mutex::new(Newest { state, last_change: Sequence::default() }) }
    }

    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Changes the state with `decide`, and returns the result once the newest state is durable. A refusal waits too,
    /// because the state it is based on may not be durable yet; only an error of the store is returned immediately.
    /// `decide` must change the state only after the store has accepted the batch, so that a refused batch changes
    /// nothing.
    pub async fn change<T, E>(&self, decide: impl FnOnce(&mut S, &mut Committer<'_>) -> Result<T, E>) -> Result<T, E> {
        let (outcome, sequence, refused) = self.in_turn(decide);
        if !refused {
            self.durable(sequence).await;
        }
        outcome
    }

    /// Like `change` without the wait; also returns the sequence of the state's last change.
    pub fn decide<T>(&self, decide: impl FnOnce(&mut S, &mut Committer<'_>) -> T) -> (T, Sequence) {
        let (outcome, sequence, _) = self.in_turn(decide);
        (outcome, sequence)
    }

    /// The result of `look` on the newest state, once that state is durable.
    pub async fn read<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        let (found, sequence) = self.decide(|state, _| look(state));
        self.durable(sequence).await;
        found
    }

    /// Reads the newest state, or changes parts that are not in the store.
    pub fn with_newest<T>(&self, look: impl FnOnce(&mut S) -> T) -> T {
        look(&mut self.newest.lock().state)
    }

    /// Waits until everything up to `sequence` is durable.
    pub async fn durable(&self, sequence: Sequence) {
        durable_up_to(&*self.store, sequence).await;
    }

    fn in_turn<T>(&self, decide: impl FnOnce(&mut S, &mut Committer<'_>) -> T) -> (T, Sequence, bool) {
        let Newest { state, last_change } = &mut *self.newest.lock();
        let mut committer = Committer { store: &*self.store, last_change, refused: false };
        let outcome = decide(state, &mut committer);
        let refused = committer.refused;
        (outcome, *last_change, refused)
    }
}

impl Committer<'_> {
    pub fn commit(&mut self, batch: Batch) -> Result<Sequence, StoreError> {
        match self.store.commit(batch) {
            Ok(sequence) => {
                *self.last_change = sequence;
                Ok(sequence)
            }
            Err(error) => {
                self.refused = true;
                Err(error)
            }
        }
    }
}

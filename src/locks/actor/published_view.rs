//! The last durable state of an environment, for readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use domain::Environment;
use store::Sequence;

#[derive(Default)]
pub struct PublishedView {
    environment: RwLock<Option<Arc<Environment>>>,
    settled: AtomicU64,
}

impl PublishedView {
    /// None while the environment is being loaded.
    pub fn get(&self) -> Option<Arc<Environment>> {
        self.environment.read().clone()
    }

    /// Shows readers a state that is durable since `sequence`.
    pub fn publish(&self, environment: Arc<Environment>, sequence: Sequence) {
        *self.environment.write() = Some(environment);
        self.settle(sequence);
    }

    /// Everything up to `sequence` is durable; readers see no difference.
    pub fn settle(&self, sequence: Sequence) {
        self.settled.store(sequence.0, Ordering::Release);
    }

    /// Whether everything up to `sequence` has been shown to readers.
    pub fn has_settled(&self, sequence: Sequence) -> bool {
        self.settled.load(Ordering::Acquire) >= sequence.0
    }
}

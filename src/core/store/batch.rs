//! A batch: changes that become durable together or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The position of a batch in the one order of all commits. The first is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

/// Puts, deletes and entries of journals that take effect together or not at all. A later change of a key wins over an
/// earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    pub(super) changes: Vec<Change>,
    pub(super) appends: Vec<Append>,
}

/// One key with its new value, or `None` if it is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}

/// Changes of which each key has one: its last.
pub type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// An entry for a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// Its name has no slash.
    pub journal: Arc<str>,
    pub body: Vec<u8>,
}

/// A key and its value, as a scan finds them.
pub type Pair = (Vec<u8>, Vec<u8>);

impl Batch {
    /// With room for so many puts and deletes.
    pub fn with_capacity(changes: usize) -> Self {
        Self { changes: Vec::with_capacity(changes), appends: Vec::new() }
    }

    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.changes.push(Change { key, value: Some(value) });
    }

    pub fn delete(&mut self, key: Vec<u8>) {
        self.changes.push(Change { key, value: None });
    }

    /// Appends to a journal, in the order of all batches. The name of a journal has no slash.
    pub fn append(&mut self, journal: Arc<str>, body: Vec<u8>) {
        self.appends.push(Append { journal, body });
    }

    pub fn appends(&self) -> &[Append] {
        &self.appends
    }

    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.appends.is_empty()
    }

    pub fn into_changes(self) -> Vec<Change> {
        self.changes
    }
}

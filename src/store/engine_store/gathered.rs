//! Batches that become durable with one transaction.

use std::collections::BTreeSet;

use crate::batch::{Append, Batch, BatchRef, Change, Changes};
use crate::contract::StoreError;
use crate::engine::{CHANGE_BYTES, Limits};
use crate::journal::PAGE_ENTRIES;

/// The most that an entry of a journal may have: the page that it belongs to is written again with it, and may be full of
/// such entries. Events have some hundred bytes.
const MAX_ENTRY_BYTES: usize = 32 * 1024;
/// What a page stores of an entry besides its body.
const ENTRY_HEADER_BYTES: usize = 64;

/// Batches in order, each key with its last change.
#[derive(Default)]
pub struct Gathered {
    pub changes: Changes,
    pub appends: Vec<Entry>,
    /// The sequence of its last batch.
    pub last: u64,
    bytes: usize,
}

/// An entry of a journal.
pub struct Entry {
    pub journal: String,
    pub body: Vec<u8>,
}

impl Gathered {
    /// Adds a batch with the pages of journals that it changes, or gives both back if they do not fit. A first batch always
    /// does: it was checked by [`check`].
    pub fn add(
        &mut self,
        sequence: u64,
        batch: BatchRef<'_>,
        pages: BatchRef<'_>,
        limits: &Limits,
    ) -> Result<(), Gathered> {
        let entry = |Append { journal, body }: Append<'_>| Entry { journal: journal.to_owned(), body: body.to_vec() };
        let mut next =
            Gathered { appends: batch.appends().map(entry).collect(), last: sequence, ..Gathered::default() };
        for Change { key, value } in batch.changes().chain(pages.changes()) {
            next.put(key.to_vec(), value.map(<[u8]>::to_vec));
        }
        let is_first = self.last == 0;
        if !is_first && !self.fits_with(&next, limits) {
            return Err(next);
        }
        next.changes.into_iter().for_each(|(key, value)| self.put(key, value));
        self.appends.append(&mut next.appends);
        self.last = sequence;
        Ok(())
    }

    fn fits_with(&self, next: &Gathered, limits: &Limits) -> bool {
        let replaced = next.changes.keys().filter_map(|key| Some(cost(key, self.changes.get(key)?.as_deref())));
        let (count, bytes) = replaced.fold((0, 0), |(count, bytes), cost| (count + 1, bytes + cost));
        let changes = self.changes.len() + next.changes.len() - count;
        changes <= limits.changes && self.bytes + next.bytes - bytes <= limits.bytes
    }

    fn put(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let key_bytes = cost(&key, None);
        self.bytes += value.as_ref().map_or(0, Vec::len);
        match self.changes.insert(key, value) {
            Some(old) => self.bytes -= old.map_or(0, |value| value.len()),
            None => self.bytes += key_bytes,
        }
    }
}

fn cost(key: &[u8], value: Option<&[u8]>) -> usize {
    CHANGE_BYTES + key.len() + value.map_or(0, <[u8]>::len)
}

/// Refuses a batch that might not fit into a transaction of its own. Afterwards it is too late: it has its place in the
/// order of all batches.
pub fn check(batch: &Batch, limits: &Limits) -> Result<(), StoreError> {
    // An entry changes at most a page and the head of its journal.
    let appends = batch.as_ref().append_count();
    let changes = batch.changes().len() + 2 * appends;
    if changes > limits.changes {
        return Err(StoreError::TooManyChanges { changes, limit: limits.changes });
    }
    if let Some(append) = batch.appends().find(|append| append.body.len() > MAX_ENTRY_BYTES) {
        return Err(StoreError::BatchTooLarge { bytes: append.body.len(), limit: MAX_ENTRY_BYTES });
    }
    let journals = batch.appends().map(|append| append.journal).collect::<BTreeSet<_>>();
    // Of each journal, the entries that its current page has already.
    let pages = journals.len() * PAGE_ENTRIES as usize * (MAX_ENTRY_BYTES + ENTRY_HEADER_BYTES);
    let bytes = batch.encoded_len() + changes * CHANGE_BYTES + appends * ENTRY_HEADER_BYTES + pages;
    if bytes > limits.bytes {
        return Err(StoreError::BatchTooLarge { bytes, limit: limits.bytes });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::conformance::put;
    use crate::journal::Journals;

    const LIMITS: Limits = Limits { changes: 3, bytes: 1000 };

    #[test]
    fn each_key_is_there_once_with_its_last_change() {
        let mut gathered = Gathered::default();
        for (sequence, value) in [(1, "old"), (2, "newer"), (3, "x")] {
            assert!(gathered.add(sequence, put("a", value).as_ref(), put("page", value).as_ref(), &LIMITS).is_ok());
        }
        let mut delete = Batch::default();
        delete.delete(b"page");
        assert!(gathered.add(4, delete.as_ref(), Batch::default().as_ref(), &LIMITS).is_ok());
        let expected = Changes::from([(b"a".to_vec(), Some(b"x".to_vec())), (b"page".to_vec(), None)]);
        assert_eq!((gathered.changes, gathered.last, gathered.bytes), (expected, 4, 2 * CHANGE_BYTES + 6));
    }

    #[test]
    fn a_batch_that_does_not_fit_is_given_back_whole() {
        let mut gathered = Gathered::default();
        assert!(gathered.add(1, put("a", "1").as_ref(), put("b", "1").as_ref(), &LIMITS).is_ok());
        let next = gathered.add(2, put("c", "1").as_ref(), put("d", "1").as_ref(), &LIMITS).err().unwrap();
        assert_eq!((next.changes.len(), next.last, gathered.changes.len(), gathered.last), (2, 2, 2, 1));
        assert!(
            gathered.add(2, put("a", "1").as_ref(), put("c", "1").as_ref(), &LIMITS).is_ok(),
            "known keys take no place"
        );
        let next = gathered.add(3, put("a", vec![0; 900]).as_ref(), Batch::default().as_ref(), &LIMITS).err().unwrap();
        assert_eq!(next.bytes, CHANGE_BYTES + 901);
    }

    #[test]
    fn whatever_is_checked_fits_with_its_pages() {
        let limits = Limits { changes: 4095, bytes: 4 * 1024 * 1024 };
        let mut journals = Journals::default();
        let mut longest = Batch::default();
        longest.append("acme", vec![1; MAX_ENTRY_BYTES]);
        for sequence in 1..=2 * PAGE_ENTRIES {
            check(&longest, &limits).unwrap();
            let mut gathered = Gathered::default();
            let pages = journals.extend(sequence, std::iter::once(longest.as_ref()));
            gathered.add(sequence, longest.as_ref(), pages, &limits).ok().unwrap();
            assert!(gathered.bytes <= limits.bytes && gathered.changes.len() == 2, "{}", gathered.bytes);
        }
        longest.append("acme", vec![1; MAX_ENTRY_BYTES + 1]);
        assert!(matches!(check(&longest, &limits), Err(StoreError::BatchTooLarge { .. })));
        let mut many = Batch::default();
        (0..4096u32).for_each(|n| many.delete(n.to_be_bytes()));
        assert!(matches!(check(&many, &limits), Err(StoreError::TooManyChanges { changes: 4096, limit: 4095 })));
    }
}

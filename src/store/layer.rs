//! A layer of the overlay: changes of which each key has one, its last. A key is found by its hash, since most changes are of
//! keys that are there already; the order of the keys is for scans and for the database.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::batch::Change;

/// The cost of an entry besides its bytes: a counted key, a vector, and its shares of a map and of a tree.
const ENTRY_BYTES: usize = 128;

#[derive(Default)]
pub struct Layer {
    values: HashMap<Arc<[u8]>, Option<Vec<u8>>, RandomState>,
    order: BTreeSet<Arc<[u8]>>,
    bytes: usize,
}

impl Layer {
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// About what it takes of memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn put(&mut self, Change { key, value }: Change<'_>) {
        match self.values.get_mut(key) {
            Some(kept) => {
                self.bytes -= kept.as_ref().map_or(0, Vec::len);
                replace(kept, value);
            }
            None => {
                let shared: Arc<[u8]> = key.into();
                self.order.insert(shared.clone());
                self.values.insert(shared, value.map(<[u8]>::to_vec));
                self.bytes += key.len() + ENTRY_BYTES;
            }
        }
        self.bytes += value.map_or(0, <[u8]>::len);
    }

    /// The value of the key or its deletion, or `None` if there is neither.
    pub fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.values.get(key).map(Option::as_deref)
    }

    /// The changes with `from <= key < to`, in the order of their keys. `from` is below `to`.
    pub fn range<'a>(&'a self, from: &[u8], to: &[u8]) -> impl Iterator<Item = Change<'a>> {
        let keys = self.order.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        keys.map(|key| self.change(key))
    }

    /// All changes, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        self.order.iter().map(|key| self.change(key))
    }

    fn change<'a>(&'a self, key: &'a [u8]) -> Change<'a> {
        Change { key, value: self.get(key).flatten() }
    }
}

/// In the same place if it fits, and does not leave most of it empty.
fn replace(kept: &mut Option<Vec<u8>>, value: Option<&[u8]>) {
    match (kept, value) {
        (Some(kept), Some(value)) if (value.len()..=2 * value.len()).contains(&kept.capacity()) => {
            kept.clear();
            kept.extend_from_slice(value);
        }
        (kept, value) => *kept = value.map(<[u8]>::to_vec),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_stays_in_its_place_unless_that_would_be_too_small_or_mostly_empty() {
        let mut kept = Some(vec![1; 100]);
        for (length, moves) in [(100, false), (60, false), (100, false), (49, true), (50, true), (40, false)] {
            let before = kept.as_deref().unwrap().as_ptr();
            replace(&mut kept, Some(&vec![2; length]));
            assert_eq!(kept.as_deref(), Some(vec![2; length].as_slice()));
            assert!(moves || kept.as_deref().unwrap().as_ptr() == before, "{length}");
            assert!(kept.as_ref().unwrap().capacity() <= 2 * length, "{length}");
        }
        replace(&mut kept, None);
        assert_eq!(kept, None);
    }

    proptest! {
        #[test]
        fn it_is_a_map_with_an_order(
            changes in prop::collection::vec(
                (prop::collection::vec(0u8..4, 0..4), prop::option::of(prop::collection::vec(any::<u8>(), 0..9))), 0..60),
            bounds in prop::collection::vec(prop::collection::vec(0u8..4, 0..4), 2..=2),
        ) {
            let (mut layer, mut map) = (Layer::default(), BTreeMap::new());
            for (key, value) in &changes {
                layer.put(Change { key, value: value.as_deref() });
                map.insert(key.as_slice(), value.as_deref());
            }
            let pairs = |change: Change<'_>| (change.key.to_vec(), change.value.map(<[u8]>::to_vec));
            let owned = |(key, value): (&&[u8], &Option<&[u8]>)| (key.to_vec(), value.map(<[u8]>::to_vec));
            prop_assert!(layer.iter().map(pairs).eq(map.iter().map(owned)));
            prop_assert!(map.iter().all(|(key, value)| layer.get(key) == Some(*value)));
            let bytes = map.iter().map(|(key, value)| key.len() + ENTRY_BYTES + value.map_or(0, <[u8]>::len));
            prop_assert_eq!((layer.bytes(), layer.is_empty()), (bytes.sum(), map.is_empty()));
            let (from, to) = (bounds[0].as_slice().min(&bounds[1]), bounds[0].as_slice().max(&bounds[1]));
            if from < to {
                prop_assert!(layer.range(from, to).map(pairs).eq(map.range(from..to).map(owned)));
            }
        }
    }
}

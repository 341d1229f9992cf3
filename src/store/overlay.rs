//! Changes that are durable in the log but not yet in the database, kept in memory so that reads see them.
//!
//! Two layers: `dirty` collects changes, `applying` is being written to the database by the applier. A read looks in
//! `dirty`, then in `applying`, then in the database; a layer is dropped only when the database has all of it. A layer
//! has only the last change of each key. It finds keys by hash, because most changes are of known keys; the key order
//! is for scans and for the database.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use parking_lot::{Condvar, Mutex, RwLock};

use super::batch::{BatchRef, Change, Pair};

/// Above this size, new batches are refused until the database has caught up.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// On a full disk, the database catches up only when there is space; ends are accepted up to this size.
const MAX_BYTES_OF_ENDS: usize = 2 * MAX_BYTES;
/// A dirty layer of this size is applied immediately.
const BIG_BYTES: usize = 8 * 1024 * 1024;
/// A smaller layer waits this long, so that a key that changes a thousand times is written once. A start replays about
/// as much.
const MAX_AGE: Duration = Duration::from_secs(2);

pub struct Overlay {
    layers: RwLock<Layers>,
    bytes: AtomicUsize,
    bytes_gauge: metrics::Gauge,
    wake_up: Mutex<WakeUp>,
    work: Condvar,
}

#[derive(Default)]
struct Layers {
    dirty: Layer,
    applying: Arc<Layer>,
    /// The number of generations so far. A changed number tells a scan that the database has changed meanwhile.
    generation: u64,
    /// The sequence of the last batch added.
    last: u64,
}

/// Why the applier should run.
#[derive(Default)]
struct WakeUp {
    dirty_since: Option<Instant>,
    big: bool,
    closed: bool,
    abandoned: bool,
}

/// Changes for the database. With them it has every batch up to `last`.
pub struct Generation {
    pub changes: Arc<Layer>,
    pub last: u64,
}

/// The part of the overlay that a scan needs, in key order.
pub struct Slice {
    changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    generation: u64,
}

impl Overlay {
    pub fn starting_after(last: u64) -> Overlay {
        Overlay {
            layers: RwLock::new(Layers { last, ..Layers::default() }),
            bytes: AtomicUsize::new(0),
            bytes_gauge: metrics::gauge!("lockkeeper_overlay_bytes"),
            wake_up: Mutex::default(),
            work: Condvar::new(),
        }
    }

    pub fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > MAX_BYTES
    }

    /// Whether the overlay is so full that even ends are refused.
    pub fn is_full_of_ends(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > MAX_BYTES_OF_ENDS
    }

    /// Waits before the applier retries a generation. Returns false once the overlay is closed: do not retry.
    pub fn pause(&self, length: Duration) -> bool {
        let until = Instant::now() + length;
        let mut wake_up = self.wake_up.lock();
        while !wake_up.closed && !self.work.wait_until(&mut wake_up, until).timed_out() {}
        !wake_up.closed
    }

    /// Adds durable batches, in order, the last with the sequence `last`.
    pub fn fold<'a>(&self, last: u64, batches: impl Iterator<Item = BatchRef<'a>>) {
        let mut layers = self.layers.write();
        let was_clean = layers.dirty.is_empty();
        let before = layers.dirty.bytes();
        batches.flat_map(BatchRef::changes).for_each(|change| layers.dirty.put(change));
        layers.last = last;
        let (is_clean, after) = (layers.dirty.is_empty(), layers.dirty.bytes());
        // Counted under the lock, so that the layer cannot be applied and subtracted before it was added.
        self.bytes.fetch_add(after, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
        drop(layers);

        let grew_big = after >= BIG_BYTES && before < BIG_BYTES;
        if (was_clean && !is_clean) || grew_big {
            let mut wake_up = self.wake_up.lock();
            wake_up.dirty_since.get_or_insert_with(Instant::now);
            wake_up.big |= grew_big;
            drop(wake_up);
            self.work.notify_one();
        }
    }

    /// The value of the key (`Some(None)` if it is deleted), or `None` if the overlay does not have the key.
    pub fn get(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let layers = self.layers.read();
        let found = layers.dirty.get(key).or_else(|| layers.applying.get(key));
        found.map(|value| value.map(<[u8]>::to_vec))
    }

    /// The changes with `from <= key < to`, up to the change that brings the number of values to `limit`.
    pub fn slice(&self, from: &[u8], to: &[u8], limit: usize) -> Slice {
        self.layers.read().slice(from, to, limit)
    }

    /// Like `slice`, with the overlay locked while `scan` runs.
    pub fn slice_held<T>(&self, from: &[u8], to: &[u8], limit: usize, scan: impl FnOnce(&Slice) -> T) -> T {
        let layers = self.layers.read();
        scan(&layers.slice(from, to, limit))
    }

    /// Whether the database can only have gained changes of the slice since the slice was taken.
    pub fn is_current(&self, slice: &Slice) -> bool {
        self.layers.read().generation == slice.generation
    }

    /// Waits until there are changes to apply. `None` once the overlay is closed and empty.
    pub fn next_generation(&self) -> Option<Generation> {
        loop {
            let closed = self.wait_for_work()?;
            let mut layers = self.layers.write();
            if !layers.dirty.is_empty() {
                layers.applying = Arc::new(std::mem::take(&mut layers.dirty));
                layers.generation += 1;
                self.bytes_gauge.set(self.bytes.load(Ordering::Relaxed) as f64);
                return Some(Generation { changes: layers.applying.clone(), last: layers.last });
            }
            if closed {
                return None;
            }
        }
    }

    /// Waits until the dirty layer is large or old, or the overlay is closed (then true); `None` if it was abandoned.
    fn wait_for_work(&self) -> Option<bool> {
        let mut wake_up = self.wake_up.lock();
        while wake_up.dirty_since.is_none() && !wake_up.closed {
            self.work.wait(&mut wake_up);
        }
        if let Some(since) = wake_up.dirty_since {
            while !wake_up.big && !wake_up.closed {
                if self.work.wait_until(&mut wake_up, since + MAX_AGE).timed_out() {
                    break;
                }
            }
        }
        // Reset before the layer is taken: a batch added in between may cause an unnecessary wake-up, but is never
        // missed.
        wake_up.dirty_since = None;
        wake_up.big = false;
        (!wake_up.abandoned).then_some(wake_up.closed)
    }

    /// Called when the database has the whole generation: reads find it there.
    pub fn applied(&self, generation: &Generation) {
        self.layers.write().applying = Arc::default();
        let bytes = generation.changes.bytes();
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes_gauge.set((before - bytes) as f64);
    }

    /// Accepts no more batches; the existing ones are still applied.
    pub fn close(&self) {
        self.wake_up.lock().closed = true;
        self.work.notify_one();
    }

    /// Stops applying, as after a crash.
    pub fn abandon(&self) {
        self.wake_up.lock().abandoned = true;
        self.close();
    }
}

impl Layers {
    fn slice(&self, from: &[u8], to: &[u8], limit: usize) -> Slice {
        let generation = self.generation;
        let mut changes = Vec::new();
        if from >= to || limit == 0 {
            return Slice { changes, generation };
        }
        let mut dirty = self.dirty.range(from, to).peekable();
        let mut applying = self.applying.range(from, to).peekable();
        let mut values = 0;
        while values < limit {
            let next = match (dirty.peek(), applying.peek()) {
                (Some(newer), Some(older)) if newer.key > older.key => applying.next(),
                (Some(newer), Some(older)) if newer.key == older.key => {
                    applying.next();
                    dirty.next()
                }
                (Some(_), _) => dirty.next(),
                (None, _) => applying.next(),
            };
            let Some(Change { key, value }) = next else { break };
            values += usize::from(value.is_some());
            changes.push((key.to_vec(), value.map(<[u8]>::to_vec)));
        }
        Slice { changes, generation }
    }
}

impl Slice {
    /// The first `limit` pairs of the slice merged over those of the database.
    pub fn over<E>(&self, under: impl Iterator<Item = Result<Pair, E>>, limit: usize) -> Result<Vec<Pair>, E> {
        let mut pairs = Vec::new();
        let mut over = self.changes.iter().peekable();
        let mut under = under.peekable();
        while pairs.len() < limit {
            let covered = match (over.peek(), under.peek()) {
                (None, None) => break,
                (Some(_), None) => true,
                (_, Some(Err(_))) => false,
                (None, Some(Ok(_))) => false,
                (Some((key, _)), Some(Ok((below, _)))) if key == below => {
                    under.next();
                    true
                }
                (Some((key, _)), Some(Ok((below, _)))) => key < below,
            };
            if !covered {
                pairs.extend(under.next().transpose()?);
            } else if let Some((key, Some(value))) = over.next() {
                pairs.push((key.clone(), value.clone()));
            }
        }
        Ok(pairs)
    }
}

/// The memory cost of an entry besides its bytes: a reference-counted key, a vector, and a share of a map and a tree.
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

    /// Approximate memory use.
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

    /// The value of the key (`Some(None)` if it is deleted), or `None` if the layer does not have the key.
    pub fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.values.get(key).map(Option::as_deref)
    }

    /// The changes with `from <= key < to`, in key order. `from` must be below `to`.
    pub fn range<'a>(&'a self, from: &[u8], to: &[u8]) -> impl Iterator<Item = Change<'a>> {
        let keys = self.order.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        keys.map(|key| self.change(key))
    }

    /// All changes, in key order.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        self.order.iter().map(|key| self.change(key))
    }

    fn change<'a>(&'a self, key: &'a [u8]) -> Change<'a> {
        Change { key, value: self.get(key).flatten() }
    }
}

/// Reuses the buffer if the value fits and uses at least half of it.
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
    use crate::batch::Batch;

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

    fn batch(changes: &[(&str, Option<&str>)]) -> Batch {
        let mut batch = Batch::default();
        for (key, value) in changes {
            match value {
                Some(value) => batch.put(key.as_bytes(), value.as_bytes()),
                None => batch.delete(key.as_bytes()),
            }
        }
        batch
    }

    fn pair(key: &str, value: &str) -> Result<Pair, ()> {
        Ok((key.as_bytes().to_vec(), value.as_bytes().to_vec()))
    }

    #[test]
    fn newer_layers_hide_older_ones() {
        let overlay = Overlay::starting_after(0);
        overlay.fold(1, [batch(&[("a", Some("1")), ("b", Some("1")), ("c", Some("1"))]).as_ref()].into_iter());
        overlay.close();
        let generation = overlay.next_generation().unwrap();
        overlay.fold(2, [batch(&[("b", None), ("d", Some("2"))]).as_ref()].into_iter());
        assert_eq!(overlay.get(b"a"), Some(Some(b"1".to_vec())));
        assert_eq!(overlay.get(b"b"), Some(None));
        let database = [pair("0", "0"), pair("b", "0"), pair("c", "0"), pair("e", "0")];
        let merged = overlay.slice(b"", b"z", 10).over(database.into_iter(), 10).unwrap();
        let keys: Vec<_> = merged.iter().map(|(key, value)| (key[0], value[0])).collect();
        assert_eq!(keys, [(b'0', b'0'), (b'a', b'1'), (b'c', b'1'), (b'd', b'2'), (b'e', b'0')]);
        overlay.applied(&generation);
        assert_eq!(overlay.get(b"a"), None);
        assert_eq!(overlay.get(b"d"), Some(Some(b"2".to_vec())));
    }

    #[test]
    fn a_slice_is_current_until_the_next_generation_begins() {
        let overlay = Overlay::starting_after(0);
        overlay.fold(1, [batch(&[("a", Some("1"))]).as_ref()].into_iter());
        let slice = overlay.slice(b"", b"z", 10);
        overlay.fold(2, [batch(&[("b", Some("1"))]).as_ref()].into_iter());
        assert!(overlay.is_current(&slice));
        overlay.close();
        let generation = overlay.next_generation().unwrap();
        assert_eq!(generation.last, 2);
        assert!(!overlay.is_current(&slice));
    }

    #[test]
    fn the_count_of_bytes_returns_to_zero() {
        let overlay = Overlay::starting_after(0);
        let first = batch(&[("a", Some("1")), ("a", Some("333")), ("b", Some("1")), ("b", None)]);
        overlay.fold(1, [first.as_ref()].into_iter());
        overlay.fold(2, [batch(&[("a", Some("22"))]).as_ref()].into_iter());
        overlay.close();
        let generation = overlay.next_generation().unwrap();
        overlay.applied(&generation);
        assert_eq!(overlay.bytes.load(Ordering::Relaxed), 0);
        assert!(overlay.next_generation().is_none());
    }
}

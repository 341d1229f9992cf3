//! Changes that are durable in the log and not yet in the database, kept in memory so that reads see them.
//!
//! Two layers: `dirty` collects, `applying` is being written to the database by the applier. A read looks in `dirty`, then
//! in `applying`, then in the database; a layer is dropped only when the database has all of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};

use super::batch::{BatchRef, Change, Pair};
use super::layer::Layer;

/// Above this size new batches are refused, until the database has caught up.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// On a full disk the database catches up only when there is space; ends are taken up to this size.
const MAX_BYTES_OF_ENDS: usize = 2 * MAX_BYTES;
/// A dirty layer of this size is applied at once.
const BIG_BYTES: usize = 8 * 1024 * 1024;
/// A smaller one waits this long, so that a key that changes a thousand times is written once. A start replays as much.
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
    /// Counts the generations, so that a scan notices that the database has changed under it.
    generation: u64,
    /// The sequence of the last batch that was folded in.
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

/// Changes for the database; with them it has every batch up to `last`.
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

    /// Whether also ends are refused.
    pub fn is_full_of_ends(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > MAX_BYTES_OF_ENDS
    }

    /// Before the applier tries a generation again. Returns whether it should: not once the overlay is closed.
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
        // Under the lock, so that the layer cannot be applied and subtracted before it was added.
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

    /// The value of the key or its deletion, or `None` if the overlay does not have it.
    pub fn get(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let layers = self.layers.read();
        let found = layers.dirty.get(key).or_else(|| layers.applying.get(key));
        found.map(|value| value.map(<[u8]>::to_vec))
    }

    /// The changes with `from <= key < to`, up to the one that brings the number of values to `limit`.
    pub fn slice(&self, from: &[u8], to: &[u8], limit: usize) -> Slice {
        self.layers.read().slice(from, to, limit)
    }

    /// The same, with the overlay locked while `scan` runs.
    pub fn slice_held<T>(&self, from: &[u8], to: &[u8], limit: usize, scan: impl FnOnce(&Slice) -> T) -> T {
        let layers = self.layers.read();
        scan(&layers.slice(from, to, limit))
    }

    /// Whether the database can have gained nothing but the changes of the slice since it was taken.
    pub fn is_current(&self, slice: &Slice) -> bool {
        self.layers.read().generation == slice.generation
    }

    /// Waits until there are changes to apply. `None` when the overlay is closed and empty.
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

    /// Returns when the dirty layer is big, or old, or the overlay closed (then true); `None` if it was abandoned.
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
        // Reset before the layer is taken: a batch folded in between may wake the applier once too often, never too
        // rarely.
        wake_up.dirty_since = None;
        wake_up.big = false;
        (!wake_up.abandoned).then_some(wake_up.closed)
    }

    /// The database has the whole generation: reads find it there.
    pub fn applied(&self, generation: &Generation) {
        self.layers.write().applying = Arc::default();
        let bytes = generation.changes.bytes();
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes_gauge.set((before - bytes) as f64);
    }

    /// No more batches come; those that are there are still applied.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::batch::Batch;

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

//! The mask of a set of secrets, and its application to a stream of output: it holds back a possible beginning of a
//! secret, and replaces secrets by stars.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::bases::BaseSearch;
use super::dumps::DumpSearch;
use super::escapes::{ESCAPE_BYTES_MAX, Notation};
use super::patterns::{Hidden, SecretPatterns, Window};
use super::text::{EscapedSearch, Mark, PlainSearch, Utf16Search};

const STARS: &[u8] = b"***";

/// Masks secrets in whole texts and in streams of output. Cheap to clone.
#[derive(Clone)]
pub struct Mask(Arc<SecretPatterns>);

impl Mask {
    /// The error is one sentence.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        Ok(Self(Arc::new(SecretPatterns::new(values)?)))
    }

    pub fn apply(&self, text: &str) -> String {
        let mut masked = Vec::new();
        let mut masker = self.stream();
        masker.push(text.as_bytes(), &mut masked);
        masker.finish(&mut masked);
        String::from_utf8_lossy(&masked).into_owned()
    }

    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    pub(in crate::runner) fn stream(&self) -> Masker {
        Masker::new(self.0.clone())
    }
}

/// Holds back at most the length of the longest secret in any of its encodings.
pub struct Masker {
    secrets: Arc<SecretPatterns>,
    searches: Searches,
    held: Vec<u8>,
    /// The position of the first held byte, counted from the beginning of the output.
    base: u64,
    hidden: Hidden,
    /// Whether the last released bytes were secret, so that an adjoining secret gets no separate stars.
    in_stars: bool,
}

struct Searches {
    plain: PlainSearch,
    marks: Vec<Mark>,
    escaped: [EscapedSearch; Notation::ALL.len()],
    bases: BaseSearch,
    dumps: DumpSearch,
    utf16: Utf16Search,
}

impl Masker {
    fn new(secrets: Arc<SecretPatterns>) -> Self {
        let searches = Searches {
            plain: PlainSearch::new(&secrets),
            marks: Vec::new(),
            escaped: Notation::ALL.map(|notation| EscapedSearch::new(notation, &secrets)),
            bases: BaseSearch::new(&secrets),
            dumps: DumpSearch::new(&secrets),
            utf16: Utf16Search::new(&secrets),
        };
        Self { secrets, searches, held: Vec::new(), base: 0, hidden: Hidden::new(), in_stars: false }
    }

    pub fn push(&mut self, bytes: &[u8], shown: &mut Vec<u8>) {
        let new = self.base + self.held.len() as u64;
        self.held.extend_from_slice(bytes);
        let window = Window { bytes: &self.held, base: self.base, new };
        self.searches.push(&self.secrets, window, &mut self.hidden);
        self.release(self.searches.held_from(&self.secrets, self.end()), shown);
    }

    /// Call it after a while without output. Releases the last characters of a line even if an encoded secret, split
    /// into lines, could begin with them.
    pub fn idle(&mut self, shown: &mut Vec<u8>) {
        let end = self.end();
        let window = Window { bytes: &self.held, base: self.base, new: end };
        self.searches.bases.idle(&self.secrets, end);
        self.searches.dumps.idle(&self.secrets, window, &mut self.hidden);
        self.release(self.searches.held_from(&self.secrets, end), shown);
    }

    /// Call it at the end. A secret that the end cuts off is masked too, since most of it may be there.
    pub fn finish(&mut self, shown: &mut Vec<u8>) {
        let end = self.end();
        let window = Window { bytes: &self.held, base: self.base, new: end };
        self.searches.finish(&self.secrets, window, &mut self.hidden);
        self.release(end, shown);
    }

    fn end(&self) -> u64 {
        self.base + self.held.len() as u64
    }

    /// Releases the bytes up to a position, with stars in place of secrets.
    fn release(&mut self, bound: u64, shown: &mut Vec<u8>) {
        let bound = bound.clamp(self.base, self.end());
        self.hidden.sort_unstable();
        let window = Window { bytes: &self.held, base: self.base, new: bound };
        let mut at = self.base;
        for (start, end) in self.hidden.iter().filter(|(start, end)| *start < bound && *end > self.base) {
            if *start > at {
                shown.extend_from_slice(window.range(at, *start));
                self.in_stars = false;
            }
            if *end > at && !self.in_stars {
                shown.extend_from_slice(STARS);
                self.in_stars = true;
            }
            at = at.max(bound.min(*end));
        }
        if at < bound {
            shown.extend_from_slice(window.range(at, bound));
            self.in_stars = false;
        }
        let released = window.range(self.base, bound).len();
        self.held.drain(..released);
        self.base = bound;
        self.hidden.retain(|(_, end)| *end > bound);
    }
}

impl Searches {
    fn push(&mut self, secrets: &SecretPatterns, window: Window<'_>, hidden: &mut Hidden) {
        self.plain.push(secrets, window, &mut self.marks, hidden);
        for search in &mut self.escaped {
            search.push(secrets, window, &self.marks, hidden);
        }
        self.bases.push(secrets, window, hidden);
        self.dumps.push(secrets, window, hidden);
        self.utf16.push(secrets, window, &self.marks, hidden);
        // An escape may continue.
        let kept = window.end().saturating_sub(ESCAPE_BYTES_MAX as u64);
        self.marks.retain(|mark| mark.position >= kept);
    }

    /// Nothing before this position can become part of a secret.
    fn held_from(&self, secrets: &SecretPatterns, end: u64) -> u64 {
        let escaped = self.escaped.iter().map(EscapedSearch::held_from).min().unwrap_or(end);
        let plain = self.plain.held_from(secrets, end).min(escaped);
        plain.min(self.bases.held_from(secrets)).min(self.dumps.held_from(end)).min(self.utf16.held_from(secrets))
    }

    fn finish(&mut self, secrets: &SecretPatterns, window: Window<'_>, hidden: &mut Hidden) {
        let end = window.end();
        self.plain.finish(secrets, end, hidden);
        self.escaped.iter_mut().for_each(|search| search.finish(secrets, hidden));
        self.bases.finish(secrets, end, hidden);
        self.dumps.finish(secrets, window, hidden);
        self.utf16.finish(secrets, hidden);
        self.marks.clear();
    }
}

/// One mask per set of secrets, shared by every stage that uses them, and dropped with the last. `Key` names a set of
/// secrets with their versions.
pub struct SharedMasks<Key>(Mutex<HashMap<Key, Slot>>);

/// Locked while the mask is built, so that it is built once.
type Slot = Arc<Mutex<Weak<SecretPatterns>>>;

impl<Key: Eq + Hash> SharedMasks<Key> {
    pub fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    /// The mask of these secrets; `build` is called if it is not in use now.
    pub fn get(&self, key: Key, build: impl FnOnce() -> Result<Mask, String>) -> Result<Mask, String> {
        let slot = self.slot(key);
        let mut known = slot.lock();
        if let Some(patterns) = known.upgrade() {
            return Ok(Mask(patterns));
        }
        let mask = build()?;
        *known = Arc::downgrade(&mask.0);
        Ok(mask)
    }

    fn slot(&self, key: Key) -> Slot {
        let mut slots = self.0.lock();
        // A slot that another thread holds is about to get a mask.
        slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.lock().strong_count() > 0);
        slots.entry(key).or_default().clone()
    }
}

impl<Key: Eq + Hash> Default for SharedMasks<Key> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_mask_is_built_once_and_kept_as_long_as_it_is_used() {
        let masks = SharedMasks::new();
        let build = || Mask::new(["hunter2!"]);
        let first = masks.get(1, build).unwrap();
        let second = masks.get(1, || panic!("it is there")).unwrap();
        assert!(Arc::ptr_eq(&first.0, &second.0));
        let other = masks.get(2, || Mask::new(["another"])).unwrap();
        assert_eq!(
            (other.apply("hunter2! another"), first.apply("hunter2! another")),
            ("hunter2! ***".into(), "*** another".into())
        );
        drop((first, second));
        assert_eq!(masks.get(3, || Err("too large".to_owned())).err(), Some("too large".to_owned()));
        masks.get(4, build).unwrap();
        assert_eq!(masks.0.lock().len(), 2, "only what is used, and the newest");
    }

    #[test]
    fn seventeen_large_secrets_share_a_mask_of_a_few_megabytes() {
        let values: Vec<String> = (0..17u8)
            .map(|n| {
                (0..16 * 1024).map(|i| char::from(b'!' + (i * 7 + i / 90 * usize::from(n + 1)) as u8 % 90)).collect()
            })
            .collect();
        let mask = Mask::new(values.iter().map(String::as_str)).unwrap();
        assert!(mask.memory_bytes() < 16 << 20, "{}", mask.memory_bytes());
        assert_eq!(mask.apply(&format!("<{}>", values[3])), "<***>");
    }
}

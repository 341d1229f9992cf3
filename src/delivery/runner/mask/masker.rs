//! The mask of a set of secrets, and one stream of output: it holds back what may be the beginning of a secret, and shows
//! stars in place of secrets.

use std::sync::Arc;

use super::bases::BaseSearch;
use super::dumps::DumpSearch;
use super::escaped::EscapedSearch;
use super::escapes::{ESCAPE_BYTES_MAX, Notation};
use super::patterns::SecretPatterns;
use super::plain::{Mark, PlainSearch};
use super::trace::{Hidden, Window};
use super::utf16::Utf16Search;

const STARS: &[u8] = b"***";

/// Masks secrets in whole texts and in streams of output. Cheap to clone.
#[derive(Clone)]
pub struct Mask(pub(super) Arc<SecretPatterns>);

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

    /// What it takes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    pub(in crate::runner) fn stream(&self) -> Masker {
        Masker::new(self.0.clone())
    }
}

/// Holds back at most what the longest secret can take in any of its encodings.
pub struct Masker {
    secrets: Arc<SecretPatterns>,
    searches: Searches,
    held: Vec<u8>,
    /// The position of the first byte that is held, counted from the beginning of the output.
    base: u64,
    hidden: Hidden,
    /// Whether the last released bytes were secret, so that an adjoining secret gets no stars of its own.
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

    /// To be called after a while without output. The last characters of a line are then released even if a secret,
    /// encoded and split into lines, could begin with them.
    pub fn idle(&mut self, shown: &mut Vec<u8>) {
        let end = self.end();
        let window = Window { bytes: &self.held, base: self.base, new: end };
        self.searches.bases.idle(&self.secrets, end);
        self.searches.dumps.idle(&self.secrets, window, &mut self.hidden);
        self.release(self.searches.held_from(&self.secrets, end), shown);
    }

    /// To be called at the end. A secret that the end cuts off is masked too: what is there may well be most of it.
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
        let mut at = self.base;
        for (start, end) in self.hidden.iter().filter(|(start, end)| *start < bound && *end > self.base) {
            if *start > at {
                shown.extend_from_slice(held(&self.held, self.base, at, *start));
                self.in_stars = false;
            }
            if *end > at && !self.in_stars {
                shown.extend_from_slice(STARS);
                self.in_stars = true;
            }
            at = at.max(bound.min(*end));
        }
        if at < bound {
            shown.extend_from_slice(held(&self.held, self.base, at, bound));
            self.in_stars = false;
        }
        self.held.drain(..index(self.base, bound));
        self.base = bound;
        self.hidden.retain(|(_, end)| *end > bound);
    }
}

fn held(bytes: &[u8], base: u64, from: u64, to: u64) -> &[u8] {
    &bytes[index(base, from)..index(base, to)]
}

fn index(base: u64, position: u64) -> usize {
    usize::try_from(position - base).expect("what is held fits into memory")
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

//! Masks secrets in everything that is shown: their values, the encodings in which programs print them, and the single
//! lines of multi-line secrets, however the output is cut into pieces.

mod forms;

use std::collections::BTreeSet;
use std::sync::Arc;

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::noncontiguous::NFA;
use aho_corasick::{Anchored, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::substitute::in_json;
use crate::outbound::percent_encoded;

const STARS: &[u8] = b"***";
/// Shorter pieces of a secret occur everywhere by chance.
const PIECE_BYTES_MIN: usize = 4;
/// Output that ends in fewer characters of a secret most likely has nothing to do with it.
const SUSPICIOUS_CHARACTERS: u32 = 8;
/// The bound for all patterns together. Each byte takes a few tens of bytes of memory while a stage runs.
const PATTERN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Masks secrets in whole texts, for code that shows or sends the output of steps.
#[derive(Clone)]
pub struct Mask(Arc<SecretPatterns>);

impl Mask {
    /// The error is one sentence.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        Ok(Self(Arc::new(SecretPatterns::new(values)?)))
    }

    pub fn apply(&self, text: &str) -> String {
        self.0.mask(text)
    }
}

/// The patterns of everything that must not be shown, ready for searching.
pub(super) struct SecretPatterns {
    plain: PatternSearch,
    /// Also found if line breaks split them, wherever they are.
    encoded: PatternSearch,
    /// Whether any pattern begins with this byte.
    begins: Box<[bool; 256]>,
}

impl SecretPatterns {
    /// The error is one sentence.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut plain = BTreeSet::new();
        let mut encoded = BTreeSet::new();
        let is_long_enough = |form: &Vec<u8>| form.len() >= PIECE_BYTES_MIN;
        for value in values.into_iter().filter(|value| !value.is_empty()) {
            plain.insert(value.as_bytes().to_vec());
            plain.insert(percent_encoded(value).into_bytes());
            add_base64(value.as_bytes(), &mut encoded);
            let trimmed = value.trim_end_matches(['\r', '\n']);
            if !trimmed.is_empty() {
                plain.insert(trimmed.as_bytes().to_vec());
                add_base64(trimmed.as_bytes(), &mut encoded);
                plain.extend(forms::encoded(trimmed).chain(forms::escaped(trimmed)).filter(is_long_enough));
            }
            for line in value.lines().filter(|line| line.len() >= PIECE_BYTES_MIN) {
                plain.insert(line.as_bytes().to_vec());
                plain.extend(forms::escaped(line).filter(is_long_enough));
            }
        }
        if plain.iter().chain(&encoded).map(Vec::len).sum::<usize>() > PATTERN_BYTES_MAX {
            return Err("its secrets are too large to be masked in its log; use fewer or shorter ones".to_owned());
        }
        let mut begins = Box::new([false; 256]);
        plain.iter().chain(&encoded).for_each(|pattern| begins[usize::from(pattern[0])] = true);
        Ok(Self { plain: PatternSearch::new(&plain)?, encoded: PatternSearch::new(&encoded)?, begins })
    }

    /// Masks a complete text.
    pub fn mask(self: &Arc<Self>, text: &str) -> String {
        let mut masked = Vec::new();
        let mut masker = Masker::new(self.clone());
        masker.push(text.as_bytes(), &mut masked);
        masker.finish(&mut masked);
        String::from_utf8_lossy(&masked).into_owned()
    }
}

/// The base64 characters that the value alone determines, for each of the three offsets at which it may begin within
/// something larger; and with the padding, in case nothing follows.
fn add_base64(value: &[u8], patterns: &mut BTreeSet<Vec<u8>>) {
    if value.len() < PIECE_BYTES_MIN {
        return;
    }
    for shift in 0..3 {
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(value);
        let (first, last) = ((shift * 8).div_ceil(6), bytes.len() * 8 / 6);
        for (padded, bare) in [(&STANDARD, &STANDARD_NO_PAD), (&URL_SAFE, &URL_SAFE_NO_PAD)] {
            let bare = bare.encode(&bytes).into_bytes();
            patterns.insert(bare[first..last].to_vec());
            patterns.insert(bare[first..].to_vec());
            patterns.insert(padded.encode(&bytes).into_bytes()[first..].to_vec());
        }
    }
}

/// Finds all patterns, even overlapping ones, byte by byte.
struct PatternSearch {
    automaton: NFA,
    start: StateID,
    /// Per state, how many of the last bytes are the beginning of a pattern.
    depths: Vec<u32>,
}

impl PatternSearch {
    fn new(patterns: &BTreeSet<Vec<u8>>) -> Result<Self, String> {
        let fault = |error: &dyn std::fmt::Display| format!("its secrets cannot be masked in its log: {error}");
        let built = NFA::builder().match_kind(MatchKind::Standard).build(patterns);
        let automaton = built.map_err(|error| fault(&error))?;
        let start = automaton.start_state(Anchored::No).map_err(|error| fault(&error))?;
        let mut search = Self { automaton, start, depths: Vec::new() };
        for pattern in patterns {
            let mut state = start;
            for (position, byte) in pattern.iter().enumerate() {
                state = search.next(state, *byte);
                let index = state.as_usize();
                if search.depths.len() <= index {
                    search.depths.resize(index + 1, 0);
                }
                search.depths[index] = u32::try_from(position + 1).unwrap_or(u32::MAX);
            }
        }
        Ok(search)
    }

    fn next(&self, state: StateID, byte: u8) -> StateID {
        self.automaton.next_state(Anchored::No, state, byte)
    }

    fn depth(&self, state: StateID) -> u32 {
        self.depths.get(state.as_usize()).copied().unwrap_or(0)
    }

    /// The length of the longest pattern that ends here.
    fn longest_match(&self, state: StateID) -> Option<usize> {
        if !self.automaton.is_match(state) {
            return None;
        }
        let matches = 0..self.automaton.match_len(state);
        matches.map(|index| self.automaton.pattern_len(self.automaton.match_pattern(state, index))).max()
    }
}

/// One stream of output. Holds back only bytes that may be the beginning of a secret.
pub(super) struct Masker {
    secrets: Arc<SecretPatterns>,
    plain: StateID,
    encoded: StateID,
    line_break: LineBreak,
    held: Vec<u8>,
    /// The secret ranges of `held`, in order and disjoint.
    hidden: Vec<(usize, usize)>,
    /// Whether the last released bytes were secret, so that an adjoining secret gets no stars of its own.
    in_stars: bool,
}

/// The last bytes, if they may be a line break within an encoded secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineBreak {
    None,
    Return,
    Feed,
}

impl Masker {
    pub fn new(secrets: Arc<SecretPatterns>) -> Self {
        let (plain, encoded) = (secrets.plain.start, secrets.encoded.start);
        Self {
            secrets,
            plain,
            encoded,
            line_break: LineBreak::None,
            held: Vec::new(),
            hidden: Vec::new(),
            in_stars: false,
        }
    }

    pub fn push(&mut self, bytes: &[u8], shown: &mut Vec<u8>) {
        let mut at = self.held.len();
        self.held.extend_from_slice(bytes);
        while at < self.held.len() {
            if self.plain == self.secrets.plain.start && self.encoded == self.secrets.encoded.start {
                let begins = |byte: &u8| self.secrets.begins[usize::from(*byte)];
                let Some(skipped) = self.held[at..].iter().position(begins) else { break };
                at += skipped;
            }
            let byte = self.held[at];
            at += 1;
            self.plain = self.secrets.plain.next(self.plain, byte);
            if let Some(length) = self.secrets.plain.longest_match(self.plain) {
                self.hide(at - length, at);
            }
            self.push_encoded(byte, at);
        }
        self.release(shown);
    }

    /// To be called after a while without output. The last characters of a line are then released even if a secret,
    /// encoded and split into lines, could begin with them.
    pub fn idle(&mut self, shown: &mut Vec<u8>) {
        if self.line_break != LineBreak::None && self.secrets.encoded.depth(self.encoded) < SUSPICIOUS_CHARACTERS {
            self.encoded = self.secrets.encoded.start;
            self.release(shown);
        }
    }

    /// To be called at the end. A secret that the end cuts off is masked too: what is there may well be most of it.
    pub fn finish(&mut self, shown: &mut Vec<u8>) {
        let end = self.held.len();
        let (plain, encoded) = (self.secrets.plain.depth(self.plain), self.secrets.encoded.depth(self.encoded));
        if encoded >= SUSPICIOUS_CHARACTERS {
            let breaks = self.held.iter().rev().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.hide(self.back(end, encoded as usize), end - breaks);
        }
        if plain >= SUSPICIOUS_CHARACTERS {
            self.hide(end - plain as usize, end);
        }
        self.plain = self.secrets.plain.start;
        self.encoded = self.secrets.encoded.start;
        self.release(shown);
    }

    /// `at` is the position after the byte.
    fn push_encoded(&mut self, byte: u8, at: usize) {
        self.line_break = match (byte, self.line_break) {
            (b'\r', LineBreak::None) => LineBreak::Return,
            (b'\n', LineBreak::None | LineBreak::Return) => LineBreak::Feed,
            (b'\r' | b'\n', LineBreak::Return | LineBreak::Feed) => {
                self.encoded = self.secrets.encoded.start;
                LineBreak::None
            }
            _ => {
                self.encoded = self.secrets.encoded.next(self.encoded, byte);
                LineBreak::None
            }
        };
        if self.line_break == LineBreak::None
            && let Some(length) = self.secrets.encoded.longest_match(self.encoded)
        {
            self.hide(self.back(at, length), at);
        }
    }

    /// The position `count` bytes before `at`, not counting line breaks.
    fn back(&self, mut at: usize, count: usize) -> usize {
        let mut left = count;
        while left > 0 && at > 0 {
            at -= 1;
            left -= usize::from(!matches!(self.held[at], b'\r' | b'\n'));
        }
        at
    }

    /// `to` never decreases between calls.
    fn hide(&mut self, mut from: usize, to: usize) {
        while let Some((start, _)) = self.hidden.pop_if(|(_, end)| *end >= from) {
            from = from.min(start);
        }
        self.hidden.push((from, to));
    }

    /// Releases the bytes that can no longer become part of a secret, with stars in place of secrets.
    fn release(&mut self, shown: &mut Vec<u8>) {
        let plain = self.held.len() - self.secrets.plain.depth(self.plain) as usize;
        let encoded = match self.secrets.encoded.depth(self.encoded) {
            0 => self.held.len(),
            depth => self.back(self.held.len(), depth as usize),
        };
        let bound = plain.min(encoded);
        let mut at = 0;
        for (start, end) in self.hidden.iter().filter(|(start, _)| *start < bound) {
            if *start > at {
                shown.extend_from_slice(&self.held[at..*start]);
                self.in_stars = false;
            }
            if !self.in_stars {
                shown.extend_from_slice(STARS);
                self.in_stars = true;
            }
            at = bound.min(*end);
        }
        if at < bound {
            shown.extend_from_slice(&self.held[at..bound]);
            self.in_stars = false;
        }
        self.held.drain(..bound);
        self.hidden.retain(|(_, end)| *end > bound);
        for (start, end) in &mut self.hidden {
            (*start, *end) = (start.saturating_sub(bound), *end - bound);
        }
    }
}

#[cfg(test)]
mod tests;

//! Finds the signatures of the catalogue in lines, with one pass over each line.

use std::cell::LazyCell;
use std::collections::VecDeque;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::bytes::{Captures, Regex, RegexBuilder};

use super::catalogue::{self, Signature, VAGUE_BELOW};
use super::text::cleaned;
use crate::analysis::CaseLine;

/// The number of matching lines that are kept, half of them the first, half the last. A log with more repeats itself.
const HITS_MAX: usize = 4096;
/// Texts which say that something works again.
const RECOVERIES: &[&str] = &[
    "recovered",
    "connected after",
    "succeeded after",
    "succeeded on",
    "successful after",
    "reconnected",
    "connection established",
    "is now available",
    "now reachable",
    "accepting connections",
    "connected to",
    "back online",
    "retry succeeded",
    "up and running",
];

static MATCHER: LazyLock<Matcher> = LazyLock::new(Matcher::new);

struct Matcher {
    hints: AhoCorasick,
    /// The signatures of each hint; none for a recovery.
    by_hint: Vec<Vec<usize>>,
    /// By descending weight: the first match of a line is the most telling.
    signatures: Vec<(&'static Signature, Regex)>,
}

impl Matcher {
    fn new() -> Self {
        let mut sorted: Vec<_> = catalogue::all().collect();
        sorted.sort_by_key(|signature| std::cmp::Reverse(signature.weight));
        let mut hints: Vec<&str> = RECOVERIES.to_vec();
        let mut by_hint = vec![Vec::new(); hints.len()];
        for (index, signature) in sorted.iter().enumerate() {
            for hint in signature.hints {
                let known = hints.iter().skip(RECOVERIES.len()).position(|known| known == hint);
                let slot = known.map_or_else(|| hints.len(), |index| index + RECOVERIES.len());
                if slot == hints.len() {
                    hints.push(hint);
                    by_hint.push(Vec::new());
                }
                by_hint[slot].push(index);
            }
        }
        let compiled = |signature: &'static Signature| {
            let pattern = RegexBuilder::new(signature.pattern).unicode(false).case_insensitive(true).build();
            (signature, pattern.expect("the patterns are constants, which a test compiles"))
        };
        let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(&hints);
        Self {
            hints: automaton.expect("the hints are constants, which a test compiles"),
            by_hint,
            signatures: sorted.into_iter().map(compiled).collect(),
        }
    }
}

/// A line that matches a signature; if several match, the most telling one.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    /// The index of the line.
    pub at: usize,
    signature: usize,
}

impl Hit {
    pub fn signature(&self) -> &'static Signature {
        MATCHER.signatures[self.signature].0
    }

    /// The captures of the signature in its line.
    pub fn captures<'a>(&self, line: &'a str) -> Option<Captures<'a>> {
        MATCHER.signatures[self.signature].1.captures(line.as_bytes())
    }
}

/// The matches found so far.
#[derive(Default)]
pub(super) struct Scan {
    scanned: usize,
    first: Vec<Hit>,
    last: VecDeque<Hit>,
    /// Indexes of lines that report a recovery.
    pub recoveries: Vec<usize>,
}

impl Scan {
    /// Scans the next lines.
    pub fn add(&mut self, lines: &[CaseLine]) {
        for line in lines {
            let at = self.scanned;
            self.scanned += 1;
            let (signature, recovers) = match_line(&cleaned(&line.text));
            if recovers && self.recoveries.len() < HITS_MAX {
                self.recoveries.push(at);
            }
            if let Some(signature) = signature {
                self.keep(Hit { at, signature });
            }
        }
    }

    pub fn hits(&self) -> impl Iterator<Item = Hit> {
        self.first.iter().chain(&self.last).copied()
    }

    fn keep(&mut self, hit: Hit) {
        if self.first.len() < HITS_MAX / 2 {
            self.first.push(hit);
            return;
        }
        if self.last.len() == HITS_MAX / 2 {
            self.last.pop_front();
        }
        self.last.push_back(hit);
    }
}

/// The signature of a single text.
pub(super) fn hit_of(text: &str) -> Option<Hit> {
    match_line(text).0.map(|signature| Hit { at: 0, signature })
}

fn match_line(text: &str) -> (Option<usize>, bool) {
    let mut candidates: Vec<usize> = Vec::new();
    let mut recovers = false;
    for found in MATCHER.hints.find_overlapping_iter(text) {
        let hint = found.pattern().as_usize();
        recovers |= hint < RECOVERIES.len();
        for index in &MATCHER.by_hint[hint] {
            if !candidates.contains(index) {
                candidates.push(*index);
            }
        }
    }
    candidates.sort_unstable();
    let without_names = LazyCell::new(|| without_names(text));
    let matches = |index: &usize| {
        let (signature, pattern) = &MATCHER.signatures[*index];
        let text = if signature.weight < VAGUE_BELOW { &without_names } else { text };
        pattern.is_match(text.as_bytes())
    };
    (candidates.into_iter().find(matches), recovers)
}

/// Removes paths and file names.
fn without_names(text: &str) -> String {
    let is_name = |word: &&str| {
        let has_extension = word.rsplit_once('.').is_some_and(|(_, last)| last.starts_with(char::is_alphanumeric));
        word.contains('/') || has_extension
    };
    text.split(' ').filter(|word| !is_name(word)).collect::<Vec<_>>().join(" ")
}

//! The search in one decoded form of the output, with the way back to the positions of the output itself.

use std::collections::VecDeque;

use aho_corasick::automaton::StateID;

use super::patterns::SecretPatterns;

/// Output that ends in fewer characters of a secret most likely has nothing to do with it.
pub const SUSPICIOUS_CHARACTERS: u64 = 8;
/// The same for decoded bytes.
const SUSPICIOUS_BYTES: usize = 4;

/// The newest output. Positions count from the beginning of the whole output.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    /// From `base` on: everything that is held back, then what has just arrived.
    pub bytes: &'a [u8],
    pub base: u64,
    /// What has just arrived begins here.
    pub new: u64,
}

impl<'a> Window<'a> {
    pub fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// The bytes from a position on.
    pub fn from(&self, position: u64) -> &'a [u8] {
        self.bytes.get(self.index(position)..).unwrap_or_default()
    }

    pub fn range(&self, from: u64, to: u64) -> &'a [u8] {
        self.bytes.get(self.index(from)..self.index(to)).unwrap_or_default()
    }

    fn index(&self, position: u64) -> usize {
        usize::try_from(position.saturating_sub(self.base)).unwrap_or(usize::MAX)
    }
}

/// Secret ranges of the output, in any order.
pub type Hidden = Vec<(u64, u64)>;

pub struct Trace {
    state: StateID,
    /// Where each of the decoded bytes begins that may be the beginning of a secret.
    starts: VecDeque<u64>,
    /// Where the last of them ends.
    until: u64,
}

impl Trace {
    pub fn new(patterns: &SecretPatterns) -> Self {
        Self { state: patterns.start(), starts: VecDeque::new(), until: 0 }
    }

    /// Returns where the longest pattern begins that ends with this byte, and its length when decoded.
    pub fn push(&mut self, patterns: &SecretPatterns, byte: u8, (start, end): (u64, u64)) -> Option<(u64, usize)> {
        if self.state == patterns.start() && !patterns.traits().begins[usize::from(byte)] {
            return None;
        }
        self.state = patterns.next(self.state, byte);
        self.starts.push_back(start);
        self.until = end;
        let depth = patterns.depth(self.state);
        self.starts.drain(..self.starts.len().saturating_sub(depth));
        let length = patterns.longest_match(self.state)?;
        let first = self.starts.len().checked_sub(length)?;
        Some((self.starts[first], length))
    }

    pub fn clear(&mut self, patterns: &SecretPatterns) {
        self.state = patterns.start();
        self.starts.clear();
    }

    /// Continues from a state of the plain output at this position.
    pub fn fork(&mut self, patterns: &SecretPatterns, state: StateID, position: u64) {
        let depth = patterns.depth(state) as u64;
        self.state = state;
        self.starts.clear();
        self.starts.extend(position.saturating_sub(depth)..position);
        self.until = position;
    }

    pub fn depth(&self) -> usize {
        self.starts.len()
    }

    /// The output from here on may be the beginning of a secret.
    pub fn first(&self) -> Option<u64> {
        self.starts.front().copied()
    }

    /// The beginning of a secret of which a good part is there.
    pub fn suspicious(&self) -> Option<(u64, u64)> {
        let enough = |first: &u64| self.until - first >= SUSPICIOUS_CHARACTERS && self.depth() >= SUSPICIOUS_BYTES;
        self.first().filter(enough).map(|first| (first, self.until))
    }
}

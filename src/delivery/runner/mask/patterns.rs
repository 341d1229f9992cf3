//! The secrets as one automaton over plain bytes, and the search with it in one decoded form of the output, which keeps
//! track of positions in the original output.

use std::collections::{BTreeSet, VecDeque};

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};

/// The minimum length of a searched piece: shorter pieces of a secret occur everywhere by chance.
pub const PIECE_BYTES_MIN: usize = 4;
/// The minimum in hexadecimal, where a value is twice as long.
pub const HEX_BYTES_MIN: usize = 2;
/// The limit for all patterns together: more than the environment variables of a process can hold.
const PATTERN_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Every state of the automaton occupies at least this many ids.
const IDS_PER_STATE: usize = 2;

/// The values, also without trailing line breaks, and their single lines, ready for searching.
pub struct SecretPatterns {
    automaton: NFA,
    pub start: StateID,
    /// Per state, how many of the last bytes are the beginning of a pattern.
    depths: Vec<u32>,
    pub traits: PatternTraits,
}

/// Facts that let decoders skip output that cannot contain a secret.
pub struct PatternTraits {
    /// Whether any pattern begins with this byte.
    pub begins: [bool; 256],
    /// Whether any pattern contains this byte.
    pub contains: [bool; 256],
    /// The shortest pattern of at least [`PIECE_BYTES_MIN`] bytes, and that of at least [`HEX_BYTES_MIN`].
    pub shortest_piece: Option<usize>,
    pub shortest_hex: Option<usize>,
    /// Whether any pattern has a character beyond Latin-1, which has no zero byte in UTF-16.
    pub is_wide: bool,
}

impl SecretPatterns {
    /// The error is one sentence.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut patterns = BTreeSet::new();
        for value in values.into_iter().filter(|value| !value.is_empty()) {
            patterns.insert(value);
            let trimmed = value.trim_end_matches(['\r', '\n']);
            if !trimmed.is_empty() {
                patterns.insert(trimmed);
            }
            patterns.extend(value.lines().filter(|line| line.len() >= PIECE_BYTES_MIN));
        }
        if patterns.iter().map(|pattern| pattern.len()).sum::<usize>() > PATTERN_BYTES_MAX {
            return Err("its secrets are too large to be masked in its log; use fewer or shorter ones".to_owned());
        }
        let fault = |error: &dyn std::fmt::Display| format!("its secrets cannot be masked in its log: {error}");
        let built = NFA::builder().match_kind(MatchKind::Standard).prefilter(false).build(&patterns);
        let automaton = built.map_err(|error| fault(&error))?;
        let start = automaton.start_state(Anchored::No).map_err(|error| fault(&error))?;
        let mut secrets = Self { automaton, start, depths: Vec::new(), traits: PatternTraits::of(&patterns) };
        secrets.measure_depths(&patterns);
        Ok(secrets)
    }

    fn measure_depths(&mut self, patterns: &BTreeSet<&str>) {
        for pattern in patterns {
            let mut state = self.start;
            for (position, byte) in pattern.bytes().enumerate() {
                state = self.next(state, byte);
                let index = state.as_usize() / IDS_PER_STATE;
                if self.depths.len() <= index {
                    self.depths.resize(index + 1, 0);
                }
                self.depths[index] = u32::try_from(position + 1).unwrap_or(u32::MAX);
            }
        }
        self.depths.shrink_to_fit();
    }

    pub fn next(&self, state: StateID, byte: u8) -> StateID {
        self.automaton.next_state(Anchored::No, state, byte)
    }

    pub fn depth(&self, state: StateID) -> usize {
        self.depths.get(state.as_usize() / IDS_PER_STATE).map_or(0, |depth| *depth as usize)
    }

    /// The length of the longest pattern that ends here.
    pub fn longest_match(&self, state: StateID) -> Option<usize> {
        if !self.automaton.is_match(state) {
            return None;
        }
        let matches = 0..self.automaton.match_len(state);
        matches.map(|index| self.automaton.pattern_len(self.automaton.match_pattern(state, index))).max()
    }

    pub fn memory_bytes(&self) -> usize {
        self.automaton.memory_usage() + self.depths.capacity() * size_of::<u32>() + size_of::<Self>()
    }
}

impl PatternTraits {
    fn of(patterns: &BTreeSet<&str>) -> Self {
        let shortest = |min: usize| patterns.iter().map(|pattern| pattern.len()).filter(|length| *length >= min).min();
        let mut traits = Self {
            begins: [false; 256],
            contains: [false; 256],
            shortest_piece: shortest(PIECE_BYTES_MIN),
            shortest_hex: shortest(HEX_BYTES_MIN),
            is_wide: patterns.iter().any(|pattern| pattern.chars().any(|character| character > '\u{ff}')),
        };
        for pattern in patterns {
            traits.begins[usize::from(pattern.as_bytes()[0])] = true;
            pattern.bytes().for_each(|byte| traits.contains[usize::from(byte)] = true);
        }
        traits
    }
}

/// The minimum number of characters of a secret at the end of output; fewer are most likely unrelated to it.
pub const SUSPICIOUS_CHARACTERS: u64 = 8;
/// The minimum number of decoded bytes.
const SUSPICIOUS_BYTES: usize = 4;

/// The newest output. Positions count from the beginning of the whole output.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    /// Starts at `base`: all held bytes, then the new ones.
    pub bytes: &'a [u8],
    pub base: u64,
    /// The position of the first new byte.
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

/// The search in one decoded form of the output, which keeps track of positions in the original output.
pub struct Trace {
    state: StateID,
    /// The start of each decoded byte that may belong to the beginning of a secret.
    starts: VecDeque<u64>,
    /// Where the last of these bytes ends.
    until: u64,
}

impl Trace {
    pub fn new(patterns: &SecretPatterns) -> Self {
        Self { state: patterns.start, starts: VecDeque::new(), until: 0 }
    }

    /// Returns the start of the longest pattern that ends with this byte, and its decoded length.
    pub fn push(&mut self, patterns: &SecretPatterns, byte: u8, (start, end): (u64, u64)) -> Option<(u64, usize)> {
        if self.state == patterns.start && !patterns.traits.begins[usize::from(byte)] {
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
        self.state = patterns.start;
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

    /// The range of a secret's beginning, if enough of it has been found.
    pub fn suspicious(&self) -> Option<(u64, u64)> {
        let enough = |first: &u64| self.until - first >= SUSPICIOUS_CHARACTERS && self.depth() >= SUSPICIOUS_BYTES;
        self.first().filter(enough).map(|first| (first, self.until))
    }
}

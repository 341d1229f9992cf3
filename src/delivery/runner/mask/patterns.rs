//! What must not be shown, as one automaton over plain bytes: decoders bring encoded output to this form.

use std::collections::BTreeSet;

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};

/// Shorter pieces of a secret occur everywhere by chance.
pub const PIECE_BYTES_MIN: usize = 4;
/// The same for a value in hexadecimal, which is twice as long.
pub const HEX_BYTES_MIN: usize = 2;
/// The bound for all patterns together: more than the environment variables of a process can hold.
const PATTERN_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Every state of the automaton occupies at least this many ids.
const IDS_PER_STATE: usize = 2;

/// The values, without trailing line breaks too, and their single lines, ready for searching.
pub struct SecretPatterns {
    automaton: NFA,
    start: StateID,
    /// Per state, how many of the last bytes are the beginning of a pattern.
    depths: Vec<u32>,
    traits: PatternTraits,
}

/// What decoders need to know to skip output that cannot contain a secret.
pub struct PatternTraits {
    /// Whether any pattern begins with this byte.
    pub begins: [bool; 256],
    /// Whether any pattern contains this byte.
    pub contains: [bool; 256],
    /// The shortest pattern of at least [`PIECE_BYTES_MIN`] bytes, and that of at least [`HEX_BYTES_MIN`].
    pub shortest_piece: Option<usize>,
    pub shortest_hex: Option<usize>,
    /// Whether any has a character beyond Latin-1, which has no zero byte in UTF-16.
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

    pub fn start(&self) -> StateID {
        self.start
    }

    pub fn traits(&self) -> &PatternTraits {
        &self.traits
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

    /// What it takes in memory.
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

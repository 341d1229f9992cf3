//! Searches text in encodings whose characters stand for a fixed number of bits each: base64, base32, hexadecimal. The
//! encoded data may begin at any character, and line breaks may split it.

use super::patterns::{HEX_BYTES_MIN, Hidden, PIECE_BYTES_MIN, SecretPatterns, Trace, Window};

/// Follows runs of characters of one alphabet within a larger one, and decodes those that are long enough for a secret,
/// from every possible beginning.
struct Base {
    bits: usize,
    values: &'static [u8; 256],
    /// The minimum length of a decoded pattern.
    bytes_min: usize,
    /// A shorter run cannot contain a secret.
    run_min: usize,
    /// The characters of this run.
    run: usize,
    /// The run has been decoded up to here.
    decoded_until: u64,
    /// One per character at which the encoded data may begin, counted up to where the alignment repeats.
    traces: Vec<Trace>,
    /// The byte that the newest character completes, by its position in the alignment.
    completes: Vec<Option<Completed>>,
    /// The values of the last characters.
    newest: u32,
    /// The positions of the last characters.
    positions: [u64; 4],
    /// The decoded characters of this run.
    count: usize,
    /// Whether any of the traces has the beginning of a pattern.
    is_busy: bool,
}

/// A byte that a character completes.
#[derive(Clone, Copy)]
struct Completed {
    /// The bits of the character that belong to the next byte.
    shift: usize,
    /// How many characters earlier the byte begins.
    back: usize,
}

const NO_VALUE: u8 = 0xff;
const BASE64: [u8; 256] = {
    let values = numbered(numbered([NO_VALUE; 256], b'A', 26, 0), b'a', 26, 26);
    let mut values = numbered(values, b'0', 10, 52);
    (values[b'+' as usize], values[b'/' as usize]) = (62, 63);
    // The URL-safe alphabet.
    (values[b'-' as usize], values[b'_' as usize]) = (62, 63);
    values
};
const BASE32: [u8; 256] = numbered(numbered(numbered([NO_VALUE; 256], b'A', 26, 0), b'a', 26, 0), b'2', 6, 26);
pub const HEX: [u8; 256] = numbered(numbered(numbered([NO_VALUE; 256], b'0', 10, 0), b'a', 6, 10), b'A', 6, 10);

const fn numbered(mut values: [u8; 256], first: u8, count: u8, value: u8) -> [u8; 256] {
    let mut index = 0;
    while index < count {
        values[(first + index) as usize] = value + index;
        index += 1;
    }
    values
}

impl Base {
    /// `shortest` is the length of the shortest pattern of at least `bytes_min` bytes.
    fn new(
        patterns: &SecretPatterns,
        bits: usize,
        values: &'static [u8; 256],
        bytes_min: usize,
        shortest: Option<usize>,
    ) -> Self {
        let period = 8 >> bits.trailing_zeros();
        let completes = (0..period).map(|index| {
            let (before, after) = (index * bits, (index + 1) * bits);
            let first_bit = (after / 8).checked_sub(1)? * 8;
            (after / 8 > before / 8).then_some(Completed { shift: after % 8, back: index - first_bit / bits })
        });
        Self {
            bits,
            values,
            bytes_min,
            run_min: shortest.map_or(usize::MAX, |bytes| bytes * 8 / bits),
            run: 0,
            decoded_until: 0,
            completes: completes.collect(),
            traces: (0..period).map(|_| Trace::new(patterns)).collect(),
            newest: 0,
            positions: [0; 4],
            count: 0,
            is_busy: false,
        }
    }

    /// Searches a part of the output that consists of characters of the larger alphabet and line breaks.
    fn push(&mut self, patterns: &SecretPatterns, window: Window<'_>, from: u64, to: u64, hidden: &mut Hidden) {
        let bytes = window.range(from, to);
        let mut at = 0;
        while at < bytes.len() {
            if self.run == 0 {
                let skipped = too_short(&bytes[at..], self.values, self.run_min);
                if skipped > 0 {
                    at += skipped;
                    self.decoded_until = from + at as u64;
                    continue;
                }
            }
            let byte = bytes[at];
            if self.values[usize::from(byte)] != NO_VALUE {
                self.run += 1;
            } else if !is_break(byte) {
                self.end_run(patterns, window, from + at as u64, hidden);
            }
            at += 1;
        }
    }

    fn end_run(&mut self, patterns: &SecretPatterns, window: Window<'_>, position: u64, hidden: &mut Hidden) {
        if self.count > 0 || self.run >= self.run_min {
            self.decode(patterns, window, position, hidden);
            self.clear(patterns);
        }
        self.run = 0;
        self.decoded_until = position + 1;
    }

    fn decode(&mut self, patterns: &SecretPatterns, window: Window<'_>, until: u64, hidden: &mut Hidden) {
        let from = self.decoded_until.max(window.base);
        for (position, byte) in (from..).zip(window.range(from, until)) {
            let value = self.values[usize::from(*byte)];
            // A line break.
            if value == NO_VALUE {
                continue;
            }
            self.newest = self.newest << self.bits | u32::from(value);
            self.positions[self.count % 4] = position;
            if self.is_busy || self.may_begin(patterns) {
                self.search(patterns, position, hidden);
            }
            self.count += 1;
        }
        self.decoded_until = until;
    }

    /// Whether a pattern begins with any of the bytes that the newest character may complete.
    fn may_begin(&self, patterns: &SecretPatterns) -> bool {
        let begins = |shift: usize| patterns.traits.begins[usize::from((self.newest >> shift) as u8)];
        match self.bits {
            6 => begins(0) | begins(2) | begins(4),
            5 => begins(0) | begins(1) | begins(2) | begins(3) | begins(4),
            _ => begins(0),
        }
    }

    fn search(&mut self, patterns: &SecretPatterns, position: u64, hidden: &mut Hidden) {
        let period = self.traces.len();
        for begin in 0..period.min(self.count + 1) {
            let Some(Completed { shift, back }) = self.completes[(self.count - begin) % period] else { continue };
            let decoded = (self.newest >> shift) as u8;
            let start = self.positions[(self.count - back) % 4];
            if let Some((start, length)) = self.traces[begin].push(patterns, decoded, (start, position + 1))
                && length >= self.bytes_min
            {
                hidden.push((start, position + 1));
            }
        }
        self.is_busy = self.traces.iter().any(|trace| trace.depth() > 0);
    }

    /// The start of the last characters, if they may be the first bits of a secret and at least one of them belongs to
    /// it entirely.
    fn unfinished(&self, patterns: &SecretPatterns) -> Option<u64> {
        let begins = |begin: usize| {
            let bits = (self.count - begin) * self.bits % 8;
            let first = ((self.newest as usize) << (8 - bits)) & 0xff;
            let may_begin = || patterns.traits.begins[first..first + (1 << (8 - bits))].contains(&true);
            let position = self.positions[(self.count - bits.div_ceil(self.bits)) % 4];
            (bits >= self.bits && may_begin()).then_some(position)
        };
        (0..self.traces.len().min(self.count)).filter_map(begins).min()
    }

    fn clear(&mut self, patterns: &SecretPatterns) {
        if self.count > 0 {
            self.traces.iter_mut().for_each(|trace| trace.clear(patterns));
            self.count = 0;
            self.is_busy = false;
        }
        self.run = 0;
    }
}

/// How many of the first bytes cannot belong to a run of at least `run_min` characters: those up to the last character
/// that is not in the alphabet.
fn too_short(bytes: &[u8], values: &[u8; 256], run_min: usize) -> usize {
    let Some(bytes) = bytes.get(..run_min) else { return 0 };
    let is_other = |byte: &u8| values[usize::from(*byte)] == NO_VALUE && !is_break(*byte);
    bytes.iter().rposition(is_other).map_or(0, |last| last + 1)
}

fn is_break(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// The last bytes, if they may be a line break within encoded data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineBreak {
    None,
    Return,
    Feed,
}

/// Follows runs of characters of the largest alphabet.
pub struct BaseSearch {
    bases: [Base; 3],
    /// A shorter run cannot contain a secret.
    run_min: usize,
    /// The characters of this run, without line breaks.
    run: usize,
    /// The bases have seen the run up to here.
    seen_until: u64,
    /// Whether the bases have seen any part of the run.
    is_seen: bool,
    line_break: LineBreak,
}

impl BaseSearch {
    pub fn new(patterns: &SecretPatterns) -> Self {
        let (piece, hex) = (patterns.traits.shortest_piece, patterns.traits.shortest_hex);
        let bases = [
            Base::new(patterns, 6, &BASE64, PIECE_BYTES_MIN, piece),
            Base::new(patterns, 5, &BASE32, PIECE_BYTES_MIN, piece),
            Base::new(patterns, 4, &HEX, HEX_BYTES_MIN, hex),
        ];
        let run_min = bases.iter().map(|base| base.run_min).min().unwrap_or(usize::MAX);
        Self { bases, run_min, run: 0, seen_until: 0, is_seen: false, line_break: LineBreak::None }
    }

    pub fn push(&mut self, patterns: &SecretPatterns, window: Window<'_>, hidden: &mut Hidden) {
        let bytes = window.from(window.new);
        let mut at = 0;
        while at < bytes.len() {
            if self.run == 0 && !self.is_seen {
                let skipped = too_short(&bytes[at..], &BASE64, self.run_min);
                if skipped > 0 {
                    at += skipped;
                    self.seen_until = window.new + at as u64;
                    self.line_break = LineBreak::None;
                    continue;
                }
            }
            let is_other = |byte: &u8| BASE64[usize::from(*byte)] == NO_VALUE;
            let length = bytes[at..].iter().position(is_other).unwrap_or(bytes.len() - at);
            if length > 0 {
                self.line_break = LineBreak::None;
                self.run += length;
                at += length;
                continue;
            }
            let position = window.new + at as u64;
            self.line_break = match (bytes[at], self.line_break) {
                (b'\r', LineBreak::None) => LineBreak::Return,
                (b'\n', LineBreak::None | LineBreak::Return) => LineBreak::Feed,
                _ => {
                    self.end_run(patterns, window, position, hidden);
                    LineBreak::None
                }
            };
            at += 1;
        }
        // The following output is unknown, but the amount to hold back must be known now.
        self.see(patterns, window, window.end(), hidden);
        self.bases.iter_mut().for_each(|base| base.decode(patterns, window, window.end(), hidden));
    }

    fn end_run(&mut self, patterns: &SecretPatterns, window: Window<'_>, position: u64, hidden: &mut Hidden) {
        if self.is_seen || self.run >= self.run_min {
            self.see(patterns, window, position, hidden);
            self.bases.iter_mut().for_each(|base| base.end_run(patterns, window, position, hidden));
            self.is_seen = false;
        }
        self.run = 0;
        self.seen_until = position + 1;
    }

    fn see(&mut self, patterns: &SecretPatterns, window: Window<'_>, until: u64, hidden: &mut Hidden) {
        let from = self.seen_until.max(window.base);
        for base in &mut self.bases {
            if !self.is_seen {
                base.decoded_until = from;
            }
        }
        let [base64, others @ ..] = &mut self.bases;
        base64.run = self.run;
        others.iter_mut().for_each(|base| base.push(patterns, window, from, until, hidden));
        self.seen_until = until;
        self.is_seen = true;
    }

    fn clear(&mut self, patterns: &SecretPatterns, end: u64) {
        self.bases.iter_mut().for_each(|base| base.clear(patterns));
        self.is_seen = false;
        (self.run, self.seen_until, self.line_break) = (0, end, LineBreak::None);
    }

    fn traces(&self) -> impl Iterator<Item = &Trace> {
        self.bases.iter().flat_map(|base| &base.traces)
    }

    /// The output from here on may be the beginning of a secret.
    pub fn held_from(&self, patterns: &SecretPatterns) -> u64 {
        let unfinished = self.bases.iter().filter_map(|base| base.unfinished(patterns));
        self.traces().filter_map(Trace::first).chain(unfinished).min().unwrap_or(u64::MAX)
    }

    /// Releases the last characters of a line even if encoded data, split into lines, could begin with them.
    pub fn idle(&mut self, patterns: &SecretPatterns, end: u64) {
        let is_suspicious = || self.traces().any(|trace| trace.suspicious().is_some());
        if self.line_break != LineBreak::None && !is_suspicious() {
            self.clear(patterns, end);
        }
    }

    pub fn finish(&mut self, patterns: &SecretPatterns, end: u64, hidden: &mut Hidden) {
        hidden.extend(self.traces().filter_map(Trace::suspicious));
        self.clear(patterns, end);
    }
}

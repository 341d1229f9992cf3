//! The searches in text: plain, with the escapes of one notation replaced, and in UTF-16.

use aho_corasick::automaton::StateID;

use super::escapes::{Escape, INTRODUCERS, NoEscape, Notation, Text};
use super::patterns::{Hidden, PIECE_BYTES_MIN, SUSPICIOUS_CHARACTERS, SecretPatterns, Trace, Window};

/// A place where an escape or UTF-16 may begin, and the state of the plain search before it.
#[derive(Clone, Copy)]
pub struct Mark {
    pub position: u64,
    pub byte: u8,
    pub state: StateID,
}

/// The search in the plain output. It also records where escapes may begin, for the other searches.
pub struct PlainSearch {
    state: StateID,
    /// The bytes that stop a search in its initial state: beginnings of patterns and of escapes.
    stops: Box<[bool; 256]>,
}

impl PlainSearch {
    pub fn new(patterns: &SecretPatterns) -> Self {
        let mut stops = Box::new(patterns.traits.begins);
        INTRODUCERS.iter().for_each(|byte| stops[usize::from(*byte)] = true);
        Self { state: patterns.start, stops }
    }

    pub fn push(&mut self, patterns: &SecretPatterns, window: Window<'_>, marks: &mut Vec<Mark>, hidden: &mut Hidden) {
        let bytes = window.from(window.new);
        let mut at = 0;
        while at < bytes.len() {
            if self.state == patterns.start {
                let Some(skipped) = bytes[at..].iter().position(|byte| self.stops[usize::from(*byte)]) else { break };
                at += skipped;
            }
            let byte = bytes[at];
            let position = window.new + at as u64;
            if INTRODUCERS.contains(&byte) {
                marks.push(Mark { position, byte, state: self.state });
            }
            at += 1;
            self.state = patterns.next(self.state, byte);
            if let Some(length) = patterns.longest_match(self.state) {
                hidden.push((position + 1 - length as u64, position + 1));
            }
        }
    }

    /// The output from here on may be the beginning of a secret.
    pub fn held_from(&self, patterns: &SecretPatterns, end: u64) -> u64 {
        end - patterns.depth(self.state) as u64
    }

    pub fn finish(&mut self, patterns: &SecretPatterns, end: u64, hidden: &mut Hidden) {
        let depth = patterns.depth(self.state) as u64;
        if depth >= SUSPICIOUS_CHARACTERS {
            hidden.push((end - depth, end));
        }
        self.state = patterns.start;
    }
}

/// The search in the output with the escapes of one notation replaced. The decoded text is the same whichever
/// characters a library escapes. Runs only from an escape until it would find the same as the plain search.
pub struct EscapedSearch {
    notation: Notation,
    trace: Trace,
    active: bool,
    /// The end of the last escape.
    escaped_until: u64,
    /// The beginning of an escape whose end has not arrived yet.
    incomplete: Option<u64>,
}

impl EscapedSearch {
    pub fn new(notation: Notation, patterns: &SecretPatterns) -> Self {
        Self { notation, trace: Trace::new(patterns), active: false, escaped_until: 0, incomplete: None }
    }

    /// `marks` contains every byte that introduces an escape, in the new output and in the previously incomplete part.
    pub fn push(&mut self, patterns: &SecretPatterns, window: Window<'_>, marks: &[Mark], hidden: &mut Hidden) {
        let mut at = self.incomplete.take().unwrap_or(window.new);
        let notation = self.notation;
        let mut marks = marks.iter().filter(|mark| notation.introduces(mark.byte)).peekable();
        while at < window.end() {
            let passed = |mark: &&Mark| mark.position < at;
            while marks.next_if(passed).is_some() {}
            if !self.active {
                let Some(mark) = marks.peek() else { return };
                at = mark.position;
            }
            let rest = window.from(at);
            let mark = marks.peek().filter(|mark| mark.position == at).copied();
            let decoded = if notation.introduces(rest[0]) { notation.decode(rest) } else { Err(NoEscape::Literal) };
            match decoded {
                Err(NoEscape::Literal) if self.active => {
                    self.add(patterns, &rest[..1], at, at + 1, hidden);
                    at += 1;
                }
                Err(NoEscape::Literal) => at += 1,
                Err(NoEscape::Incomplete) => {
                    self.join(patterns, mark.copied());
                    self.incomplete = Some(at);
                    self.active = true;
                    return;
                }
                Ok(Escape { length, text }) => {
                    self.join(patterns, mark.copied());
                    self.escaped_until = at + length as u64;
                    self.add(patterns, text.as_bytes(), at, self.escaped_until, hidden);
                    at = self.escaped_until;
                }
            }
            self.active = self.trace.first().is_some_and(|first| first < self.escaped_until);
        }
    }

    /// Continues from the plain search.
    fn join(&mut self, patterns: &SecretPatterns, mark: Option<Mark>) {
        if !self.active {
            self.trace.clear(patterns);
            if let Some(mark) = mark {
                self.trace.fork(patterns, mark.state, mark.position);
            }
        }
    }

    fn add(&mut self, patterns: &SecretPatterns, text: &[u8], from: u64, to: u64, hidden: &mut Hidden) {
        for byte in text {
            if let Some((start, _)) = self.trace.push(patterns, *byte, (from, to))
                && self.is_long_enough(to - start)
            {
                hidden.push((start, to));
            }
        }
    }

    fn is_long_enough(&self, length: u64) -> bool {
        match self.notation {
            Notation::Percent => true,
            Notation::Form | Notation::Html | Notation::Backslash | Notation::ShellQuote => {
                length >= PIECE_BYTES_MIN as u64
            }
        }
    }

    /// The output from here on may be the beginning of a secret.
    pub fn held_from(&self) -> u64 {
        let traced = self.trace.first().filter(|_| self.active);
        traced.unwrap_or(u64::MAX).min(self.incomplete.unwrap_or(u64::MAX))
    }

    pub fn finish(&mut self, patterns: &SecretPatterns, hidden: &mut Hidden) {
        hidden.extend(self.trace.suspicious().filter(|_| self.active));
        self.trace.clear(patterns);
        self.active = false;
        self.incomplete = None;
    }
}

/// The search in UTF-16, of either byte order, from any byte.
pub struct Utf16Search {
    /// By byte order and by whether code units begin at even positions.
    orders: [Order; 4],
    previous: u8,
    /// Decoded up to here.
    at: u64,
    /// The last zero byte. Text up to Latin-1 has one in every code unit.
    zero: Option<u64>,
}

struct Order {
    is_little_endian: bool,
    /// The parity of the position of a code unit's second byte.
    parity: u64,
    trace: Trace,
    /// The first unit of a surrogate pair.
    high: Option<(u16, u64)>,
}

impl Utf16Search {
    pub fn new(patterns: &SecretPatterns) -> Self {
        let order =
            |is_little_endian, parity| Order { is_little_endian, parity, trace: Trace::new(patterns), high: None };
        let orders = [order(true, 0), order(true, 1), order(false, 0), order(false, 1)];
        Self { orders, previous: b' ', at: 0, zero: None }
    }

    /// `marks` contains every zero byte of the new output.
    pub fn push(&mut self, patterns: &SecretPatterns, window: Window<'_>, marks: &[Mark], hidden: &mut Hidden) {
        let mut zeros = marks.iter().filter(|mark| mark.byte == 0).map(|mark| mark.position).peekable();
        let mut at = self.at;
        while at < window.end() {
            while zeros.next_if(|zero| *zero < at).is_some() {}
            if !patterns.traits.is_wide && !self.is_busy(at) {
                let Some(zero) = zeros.peek() else { break };
                at = *zero;
                self.previous = if at > window.base { window.from(at - 1)[0] } else { self.previous };
            }
            let byte = window.from(at)[0];
            if byte == 0 {
                self.zero = Some(at);
            }
            let unit = [self.previous, byte];
            self.orders.iter_mut().for_each(|order| order.push(patterns, unit, at, hidden));
            self.previous = byte;
            at += 1;
        }
        self.previous = window.bytes.last().copied().unwrap_or(self.previous);
        self.at = window.end();
    }

    fn is_busy(&self, at: u64) -> bool {
        self.zero.is_some_and(|zero| at - zero <= 2) || self.orders.iter().any(|order| order.trace.depth() > 0)
    }

    /// The output from here on may be the beginning of a secret.
    pub fn held_from(&self, patterns: &SecretPatterns) -> u64 {
        let traced = self.orders.iter().filter_map(|order| order.trace.first()).min();
        // Within UTF-16 text, the previous byte may be the first half of a character.
        let is_within = self.zero.is_some_and(|zero| self.at - zero <= 2);
        let half = is_within && patterns.traits.begins[usize::from(self.previous)];
        traced.unwrap_or(u64::MAX).min(if half { self.at - 1 } else { u64::MAX })
    }

    pub fn finish(&mut self, patterns: &SecretPatterns, hidden: &mut Hidden) {
        for order in &mut self.orders {
            hidden.extend(order.trace.suspicious());
            order.trace.clear(patterns);
            order.high = None;
        }
        self.zero = None;
    }
}

impl Order {
    /// `position` is that of the second byte.
    fn push(&mut self, patterns: &SecretPatterns, bytes: [u8; 2], position: u64, hidden: &mut Hidden) {
        if position % 2 != self.parity {
            return;
        }
        let unit = if self.is_little_endian { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) };
        let start = position.saturating_sub(1);
        let (units, start) = match self.high.take() {
            Some((high, at)) => ([high, unit], at),
            None if (0xd800..0xdc00).contains(&unit) => {
                self.high = Some((unit, start));
                return;
            }
            None => ([unit, 0], start),
        };
        let character = char::decode_utf16(units).next().and_then(Result::ok).unwrap_or('\0');
        for byte in Text::from(character).as_bytes() {
            if let Some((start, length)) = self.trace.push(patterns, *byte, (start, position + 1))
                && length >= PIECE_BYTES_MIN
            {
                hidden.push((start, position + 1));
            }
        }
    }
}

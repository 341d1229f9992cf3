//! Searches dumps: bytes or words as separate numbers, as written by `xxd`, `hexdump`, `od` or a debugger, with or
//! without offsets at the beginning of each line and text at its end.

use super::bases::HEX;
use super::patterns::{Hidden, PIECE_BYTES_MIN, SecretPatterns, Trace, Window};

/// The digits of the longest number, and of an offset.
const DIGITS_MAX: usize = 16;
/// Offsets are at least this long.
const OFFSET_DIGITS_MIN: usize = 4;
/// The maximum distance between two numbers, except at the beginning of a line.
const GAP_BYTES_MAX: u64 = 4;
const INDENT_BYTES_MAX: u64 = 32;
/// The number of bytes before a wider gap in the middle of a line.
const HALF_LINE: usize = 8;
/// The maximum length of the text at the end of a line.
const TEXT_BYTES_MAX: u64 = 160;

pub struct DumpSearch {
    /// The bytes of each number in the order of the digits, and in reverse order.
    traces: [Trace; 2],
    /// The first digits of numbers that may be part of a secret.
    first_digits: Box<[bool; 256]>,
    /// Where to continue; before the end of the output if a number is not complete there.
    at: u64,
    /// The previous byte.
    previous: u8,
    /// The digits of the last number.
    digits: usize,
    /// How many numbers this line has so far.
    numbers: usize,
    place: DumpPosition,
    /// Whether this line contains the end of a secret, so that its text does too.
    has_secret: bool,
}

/// The position within a dump.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DumpPosition {
    /// Not in a dump that contains the beginning of a secret.
    Outside,
    /// After a number.
    Gap { since: u64 },
    /// At the beginning of a line, before its offset or its first number.
    Line { since: u64 },
    /// In the text at the end of a line.
    Text { since: u64 },
}

impl DumpSearch {
    pub fn new(patterns: &SecretPatterns) -> Self {
        let traces = [Trace::new(patterns), Trace::new(patterns)];
        let mut first_digits = Box::new([false; 256]);
        // Octal numbers and `0x` begin with these.
        b"0123".iter().for_each(|digit| first_digits[usize::from(*digit)] = true);
        for digit in 0..=u8::MAX {
            let high = HEX[usize::from(digit)];
            let begins = |byte: u8| byte >> 4 == high && patterns.traits.contains[usize::from(byte)];
            first_digits[usize::from(digit)] |= (0..=u8::MAX).any(begins);
        }
        Self {
            traces,
            first_digits,
            at: 0,
            previous: b' ',
            digits: 0,
            numbers: 0,
            place: DumpPosition::Outside,
            has_secret: false,
        }
    }

    pub fn push(&mut self, patterns: &SecretPatterns, window: Window<'_>, hidden: &mut Hidden) {
        self.search(patterns, window, false, hidden);
    }

    fn search(&mut self, patterns: &SecretPatterns, window: Window<'_>, is_end: bool, hidden: &mut Hidden) {
        while self.at < window.end() {
            let rest = window.from(self.at);
            if self.place == DumpPosition::Outside {
                let Some(skipped) = self.next_number(rest) else {
                    self.previous = rest[rest.len() - 1];
                    self.at = window.end();
                    return;
                };
                self.at += skipped as u64;
                self.previous = if skipped > 0 { rest[skipped - 1] } else { self.previous };
            }
            let rest = window.from(self.at);
            if matches!(self.place, DumpPosition::Text { .. }) || !is_word(rest[0]) {
                self.separator(patterns, rest[0], hidden);
                continue;
            }
            let number = Number::parse(rest);
            if number.length == rest.len() && !is_end && number.may_grow() {
                return;
            }
            self.number(patterns, number, rest.get(number.length).copied(), hidden);
        }
    }

    /// Skips to the next number that may be part of a secret.
    fn next_number(&self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            at += bytes[at..].iter().position(|byte| self.first_digits[usize::from(*byte)])?;
            let previous = if at > 0 { bytes[at - 1] } else { self.previous };
            if !is_word(previous) {
                return Some(at);
            }
            at += 1;
        }
    }

    fn separator(&mut self, patterns: &SecretPatterns, byte: u8, hidden: &mut Hidden) {
        let position = self.at;
        self.at += 1;
        let previous = std::mem::replace(&mut self.previous, byte);
        self.place = match (self.place, byte) {
            (DumpPosition::Outside, _) => DumpPosition::Outside,
            (_, b'\n') => {
                self.has_secret = false;
                self.numbers = 0;
                self.unless_done(DumpPosition::Line { since: position + 1 })
            }
            (DumpPosition::Text { since }, _) if position - since < TEXT_BYTES_MAX => {
                if self.has_secret {
                    hidden.push((since, position + 1));
                }
                DumpPosition::Text { since }
            }
            (DumpPosition::Line { since }, b' ' | b'\t' | b'\r') if position - since < INDENT_BYTES_MAX => self.place,
            (DumpPosition::Gap { since }, b',' | b':' | b'-') if position == since && is_word(previous) => {
                DumpPosition::Gap { since: position + 1 }
            }
            (DumpPosition::Gap { since }, b' ' | b'\t' | b'\r') if position - since < GAP_BYTES_MAX => self.place,
            // The rest of the line belongs to the dump only if it is set apart.
            (DumpPosition::Gap { since }, _)
                if position - since >= 2 || previous == b' ' && matches!(byte, b'|' | b'>') =>
            {
                if self.has_secret {
                    hidden.push((since, position + 1));
                }
                DumpPosition::Text { since }
            }
            (DumpPosition::Gap { .. } | DumpPosition::Line { .. } | DumpPosition::Text { .. }, _) => {
                return self.leave(patterns);
            }
        };
    }

    /// `next` is the byte after the number.
    fn number(&mut self, patterns: &SecretPatterns, number: Number<'_>, next: Option<u8>, hidden: &mut Hidden) {
        let (start, end) = (self.at, self.at + number.length as u64);
        let is_offset = matches!(self.place, DumpPosition::Line { .. })
            && number.is_offset()
            && (next == Some(b':') || number.digits.len() != self.digits);
        let gap = if let DumpPosition::Gap { since } = self.place { start - since } else { 0 };
        // Two spaces come before the text, or in the middle of a line of single bytes.
        let is_over = self.has_secret && self.traces.iter().all(|trace| trace.depth() == 0);
        let is_wide = gap > 2 || gap == 2 && (self.digits > 3 || self.numbers > HALF_LINE || is_over);
        let is_text = is_wide && self.numbers > 0;
        let fits = self.place == DumpPosition::Outside || number.digits.len() <= self.digits && !is_text;
        if is_offset {
            self.pass(end + u64::from(next == Some(b':')), b':');
            self.place = DumpPosition::Gap { since: self.at };
            return;
        }
        let Some((bytes, count)) = number.bytes(self.is_in_words()).filter(|_| fits) else {
            if gap >= 2 && self.numbers > 0 {
                self.place = DumpPosition::Text { since: start - gap };
                return;
            }
            // The number may begin another dump, so it is examined again as the first one.
            if self.place == DumpPosition::Outside {
                self.pass(end, b'0');
            }
            return self.leave(patterns);
        };
        self.digits = number.digits.len();
        self.numbers += 1;
        for index in 0..count {
            for (trace, byte) in self.traces.iter_mut().zip([bytes[index], bytes[count - 1 - index]]) {
                if let Some((first, length)) = trace.push(patterns, byte, (start, end))
                    && length >= PIECE_BYTES_MIN
                {
                    hidden.push((first, end));
                    self.has_secret = true;
                }
            }
        }
        self.pass(end, b'0');
        self.place = self.unless_done(DumpPosition::Gap { since: end });
    }

    /// Whether the dump consists of hexadecimal words, of which the last may have fewer bytes.
    fn is_in_words(&self) -> bool {
        self.place != DumpPosition::Outside && self.digits >= 8
    }

    fn pass(&mut self, end: u64, last: u8) {
        self.at = end;
        self.previous = last;
    }

    fn unless_done(&mut self, place: DumpPosition) -> DumpPosition {
        let is_done = !self.has_secret && self.traces.iter().all(|trace| trace.depth() == 0);
        if is_done {
            self.numbers = 0;
            return DumpPosition::Outside;
        }
        place
    }

    fn leave(&mut self, patterns: &SecretPatterns) {
        self.traces.iter_mut().for_each(|trace| trace.clear(patterns));
        self.place = DumpPosition::Outside;
        self.has_secret = false;
        self.numbers = 0;
    }

    /// The output from here on may be the beginning of a secret.
    pub fn held_from(&self, end: u64) -> u64 {
        let traced = self.traces.iter().filter_map(Trace::first).min();
        traced.unwrap_or(u64::MAX).min(if self.at < end { self.at } else { u64::MAX })
    }

    /// Treats the last number as complete.
    pub fn idle(&mut self, patterns: &SecretPatterns, window: Window<'_>, hidden: &mut Hidden) {
        self.search(patterns, window, true, hidden);
    }

    pub fn finish(&mut self, patterns: &SecretPatterns, window: Window<'_>, hidden: &mut Hidden) {
        self.search(patterns, window, true, hidden);
        hidden.extend(self.traces.iter().filter_map(Trace::suspicious));
        self.leave(patterns);
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// A word that may be a number.
#[derive(Clone, Copy)]
struct Number<'a> {
    /// Without `0x`.
    digits: &'a [u8],
    /// The length of the whole word.
    length: usize,
}

impl<'a> Number<'a> {
    fn parse(bytes: &'a [u8]) -> Self {
        let length = bytes.iter().take(DIGITS_MAX + 3).take_while(|byte| is_word(**byte)).count();
        let word = &bytes[..length];
        let digits = word.strip_prefix(b"0x").or_else(|| word.strip_prefix(b"x")).unwrap_or(word);
        Self { digits, length }
    }

    fn is_offset(&self) -> bool {
        (OFFSET_DIGITS_MIN..=DIGITS_MAX).contains(&self.digits.len()) && self.is_hex()
    }

    /// Whether it may be the beginning of a number.
    fn may_grow(&self) -> bool {
        self.digits.len() <= DIGITS_MAX && (self.is_hex() || self.digits == b"x")
    }

    fn is_hex(&self) -> bool {
        self.digits.iter().all(|digit| HEX[usize::from(*digit)] < 16)
    }

    /// Bytes have two digits, or three octal ones; words have four, eight or sixteen, or six octal ones.
    fn bytes(&self, is_in_words: bool) -> Option<([u8; 8], usize)> {
        let text = std::str::from_utf8(self.digits).ok()?;
        let (radix, count) = match self.digits.len() {
            digits if is_in_words && digits % 2 == 0 && digits <= DIGITS_MAX => (16, digits / 2),
            2 => (16, 1),
            3 => (8, 1),
            4 => (16, 2),
            6 => (8, 2),
            8 => (16, 4),
            16 => (16, 8),
            _ => return None,
        };
        let value = u64::from_str_radix(text, radix).ok().filter(|value| count == 8 || value >> (8 * count) == 0)?;
        let mut bytes = [0; 8];
        bytes[..count].copy_from_slice(&value.to_be_bytes()[8 - count..]);
        Some((bytes, count))
    }
}

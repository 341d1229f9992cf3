//! The search in UTF-16, of either byte order, beginning at any byte.

use super::escapes::Text;
use super::patterns::{PIECE_BYTES_MIN, SecretPatterns};
use super::plain::Mark;
use super::trace::{Hidden, Trace, Window};

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

    /// `marks` has every zero byte of the new output.
    pub fn push(&mut self, patterns: &SecretPatterns, window: Window<'_>, marks: &[Mark], hidden: &mut Hidden) {
        let mut zeros = marks.iter().filter(|mark| mark.byte == 0).map(|mark| mark.position).peekable();
        let mut at = self.at;
        while at < window.end() {
            while zeros.next_if(|zero| *zero < at).is_some() {}
            if !patterns.traits().is_wide && !self.is_busy(at) {
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
        // Within such text, the first half of a character.
        let is_within = self.zero.is_some_and(|zero| self.at - zero <= 2);
        let half = is_within && patterns.traits().begins[usize::from(self.previous)];
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

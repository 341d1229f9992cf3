//! The search in the output with the escapes of one notation replaced. Whatever a library escapes and whatever it leaves
//! alone, the decoded text is the same.

use super::escapes::{Decoded, Notation};
use super::patterns::{PIECE_BYTES_MIN, SecretPatterns};
use super::plain::Mark;
use super::trace::{Hidden, Trace, Window};

/// Runs only from an escape on until it would find the same as the plain search.
pub struct EscapedSearch {
    notation: Notation,
    trace: Trace,
    active: bool,
    /// The end of the last escape.
    escaped_until: u64,
    /// The beginning of an escape whose end has not arrived.
    incomplete: Option<u64>,
}

impl EscapedSearch {
    pub fn new(notation: Notation, patterns: &SecretPatterns) -> Self {
        Self { notation, trace: Trace::new(patterns), active: false, escaped_until: 0, incomplete: None }
    }

    /// `marks` has every byte that introduces an escape, of the new output and of what was incomplete before.
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
            let decoded = if notation.introduces(rest[0]) { notation.decode(rest) } else { Decoded::Literal };
            match decoded {
                Decoded::Literal if self.active => {
                    self.add(patterns, &rest[..1], at, at + 1, hidden);
                    at += 1;
                }
                Decoded::Literal => at += 1,
                Decoded::Incomplete => {
                    self.join(patterns, mark.copied());
                    self.incomplete = Some(at);
                    self.active = true;
                    return;
                }
                Decoded::Escape { length, text } => {
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

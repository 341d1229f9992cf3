//! The search in the output as it is. It also notes where escapes may begin, for the other searches.

use aho_corasick::automaton::StateID;

use super::escapes::INTRODUCERS;
use super::patterns::SecretPatterns;
use super::trace::{Hidden, SUSPICIOUS_CHARACTERS, Window};

/// A place where an escape or UTF-16 may begin, and the state of the plain search before it.
#[derive(Clone, Copy)]
pub struct Mark {
    pub position: u64,
    pub byte: u8,
    pub state: StateID,
}

pub struct PlainSearch {
    state: StateID,
    /// The bytes at which a search at its start has to stop: beginnings of patterns and of escapes.
    stops: Box<[bool; 256]>,
}

impl PlainSearch {
    pub fn new(patterns: &SecretPatterns) -> Self {
        let mut stops = Box::new(patterns.traits().begins);
        INTRODUCERS.iter().for_each(|byte| stops[usize::from(*byte)] = true);
        Self { state: patterns.start(), stops }
    }

    pub fn push(&mut self, patterns: &SecretPatterns, window: Window<'_>, marks: &mut Vec<Mark>, hidden: &mut Hidden) {
        let bytes = window.from(window.new);
        let mut at = 0;
        while at < bytes.len() {
            if self.state == patterns.start() {
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
        self.state = patterns.start();
    }
}

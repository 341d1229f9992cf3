//! What was said when all went well: a line that also stood in the log of the last success is not why this one failed.

use std::collections::HashMap;

use super::text::{cleaned, likeness};
use crate::analysis::Line;

/// A line that is said so many times as often now, and that many times more, counts all the same.
const TIMES: usize = 3;
const MORE: usize = 5;

/// How often each line was said, by its likeness.
#[derive(Default)]
pub(super) struct Known {
    then: HashMap<u64, usize>,
}

impl Known {
    /// Lines of the last success.
    pub fn pass(&mut self, lines: &[Line]) {
        for line in lines {
            *self.then.entry(likeness(&cleaned(&line.text))).or_default() += 1;
        }
    }

    /// How often lines are said now. Empty if there is nothing to compare with.
    pub fn counted<'a>(&self, lines: impl Iterator<Item = &'a Line>) -> HashMap<u64, usize> {
        let mut counts = HashMap::new();
        for line in lines.filter(|_| !self.then.is_empty()) {
            *counts.entry(likeness(&cleaned(&line.text))).or_default() += 1;
        }
        counts
    }

    pub fn is_known(&self, line: &Line, counted: &HashMap<u64, usize>) -> bool {
        if self.then.is_empty() {
            return false;
        }
        let likeness = likeness(&cleaned(&line.text));
        let count = |counts: &HashMap<u64, usize>| counts.get(&likeness).copied().unwrap_or(0);
        let (then, now) = (count(&self.then), count(counted));
        then > 0 && (now <= then * TIMES || now <= then + MORE)
    }

    /// Whether there is something to compare with, and it has no such line.
    pub fn is_new(&self, line: &Line) -> bool {
        !self.then.is_empty() && !self.then.contains_key(&likeness(&cleaned(&line.text)))
    }
}

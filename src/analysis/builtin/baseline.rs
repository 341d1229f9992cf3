//! The log of the last success: a line that was also in it is not the reason of this failure.

use std::collections::HashMap;

use super::text::{cleaned, fingerprint};
use crate::analysis::CaseLine;

/// A line counts nevertheless if it occurs more than `TIMES` as often now, and more than `MORE` times more.
const TIMES: usize = 3;
const MORE: usize = 5;

/// The number of occurrences of each line, by its fingerprint.
#[derive(Default)]
pub(super) struct Baseline {
    counts: HashMap<u64, usize>,
}

impl Baseline {
    /// Adds lines of the last success.
    pub fn add(&mut self, lines: &[CaseLine]) {
        for line in lines {
            *self.counts.entry(fingerprint(&cleaned(&line.text))).or_default() += 1;
        }
    }

    /// The occurrences in the failed deployment. Empty if there is nothing to compare with.
    pub fn count_now<'a>(&self, lines: impl Iterator<Item = &'a CaseLine>) -> HashMap<u64, usize> {
        let mut counts = HashMap::new();
        for line in lines.filter(|_| !self.counts.is_empty()) {
            *counts.entry(fingerprint(&cleaned(&line.text))).or_default() += 1;
        }
        counts
    }

    /// Whether the line is about as frequent as in the last success.
    pub fn is_usual(&self, line: &CaseLine, counted_now: &HashMap<u64, usize>) -> bool {
        if self.counts.is_empty() {
            return false;
        }
        let fingerprint = fingerprint(&cleaned(&line.text));
        let count = |counts: &HashMap<u64, usize>| counts.get(&fingerprint).copied().unwrap_or(0);
        let (then, now) = (count(&self.counts), count(counted_now));
        then > 0 && (now <= then * TIMES || now <= then + MORE)
    }

    /// Whether there is a last success and it had no such line.
    pub fn is_new(&self, line: &CaseLine) -> bool {
        !self.counts.is_empty() && !self.counts.contains_key(&fingerprint(&cleaned(&line.text)))
    }
}

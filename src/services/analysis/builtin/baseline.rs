//! The logs of the last successes: a line that was also in them is hardly the reason of this failure. It weighs less, unless
//! it repeats itself, comes last, or the program gives up on it.

use std::collections::HashMap;

use super::templates::Templates;
use super::text::{cleaned, fingerprint};
use crate::analysis::CaseLine;

/// A line counts fully if it occurs more than `TIMES` as often now, and more than `MORE` times more.
const TIMES: usize = 3;
const MORE: usize = 5;
/// The weight of a line that all successes had, and of one that only looks like one of theirs.
const SAME: f64 = 0.3;
const ALIKE: f64 = 0.75;
/// The same for a line with which the log ends.
const AT_THE_END: f64 = 0.8;

/// The lines of successes, by their fingerprint and by their template.
#[derive(Default)]
pub(super) struct Baseline {
    successes: usize,
    counts: HashMap<u64, Counted>,
    templates: Templates,
}

#[derive(Default)]
struct Counted {
    /// Occurrences in the success that has most.
    most: usize,
    /// In the success that is being read.
    here: usize,
    /// Successes that have it.
    successes: usize,
}

impl Baseline {
    /// Lines of another success follow, the last one first.
    pub fn begin(&mut self) {
        self.successes += 1;
        self.counts.values_mut().for_each(|counted| counted.here = 0);
    }

    /// Adds lines of a success.
    pub fn add(&mut self, lines: &[CaseLine]) {
        for line in lines {
            let text = cleaned(&line.text);
            let counted = self.counts.entry(fingerprint(&text)).or_default();
            counted.successes += usize::from(counted.here == 0);
            counted.here += 1;
            counted.most = counted.most.max(counted.here);
            self.templates.learn(&text);
        }
    }

    /// The occurrences in the failed deployment. Empty if there is nothing to compare with.
    pub fn count_now<'a>(&self, lines: impl Iterator<Item = &'a CaseLine>) -> HashMap<u64, usize> {
        let mut counts = HashMap::new();
        for line in lines.filter(|_| self.successes > 0) {
            *counts.entry(fingerprint(&cleaned(&line.text))).or_default() += 1;
        }
        counts
    }

    /// From 0 to 1: how much the line counts, of which the log may end.
    pub fn weight(&self, line: &CaseLine, counted_now: &HashMap<u64, usize>, ends: bool) -> f64 {
        if self.successes == 0 {
            return 1.0;
        }
        let text = cleaned(&line.text);
        let fingerprint = fingerprint(&text);
        let now = counted_now.get(&fingerprint).copied().unwrap_or(0);
        let usual = match self.counts.get(&fingerprint) {
            Some(then) if now > then.most * TIMES && now > then.most + MORE => 1.0,
            Some(then) => {
                let share = then.successes as f64 / self.successes as f64;
                1.0 - (1.0 - SAME) * share
            }
            None if self.templates.find(&text).is_some() => ALIKE,
            None => 1.0,
        };
        if ends { usual.max(AT_THE_END) } else { usual }
    }

    /// Whether there is a success and none had such a line.
    pub fn is_new(&self, line: &CaseLine) -> bool {
        self.successes > 0 && !self.counts.contains_key(&fingerprint(&cleaned(&line.text)))
    }
}

//! The logs of recent successes: a line that was also in them is unlikely to be the reason of this failure. It weighs
//! less, unless it repeats, is at the end, or the program gives up because of it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::text::{cleaned, fingerprint};
use crate::CaseLine;

/// A line has full weight if it occurs more than `TIMES` as often now, and more than `MORE` times more.
const TIMES: usize = 3;
const MORE: usize = 5;
/// The weight of a line that all successes had, and of one that only resembles such a line.
const SAME: f64 = 0.3;
const ALIKE: f64 = 0.75;
/// The weight for a line at the end of the log.
const AT_THE_END: f64 = 0.8;

/// The lines of successes, by their fingerprint and by their template.
#[derive(Default)]
pub(super) struct Baseline {
    successes: usize,
    counts: HashMap<u64, Occurrences>,
    templates: Templates,
}

#[derive(Default)]
struct Occurrences {
    /// Occurrences in the success with the most.
    most: usize,
    /// Occurrences in the success that is being read.
    here: usize,
    /// The number of successes with the line.
    successes: usize,
}

impl Baseline {
    /// Begins another success; the newest comes first.
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

    /// The weight of a line, from 0 to 1. `ends`: the step ends with the line, or gives up right after it.
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

    /// Whether there are successes, but none had such a line.
    pub fn is_new(&self, line: &CaseLine) -> bool {
        self.successes > 0 && !self.counts.contains_key(&fingerprint(&cleaned(&line.text)))
    }
}

/// The share of words that must agree.
const AGREEING: f64 = 0.7;
/// The maximum number of templates with one first word and length, and in total. Further ones are not learnt.
const OF_BRANCH_MAX: usize = 24;
const TEMPLATES_MAX: usize = 20_000;
/// The words of a line that are compared.
const WORDS_MAX: usize = 40;
/// Marks a position that differs between runs: a number, a path, a hash.
const GAP: u64 = 0;

/// Templates of lines, learnt by Drain: lines with as many words and the same first word belong together if most of
/// their words agree; the template has a gap where they differ. Its size is bounded for any input.
///
/// After He, Zhu, Zheng and Lyu, "Drain: An Online Log Parsing Approach with Fixed Depth Tree" (ICWS 2017).
#[derive(Default)]
struct Templates {
    branches: HashMap<(usize, u64), Vec<usize>>,
    /// The words of each, hashed; [`GAP`] where they differ.
    templates: Vec<Vec<u64>>,
}

impl Templates {
    /// The template of a line, generalized if it has to be; None if there is no room for a new one.
    fn learn(&mut self, line: &str) -> Option<usize> {
        let words = words(line);
        if let Some(known) = self.closest(&words) {
            for (slot, word) in self.templates[known].iter_mut().zip(&words) {
                if slot != word {
                    *slot = GAP;
                }
            }
            return Some(known);
        }
        let branch = self.branches.entry(branch_of(&words)).or_default();
        if branch.len() == OF_BRANCH_MAX || self.templates.len() == TEMPLATES_MAX {
            return None;
        }
        branch.push(self.templates.len());
        self.templates.push(words);
        Some(self.templates.len() - 1)
    }

    /// The template of a line.
    fn find(&self, line: &str) -> Option<usize> {
        self.closest(&words(line))
    }

    fn closest(&self, words: &[u64]) -> Option<usize> {
        let branch = self.branches.get(&branch_of(words))?;
        let agreement = |index: &usize| {
            let template = &self.templates[*index];
            let agreeing = template.iter().zip(words).filter(|(slot, word)| **slot == GAP || slot == word).count();
            if words.is_empty() { 1.0 } else { agreeing as f64 / words.len() as f64 }
        };
        let best = branch.iter().map(|index| (*index, agreement(index))).max_by(|one, other| one.1.total_cmp(&other.1));
        best.filter(|(_, agreement)| *agreement >= AGREEING).map(|(index, _)| index)
    }
}

fn branch_of(words: &[u64]) -> (usize, u64) {
    (words.len(), words.first().copied().unwrap_or(GAP))
}

fn words(line: &str) -> Vec<u64> {
    line.split_whitespace().take(WORDS_MAX).map(word).collect()
}

/// Zero is different from other numbers: `0 failed` and `3 failed` do not mean the same.
fn word(word: &str) -> u64 {
    let varies = word.contains('/') || word.bytes().any(|byte| byte.is_ascii_digit());
    let is_zero = word.trim_matches(|c: char| c.is_ascii_punctuation()) == "0";
    if varies && !is_zero {
        return GAP;
    }
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_in_a_word_have_one_template() {
        let mut templates = Templates::default();
        let first = templates.learn("cache: user alice has no access to bucket assets");
        assert_eq!(templates.learn("cache: user bob has no access to bucket assets"), first);
        assert_eq!(templates.find("cache: user carol has no access to bucket assets"), first);
        assert_eq!(templates.find("redis: user carol has no access to bucket assets"), None);
        assert_eq!(templates.find("cache: all is well with the bucket of assets"), None);
    }

    #[test]
    fn numbers_and_paths_vary_and_zero_does_not() {
        let mut templates = Templates::default();
        let first = templates.learn("tests: 3 failed in /tmp/a");
        assert_eq!(templates.find("tests: 17 failed in /tmp/b"), first);
        assert!(templates.find("tests: 0 failed").is_none());
    }

    #[test]
    fn whatever_is_learnt_there_is_a_bound() {
        let mut templates = Templates::default();
        for number in 0..100_000 {
            let name = (0..8).map(|bit| if number >> bit & 1 == 1 { 'a' } else { 'b' }).collect::<String>();
            let other = (8..17).map(|bit| if number >> bit & 1 == 1 { 'c' } else { 'd' }).collect::<String>();
            templates.learn(&format!("{name} {other}"));
        }
        assert!(templates.templates.len() <= TEMPLATES_MAX);
        assert!(templates.branches.values().all(|branch| branch.len() <= OF_BRANCH_MAX));
        assert!(templates.learn("").is_some() && templates.find("").is_some());
    }
}

//! Owns what a rule has found: all of it counted, the first few told with the requests that show them.

use super::line;
use crate::history::{History, Record};
use crate::report::model::{Check, Violation};

/// How many are told: enough to see a pattern, and few enough to be read.
const TOLD_MAX: usize = 5;

pub struct Findings<'h> {
    history: &'h History,
    check: Check,
}

impl<'h> Findings<'h> {
    pub fn new(history: &'h History, name: &str) -> Self {
        let check = Check { name: name.to_owned(), examined: 0, violation_count: 0, violations: Vec::new() };
        Self { history, check }
    }

    /// One more thing was compared.
    pub fn examined(&mut self) {
        self.check.examined += 1;
    }

    /// A sentence is made only of those that are told.
    pub fn wrong(&mut self, what: impl FnOnce() -> String, requests: &[&Record]) {
        self.check.violation_count += 1;
        if self.check.violations.len() == TOLD_MAX {
            return;
        }
        let mut requests = requests.to_vec();
        requests.sort_by_key(|record| (record.sent, record.ended));
        requests.dedup_by(|one, other| std::ptr::eq(*one, *other));
        let requests = requests.into_iter().map(|record| line::of(self.history, record)).collect();
        self.check.violations.push(Violation { what: what(), requests });
    }

    pub fn into_check(self) -> Check {
        self.check
    }
}

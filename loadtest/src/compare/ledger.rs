//! Owns what makes a system a lock, checked on the clients' side over the whole run: every grant's fencing token rises,
//! and nobody gets the hot lock while another still holds it. A peer that cheats is no peer.

use std::collections::HashMap;

use crate::compare::peer::System;
use crate::report::model::{Check, Violation};

/// Nobody reads more of them.
const MAX_LISTED: usize = 10;

pub struct Ledger {
    system: System,
    last_tokens: HashMap<u32, u64>,
    holder: Option<u32>,
    tokens: Rule,
    exclusion: Rule,
}

#[derive(Default)]
struct Rule {
    examined: u64,
    violation_count: u64,
    violations: Vec<String>,
}

impl Ledger {
    pub fn new(system: System) -> Self {
        let (tokens, exclusion) = Default::default();
        Self { system, last_tokens: HashMap::new(), holder: None, tokens, exclusion }
    }

    /// Grants are told in the order in which their answers came. A right lock grants a name again only after its release
    /// was sent, so this is also the order of the grants.
    pub fn granted(&mut self, name: u32, token: Option<u64>) {
        let Some(token) = token else { return };
        self.tokens.examined += 1;
        if let Some(before) = self.last_tokens.insert(name, token).filter(|before| token <= *before) {
            self.tokens.broken(format!("name {name}: fencing token {token} came after {before}"));
        }
    }

    /// A client has the hot lock from here until it says that it is about to release it.
    pub fn holds(&mut self, client: u32) {
        self.exclusion.examined += 1;
        if let Some(other) = self.holder.replace(client) {
            self.exclusion.broken(format!("client {client} got the lock while client {other} held it"));
        }
    }

    pub fn releases(&mut self, client: u32) {
        // Unless it was overrun, which has been told.
        if self.holder == Some(client) {
            self.holder = None;
        }
    }

    /// Clients that were cut off do not release.
    pub fn turn_ended(&mut self) {
        self.holder = None;
    }

    pub fn checks(&self) -> Vec<Check> {
        let system = self.system.title();
        [("fencing tokens rise", &self.tokens), ("one holder at a time", &self.exclusion)]
            .into_iter()
            .map(|(name, rule)| Check {
                name: format!("{system}: {name}"),
                examined: rule.examined,
                violation_count: rule.violation_count,
                violations: rule.violations.iter().map(|what| violation(what)).collect(),
            })
            .collect()
    }
}

impl Rule {
    fn broken(&mut self, what: String) {
        self.violation_count += 1;
        if self.violations.len() < MAX_LISTED {
            self.violations.push(what);
        }
    }
}

fn violation(what: &str) -> Violation {
    Violation { what: what.to_owned(), requests: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(ledger: &Ledger) -> u64 {
        ledger.checks().iter().map(|check| check.violation_count).sum()
    }

    #[test]
    fn a_token_that_does_not_rise_is_a_violation_of_its_name_alone() {
        let mut ledger = Ledger::new(System::Redis);
        for (name, token) in [(1, 5), (2, 1), (1, 7), (2, 2)] {
            ledger.granted(name, Some(token));
        }
        assert_eq!(violations(&ledger), 0);
        ledger.granted(1, Some(7));
        ledger.granted(2, Some(1));
        assert_eq!(violations(&ledger), 2);
    }

    #[test]
    fn two_holders_at_once_are_a_violation() {
        let mut ledger = Ledger::new(System::Etcd);
        ledger.holds(1);
        ledger.releases(1);
        ledger.holds(2);
        assert_eq!(violations(&ledger), 0);
        ledger.holds(3);
        ledger.releases(2);
        ledger.holds(4);
        assert_eq!(violations(&ledger), 2);
        ledger.turn_ended();
        ledger.holds(5);
        assert_eq!(violations(&ledger), 2);
    }

    #[test]
    fn the_list_of_violations_is_bounded_and_their_count_is_not() {
        let mut ledger = Ledger::new(System::Postgres);
        (0..100).for_each(|_| ledger.granted(1, Some(1)));
        let check = &ledger.checks()[0];
        assert_eq!((check.examined, check.violation_count, check.violations.len()), (100, 99, MAX_LISTED));
    }
}

//! Owns one connection's share of the environments: whose turn it is, and that each fencing token rises as promised.

use std::ops::Range;

/// Environments that belong to one connection alone, so that none of its claims can be refused.
pub struct Share {
    first: u32,
    environments: Vec<Environment>,
    next: usize,
    left: usize,
}

#[derive(Clone, Default)]
struct Environment {
    last_token: Option<u64>,
    left_out: bool,
}

/// How a fencing token broke the promise.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("fencing token {now} came after {before}: it must rise")]
    NotRisen { before: u64, now: u64 },
    #[error("fencing token {now} came after {before}: nobody else claims here, so it must rise by exactly one")]
    Skipped { before: u64, now: u64 },
}

/// Numbers (from 1) of the environments of one connection out of many; the shares differ in size by one at most.
pub fn share_of(connection: u32, connections: u32, environments: u32) -> Range<u32> {
    let start = |connection: u32| {
        let before = u64::from(connection) * u64::from(environments) / u64::from(connections);
        u32::try_from(before).expect("at most the number of environments, which is a u32") + 1
    };
    start(connection)..start(connection + 1)
}

impl Share {
    pub fn new(numbers: Range<u32>) -> Self {
        let environments = vec![Environment::default(); numbers.len()];
        Self { first: numbers.start, left: environments.len(), environments, next: 0 }
    }

    pub fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        (self.first..).take(self.environments.len())
    }

    /// Round and round, over those that are not left out; none if all are.
    pub fn advance(&mut self) -> Option<u32> {
        if self.left == 0 {
            return None;
        }
        loop {
            let index = self.next;
            self.next = (index + 1) % self.environments.len();
            if !self.environments[index].left_out {
                return Some(self.first + u32::try_from(index).expect("the shares are counted in u32"));
            }
        }
    }

    /// For an environment in an unknown state, where the next claim would rightly be refused.
    pub fn leave_out(&mut self, number: u32) {
        let environment = self.environment(number);
        if !environment.left_out {
            environment.left_out = true;
            self.left -= 1;
        }
    }

    pub fn granted(&mut self, number: u32, token: u64, other_clients: bool) -> Result<(), Violation> {
        match self.environment(number).last_token.replace(token) {
            Some(before) if token <= before => Err(Violation::NotRisen { before, now: token }),
            Some(before) if token > before + 1 && !other_clients => Err(Violation::Skipped { before, now: token }),
            Some(_) | None => Ok(()),
        }
    }

    fn environment(&mut self, number: u32) -> &mut Environment {
        &mut self.environments[(number - self.first) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_cover_every_environment_once() {
        for (connections, environments) in [(1, 1), (3, 10), (64, 1_000), (20_000, 1_000_000), (7, 7)] {
            let mut expected = 1;
            for connection in 0..connections {
                let share = share_of(connection, connections, environments);
                assert_eq!(share.start, expected);
                assert!(!share.is_empty());
                expected = share.end;
            }
            assert_eq!(expected, environments + 1);
        }
    }

    #[test]
    fn a_walk_goes_round_and_passes_over_what_is_left_out() {
        let mut share = Share::new(5..8);
        share.leave_out(6);
        share.leave_out(6);
        let walk: Vec<_> = (0..4).map(|_| share.advance()).collect();
        assert_eq!(walk, [Some(5), Some(7), Some(5), Some(7)]);
        share.leave_out(5);
        share.leave_out(7);
        assert_eq!(share.advance(), None);
    }

    #[test]
    fn a_token_may_start_anywhere_and_then_rises_by_one() {
        let mut share = Share::new(1..3);
        assert_eq!(share.granted(1, 41, false), Ok(()));
        assert_eq!(share.granted(1, 42, false), Ok(()));
        assert_eq!(share.granted(2, 1, false), Ok(()));
    }

    #[test]
    fn a_repeated_or_falling_token_is_a_violation_whoever_else_claims() {
        for other_clients in [false, true] {
            let mut share = Share::new(1..2);
            assert_eq!(share.granted(1, 7, other_clients), Ok(()));
            assert_eq!(share.granted(1, 7, other_clients), Err(Violation::NotRisen { before: 7, now: 7 }));
            assert_eq!(share.granted(1, 3, other_clients), Err(Violation::NotRisen { before: 7, now: 3 }));
        }
    }

    #[test]
    fn a_skipped_token_is_a_violation_only_without_other_clients() {
        let mut share = Share::new(1..2);
        assert_eq!(share.granted(1, 7, false), Ok(()));
        assert_eq!(share.granted(1, 9, false), Err(Violation::Skipped { before: 7, now: 9 }));
        assert_eq!(share.granted(1, 12, true), Ok(()));
    }
}

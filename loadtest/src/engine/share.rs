//! Owns one client's share of the environments: whose turn it is, and which are in an unknown state.

use std::ops::Range;

/// Environments that belong to one client alone, so that none of its claims can be refused.
pub struct Share {
    first: u32,
    left_out: Vec<bool>,
    next: usize,
    left: usize,
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
        let left_out = vec![false; numbers.len()];
        Self { first: numbers.start, left: left_out.len(), left_out, next: 0 }
    }

    /// Round and round, over those that are not left out; none if all are.
    pub fn advance(&mut self) -> Option<u32> {
        if self.left == 0 {
            return None;
        }
        loop {
            let index = self.next;
            self.next = (index + 1) % self.left_out.len();
            if !self.left_out[index] {
                return Some(self.first + u32::try_from(index).expect("the shares are counted in u32"));
            }
        }
    }

    /// For an environment in an unknown state, where the next claim would rightly be refused.
    pub fn leave_out(&mut self, number: u32) {
        let index = (number - self.first) as usize;
        if !self.left_out[index] {
            self.left_out[index] = true;
            self.left -= 1;
        }
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
}

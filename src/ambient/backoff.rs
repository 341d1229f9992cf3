//! The pause before a failed operation is retried. It doubles from a first to a longest one and has a random part, so
//! that operations that failed together do not all retry together. No existing crate fits: they sleep themselves, with
//! their own clock and randomness, while an actor sets a deadline instead.

use std::time::Duration;

/// The maximum number of doublings: 2 to this power times any first pause exceeds every longest one.
const DOUBLINGS_MAX: u32 = 24;

/// How the pauses of one kind of work grow.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The pause after this many consecutive failures, counted from 1: between half of the doubled pause and all of it,
    /// by `chance`, which is from 0 to 1.
    pub fn pause(self, failures: u32, chance: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(DOUBLINGS_MAX);
        let bound = self.first.saturating_mul(1 << doublings).min(self.longest);
        bound.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0))
    }
}

/// The consecutive failures of one operation, and the pauses after them.
#[derive(Debug)]
pub struct Retries {
    backoff: Backoff,
    failures: u32,
}

impl Retries {
    pub const fn new(backoff: Backoff) -> Self {
        Self { backoff, failures: 0 }
    }

    /// Records a failure. Returns the pause before the next attempt.
    pub fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.backoff.pause(self.failures, rand::random())
    }

    /// Records a success: the next failure counts as the first.
    pub fn worked(&mut self) {
        self.failures = 0;
    }

    /// Whether the last failure was the first in a row.
    pub fn is_first(&self) -> bool {
        self.failures == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(5));

    #[test]
    fn pauses_double_to_a_bound() {
        let longest: Vec<u128> = (1..8).map(|failures| BACKOFF.pause(failures, 1.0).as_millis()).collect();
        assert_eq!(longest, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]);
        assert_eq!(BACKOFF.pause(u32::MAX, 1.0), Duration::from_secs(5));
    }

    #[test]
    fn chance_shortens_a_pause_by_half_at_most_so_that_none_is_skipped() {
        for chance in [0.0, -3.0] {
            assert_eq!(BACKOFF.pause(1, chance), Duration::from_millis(125));
        }
        assert_eq!(BACKOFF.pause(0, 0.0), Duration::from_millis(125));
        assert_eq!(BACKOFF.pause(3, 0.5), Duration::from_millis(750));
        assert_eq!(BACKOFF.pause(3, 7.0), Duration::from_secs(1));
    }

    #[test]
    fn success_begins_anew() {
        let mut retries = Retries::new(BACKOFF);
        for _ in 0..9 {
            retries.failed();
        }
        assert!(retries.failed() >= Duration::from_millis(2_500) && !retries.is_first());
        retries.worked();
        assert!(retries.failed() <= Duration::from_millis(250) && retries.is_first());
    }
}

//! Which signed requests are new: not too old, and not seen before. Pure.
//!
//! Every nonce that was signed after `floor` is remembered, so a request from before it may be a repeated one and is refused.
//! Its sender learns the time of this node by that, and signs it again. So clocks need not agree, and the memory has a bound.

use std::collections::HashSet;

/// A request is refused that was signed so long ago: long enough for a slow connection.
const OLDEST_MILLIS: u64 = 30_000;
/// A request is refused that was signed so far in the future: clocks that are kept by NTP differ by less.
const NEWEST_MILLIS: u64 = 5_000;
/// Nonces are forgotten by generations, the one before the last after this time: requests of [`OLDEST_MILLIS`] are known then.
const GENERATION_MILLIS: u64 = 60_000;
/// Nonces of a generation: 10 MB for both. More than 10,000 requests in a second make a generation shorter than
/// [`OLDEST_MILLIS`]; those that took longer than that are signed again then.
const GENERATION_MAX: usize = 250_000;

/// When a request was signed, and a number that no other one has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub millis: u64,
    pub nonce: u128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotFresh {
    /// Signed by another time than this node has; it takes requests that are signed at this one.
    Time {
        acceptable: u64,
    },
    Seen,
}

pub struct Freshness {
    /// The nonces of what was signed up to here are not known.
    floor: u64,
    current: Generation,
    previous: Generation,
}

#[derive(Default)]
struct Generation {
    began: u64,
    latest: u64,
    nonces: HashSet<u128>,
}

impl Freshness {
    /// What was signed before this process began may have been answered by the one before it.
    pub fn new(now: u64) -> Self {
        let current = Generation { began: now, ..Generation::default() };
        Self { floor: now, current, previous: Generation::default() }
    }

    /// Remembers a request that is new.
    pub fn admit(&mut self, stamp: Stamp, now: u64) -> Result<(), NotFresh> {
        let is_full = self.current.nonces.len() >= GENERATION_MAX;
        if is_full || now.saturating_sub(self.current.began) >= GENERATION_MILLIS {
            let begun = Generation { began: now, ..Generation::default() };
            let forgotten = std::mem::replace(&mut self.previous, std::mem::replace(&mut self.current, begun));
            self.floor = self.floor.max(forgotten.latest);
        }
        let oldest = now.saturating_sub(OLDEST_MILLIS).max(self.floor + 1);
        if stamp.millis < oldest || stamp.millis > now + NEWEST_MILLIS {
            return Err(NotFresh::Time { acceptable: now.max(oldest) });
        }
        if self.previous.nonces.contains(&stamp.nonce) || !self.current.nonces.insert(stamp.nonce) {
            return Err(NotFresh::Seen);
        }
        self.current.latest = self.current.latest.max(stamp.millis);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: u64 = 1_000_000;

    fn stamp(millis: u64, nonce: u128) -> Stamp {
        Stamp { millis, nonce }
    }

    #[test]
    fn a_request_is_taken_once_while_it_is_new() {
        let (mut freshness, now) = (Freshness::new(BEGAN), BEGAN + 100_000);
        let other_time = Err(NotFresh::Time { acceptable: now });
        assert_eq!(freshness.admit(stamp(now, 1), now), Ok(()));
        assert_eq!(freshness.admit(stamp(now, 1), now), Err(NotFresh::Seen));
        assert_eq!(freshness.admit(stamp(now - 1, 1), now), Err(NotFresh::Seen), "whatever its time");
        assert_eq!(freshness.admit(stamp(now - OLDEST_MILLIS, 2), now), Ok(()));
        assert_eq!(freshness.admit(stamp(now - OLDEST_MILLIS - 1, 3), now), other_time);
        assert_eq!(freshness.admit(stamp(now + NEWEST_MILLIS, 4), now), Ok(()));
        assert_eq!(freshness.admit(stamp(now + NEWEST_MILLIS + 1, 5), now), other_time);
        assert_eq!(freshness.admit(stamp(u64::MAX, 6), now), other_time);
    }

    #[test]
    fn nothing_is_taken_that_was_signed_before_this_process_began() {
        let mut freshness = Freshness::new(BEGAN);
        let acceptable = BEGAN + 1;
        assert_eq!(freshness.admit(stamp(BEGAN, 1), BEGAN), Err(NotFresh::Time { acceptable }));
        assert_eq!(freshness.admit(stamp(acceptable, 1), BEGAN), Ok(()), "signed again by the time that it named");
    }

    /// However many there are, what is forgotten is refused.
    #[test]
    fn a_request_is_never_taken_twice_and_the_memory_is_bounded() {
        for millis_between in [0, 1, 500] {
            let (mut freshness, mut now) = (Freshness::new(BEGAN), BEGAN + 1);
            for nonce in 0..3 * GENERATION_MAX as u128 {
                now += if nonce % 5 == 0 { millis_between } else { 0 };
                let mut signed = now;
                if let Err(NotFresh::Time { acceptable }) = freshness.admit(stamp(signed, nonce), now) {
                    signed = acceptable;
                    assert_eq!(freshness.admit(stamp(signed, nonce), now), Ok(()), "signed again");
                }
                if nonce % 1_000 == 0 {
                    assert_ne!(freshness.admit(stamp(signed, nonce), now), Ok(()));
                    assert_ne!(freshness.admit(stamp(BEGAN + 1, 0), now), Ok(()), "the first of all");
                }
                let known = freshness.current.nonces.len() + freshness.previous.nonces.len();
                assert!(known <= 2 * GENERATION_MAX);
            }
        }
    }
}

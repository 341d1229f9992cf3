//! The lease of a step: how long its processes may run without proof that their server still owns the environment.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The number of beats that may be lost before the lease is over.
const BEATS_PER_LEASE: u32 = 10;
const BEAT_INTERVAL_MIN: Duration = Duration::from_millis(200);
const BEAT_INTERVAL_MAX: Duration = Duration::from_secs(3);

/// The time since the machine started, including the time it was suspended. Server and supervisor read the same clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Moment(pub Duration);

impl Moment {
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        Self(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StepLease {
    pub lasts: Duration,
    /// The last moment at which the server is known to have owned the environment.
    owned_at: Moment,
}

impl StepLease {
    pub fn new(lasts: Duration, owned_at: Moment) -> Self {
        Self { lasts, owned_at }
    }

    /// How often the server sends a beat while it owns the environment.
    pub fn beat_interval(&self) -> Duration {
        (self.lasts / BEATS_PER_LEASE).clamp(BEAT_INTERVAL_MIN, BEAT_INTERVAL_MAX)
    }

    /// Counts from the moment named by the beat, not from its arrival: the beat may have waited in the pipe while the
    /// machine or one of the two processes was frozen. A lease that is over stays over.
    pub fn renew(&mut self, owned_at: Moment, now: Moment) {
        if !self.is_over(now) {
            self.owned_at = self.owned_at.max(owned_at);
        }
    }

    pub fn left(&self, now: Moment) -> Duration {
        self.lasts.saturating_sub(now.0.saturating_sub(self.owned_at.0))
    }

    pub fn is_over(&self, now: Moment) -> bool {
        self.left(now).is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment(Duration::from_millis(millis))
    }

    fn lease() -> StepLease {
        StepLease::new(Duration::from_millis(1_000), at(5_000))
    }

    #[test]
    fn it_is_over_when_it_was_not_renewed_for_as_long_as_it_lasts() {
        let lease = lease();
        assert_eq!(lease.left(at(5_000)), Duration::from_millis(1_000));
        assert_eq!(lease.left(at(5_999)), Duration::from_millis(1));
        assert_eq!([5_000, 5_999, 6_000, 90_000].map(|now| lease.is_over(at(now))), [false, false, true, true]);
    }

    #[test]
    fn a_beat_renews_it_from_its_own_moment_however_late_it_is_read() {
        let mut lease = lease();
        lease.renew(at(5_400), at(5_900));
        assert_eq!([6_399, 6_400].map(|now| lease.is_over(at(now))), [false, true]);
    }

    #[test]
    fn an_older_beat_shortens_nothing() {
        let mut lease = lease();
        lease.renew(at(4_000), at(5_000));
        assert_eq!(lease.left(at(5_000)), Duration::from_millis(1_000));
    }

    #[test]
    fn once_over_it_is_not_renewed_even_by_a_beat_of_this_moment() {
        let mut lease = lease();
        lease.renew(at(6_000), at(6_000));
        assert!(lease.is_over(at(6_000)));
    }

    #[test]
    fn a_clock_that_seems_to_run_behind_adds_nothing() {
        assert_eq!(lease().left(at(1)), Duration::from_millis(1_000));
    }

    #[test]
    fn beats_are_neither_rare_nor_a_flood() {
        let interval = |millis| StepLease::new(Duration::from_millis(millis), at(0)).beat_interval().as_millis();
        assert_eq!([100, 2_000, 5_000, 30_000, 3_600_000].map(interval), [200, 200, 500, 3_000, 3_000]);
    }

    #[test]
    fn the_clock_never_goes_back() {
        let moments: Vec<Moment> = (0..100).map(|_| Moment::now()).collect();
        assert!(moments.is_sorted() && moments[0] > at(0));
    }
}

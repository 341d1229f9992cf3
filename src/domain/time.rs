//! Points in time. The domain reads no clock: callers pass the readings of two clocks.

use std::time::Duration;

/// Milliseconds since the Unix epoch, from the wall clock. For people to read; it may jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    pub const fn plus(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    pub fn after(self, wait: Duration) -> Self {
        self.plus(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX))
    }

    /// Zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Milliseconds from a monotonic clock of this process. Expiry uses this one, so that setting the wall clock does not free
/// a lock early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub i64);

impl Tick {
    pub const fn plus(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}

/// One moment, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    pub at: Timestamp,
    pub tick: Tick,
}

/// When something expires: on the monotonic clock, and for people on the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    pub at: Timestamp,
    pub due: Tick,
}

impl Deadline {
    pub const fn after(now: Now, millis: i64) -> Self {
        Self { at: now.at.plus(millis), due: now.tick.plus(millis) }
    }

    pub fn has_passed(self, now: Now) -> bool {
        self.due <= now.tick
    }

    /// The same deadline in a new process: its monotonic clock is another one, so the wall clock says how much is left,
    /// within bounds.
    #[must_use]
    pub fn rearmed(self, started: Now, least_millis: i64, most_millis: i64) -> Self {
        let left = self.at.as_millis().saturating_sub(started.at.as_millis());
        Self::after(started, left.min(most_millis).max(least_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: Now = Now { at: Timestamp::from_millis(1_000_000), tick: Tick(0) };

    #[test]
    fn a_deadline_comes_by_the_steady_clock_alone() {
        let deadline = Deadline::after(STARTED, 5_000);
        let jumped = Now { at: Timestamp::from_millis(99_000_000), tick: Tick(4_999) };
        assert!(!deadline.has_passed(jumped), "the wall clock jumped ahead");
        assert!(deadline.has_passed(Now { at: Timestamp::from_millis(0), tick: Tick(5_000) }));
    }

    #[test]
    fn after_a_restart_what_is_left_stays_within_reason() {
        let at = |millis| Deadline { at: Timestamp::from_millis(millis), due: Tick(77) };
        let left = |deadline: Deadline| deadline.rearmed(STARTED, 30_000, 60_000).due.0;
        assert_eq!(left(at(1_045_000)), 45_000, "as much as there was");
        assert_eq!(left(at(1_000)), 30_000, "it passed while the server was down");
        assert_eq!(left(at(9_000_000)), 60_000, "the wall clock went back while the server was down");
    }
}

//! Points in time. The domain reads no clock: callers pass the readings of two clocks.

use std::time::Duration;

use crate::IdSeed;

/// Milliseconds since the Unix epoch, from the wall clock. For display; the clock may jump.
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

/// Milliseconds from a steady clock. Expiry uses it, so that setting the wall clock does not free a lock early. It
/// continues over restarts of the server, as long as the machine is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub i64);

impl Tick {
    pub const fn plus(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    pub fn after(self, wait: Duration) -> Self {
        self.plus(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX))
    }
}

/// One start of the machine. Ticks of two boots cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boot(pub u64);

impl From<IdSeed> for Boot {
    fn from(seed: IdSeed) -> Self {
        let [.., a, b, c, d, e, f, g, h] = seed.0;
        Self(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }
}

/// A tick and its boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SteadyTime {
    pub boot: Boot,
    pub tick: Tick,
}

impl SteadyTime {
    /// The minimum time since `earlier`. If that was in another boot, it only counts from `opened`, when this process
    /// opened the data: it may be from another machine, and very recent.
    pub fn at_least_since(self, earlier: Self, opened: Tick) -> Duration {
        let since = if self.boot == earlier.boot { earlier.tick } else { opened };
        Duration::from_millis(u64::try_from(self.tick.0.saturating_sub(since.0)).unwrap_or(0))
    }
}

/// One moment, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    pub at: Timestamp,
    pub tick: Tick,
}

/// When something expires: on the steady clock, and on the wall clock for people.
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

    /// The same deadline in a process that started later. If the machine has not been rebooted since, the steady clock
    /// shows how much of `whole_millis` is left, at least `least_millis`. After a reboot the elapsed time is unknown,
    /// since the wall clock may have been set, so the whole time counts as left.
    #[must_use]
    pub fn rearmed(self, started: Now, same_boot: bool, least_millis: i64, whole_millis: i64) -> Self {
        let left = if same_boot { self.due.0.saturating_sub(started.tick.0) } else { whole_millis };
        let rearmed = Self::after(started, left.max(least_millis).min(whole_millis));
        // The two clocks are not read at the same instant. A displayed time should not change by a few milliseconds
        // because of that.
        let is_same =
            same_boot && rearmed.due == self.due && rearmed.at.as_millis().abs_diff(self.at.as_millis()) < 1_000;
        if is_same { self } else { rearmed }
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
    fn after_a_restart_the_steady_clock_says_what_is_left_and_the_wall_clock_nothing() {
        let started = Now { tick: Tick(500_000), ..STARTED };
        for wall in [0, 1_000_000, 99_000_000] {
            let until = |tick| Deadline { at: Timestamp::from_millis(wall), due: Tick(tick) };
            let left = |deadline: Deadline| deadline.rearmed(started, true, 30_000, 60_000).due.0 - 500_000;
            assert_eq!(left(until(545_000)), 45_000, "as much as there was");
            assert_eq!(left(until(1_000)), 30_000, "it passed while the server was down");
            assert_eq!(left(until(9_000_000)), 60_000, "never more than the whole");
            assert_eq!(until(545_000).rearmed(started, true, 30_000, 60_000).at, started.at.plus(45_000));
        }
        let seen = Deadline { at: started.at.plus(45_003), due: Tick(545_000) };
        assert_eq!(seen.rearmed(started, true, 30_000, 60_000), seen, "nobody set a clock");
    }

    #[test]
    fn after_a_start_of_the_machine_nobody_can_tell_and_a_deadline_is_the_whole_time_away() {
        let started = Now { tick: Tick(5), ..STARTED };
        for due in [0, 45_000, 9_000_000] {
            let until = Deadline { at: Timestamp::from_millis(1_045_000), due: Tick(due) };
            assert_eq!(until.rearmed(started, false, 30_000, 60_000), Deadline::after(started, 60_000));
        }
    }

    #[test]
    fn what_was_made_in_another_boot_is_as_old_as_its_being_here_however_long_the_machine_is_up() {
        let at = |boot, tick| SteadyTime { boot: Boot(boot), tick: Tick(tick) };
        assert_eq!(at(1, 900).at_least_since(at(1, 400), Tick(700)), Duration::from_millis(500));
        assert_eq!(at(1, 400).at_least_since(at(1, 900), Tick(0)), Duration::ZERO);
        for up in [0, 1_000_000_000] {
            assert_eq!(at(2, up + 30).at_least_since(at(1, 900), Tick(up)), Duration::from_millis(30));
        }
    }
}

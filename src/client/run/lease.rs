//! The lease as this side may rely on it: never longer than the server's. Pure: time comes from the caller.

use std::time::Duration;

use crate::steady::Moment;

/// The command is gone this long before the lease ends, whatever the scheduler and two clocks do.
pub const MARGIN: Duration = Duration::from_secs(1);
/// Below, nothing would be left between asking a command to end and the end of the lease.
pub const TTL_MIN: Duration = Duration::from_secs(5);
/// Heartbeats come so often that one that is lost does no harm.
const BEATS_PER_TTL: u32 = 4;
/// A heartbeat that is not answered by then is sent again: it may have been lost.
const ANSWER_WITHIN_MAX: Duration = Duration::from_secs(10);
/// The pause after a failed heartbeat, at most; and this part of the TTL.
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(2);
const AGAINS_PER_TTL: u32 = 20;
/// The time of an answer is known to the second, so a lease that seems this much shorter than its TTL is not.
const DATE_TOLERANCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    ttl: Duration,
    until: Moment,
    next_beat: Moment,
}

impl Lease {
    /// `sent` is before the request that the server answered: its lease began later.
    pub fn new(ttl: Duration, sent: Moment, left: Option<Duration>) -> Self {
        let mut lease = Self { ttl, until: sent, next_beat: sent };
        lease.renewed(sent, left);
        lease
    }

    /// `left`: what the answer says is left of it. Less than the TTL if the environment limits how long it may be held.
    pub fn renewed(&mut self, sent: Moment, left: Option<Duration>) {
        let left = left.filter(|left| *left + DATE_TOLERANCE < self.ttl).map(|left| left.saturating_sub(MARGIN));
        self.until = sent.plus(left.unwrap_or(self.ttl));
        self.next_beat = sent.plus(self.ttl / BEATS_PER_TTL);
    }

    /// A heartbeat had no useful answer.
    pub fn unanswered(&mut self, now: Moment) {
        self.next_beat = now.plus((self.ttl / AGAINS_PER_TTL).min(AGAIN_AFTER_MAX));
    }

    /// As somebody else has renewed it.
    pub fn renewed_until(&mut self, until: Moment) {
        self.until = until;
    }

    pub fn until(&self) -> Moment {
        self.until
    }

    pub fn next_beat(&self) -> Moment {
        self.next_beat
    }

    pub fn answer_within(&self) -> Duration {
        (self.ttl / BEATS_PER_TTL).min(ANSWER_WITHIN_MAX)
    }

    /// The time between asking the command to end and killing it: not so long that a single late heartbeat ends it.
    pub fn grace(&self, wanted: Duration) -> Duration {
        wanted.min(self.ttl / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    const TTL: Duration = Duration::from_secs(60);

    #[test]
    fn a_lease_is_counted_from_before_the_request() {
        let mut lease = Lease::new(TTL, at(100), None);
        assert_eq!((lease.until(), lease.next_beat()), (at(160), at(115)));
        lease.renewed(at(115), Some(Duration::from_secs(59)));
        assert_eq!((lease.until(), lease.next_beat()), (at(175), at(130)));
    }

    #[test]
    fn the_longest_hold_of_an_environment_ends_the_lease_earlier() {
        let mut lease = Lease::new(TTL, at(100), Some(TTL));
        lease.renewed(at(115), Some(Duration::from_secs(50)));
        assert_eq!(lease.until(), at(164));
        lease.renewed(at(130), Some(Duration::from_secs(20)));
        assert_eq!(lease.until(), at(149), "somebody has made it shorter");
    }

    #[test]
    fn three_heartbeats_may_be_lost_one_after_the_other() {
        let mut lease = Lease::new(TTL, at(0), None);
        let stops_at = lease.until().minus(MARGIN).minus(lease.grace(Duration::from_secs(10)));
        let mut sent = 0;
        while lease.next_beat() < stops_at {
            sent += 1;
            let answered_by = lease.next_beat().plus(lease.answer_within());
            lease.unanswered(answered_by);
        }
        assert!(sent >= 3, "{sent}");
    }

    #[test]
    fn asking_takes_at_most_a_quarter_of_the_lease() {
        let lease = Lease::new(TTL_MIN, at(0), None);
        assert_eq!(lease.grace(Duration::from_secs(10)), Duration::from_millis(1_250));
        assert_eq!(lease.grace(Duration::ZERO), Duration::ZERO);
    }
}

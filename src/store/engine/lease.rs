//! How long an owner may act on its last confirmed transaction.
//!
//! Nobody takes a shard whose record has changed within the last five seconds, counted by the clock of whoever wants to
//! take it, from when it *learnt* of the change (`src/cluster/sightings.rs`). An owner counts four seconds from when it
//! *sent* the transaction. So it has stopped before anybody else begins, as long as the two clocks do not differ by a
//! fifth of their speed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Milliseconds of a clock that cannot be set, and goes on while the machine sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Written by the thread that sends the transactions, and read by everybody who answers.
#[derive(Debug)]
pub struct Lease {
    lasts: Duration,
    /// When the last confirmed transaction was sent.
    sent: AtomicU64,
}

impl Lease {
    /// Of a shard that was taken with a transaction sent at this time.
    pub fn since(sent: Moment, lasts: Duration) -> Self {
        Self { lasts, sent: AtomicU64::new(sent.0) }
    }

    /// A transaction is confirmed whose first attempt was sent at this time. Later attempts do not count: the first may be
    /// the one that took effect.
    pub fn confirmed(&self, sent: Moment) {
        self.sent.fetch_max(sent.0, Ordering::Release);
    }

    /// How long the owner may still act; `None` if it must not.
    pub fn left(&self, now: Moment) -> Option<Duration> {
        let sent = self.sent.load(Ordering::Acquire);
        self.lasts.checked_sub(now.since(Moment(sent))).filter(|left| !left.is_zero())
    }

    pub fn is_held(&self, now: Moment) -> bool {
        self.left(now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lasts_from_the_sending_of_the_last_confirmed_transaction() {
        let lasts = Duration::from_secs(4);
        let lease = Lease::since(Moment(1_000), lasts);
        assert_eq!(lease.left(Moment(1_000)), Some(lasts));
        assert_eq!(lease.left(Moment(4_999)), Some(Duration::from_millis(1)));
        assert_eq!(lease.left(Moment(5_000)), None);
        lease.confirmed(Moment(3_000));
        assert!(lease.is_held(Moment(6_999)) && !lease.is_held(Moment(7_000)));
        lease.confirmed(Moment(2_000));
        assert!(lease.is_held(Moment(6_999)), "an older confirmation takes nothing away");
    }
}

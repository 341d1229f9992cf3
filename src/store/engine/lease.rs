//! How long an owner may act on its last confirmed transaction.
//!
//! Nobody takes a shard whose record has changed within the last five seconds, counted by the clock of whoever wants to
//! take it, from when it *learnt* of the change (`src/cluster/sightings.rs`). An owner counts four seconds from when it
//! *sent* the transaction. So it has stopped before anybody else begins, as long as the two clocks do not differ by a
//! fifth of their speed.

use std::time::Duration;

use parking_lot::Mutex;

/// Milliseconds of a clock that cannot be set, and goes on while the machine sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    pub fn plus(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }

    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Written by the thread that sends the transactions, and read by everybody who answers.
#[derive(Debug)]
pub struct Lease {
    lasts: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the last confirmed transaction was sent.
    sent: Moment,
    /// The end of the lease as its owner has known it.
    known_until: Moment,
    /// How long the owner has not held it, all in all, until then.
    stood_still: Duration,
}

impl Lease {
    /// Of a shard that was taken with a transaction sent at this time.
    pub fn since(sent: Moment, lasts: Duration) -> Self {
        let state = State { sent, known_until: sent.plus(lasts), stood_still: Duration::ZERO };
        Self { lasts, state: Mutex::new(state) }
    }

    /// A transaction is confirmed whose first attempt was sent at this time. Later attempts do not count: the first may be
    /// the one that took effect.
    pub fn confirmed(&self, sent: Moment, now: Moment) {
        let mut state = self.state.lock();
        state.sent = state.sent.max(sent);
        let until = state.sent.plus(self.lasts);
        if until > now {
            let stood_still = now.since(state.known_until);
            state.stood_still += stood_still;
            state.known_until = until;
        }
    }

    /// How long the owner may still act; `None` if it must not.
    pub fn left(&self, now: Moment) -> Option<Duration> {
        let sent = self.state.lock().sent;
        self.lasts.checked_sub(now.since(sent)).filter(|left| !left.is_zero())
    }

    pub fn is_held(&self, now: Moment) -> bool {
        self.left(now).is_some()
    }

    /// The time that has passed for the shard: it stands still while nobody could do anything in it, so that no lock ages
    /// which its holder cannot keep alive.
    pub fn time(&self, now: Moment) -> Moment {
        let state = self.state.lock();
        let still = state.stood_still + now.since(state.known_until);
        Moment(now.0.saturating_sub(u64::try_from(still.as_millis()).unwrap_or(u64::MAX)))
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
        lease.confirmed(Moment(3_000), Moment(3_500));
        assert!(lease.is_held(Moment(6_999)) && !lease.is_held(Moment(7_000)));
        lease.confirmed(Moment(2_000), Moment(3_600));
        assert!(lease.is_held(Moment(6_999)), "an older confirmation takes nothing away");
    }

    #[test]
    fn time_stands_still_from_the_end_of_the_lease_until_it_is_held_again() {
        let lease = Lease::since(Moment(1_000), Duration::from_secs(4));
        let time = |now| lease.time(Moment(now)).0;
        assert_eq!((time(1_000), time(5_000), time(9_000)), (1_000, 5_000, 5_000));
        lease.confirmed(Moment(4_000), Moment(9_500));
        assert_eq!(time(9_500), 5_000, "it came too late to be held again");
        lease.confirmed(Moment(9_600), Moment(10_000));
        assert_eq!((time(10_000), time(10_001), time(13_600)), (5_000, 5_001, 8_600));
        lease.confirmed(Moment(12_000), Moment(12_100));
        assert_eq!(time(15_000), 10_000, "no gap, and none is counted");
        assert_eq!(time(20_000), 11_000);
    }
}

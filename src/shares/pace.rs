//! How much of the processors the work of one organization may take over time.

use std::collections::HashMap;
use std::num::NonZero;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use domain::Identifier;

/// The part of all processors that one organization may take for long: one in so many.
const PART: u32 = 16;
/// Processor time that it may use at once, beyond that part.
const AT_ONCE: Duration = Duration::from_millis(100);
const REST_MAX: Duration = Duration::from_secs(1);

/// The pace of each organization's work. All of it counts, however small its pieces.
pub struct Paces {
    /// `None` if there is nobody else who needs the processors.
    pace: Option<Pace>,
    /// When each will have earned the time that it has used.
    earned: Mutex<HashMap<Identifier, Instant>>,
}

impl Paces {
    /// Of one kind of work, on a server with so many organizations.
    pub fn among(organizations: usize) -> Self {
        let pace = (organizations > 1).then(|| Pace::of(thread::available_parallelism().map_or(1, NonZero::get)));
        Self { pace, earned: Mutex::default() }
    }

    /// After work that used so much of a processor's time: for how long the organization is to rest, if at all.
    pub fn note(&self, organization: &Identifier, used: Duration) -> Option<Duration> {
        let pace = self.pace?;
        let (now, mut earned) = (Instant::now(), self.earned.lock());
        // Those who owe nothing are forgotten.
        earned.retain(|_, earned| *earned > now);
        let owed = pace.owed_after(owed(earned.get(organization), now), used);
        earned.insert(organization.clone(), now + owed);
        pace.rest(owed)
    }

    /// Whether it has used so much that its work should stand back behind that of others.
    pub fn is_busy(&self, organization: &Identifier) -> bool {
        self.pace.is_some_and(|pace| pace.is_busy(owed(self.earned.lock().get(organization), Instant::now())))
    }
}

/// The processor time that this thread has used. By the time on the wall all work is long on a busy machine, and would then
/// make room for whatever keeps it busy.
pub fn time_of_this_thread() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

fn owed(earned: Option<&Instant>, now: Instant) -> Duration {
    earned.map_or(Duration::ZERO, |earned| earned.saturating_duration_since(now))
}

/// Used time is owed: it takes so long to earn. Up to a bound nobody has to rest for it.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// How long it takes to earn a second of one processor, in seconds.
    price: f64,
    free: Duration,
}

impl Pace {
    fn of(processors: usize) -> Self {
        let price = f64::from(PART) / processors.max(1) as f64;
        Self { price, free: AT_ONCE.mul_f64(price) }
    }

    /// At most as much as one rest earns: however long a read took, it is not held against the next ones for longer.
    fn owed_after(self, owed: Duration, used: Duration) -> Duration {
        (owed + used.mul_f64(self.price)).min(self.free + REST_MAX)
    }

    fn rest(self, owed: Duration) -> Option<Duration> {
        owed.checked_sub(self.free).filter(|rest| !rest.is_zero())
    }

    fn is_busy(self, owed: Duration) -> bool {
        owed > self.free / 2
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    /// Those of a server with two processors.
    fn paces() -> Paces {
        Paces { pace: Some(Pace::of(2)), earned: Mutex::default() }
    }

    #[test]
    fn an_organization_may_take_a_sixteenth_of_all_processors() {
        for (processors, price) in [(1, 16.0), (2, 8.0), (16, 1.0), (64, 0.25), (0, 16.0)] {
            assert_eq!(Pace::of(processors).price, price, "{processors} processors");
        }
    }

    #[test]
    fn it_rests_once_it_has_used_more_than_it_may_at_once() {
        let pace = Pace::of(2);
        let allowed = pace.owed_after(Duration::ZERO, AT_ONCE);
        assert_eq!(pace.rest(allowed), None);
        assert_eq!(pace.rest(pace.owed_after(allowed, MILLI)), Some(8 * MILLI));
        assert_eq!(pace.rest(pace.owed_after(allowed, Duration::from_secs(60))), Some(REST_MAX));
        assert!(!pace.is_busy(allowed / 2) && pace.is_busy(allowed));
    }

    #[tokio::test(start_paused = true)]
    async fn many_short_ones_count_as_much_as_a_long_one() {
        let (paces, acme) = (paces(), Identifier::parse("acme").unwrap());
        for _ in 0..1_000 {
            assert_eq!(paces.note(&acme, AT_ONCE / 1_000), None);
        }
        assert!(paces.is_busy(&acme));
        assert!(!paces.is_busy(&Identifier::parse("other").unwrap()));
        assert_eq!(paces.note(&acme, AT_ONCE / 1_000), Some(AT_ONCE / 125));
    }

    #[tokio::test(start_paused = true)]
    async fn with_rests_it_takes_its_part_for_long_and_no_more() {
        let (paces, acme) = (paces(), Identifier::parse("acme").unwrap());
        let (began, mut used) = (Instant::now(), Duration::ZERO);
        while began.elapsed() < Duration::from_secs(60) {
            used += MILLI;
            tokio::time::sleep(paces.note(&acme, MILLI).unwrap_or(MILLI)).await;
        }
        let part = began.elapsed() / 8;
        assert!((part..part + AT_ONCE + 10 * MILLI).contains(&used), "{used:?} of {part:?}");
    }

    #[test]
    fn the_only_organization_of_a_server_never_rests() {
        let (paces, acme) = (Paces::among(1), Identifier::parse("acme").unwrap());
        assert_eq!(paces.note(&acme, 100 * AT_ONCE), None);
        assert!(!paces.is_busy(&acme));
        assert!(Paces::among(2).note(&acme, 100 * AT_ONCE).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_earned_again_is_forgotten() {
        let (paces, acme) = (paces(), Identifier::parse("acme").unwrap());
        paces.note(&acme, AT_ONCE);
        tokio::time::sleep(AT_ONCE * 8).await;
        assert!(!paces.is_busy(&acme));
        assert_eq!(paces.note(&Identifier::parse("other").unwrap(), MILLI), None);
        assert_eq!(paces.earned.lock().len(), 1);
    }
}

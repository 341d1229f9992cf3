//! The steady clock: it cannot be set, and continues over restarts of the server as long as the machine is up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::entropy;
use domain::{Boot, SteadyTime, Tick};

/// Changes with every start of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Cheap to clone. Contains a function, so that tests can control the time.
#[derive(Clone)]
pub struct SteadyClock {
    pub boot: Boot,
    opened: Tick,
    read: Arc<dyn Fn() -> Tick + Send + Sync>,
}

impl SteadyClock {
    pub fn new(boot: Boot, read: impl Fn() -> Tick + Send + Sync + 'static) -> Self {
        Self { boot, opened: read(), read: Arc::new(read) }
    }

    /// Milliseconds since the machine started, without the time it was suspended.
    pub fn of_machine() -> Self {
        // `Instant` is the same clock and the cheapest to read, but does not reveal its origin.
        let (since_boot, began) = (clock_gettime(ClockId::Monotonic), Instant::now());
        let before = since_boot.tv_sec.saturating_mul(1_000).saturating_add(since_boot.tv_nsec / 1_000_000);
        let elapsed = move || i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
        Self::new(this_boot(), move || Tick(before).plus(elapsed()))
    }

    pub fn tick(&self) -> Tick {
        (self.read)()
    }

    pub fn now(&self) -> SteadyTime {
        SteadyTime { boot: self.boot, tick: self.tick() }
    }

    /// The minimum time since `earlier`, a time in data that existed when this clock was created.
    pub fn at_least_since(&self, earlier: SteadyTime) -> Duration {
        self.now().at_least_since(earlier, self.opened)
    }
}

/// The boot of the machine. Without a boot id, every run gets a new one, so that nothing is concluded from the ticks of
/// an earlier run.
fn this_boot() -> Boot {
    let id = std::fs::read_to_string(BOOT_ID).ok().and_then(|text| uuid::Uuid::parse_str(text.trim()).ok());
    id.map_or_else(|| Boot::from(entropy::id_seed()), |id| Boot(id.as_u64_pair().0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_on_one_machine_read_the_same_clock() {
        let (first, second) = (SteadyClock::of_machine(), SteadyClock::of_machine());
        assert_eq!(first.boot, second.boot);
        let ticks = [first.tick(), second.tick(), first.tick(), second.tick()];
        // The two clocks round to milliseconds separately.
        assert!(ticks.iter().zip(&ticks[1..]).all(|(earlier, later)| earlier.0 <= later.0 + 1), "{ticks:?}");
        assert!(ticks[0] > Tick(0));
    }
}

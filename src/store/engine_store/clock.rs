//! The clock of leases.

use std::sync::Arc;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::engine::Moment;

/// Reads the clock by which an owner counts its lease. It must go on while the machine sleeps.
pub type LeaseClock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// Milliseconds since the machine started, with those in which it slept.
pub fn lease_clock() -> LeaseClock {
    Arc::new(|| {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Boottime);
        let millis = tv_sec.saturating_mul(1_000).saturating_add(tv_nsec / 1_000_000);
        Moment(u64::try_from(millis).unwrap_or_default())
    })
}

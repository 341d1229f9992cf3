//! The client's clock for deadlines: it cannot be set, and it goes on while the machine sleeps, as leases do.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment of this machine's time since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Duration);

impl Moment {
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        Self(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default()))
    }

    pub fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }

    pub fn minus(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }

    /// Zero if `earlier` is later.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back() {
        let moments: Vec<Moment> = (0..100).map(|_| Moment::now()).collect();
        assert!(moments.is_sorted());
        assert_eq!(moments[0].since(moments[0].plus(Duration::from_secs(1))), Duration::ZERO);
    }
}

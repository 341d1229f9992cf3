//! The client's clock for deadlines. It cannot be set, and continues while the machine is suspended, as leases do. And
//! a timer on that clock: other timers stop while the machine is suspended.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use serde::{Deserialize, Serialize};
use tokio::net::unix::pipe::Receiver;

/// The time since this machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

/// A timer that fires at a moment of the steady clock.
pub struct Alarm {
    timer: OwnedFd,
    /// The same timer, read like a pipe.
    rings: Receiver,
}

impl Alarm {
    /// Call it inside a runtime.
    pub fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let rings = Receiver::from_owned_fd_unchecked(timer.as_fd().try_clone_to_owned()?)?;
        Ok(Self { timer, rings })
    }

    /// Returns immediately if the moment has passed.
    pub async fn reached(&self, moment: Moment) {
        // A timer set to zero is off.
        let moment = moment.0.max(Duration::from_nanos(1));
        let seconds = i64::try_from(moment.as_secs()).unwrap_or(i64::MAX);
        let at = Timespec { tv_sec: seconds, tv_nsec: moment.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        if timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once).is_err() {
            return;
        }
        while self.rings.readable().await.is_ok() {
            match self.rings.try_read(&mut [0; 8]) {
                // The timer had expired for an earlier setting.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => return,
            }
        }
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

    #[tokio::test]
    async fn it_rings_at_its_moment_and_at_once_if_that_has_passed() {
        let alarm = Alarm::new().expect("a timer");
        for wanted in [Moment(Duration::ZERO), Moment::now(), Moment::now().plus(Duration::from_millis(30))] {
            alarm.reached(wanted).await;
            assert!(Moment::now() >= wanted);
        }
    }

    #[tokio::test]
    async fn a_later_setting_replaces_an_earlier_one() {
        let alarm = Alarm::new().expect("a timer");
        let soon = Moment::now().plus(Duration::from_millis(5));
        tokio::select! {
            () = alarm.reached(soon) => {}
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
        let later = Moment::now().plus(Duration::from_millis(40));
        alarm.reached(later).await;
        assert!(Moment::now() >= later);
    }
}

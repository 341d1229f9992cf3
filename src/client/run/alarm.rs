//! A timer that rings at a moment of the steady clock. Other timers stand still while the machine sleeps.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;

use crate::steady::Moment;

pub struct Alarm {
    timer: OwnedFd,
    /// Of the same timer, which is read as a pipe is.
    rings: Receiver,
}

impl Alarm {
    /// To be called inside a runtime.
    pub fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let rings = Receiver::from_owned_fd_unchecked(timer.as_fd().try_clone_to_owned()?)?;
        Ok(Self { timer, rings })
    }

    /// At once if it has passed.
    pub async fn reached(&self, moment: Moment) {
        // A timer that is set to zero is off.
        let moment = moment.0.max(Duration::from_nanos(1));
        let seconds = i64::try_from(moment.as_secs()).unwrap_or(i64::MAX);
        let at = Timespec { tv_sec: seconds, tv_nsec: moment.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        if timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once).is_err() {
            return;
        }
        while self.rings.readable().await.is_ok() {
            match self.rings.try_read(&mut [0; 8]) {
                // It became readable for an earlier setting.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

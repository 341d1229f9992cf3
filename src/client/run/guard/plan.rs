//! When the guard asks the command to end, and when it kills it. Pure: time comes from the caller.

use std::time::Duration;

use super::super::lease::MARGIN;
use crate::steady::Moment;

/// Processes started during one scan are found by the next.
const KILL_AGAIN: Duration = Duration::from_millis(5);
/// A process stuck in the kernel cannot be killed immediately; continuous scanning would not help.
const KILL_AGAIN_MAX: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The lease was renewed and lasts until then. That may be earlier than before, if a maximum hold was set.
    Renewed(Moment),
    /// The lock is lost.
    Lost,
    /// The client is gone, so the lease is no longer renewed.
    ClientGone,
    /// The command itself has ended and has left processes behind.
    LeftBehind,
    /// The alarm, or any other event that woke the guard.
    Woke,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Ask all processes to end. `lapsed`: because the lease was not renewed in time.
    Terminate { lapsed: bool },
    /// Kill all processes now. `lapsed`: the lease ended before the guard could ask.
    Kill { lapsed: bool },
}

/// The decisions of one guard.
#[derive(Debug)]
pub struct Plan {
    grace: Duration,
    /// The end of the lease, as the client knows it.
    until: Moment,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// All processes were asked to end; irrevocable.
    Asked {
        kill_at: Moment,
    },
    Killing {
        again_at: Moment,
        pause: Duration,
    },
}

impl Plan {
    pub fn new(grace: Duration, until: Moment) -> Self {
        Self { grace, until, state: State::Running }
    }

    pub fn on(&mut self, event: Event, now: Moment) -> Option<Act> {
        match event {
            // Too late if the command was already asked to end: the client learns of that and releases the lock.
            Event::Renewed(until) => self.until = until,
            Event::Lost | Event::ClientGone | Event::LeftBehind => {
                if self.state == State::Running && now < self.last_moment() {
                    self.state = State::Asked { kill_at: now.plus(self.grace).min(self.last_moment()) };
                    return Some(Act::Terminate { lapsed: false });
                }
            }
            Event::Woke => {}
        }
        self.look(now)
    }

    /// The next time at which the guard must check the clock.
    pub fn alarm(&self) -> Moment {
        match self.state {
            State::Running => self.ask_at(),
            State::Asked { kill_at } => kill_at,
            State::Killing { again_at, .. } => again_at,
        }
    }

    fn look(&mut self, now: Moment) -> Option<Act> {
        match self.state {
            State::Running if now >= self.last_moment() => {
                // The guard itself did not run for a while: the lock may already belong to somebody else.
                self.kill(now, KILL_AGAIN);
                Some(Act::Kill { lapsed: true })
            }
            State::Running if now >= self.ask_at() => {
                self.state = State::Asked { kill_at: self.last_moment() };
                Some(Act::Terminate { lapsed: true })
            }
            State::Asked { kill_at } if now >= kill_at => {
                self.kill(now, KILL_AGAIN);
                Some(Act::Kill { lapsed: false })
            }
            State::Killing { again_at, pause } if now >= again_at => {
                self.kill(now, (pause * 2).min(KILL_AGAIN_MAX));
                Some(Act::Kill { lapsed: false })
            }
            State::Running | State::Asked { .. } | State::Killing { .. } => None,
        }
    }

    fn kill(&mut self, now: Moment, pause: Duration) {
        self.state = State::Killing { again_at: now.plus(pause), pause };
    }

    /// The moment after which no process of the command runs.
    fn last_moment(&self) -> Moment {
        self.until.minus(MARGIN)
    }

    fn ask_at(&self) -> Moment {
        self.last_moment().minus(self.grace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn plan() -> Plan {
        Plan::new(Duration::from_secs(10), at(60))
    }

    #[test]
    fn a_lease_that_nobody_renews_ends_the_command_before_the_lock_is_free() {
        let mut plan = plan();
        assert_eq!(plan.alarm(), at(49));
        assert_eq!(plan.on(Event::Woke, at(48)), None);
        assert_eq!(plan.on(Event::Woke, at(49)), Some(Act::Terminate { lapsed: true }));
        assert_eq!(plan.alarm(), at(59));
        assert_eq!(plan.on(Event::Woke, at(58)), None);
        assert_eq!(plan.on(Event::Woke, at(59)), Some(Act::Kill { lapsed: false }));
    }

    #[test]
    fn a_renewal_moves_the_end() {
        let mut plan = plan();
        assert_eq!(plan.on(Event::Renewed(at(75)), at(15)), None);
        assert_eq!(plan.alarm(), at(64));
        assert_eq!(plan.on(Event::Renewed(at(30)), at(16)), None, "somebody has limited the hold");
        assert_eq!(plan.alarm(), at(19));
    }

    #[test]
    fn a_renewal_that_comes_after_the_command_was_asked_changes_nothing() {
        let mut plan = plan();
        plan.on(Event::Woke, at(49));
        assert_eq!(plan.on(Event::Renewed(at(110)), at(50)), None);
        assert_eq!(plan.alarm(), at(59));
    }

    #[test]
    fn a_lost_lock_and_a_client_that_is_gone_end_the_command_at_once() {
        for event in [Event::Lost, Event::ClientGone, Event::LeftBehind] {
            let mut plan = plan();
            assert_eq!(plan.on(event, at(5)), Some(Act::Terminate { lapsed: false }));
            assert_eq!(plan.alarm(), at(15));
            assert_eq!(plan.on(event, at(6)), None, "asked once");
            assert_eq!(plan.on(Event::Woke, at(15)), Some(Act::Kill { lapsed: false }));
        }
    }

    #[test]
    fn the_grace_does_not_reach_beyond_the_lease() {
        let mut plan = Plan::new(Duration::from_secs(10), at(60));
        assert_eq!(plan.on(Event::ClientGone, at(55)), Some(Act::Terminate { lapsed: false }));
        assert_eq!(plan.alarm(), at(59));
    }

    #[test]
    fn a_guard_that_wakes_after_the_lease_kills_at_once() {
        for event in [Event::Woke, Event::Lost, Event::ClientGone, Event::LeftBehind] {
            assert_eq!(plan().on(event, at(61)), Some(Act::Kill { lapsed: true }), "{event:?}");
        }
    }

    #[test]
    fn killing_is_repeated_until_nothing_is_left() {
        let mut plan = plan();
        assert_eq!(plan.on(Event::Woke, at(100)), Some(Act::Kill { lapsed: true }));
        let mut now = at(100);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pauses.push(plan.alarm().since(now).as_millis());
            now = plan.alarm();
            assert_eq!(plan.on(Event::Woke, now), Some(Act::Kill { lapsed: false }));
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 200, 200]);
    }
}

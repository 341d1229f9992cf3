//! Remembers for some seconds that a source of logs fails, so that only few readers wait for it. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// How long a source that failed is not asked again.
pub const NOT_ASKED_FOR: Duration = Duration::from_secs(10);
/// How often the log says at most that a source begins to fail: one object alone may be refused again and again.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// Of one source: the store, or a node.
#[derive(Debug, Default)]
pub struct Outage {
    /// `None` while it answers.
    ask_again_at: Option<Instant>,
    logged_at: Option<Instant>,
    /// Whether the log says that it fails, and not yet that it works again.
    is_logged: bool,
}

/// How a source may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// With several tries.
    Patiently,
    /// It failed some seconds ago: one reader tries once, for all others.
    Once,
    Not,
}

impl Outage {
    pub fn asking(&mut self, now: Instant) -> Asking {
        match self.ask_again_at {
            None => Asking::Patiently,
            Some(at) if at <= now => {
                self.ask_again_at = Some(now + NOT_ASKED_FOR);
                Asking::Once
            }
            Some(_) => Asking::Not,
        }
    }

    /// It did not answer. Returns whether to log it.
    pub fn failed(&mut self, now: Instant) -> bool {
        self.ask_again_at = Some(now + NOT_ASKED_FOR);
        self.begins(now)
    }

    /// It answered that it does not do this, which costs no time and may concern one object alone: it is asked again. Returns
    /// whether to log it.
    pub fn refused(&mut self, now: Instant) -> bool {
        self.ask_again_at = None;
        self.begins(now)
    }

    /// Returns whether to log that it works again.
    pub fn worked(&mut self) -> bool {
        self.ask_again_at = None;
        std::mem::take(&mut self.is_logged)
    }

    /// Whether it may be asked at this time.
    pub fn is_over(&self, now: Instant) -> bool {
        self.ask_again_at.is_none_or(|at| at <= now)
    }

    fn begins(&mut self, now: Instant) -> bool {
        let begins = !self.is_logged && self.logged_at.is_none_or(|logged_at| logged_at + LOGGED_EVERY <= now);
        if begins {
            self.logged_at = Some(now);
            self.is_logged = true;
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_fails_is_asked_again_by_one_reader_after_some_seconds() {
        let (mut outage, began) = (Outage::default(), Instant::now());
        assert_eq!(outage.asking(began), Asking::Patiently);
        outage.failed(began);
        assert_eq!(outage.asking(began), Asking::Not);
        let later = began + NOT_ASKED_FOR;
        assert_eq!(outage.asking(later - Duration::from_millis(1)), Asking::Not);
        assert_eq!([outage.asking(later), outage.asking(later)], [Asking::Once, Asking::Not]);
        outage.failed(later);
        assert_eq!(outage.asking(later + NOT_ASKED_FOR), Asking::Once, "the reader before may have gone");
        outage.worked();
        assert_eq!([outage.asking(later), outage.asking(later)], [Asking::Patiently; 2]);
    }

    #[test]
    fn a_refusal_does_not_keep_others_from_asking() {
        let (mut outage, now) = (Outage::default(), Instant::now());
        outage.failed(now);
        outage.refused(now);
        assert_eq!(outage.asking(now), Asking::Patiently);
    }

    #[test]
    fn the_log_says_once_that_it_begins_and_once_that_it_is_over() {
        let (mut outage, now) = (Outage::default(), Instant::now());
        assert!(!outage.worked());
        assert_eq!([outage.failed(now), outage.failed(now), outage.refused(now)], [true, false, false]);
        assert_eq!([outage.worked(), outage.worked()], [true, false]);
        assert_eq!([outage.refused(now), outage.worked()], [false, false], "not more than once a minute");
        let later = now + LOGGED_EVERY;
        assert_eq!([outage.refused(later), outage.failed(later), outage.worked()], [true, false, true]);
    }
}

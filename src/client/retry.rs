//! When a request is sent again, after which pause, and what a terminal shows meanwhile: the reason and the remaining
//! time. The rule is pure: time and chance come from the caller.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::time::Duration;

use super::output::{draw_line, stderr_is_drawn_on, times, wipe_line};
use super::steady::Moment;

/// The longest first pause; each limit is at most twice the previous one.
const PAUSE_FIRST_MAX: Duration = Duration::from_millis(250);
/// Long enough to spare a server that is starting, short enough not to be noticed afterwards.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A minimum, since chance may give zero.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The limit for a server's longer `Retry-After`, which it may have sent while it was overloaded.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// Beyond this the pause does not grow anyway.
const DOUBLINGS_MAX: u32 = 10;

/// Why an attempt brought no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble<'a> {
    /// Nothing was sent.
    NoConnection,
    /// It may have been executed, or not.
    NoAnswer,
    Refused {
        status: u16,
        code: &'a str,
    },
}

/// `repeatable`: the request changes nothing, or its key marks it as the same one.
pub fn is_retried(trouble: Trouble<'_>, repeatable: bool) -> bool {
    match trouble {
        Trouble::NoConnection => true,
        Trouble::NoAnswer => repeatable,
        Trouble::Refused { status: 409, code: "idempotency_key_in_flight" } => true,
        // From a proxy, or from a server that is stopping: it may have been executed.
        Trouble::Refused { status: 502..=504, .. } => repeatable,
        Trouble::Refused { status: 429, .. } => true,
        Trouble::Refused { .. } => false,
    }
}

/// The pause before the next attempt: full jitter under a limit that doubles, so that clients disconnected by a restart
/// of the server do not all return at the same moment. `chance` is from 0 to 1; `attempt` counts from 0.
pub fn pause(attempt: u32, retry_after: Option<Duration>, chance: f64) -> Duration {
    let chance = chance.clamp(0.0, 1.0);
    let bound = PAUSE_FIRST_MAX.saturating_mul(1 << attempt.min(DOUBLINGS_MAX)).min(PAUSE_MAX);
    let jitter = bound.mul_f64(chance);
    match retry_after {
        Some(asked) => asked.min(RETRY_AFTER_MAX) + jitter.min(PAUSE_FIRST_MAX),
        None => jitter.max(PAUSE_MIN),
    }
}

/// Most answers come sooner, and nothing flickers.
const SHOWN_EVERY: Duration = Duration::from_secs(1);

/// Shows on a terminal why a request is delayed and for how much longer it is tried, once that takes longer than a
/// second.
pub struct Retrying {
    patience: Duration,
    until: Cell<Moment>,
    terminal: bool,
    /// Empty: nothing to show.
    why: RefCell<String>,
    drawn: Cell<bool>,
}

impl Retrying {
    /// Without patience nothing is shown: the caller reports failures itself.
    pub fn new(patience: Duration, why: String) -> Self {
        let terminal = !patience.is_zero() && stderr_is_drawn_on();
        let until = Cell::new(Moment::now().plus(patience));
        Self { patience, until, terminal, why: RefCell::new(why), drawn: Cell::new(false) }
    }

    /// Shows nothing.
    pub fn silent() -> Self {
        Self::new(Duration::ZERO, String::new())
    }

    pub fn failed(&self, why: String) {
        *self.why.borrow_mut() = why;
    }

    /// The server has answered: nothing is shown until the next failure, and patience starts again.
    pub fn succeeded(&self) {
        self.why.borrow_mut().clear();
        self.until.set(Moment::now().plus(self.patience));
        self.wipe();
    }

    fn wipe(&self) {
        if self.drawn.take() {
            wipe_line();
        }
    }

    /// Runs until it is dropped.
    pub async fn show(&self) -> Infallible {
        loop {
            tokio::time::sleep(SHOWN_EVERY).await;
            let why = self.why.borrow();
            if self.terminal && !why.is_empty() {
                draw_line(&line(&why, self.until.get().since(Moment::now())));
                self.drawn.set(true);
            }
        }
    }
}

/// The duration comes first, since a narrow terminal cuts off the end.
fn line(why: &str, left: Duration) -> String {
    format!("trying for {} more: {why}", times::span(left))
}

impl Drop for Retrying {
    fn drop(&mut self) {
        self.wipe();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ_by_chance() {
        let longest: Vec<u128> = (0..8).map(|attempt| pause(attempt, None, 1.0).as_millis()).collect();
        assert_eq!(longest, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000]);
        assert_eq!(pause(u32::MAX, None, 0.5), Duration::from_millis(2_500));
        assert_eq!(pause(3, None, 0.0), PAUSE_MIN);
    }

    #[test]
    fn the_server_says_when_within_bounds() {
        assert_eq!(pause(0, Some(Duration::from_secs(7)), 0.0), Duration::from_secs(7));
        assert!(pause(9, Some(Duration::from_secs(7)), 1.0) < Duration::from_secs(8));
        assert!(pause(0, Some(Duration::MAX), 1.0) < Duration::from_secs(61));
    }

    #[test]
    fn nothing_is_sent_twice_that_could_be_executed_twice() {
        let unsure =
            [Trouble::NoAnswer, Trouble::Refused { status: 503, code: "" }, Trouble::Refused { status: 504, code: "" }];
        for trouble in unsure {
            assert!(is_retried(trouble, true) && !is_retried(trouble, false), "{trouble:?}");
        }
        assert!(is_retried(Trouble::NoConnection, false));
        assert!(is_retried(Trouble::Refused { status: 429, code: "rate_limited" }, false));
    }

    #[test]
    fn a_refusal_that_stays_is_not_repeated() {
        for (status, code) in
            [(400, "invalid_parameter"), (404, "x"), (409, "environment_locked"), (500, "internal_error")]
        {
            assert!(!is_retried(Trouble::Refused { status, code }, true), "{code}");
        }
    }

    #[test]
    fn it_says_why_and_how_long_still() {
        let words = line("cannot reach http://a: connection refused", Duration::from_secs(27));
        assert_eq!(words, "trying for 27 s more: cannot reach http://a: connection refused");
    }
}

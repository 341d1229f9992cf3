//! How requests are repeated: the pauses, the time limit, and the display on a terminal: the reason and the remaining
//! time.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::time::Duration;

use super::failure::CallError;
use super::output::{StatusLine, times};
use super::steady::Moment;

/// The longest first pause; each limit is at most twice the previous one.
const PAUSE_FIRST_MAX: Duration = Duration::from_millis(250);
/// The longest pause: it spares a server that is starting, and is short enough not to be noticed afterwards.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The minimum pause, since the random one may be zero.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// The limit for a longer `Retry-After`, which the server may have sent while it was overloaded.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// Beyond this the pause does not grow anyway.
const DOUBLINGS_MAX: u32 = 10;

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

/// The attempts of one request, or of a wait for news. Pauses grow until there is an answer.
#[derive(Debug)]
pub struct Attempts {
    patience: Duration,
    since: Moment,
    failed: u32,
}

impl Attempts {
    pub fn new(patience: Duration) -> Self {
        Self { patience, since: Moment::now(), failed: 0 }
    }

    /// The server has answered: patience starts again.
    pub fn restart(&mut self) {
        *self = Self::new(self.patience);
    }

    /// The pause before the next attempt; none if patience would be over by then.
    pub fn pause(&mut self, retry_after: Option<Duration>) -> Option<Duration> {
        let pause = pause(self.failed, retry_after, rand::random());
        self.failed = self.failed.saturating_add(1);
        Some(pause).filter(|pause| Moment::now().since(self.since) + *pause <= self.patience)
    }

    /// Waits before the next attempt, even if patience is over.
    pub async fn wait(&mut self) {
        tokio::time::sleep(pause(self.failed, None, rand::random())).await;
        self.failed = self.failed.saturating_add(1);
    }
}

/// Repeats until success, until patience is over, or until another attempt would not help.
pub async fn insist<T>(
    patience: Duration,
    retrying: &Retrying,
    attempt: impl AsyncFn() -> Result<T, CallError>,
) -> Result<T, CallError> {
    let mut attempts = Attempts::new(patience);
    loop {
        let error = match attempt().await {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
        let pause = attempts.pause(error.retry_after()).filter(|_| error.is_passing(true));
        let Some(pause) = pause else { return Err(error) };
        retrying.failed(error.to_string());
        tokio::time::sleep(pause).await;
    }
}

/// Most answers come sooner, so that nothing flickers.
const SHOWN_EVERY: Duration = Duration::from_secs(1);

/// Shows on a terminal why a request is delayed and for how much longer it is tried, once that takes longer than a
/// second.
pub struct Retrying {
    patience: Duration,
    until: Cell<Moment>,
    line: StatusLine,
    /// Empty: nothing to show.
    why: RefCell<String>,
}

impl Retrying {
    /// Without patience nothing is shown: the caller reports failures itself.
    pub fn new(patience: Duration, why: String) -> Self {
        let until = Cell::new(Moment::now().plus(patience));
        Self { patience, until, line: StatusLine::on_stderr(), why: RefCell::new(why) }
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
        self.line.wipe();
    }

    /// Shows the reason while this work takes long.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            result = work => result,
            never = self.show() => match never {},
        }
    }

    async fn show(&self) -> Infallible {
        loop {
            tokio::time::sleep(SHOWN_EVERY).await;
            let why = self.why.borrow();
            if self.line.terminal && !self.patience.is_zero() && !why.is_empty() {
                self.line.draw(&line(&why, self.until.get().since(Moment::now())));
            }
        }
    }
}

/// The duration comes first, since a narrow terminal cuts off the end.
fn line(why: &str, left: Duration) -> String {
    format!("trying for {} more: {why}", times::span(left))
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
    fn it_says_why_and_how_long_still() {
        let words = line("cannot reach http://a: connection refused", Duration::from_secs(27));
        assert_eq!(words, "trying for 27 s more: cannot reach http://a: connection refused");
    }
}

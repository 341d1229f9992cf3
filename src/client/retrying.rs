//! Says on a terminal what a request waits for, why, and how long still, once that takes longer than a second.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::time::Duration;

use super::output::{draw_line, stderr_is_drawn_on, times, wipe_line};
use super::steady::Moment;

/// Most answers come sooner, and nothing flickers.
const SHOWN_EVERY: Duration = Duration::from_secs(1);

pub struct Retrying {
    patience: Duration,
    until: Cell<Moment>,
    terminal: bool,
    /// Empty: there is nothing to say.
    why: RefCell<String>,
    drawn: Cell<bool>,
}

impl Retrying {
    /// With no patience nothing is ever said: the caller has words of its own.
    pub fn new(patience: Duration, why: String) -> Self {
        let terminal = !patience.is_zero() && stderr_is_drawn_on();
        let until = Cell::new(Moment::now().plus(patience));
        Self { patience, until, terminal, why: RefCell::new(why), drawn: Cell::new(false) }
    }

    /// Says nothing.
    pub fn silent() -> Self {
        Self::new(Duration::ZERO, String::new())
    }

    pub fn failed(&self, why: String) {
        *self.why.borrow_mut() = why;
    }

    /// The server has answered: nothing is shown until the next failure, and patience begins anew.
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

    /// Until it is dropped.
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

/// How long comes first: the end is cut off in a narrow terminal.
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
    fn it_says_why_and_how_long_still() {
        let words = line("cannot reach http://a: connection refused", Duration::from_secs(27));
        assert_eq!(words, "trying for 27 s more: cannot reach http://a: connection refused");
    }
}

//! Shows progress: a line that updates in place on a terminal, or an occasional plain line elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The pause between lines without a terminal: the output is read later, so a few lines are enough.
const BETWEEN_PLAIN_LINES: Duration = Duration::from_secs(10);

pub struct Progress {
    shown: Display,
    what: String,
}

enum Display {
    Bar(ProgressBar),
    Lines { last: Instant },
    Nothing,
}

impl Progress {
    pub fn new(quiet: bool) -> Self {
        let shown = if quiet {
            Display::Nothing
        } else if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}");
            let bar = ProgressBar::new_spinner();
            Display::Bar(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())))
        } else {
            Display::Lines { last: Instant::now() }
        };
        Self { shown, what: String::new() }
    }

    pub fn begin(&mut self, what: String) {
        self.what = what;
        if let Display::Lines { last } = &mut self.shown {
            *last = Instant::now();
        }
        if let Display::Bar(bar) = &self.shown {
            bar.set_message(self.what.clone());
            bar.tick();
        }
    }

    pub fn update(&mut self, how: &str) {
        match &mut self.shown {
            Display::Bar(bar) => {
                bar.set_message(format!("{}: {how}", self.what));
                bar.tick();
            }
            Display::Lines { last } if last.elapsed() >= BETWEEN_PLAIN_LINES => {
                *last = Instant::now();
                eprintln!("{}: {how}", self.what);
            }
            Display::Lines { .. } | Display::Nothing => {}
        }
    }

    /// Prints a line that stays on the screen.
    pub fn line(&self, text: &str) {
        match &self.shown {
            Display::Bar(bar) => bar.println(text),
            Display::Lines { .. } => eprintln!("{text}"),
            Display::Nothing => {}
        }
    }

    pub fn finish(&self) {
        if let Display::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

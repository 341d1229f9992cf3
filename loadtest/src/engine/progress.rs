//! Owns what somebody sees who watches: a line that changes in a terminal, a plain line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Without a terminal, who reads it reads it later.
const BETWEEN_PLAIN_LINES: Duration = Duration::from_secs(10);

pub struct Progress {
    shown: Shown,
    what: String,
}

enum Shown {
    Bar(ProgressBar),
    Lines { last: Instant },
    Nothing,
}

impl Progress {
    pub fn new(quiet: bool) -> Self {
        let shown = if quiet {
            Shown::Nothing
        } else if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}");
            let bar = ProgressBar::new_spinner();
            Shown::Bar(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())))
        } else {
            Shown::Lines { last: Instant::now() }
        };
        Self { shown, what: String::new() }
    }

    /// What is being done from now on.
    pub fn begin(&mut self, what: String) {
        self.what = what;
        if let Shown::Lines { last } = &mut self.shown {
            *last = Instant::now();
        }
        if let Shown::Bar(bar) = &self.shown {
            bar.set_message(self.what.clone());
            bar.tick();
        }
    }

    /// How it goes.
    pub fn update(&mut self, how: &str) {
        match &mut self.shown {
            Shown::Bar(bar) => {
                bar.set_message(format!("{}: {how}", self.what));
                bar.tick();
            }
            Shown::Lines { last } if last.elapsed() >= BETWEEN_PLAIN_LINES => {
                *last = Instant::now();
                eprintln!("{}: {how}", self.what);
            }
            Shown::Lines { .. } | Shown::Nothing => {}
        }
    }

    /// Something that stays on the screen.
    pub fn line(&self, text: &str) {
        match &self.shown {
            Shown::Bar(bar) => bar.println(text),
            Shown::Lines { .. } => eprintln!("{text}"),
            Shown::Nothing => {}
        }
    }

    pub fn finish(&self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

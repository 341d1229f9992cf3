//! The display while waiting for a lock: a line that moves on a terminal, elsewhere a line every half minute. On stderr,
//! since stdout is the command's.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::time::Duration;

use crate::output::{draw_line, note, stderr_is_drawn_on, times, wipe_line};
use crate::steady::Moment;

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Smooth, and next to no work.
const FRAME_TIME: Duration = Duration::from_millis(120);
/// Logs of CI jobs are kept and read: often enough to see that the job is alive.
const LINE_TIME: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Progress {
    since: Moment,
    /// Whether stderr is a terminal that can move its cursor.
    terminal: bool,
    /// For which environment, and the rest of the sentence. Empty: there is nothing to wait for yet.
    target: String,
    words: RefCell<String>,
    drawn: Cell<bool>,
}

impl Progress {
    pub fn new(target: String) -> Self {
        Self {
            since: Moment::now(),
            terminal: stderr_is_drawn_on(),
            target,
            words: RefCell::default(),
            drawn: Cell::new(false),
        }
    }

    /// Its place, and who has the lock.
    pub fn show(&self, words: String) {
        *self.words.borrow_mut() = words;
    }

    pub fn is_shown(&self) -> bool {
        !self.words.borrow().is_empty()
    }

    /// How long comes first: the end is cut off in a narrow terminal.
    fn line(&self) -> String {
        format!("waiting for {} for {}: {}", self.target, times::span(self.waited()), self.words.borrow())
    }

    pub fn waited(&self) -> Duration {
        Moment::now().since(self.since)
    }

    /// One line that stays.
    pub fn say(&self, words: &str) {
        self.clear();
        note(&format!("lockkeeper: {words}"));
    }

    /// Shows what it waits for until it is dropped.
    pub async fn animate(&self) -> Infallible {
        let mut frames = FRAMES.iter().cycle();
        loop {
            let shown = self.is_shown();
            match (shown, self.terminal) {
                (true, true) => self.draw(*frames.next().unwrap_or(&' ')),
                (true, false) => note(&format!("lockkeeper: {}", self.line())),
                (false, _) => {}
            }
            tokio::time::sleep(if shown && !self.terminal { LINE_TIME } else { FRAME_TIME }).await;
        }
    }

    fn draw(&self, frame: char) {
        draw_line(&format!("{frame} {}", self.line()));
        self.drawn.set(true);
    }

    /// Takes the moving line away.
    pub fn clear(&self) {
        if self.drawn.take() {
            wipe_line();
        }
    }
}

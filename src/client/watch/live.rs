//! The board on a terminal: redrawn after changes, at most four times a second, and every second to update the times.

use std::io;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::board::Board;
use super::picture::{View, draw};
use super::screen::{Key, Screen, pressed_keys};
use super::source::{self, Update};
use crate::api::Api;
use crate::failure::Failure;
use crate::output::Out;
use crate::output::text::harmless;
use crate::signals::Signals;

/// The minimum time between two frames: people cannot follow more than four a second.
const FRAME_PAUSE: Duration = Duration::from_millis(250);
const TICK: Duration = Duration::from_secs(1);
const UPDATES_MAX: usize = 64;
/// More events than a window shows.
const EVENTS_KEPT: usize = 32;

pub async fn run(api: &Api, out: &Out, pipeline: Option<&str>) -> Result<(), Failure> {
    let (tell, mut updates) = mpsc::channel(UPDATES_MAX);
    let following = source::follow(api, pipeline, tell);
    tokio::pin!(following);
    // Errors at the beginning are shown on the normal screen.
    let first = tokio::select! {
        ended = &mut following => return ended,
        first = updates.recv() => first,
    };
    let no_terminal = |error: io::Error| Failure::Failed(format!("cannot use the terminal: {error}"));
    let mut watching = Watching {
        organization: api.organization.clone(),
        out: *out,
        screen: Screen::enter().map_err(no_terminal)?,
        board: Board::default(),
        events: Vec::new(),
        trouble: None,
        ahead: SignedDuration::ZERO,
        scroll: 0,
        scroll_max: 0,
    };
    if let Some(first) = first {
        watching.take(first);
    }
    tokio::select! {
        ended = &mut following => ended,
        left = watching.run(updates) => left.map_err(no_terminal)?,
    }
}

struct Watching {
    organization: String,
    out: Out,
    screen: Screen,
    board: Board,
    events: Vec<String>,
    trouble: Option<String>,
    ahead: SignedDuration,
    scroll: usize,
    scroll_max: usize,
}

/// The signals that end or interrupt a program at a terminal.
const SIGNALS: [Signal; 6] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::TSTP, Signal::WINCH];

impl Watching {
    /// Runs until a key or a signal ends it.
    async fn run(&mut self, mut updates: mpsc::Receiver<Update>) -> io::Result<Result<(), Failure>> {
        let mut signals = Signals::of(&SIGNALS)?;
        let mut keys = pressed_keys()?;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut drawn = Instant::now();
        self.draw()?;
        let mut is_old = false;
        loop {
            tokio::select! {
                Some(update) = updates.recv() => {
                    self.take(update);
                    is_old = true;
                }
                () = tokio::time::sleep_until(drawn + FRAME_PAUSE), if is_old => {
                    self.draw()?;
                    (drawn, is_old) = (Instant::now(), false);
                }
                _ = tick.tick() => is_old = true,
                Some(key) = keys.recv() => {
                    if !self.press(key) {
                        return Ok(Ok(()));
                    }
                    self.draw()?;
                }
                signal = signals.next() => {
                    match Signal::from_named_raw(signal) {
                        Some(Signal::INT) => return Ok(Ok(())),
                        Some(Signal::WINCH) => self.screen.forget(),
                        Some(Signal::TSTP) => self.pause()?,
                        Some(_) | None => return Ok(Err(Failure::of_signal(signal))),
                    }
                    self.draw()?;
                }
            }
        }
    }

    fn take(&mut self, update: Update) {
        match update {
            Update::Board { pipelines, ahead } => {
                self.board.take(pipelines);
                self.ahead = ahead;
            }
            Update::Event(words) => {
                self.events.push(words.brief());
                let surplus = self.events.len().saturating_sub(EVENTS_KEPT);
                self.events.drain(..surplus);
            }
            Update::Trouble(why) => self.trouble = Some(harmless(&why)),
            Update::Live => self.trouble = None,
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let view = View {
            organization: &self.organization,
            board: &self.board,
            events: &self.events,
            trouble: self.trouble.as_deref(),
            now: Timestamp::now() + self.ahead,
            scroll: self.scroll,
        };
        let picture = draw(&view, self.screen.size(), self.out.colour);
        self.scroll_max = picture.scroll_max;
        self.scroll = self.scroll.min(self.scroll_max);
        self.screen.show(picture.lines)
    }

    /// False if the key ends the program.
    fn press(&mut self, key: Key) -> bool {
        let page = self.screen.size().rows / 2;
        self.scroll = match key {
            Key::Quit => return false,
            Key::Up => self.scroll.saturating_sub(1),
            Key::Down => self.scroll + 1,
            Key::PageUp => self.scroll.saturating_sub(page),
            Key::PageDown => self.scroll + page,
            Key::Top => 0,
        }
        .min(self.scroll_max);
        true
    }

    /// Ctrl-Z: gives the terminal back, stops, and takes it again when the shell continues the program.
    fn pause(&mut self) -> io::Result<()> {
        self.screen.give_back();
        kill_process(getpid(), Signal::STOP)?;
        self.screen.take()
    }
}

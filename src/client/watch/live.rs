//! The board on a terminal: draws when something has changed, at most four times a second, and every second for the
//! times.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::board::Board;
use super::picture::{View, draw};
use super::screen::{Key, Keys, Screen};
use super::source::{self, Update};
use crate::api::Api;
use crate::failure::Failure;
use crate::output::Out;
use crate::output::text::harmless;

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
    let mut watching = Watching::begin(api.organization(), *out).map_err(|error| no_terminal(&error))?;
    if let Some(first) = first {
        watching.take(first);
    }
    tokio::select! {
        ended = &mut following => ended,
        left = watching.run(updates) => left.map_err(|error| no_terminal(&error))?,
    }
}

fn no_terminal(error: &std::io::Error) -> Failure {
    Failure::Failed(format!("cannot use the terminal: {error}"))
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
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    quit: Signal,
    stop: Signal,
    resize: Signal,
}

impl Signals {
    fn catch() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            stop: signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
            resize: signal(SignalKind::window_change())?,
        })
    }
}

impl Watching {
    fn begin(organization: &str, out: Out) -> std::io::Result<Self> {
        Ok(Self {
            organization: organization.to_owned(),
            out,
            screen: Screen::enter()?,
            board: Board::default(),
            events: Vec::new(),
            trouble: None,
            ahead: SignedDuration::ZERO,
            scroll: 0,
            scroll_max: 0,
        })
    }

    /// Runs until a key or a signal ends it.
    async fn run(&mut self, mut updates: mpsc::Receiver<Update>) -> std::io::Result<Result<(), Failure>> {
        let mut signals = Signals::catch()?;
        let mut keys = Keys::open()?;
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
                key = keys.next() => {
                    if !self.press(key) {
                        return Ok(Ok(()));
                    }
                    self.draw()?;
                }
                _ = signals.resize.recv() => {
                    self.screen.forget();
                    self.draw()?;
                }
                _ = signals.stop.recv() => {
                    self.pause()?;
                    self.draw()?;
                }
                _ = signals.interrupt.recv() => return Ok(Ok(())),
                _ = signals.terminate.recv() => return Ok(Err(ended_by(rustix::process::Signal::TERM))),
                _ = signals.hang_up.recv() => return Ok(Err(ended_by(rustix::process::Signal::HUP))),
                _ = signals.quit.recv() => return Ok(Err(ended_by(rustix::process::Signal::QUIT))),
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

    fn draw(&mut self) -> std::io::Result<()> {
        let now = Timestamp::now() + self.ahead;
        let view = View {
            organization: &self.organization,
            board: &self.board,
            events: &self.events,
            trouble: self.trouble.as_deref(),
            now,
            clock: &now.strftime("%H:%M:%S UTC").to_string(),
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
    fn pause(&mut self) -> std::io::Result<()> {
        self.screen.give_back();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)?;
        self.screen.take()
    }
}

/// The exit code of shells after a signal.
fn ended_by(signal: rustix::process::Signal) -> Failure {
    Failure::Exit(u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX))
}

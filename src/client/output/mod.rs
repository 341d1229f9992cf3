//! The output of commands: tables and lines for people, the server's own `data` for scripts (`--json`). Colours only on
//! a terminal, no control characters from other people's text, and no panic when the reader has gone.
//!
//! From top to bottom: `mod` → `table` → `text`; `times` → `text`.

pub mod table;
pub mod text;
pub mod times;

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::stdio::stdout;
use rustix::termios::tcgetwinsize;
use serde_json::Value;
use tokio::sync::oneshot;

use self::text::{Style, paint};
pub use self::text::{items_of, text_of};
use super::failure::Failure;

/// For a terminal that does not report its width.
const USUAL_WIDTH: usize = 80;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also when piped
    Always,
    /// Not even on a terminal
    Never,
}

/// The destination of a command's output.
#[derive(Debug, Clone, Copy)]
pub struct Out {
    pub json: bool,
    pub colour: bool,
    /// Whether stdout is a terminal.
    pub terminal: bool,
}

impl Out {
    pub fn new(json: bool, colour: Colour) -> Self {
        let terminal = io::stdout().is_terminal();
        Self { json, colour: is_coloured(colour, terminal), terminal }
    }

    /// One record: the server's data unchanged, or lines for people.
    pub fn record(&self, data: &Value, lines: impl FnOnce(&Value) -> Vec<String>) -> Result<(), Failure> {
        if self.json { self.json(data) } else { self.lines(&lines(data)) }
    }

    /// A list: the server's data unchanged, or a table with a row for each item.
    pub fn list(&self, data: &Value, row: impl Fn(&Value) -> Vec<table::Cell>, if_empty: &str) -> Result<(), Failure> {
        if self.json { self.json(data) } else { self.rows(items_of(data).iter(), row, if_empty) }
    }

    pub fn rows<'a>(
        &self,
        items: impl Iterator<Item = &'a Value>,
        row: impl Fn(&Value) -> Vec<table::Cell>,
        if_empty: &str,
    ) -> Result<(), Failure> {
        let rows: Vec<Vec<table::Cell>> = items.map(row).collect();
        if rows.is_empty() {
            note(if_empty);
            return Ok(());
        }
        let width = self.terminal.then(|| width_of(io::stdout()));
        self.lines(&table::render(rows, width, self.colour))
    }

    /// Writes indented JSON, which people can read too.
    pub fn json(&self, value: &Value) -> Result<(), Failure> {
        self.write(&format!("{value:#}\n"))
    }

    /// Writes one value per line, for streams.
    pub fn json_line(&self, value: &Value) -> Result<(), Failure> {
        self.write(&format!("{value}\n"))
    }

    pub fn line(&self, line: &str) -> Result<(), Failure> {
        self.write(&format!("{line}\n"))
    }

    pub fn lines(&self, lines: &[String]) -> Result<(), Failure> {
        self.write(&lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>())
    }

    /// Writes the text in one call, so that lines of several processes do not mix.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Failed(format!("cannot write the output: {error}")),
        })
    }

    pub fn paint(&self, text: &str, style: Style) -> String {
        paint(text, style, self.colour)
    }
}

/// A line on stderr that is replaced while a command waits, and wiped when this is dropped.
#[derive(Debug)]
pub struct StatusLine {
    /// Whether stderr is a terminal that can move its cursor.
    pub terminal: bool,
    drawn: Cell<bool>,
}

impl StatusLine {
    pub fn on_stderr() -> Self {
        let can_move = std::env::var_os("TERM").is_some_and(|kind| kind != "dumb");
        Self { terminal: io::stderr().is_terminal() && can_move, drawn: Cell::new(false) }
    }

    pub fn draw(&self, text: &str) {
        // In one write: wiping and drawing separately would flicker. The last column stays empty, since some terminals
        // wrap there.
        let line = format!("\r{}\u{1b}[K", table::cut(text, width_of(io::stderr()).saturating_sub(1)));
        io::stderr().write_all(line.as_bytes()).ok();
        self.drawn.set(true);
    }

    pub fn wipe(&self) {
        if self.drawn.take() {
            io::stderr().write_all(b"\r\x1b[K").ok();
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.wipe();
    }
}

fn width_of(terminal: impl AsFd) -> usize {
    let columns = tcgetwinsize(terminal).map(|size| size.ws_col.into()).unwrap_or_default();
    if columns == 0 { USUAL_WIDTH } else { columns }
}

/// A message for people, on stderr. Not `eprintln`, which panics when stderr is closed or full.
pub fn note(words: &str) {
    writeln!(io::stderr(), "{words}").ok();
}

/// Whether output is coloured; `terminal`: it goes to a terminal. <https://no-color.org>: any non-empty value counts.
pub fn is_coloured(colour: Colour, terminal: bool) -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => terminal && !unwanted && !dumb,
    }
}

/// `name: value` lines with aligned values; fields without a value are left out.
pub fn fields(fields: &[(&str, String)]) -> Vec<String> {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or_default() + 1;
    let given = fields.iter().filter(|(_, value)| !value.is_empty());
    given.map(|(name, value)| format!("{:width$} {value}", format!("{name}:"))).collect()
}

/// Resolves when the reader of the output is gone, as behind `| head -1`; never if stdout is a file.
pub async fn reader_gone() {
    let (tell, told) = oneshot::channel();
    // The thread ends with the program, which does not wait for it.
    let waiting = std::thread::Builder::new().name("stdout".to_owned()).spawn(move || {
        if is_gone_at_last() {
            tell.send(()).ok();
        }
    });
    if waiting.is_err() || told.await.is_err() {
        std::future::pending().await
    }
}

fn is_gone_at_last() -> bool {
    loop {
        // Errors and hang-ups are always reported.
        let mut waiting = [PollFd::from_borrowed_fd(stdout(), PollFlags::empty())];
        match poll(&mut waiting, None) {
            Ok(_) => return waiting[0].revents().intersects(PollFlags::ERR | PollFlags::HUP),
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

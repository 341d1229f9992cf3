//! The terminal while a board is shown: the alternate screen, keys without Enter, and all settings restored afterwards.

use std::io;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::stdio::{stdin, stdout};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::sync::mpsc;

use super::picture::Size;

/// The alternate screen, without cursor and line wrapping.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// A terminal that supports these shows nothing new between them; others ignore them.
const BEGIN_FRAME: &str = "\x1b[?2026h";
const END_FRAME: &str = "\x1b[?2026l";
const CLEAR: &str = "\x1b[2J";
/// For a terminal that does not report its size.
const SIZE_UNKNOWN: Size = Size { columns: 80, rows: 24 };

/// The terminal is restored when this is dropped.
pub struct Screen {
    /// The previous settings, if keys are read from the terminal.
    settings: Option<Termios>,
    /// The lines that the terminal shows; empty if that is not known.
    shown: Vec<String>,
}

impl Screen {
    pub fn enter() -> io::Result<Self> {
        let settings = if isatty(stdin()) { Some(tcgetattr(stdin())?) } else { None };
        let mut screen = Self { settings, shown: Vec::new() };
        screen.take()?;
        Ok(screen)
    }

    /// Takes the terminal, at the beginning and after the program was suspended and continued.
    pub fn take(&mut self) -> io::Result<()> {
        if let Some(settings) = &self.settings {
            let mut own = settings.clone();
            own.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            // A read returns the available bytes, and never blocks.
            own.special_codes[SpecialCodeIndex::VMIN] = 0;
            own.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(stdin(), OptionalActions::Now, &own)?;
        }
        self.shown.clear();
        write_all(ENTER.as_bytes())
    }

    /// Gives the terminal back. Errors are ignored: nobody could read them.
    pub fn give_back(&self) {
        write_all(LEAVE.as_bytes()).ok();
        if let Some(settings) = &self.settings {
            tcsetattr(stdin(), OptionalActions::Now, settings).ok();
        }
    }

    pub fn size(&self) -> Size {
        match tcgetwinsize(stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Size { columns: size.ws_col.into(), rows: size.ws_row.into() }
            }
            Ok(_) | Err(_) => SIZE_UNKNOWN,
        }
    }

    /// Shows these lines, in one write that contains only the changed ones.
    pub fn show(&mut self, lines: Vec<String>) -> io::Result<()> {
        let frame = frame(&self.shown, &lines);
        self.shown = lines;
        if frame.is_empty() { Ok(()) } else { write_all(frame.as_bytes()) }
    }

    /// Called when the size has changed: the terminal may have moved the shown lines.
    pub fn forget(&mut self) {
        self.shown.clear();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The output that turns one picture into another; empty if they are the same.
fn frame(shown: &[String], lines: &[String]) -> String {
    let all = shown.len() != lines.len();
    if !all && shown == lines {
        return String::new();
    }
    let mut frame = BEGIN_FRAME.to_owned();
    if all {
        frame += CLEAR;
    }
    for (place, line) in lines.iter().enumerate().filter(|(place, line)| all || shown[*place] != **line) {
        // The rest of the line is erased first: erasing after a line as wide as the window would remove its last
        // character.
        frame += &format!("\x1b[{};1H\x1b[K{line}\x1b[0m", place + 1);
    }
    frame + END_FRAME
}

/// Bypasses the buffer of stdout, which would split a frame into lines.
fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(stdout(), bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A key that the board knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Quit,
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
}

/// More keys than anybody presses before they are handled.
const KEYS_MAX: usize = 64;

/// The pressed keys. They end if stdin is not a terminal, or when the terminal is gone, which a signal reports.
pub fn pressed_keys() -> io::Result<mpsc::Receiver<Key>> {
    let (press, pressed) = mpsc::channel(KEYS_MAX);
    if isatty(stdin()) {
        // The thread ends with the program, which does not wait for it.
        std::thread::Builder::new().name("keys".to_owned()).spawn(move || read_keys(&press))?;
    }
    Ok(pressed)
}

/// Runs until the terminal or the receiver is gone.
fn read_keys(press: &mpsc::Sender<Key>) {
    let mut bytes = [0; 256];
    loop {
        let mut waiting = [PollFd::from_borrowed_fd(stdin(), PollFlags::IN)];
        match poll(&mut waiting, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        let is_gone = waiting[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
        let read = match rustix::io::read(stdin(), &mut bytes) {
            Ok(0) if is_gone => return,
            Ok(read) => read,
            Err(Errno::INTR | Errno::AGAIN) => 0,
            Err(_) => return,
        };
        for key in keys(&bytes[..read]) {
            if press.blocking_send(key).is_err() {
                return;
            }
        }
    }
}

fn keys(bytes: &[u8]) -> Vec<Key> {
    const SEQUENCES: [(&[u8], Key); 7] = [
        (b"\x1b[A", Key::Up),
        (b"\x1bOA", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1bOB", Key::Down),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
        (b"\x1b[H", Key::Top),
    ];
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let Some((first, others)) = rest.split_first() {
        if let Some((sequence, key)) = SEQUENCES.iter().find(|(sequence, _)| rest.starts_with(sequence)) {
            keys.push(*key);
            rest = &rest[sequence.len()..];
            continue;
        }
        match first {
            // Ctrl-C and Ctrl-D arrive as bytes only if the terminal does not turn them into signals.
            b'q' | b'Q' | 3 | 4 => keys.push(Key::Quit),
            b'k' => keys.push(Key::Up),
            b'j' => keys.push(Key::Down),
            b' ' => keys.push(Key::PageDown),
            b'g' => keys.push(Key::Top),
            _ => {}
        }
        rest = others;
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn only_changed_lines_are_written() {
        assert_eq!(frame(&lines(&["a", "b"]), &lines(&["a", "b"])), "");
        let changed = frame(&lines(&["a", "b"]), &lines(&["a", "c"]));
        assert_eq!(changed, "\x1b[?2026h\x1b[2;1H\x1b[Kc\x1b[0m\x1b[?2026l");
        let first = frame(&[], &lines(&["a"]));
        assert_eq!(first, "\x1b[?2026h\x1b[2J\x1b[1;1H\x1b[Ka\x1b[0m\x1b[?2026l");
    }

    #[test]
    fn keys_are_read_in_sequences_and_letters() {
        assert_eq!(keys(b"j\x1b[Axx\x1b[6~q"), [Key::Down, Key::Up, Key::PageDown, Key::Quit]);
        assert_eq!(keys(b"\x03"), [Key::Quit]);
        assert_eq!(keys(b""), []);
    }
}

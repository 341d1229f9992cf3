//! A secret in memory: not shown by accident, and wiped afterwards. It is read from a file, or typed at a terminal
//! without echo.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::failure::Failure;

/// A larger file cannot be a token.
const FILE_BYTES_MAX: u64 = 32 * 1024;
/// Longer than any token or password; an accidental paste is cut off.
const LENGTH_MAX: usize = 64 * 1024;

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        drop(Zeroizing::new(std::mem::take(&mut self.0)));
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[hidden]")
    }
}

/// Reads the first line of a file. `what` names the file in errors.
pub fn read_line(file: &Path, what: &str) -> Result<Secret, Failure> {
    let unreadable = |error: &dyn fmt::Display| Failure::Usage(format!("{what} {}: {error}", file.display()));
    let mut text = Zeroizing::new(String::new());
    let opened = File::open(file).map_err(|error| unreadable(&error))?;
    opened.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| unreadable(&error))?;
    let token = Secret::new(text.lines().next().unwrap_or_default().trim());
    if token.reveal().is_empty() { Err(unreadable(&"it is empty")) } else { Ok(token) }
}

/// Reads a line from the terminal without showing it; not from stdin, which may be a file.
pub fn read_hidden(prompt: &str) -> Result<Secret, Failure> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
    let Ok(mut terminal) = terminal else {
        return Err(Failure::Usage("there is no terminal to ask on; give it on stdin".to_owned()));
    };
    let failed = |error: &dyn fmt::Display| Failure::Failed(format!("cannot ask on the terminal: {error}"));
    let silenced = Silenced::new(&terminal).map_err(|error| failed(&error))?;
    // After the echo is off: the input of a user who types immediately must not be shown either.
    let asked = write!(&terminal, "{prompt}: ").map_err(|error| failed(&error));
    let typed = asked.and_then(|()| read_typed(&terminal));
    drop(silenced);
    writeln!(terminal).ok();
    typed
}

/// A terminal without echo and signals, so that its settings are restored whatever is typed.
struct Silenced<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Silenced<'a> {
    fn new(terminal: &'a File) -> rustix::io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(terminal, OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silenced<'_> {
    fn drop(&mut self) {
        tcsetattr(self.terminal, OptionalActions::Flush, &self.before).ok();
    }
}

fn read_typed(mut terminal: &File) -> Result<Secret, Failure> {
    const INTERRUPT: u8 = 3;
    const END: u8 = 4;
    const ERASE: [u8; 2] = [8, 127];
    const ERASE_ALL: u8 = 21;
    let mut line = Zeroizing::new(Vec::with_capacity(256));
    let mut byte = [0];
    loop {
        let read = terminal
            .read(&mut byte)
            .map_err(|error| Failure::Failed(format!("cannot ask on the terminal: {error}")))?;
        match byte[0] {
            INTERRUPT => return Err(Failure::Failed("interrupted".to_owned())),
            _ if read == 0 => break,
            b'\r' | b'\n' | END => break,
            ERASE_ALL => line.clear(),
            erase if ERASE.contains(&erase) => erase_last(&mut line),
            byte if line.len() < LENGTH_MAX => line.push(byte),
            _ => return Err(Failure::Usage("that is too long".to_owned())),
        }
    }
    match std::str::from_utf8(&line) {
        Ok(text) => Ok(Secret::new(text)),
        Err(_) => Err(Failure::Usage("that is no text in UTF-8".to_owned())),
    }
}

/// Removes a whole character, which may have several bytes.
fn erase_last(line: &mut Vec<u8>) {
    while let Some(byte) = line.pop() {
        if byte & 0b1100_0000 != 0b1000_0000 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erasing_takes_whole_characters() {
        let mut line = "aü".as_bytes().to_vec();
        erase_last(&mut line);
        assert_eq!(line, b"a");
        erase_last(&mut line);
        erase_last(&mut line);
        assert!(line.is_empty());
    }
}

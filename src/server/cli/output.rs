//! What commands print, and their exit codes.

use std::io::Write;
use std::process::ExitCode;

/// A fault in the settings or files: EX_CONFIG of `sysexits.h`.
pub const EXIT_CONFIG: u8 = 78;
/// The server could not start, or stopped by itself.
pub const EXIT_FAILED: u8 = 1;

/// Prints the output of a command. Not `println`, which panics when stdout is closed.
pub fn say(text: &str) -> ExitCode {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(EXIT_FAILED),
    }
}

pub fn complain(code: u8, error: &dyn std::fmt::Display) -> ExitCode {
    // Not `eprintln`, which panics when stderr is a full disk.
    writeln!(std::io::stderr(), "lockkeeper: {error}").ok();
    ExitCode::from(code)
}

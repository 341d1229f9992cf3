//! The command line: commands, help, exit codes, and how commands print.
//!
//! From top to bottom: `program` (all commands, and `serve`) → `check`, `secrets`, `audit`, `cluster` → `backup` →
//! `operator_socket`, `environment`, this file.

mod audit;
mod backup;
mod check;
mod cluster;
mod environment;
mod operator_socket;
mod program;
mod secrets;

use std::io::Write;
use std::process::ExitCode;

pub use program::run;

/// A fault in the settings or files: EX_CONFIG of `sysexits.h`.
const EXIT_CONFIG: u8 = 78;
/// The server could not start, or stopped without being told to.
const EXIT_FAILED: u8 = 1;

/// Prints the output of a command. Not `println`, which panics when stdout is closed.
fn say(text: &str) -> ExitCode {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(EXIT_FAILED),
    }
}

fn complain(code: u8, error: &dyn std::fmt::Display) -> ExitCode {
    // Not `eprintln`, which panics when stderr is a full disk.
    writeln!(std::io::stderr(), "lockkeeper: {error}").ok();
    ExitCode::from(code)
}

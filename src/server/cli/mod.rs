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

use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

pub use program::run;

use crate::config::{self, Flags, Log, Settings};
use crate::telemetry;
use environment::Variables;

/// A fault in the settings or files: EX_CONFIG of `sysexits.h`.
const EXIT_CONFIG: u8 = 78;
/// The server could not start, or stopped without being told to.
const EXIT_FAILED: u8 = 1;

/// Why a command failed: its exit code, and what happened and what to do.
struct Failed {
    code: u8,
    sentence: String,
}

impl Failed {
    fn new(code: u8, sentence: impl Display) -> Self {
        Self { code, sentence: sentence.to_string() }
    }

    fn report(self) -> ExitCode {
        // Not `eprintln`, which panics when stderr is a full disk.
        writeln!(std::io::stderr(), "lockkeeper: {}", self.sentence).ok();
        ExitCode::from(self.code)
    }
}

impl<E: std::error::Error> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::new(EXIT_FAILED, error)
    }
}

/// Prints the output of a command. Not `println`, which panics when stdout is closed.
fn say(text: &str) -> ExitCode {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(EXIT_FAILED),
    }
}

/// The settings of the server that a command is about.
fn load(flags: &Flags, variables: Variables) -> Result<Settings, Failed> {
    config::load(flags, variables).map_err(|faults| Failed::new(EXIT_CONFIG, faults))
}

fn start_logging(log: &Log) -> Result<(), Failed> {
    telemetry::start_logging(log).map_err(|fault| Failed::new(EXIT_CONFIG, fault))
}

/// The store would create a missing directory, and a typo would look like an empty one.
fn check_exists(data_dir: &Path) -> Result<(), Failed> {
    if data_dir.exists() {
        return Ok(());
    }
    let sentence = format!("data directory {} does not exist; name the server's with --data-dir", data_dir.display());
    Err(Failed::new(EXIT_FAILED, sentence))
}

//! `lockkeeper run`: a command that runs while this client holds a lock, and never longer.
//!
//! The client claims, renews the lease and releases; its guard, a separate process, runs the command and ends it with
//! the lease, even if the client is killed. docs/design/run.md describes the states and the possible orders of events.
//!
//! From top to bottom: `command` → `guard` → `lease`.

mod command;
mod guard;
mod lease;

use std::ffi::OsString;
use std::process::ExitCode;

pub use command::{Args, run};

/// Runs an internal command: one of the processes between the client and its command. None for other commands.
pub fn hidden() -> Option<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.split_first() {
        Some((command, rest)) if command == guard::GUARD_COMMAND => Some(guard::guard(rest)),
        Some((command, rest)) if command == guard::START_COMMAND => Some(guard::start(rest)),
        Some(_) | None => None,
    }
}

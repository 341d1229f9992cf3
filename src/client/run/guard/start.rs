//! The process that becomes the command: it gives the terminal to the command's process group before the command can
//! ask for it, and makes the kernel end the command if its guard is killed.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::run::terminal;

/// `start-command GUARD TERMINAL PROGRAM ARGUMENT…`: the guard's pid, whether the command gets the terminal, the
/// command.
pub const START_COMMAND: &str = "start-command";
/// This program, even if its file has been replaced meanwhile.
pub const OWN_PROGRAM: &str = "/proc/self/exe";
/// The exit codes of shells for a program that could not be executed, or was not found.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

pub fn start(arguments: &[OsString]) -> ExitCode {
    let [guard, terminal, program, arguments @ ..] = arguments else {
        return complain(NOT_EXECUTABLE, "it was not started by a guard");
    };
    // The command's first process does not outlive a killed guard; the client ends the others.
    set_parent_process_death_signal(Some(Signal::KILL)).ok();
    let is_parent = getppid().map(Pid::as_raw_pid).is_some_and(|parent| guard.to_str() == Some(&parent.to_string()));
    if !is_parent {
        return complain(NOT_EXECUTABLE, "the guard of the command was killed");
    }
    if terminal == terminal::GIVEN {
        terminal::take();
    }
    terminal::stop_at_output_again();
    let error = Command::new(program).args(arguments).exec();
    let program = program.to_string_lossy();
    match error.kind() {
        io::ErrorKind::NotFound => complain(NOT_FOUND, &format!("the program `{program}` was not found")),
        io::ErrorKind::PermissionDenied => {
            complain(NOT_EXECUTABLE, &format!("the program `{program}` may not be executed"))
        }
        _ => complain(NOT_EXECUTABLE, &format!("the program `{program}` cannot be started: {error}")),
    }
}

fn complain(code: u8, words: &str) -> ExitCode {
    writeln!(io::stderr(), "lockkeeper: {words}").ok();
    ExitCode::from(code)
}

//! The process that becomes the command. It gives the terminal to the command's process group before the command can
//! use it, so that the command receives Ctrl-C and can read from the keyboard; and it makes the kernel end the command
//! if its guard is killed.

use std::ffi::OsString;
use std::io::{self, IsTerminal, stdin};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use nix::sys::signal::{SigSet, Signal as BlockedSignal};
use rustix::process::{Pid, Signal, getpgrp, getppid, set_parent_process_death_signal};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::output::note;

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
    if terminal == WITH_TERMINAL {
        take_terminal();
    }
    // The command would inherit the blocked signal.
    SigSet::from(BlockedSignal::SIGTTOU).thread_unblock().ok();
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
    note(&format!("lockkeeper: {words}"));
    ExitCode::from(code)
}

/// The values of the argument TERMINAL: whether the command gets the terminal.
pub const WITH_TERMINAL: &str = "terminal";
pub const WITHOUT_TERMINAL: &str = "no-terminal";

/// Whether this process has the terminal and may give it to the command. A command in the background does not get it.
pub fn has_terminal() -> bool {
    stdin().is_terminal() && tcgetpgrp(stdin()).is_ok_and(|foreground| foreground == getpgrp())
}

/// From here on, writing to the terminal from the background, or taking it back, does not stop this process.
pub fn do_not_stop_at_output() {
    SigSet::from(BlockedSignal::SIGTTOU).thread_block().ok();
}

/// Gives the terminal to this process's group. Call it after [`do_not_stop_at_output`].
pub fn take_terminal() {
    // Fails if the terminal is gone; then nobody needs it.
    tcsetpgrp(stdin(), getpgrp()).ok();
}

//! Controls which process group has the terminal. While the command runs it has the terminal, so that Ctrl-C reaches it
//! and it can read from the keyboard.

use std::ffi::OsStr;
use std::io::{IsTerminal, stdin};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The argument for the guard that says whether its command gets the terminal.
pub const GIVEN: &str = "terminal";
pub const NOT_GIVEN: &str = "no-terminal";

/// Whether this process has the terminal and may give it to the command. A command in the background does not get it.
pub fn is_ours() -> bool {
    stdin().is_terminal() && tcgetpgrp(stdin()).is_ok_and(|foreground| foreground == getpgrp())
}

pub fn argument(given: bool) -> &'static OsStr {
    OsStr::new(if given { GIVEN } else { NOT_GIVEN })
}

/// From here on, writing to the terminal from the background, or taking it back, does not stop this process.
pub fn do_not_stop_at_output() {
    SigSet::from(Signal::SIGTTOU).thread_block().ok();
}

/// For the command, which would inherit the blocked signal.
pub fn stop_at_output_again() {
    SigSet::from(Signal::SIGTTOU).thread_unblock().ok();
}

/// Gives the terminal to this process's group. Call it after [`do_not_stop_at_output`].
pub fn take() {
    // Fails if the terminal is gone; then nobody needs it.
    tcsetpgrp(stdin(), getpgrp()).ok();
}

//! The client's side of its guard: starts it, sends orders, reads its reports.

use std::ffi::OsString;
use std::io::{self, PipeWriter, Write, pipe};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Signal, WaitOptions, getpid, set_child_subreaper, wait};
use tokio::net::unix::pipe::Receiver;

use super::process::GUARD_COMMAND;
use super::protocol::{Messages, Order, Report, line};
use super::start::{self, OWN_PROGRAM};
use lockkeeper_processes as processes;

/// Processes started during one scan are found by the next.
const KILL_AGAIN: Duration = Duration::from_millis(10);

pub struct Guarded {
    /// The guard ends the command when this is closed.
    orders: PipeWriter,
    /// If the reports end without `Report::Gone`, the guard was killed.
    pub reports: Messages<Report>,
    guard: Child,
    /// Whether the client's process group had the terminal, which it then gets back.
    had_terminal: bool,
}

impl Guarded {
    /// The command starts with the first order. Call this inside a runtime.
    pub fn start(command: &[OsString], variables: &[(&str, String)]) -> io::Result<Self> {
        // If the guard is killed, the processes it leaves behind become children of this one.
        set_child_subreaper(Some(getpid()))?;
        let had_terminal = start::has_terminal();
        let (orders_of_guard, orders) = pipe()?;
        let (reports, reports_of_guard) = pipe()?;
        // The guard inherits these ends.
        fcntl_setfd(&orders_of_guard, FdFlags::empty())?;
        fcntl_setfd(&reports_of_guard, FdFlags::empty())?;
        let ends = [orders_of_guard.as_raw_fd(), reports_of_guard.as_raw_fd()].map(|end| end.to_string());
        let terminal = if had_terminal { start::WITH_TERMINAL } else { start::WITHOUT_TERMINAL };
        let mut guard = Command::new(OWN_PROGRAM);
        guard.arg(GUARD_COMMAND).args(ends).arg(terminal).args(command);
        guard.envs(variables.iter().map(|(name, value)| (name, value)));
        // A separate process group: a signal to the client's whole group must not end both.
        let guard = guard.process_group(0).spawn()?;
        // A guard that does not read must not block the client.
        fcntl_setfl(&orders, OFlags::NONBLOCK)?;
        Ok(Self {
            orders,
            reports: Messages::new(Receiver::from_owned_fd(OwnedFd::from(reports))?),
            guard,
            had_terminal,
        })
    }

    pub fn order(&mut self, order: Order) {
        // Fails only if the guard is gone, which its reports show, or has not read thousands of orders.
        self.orders.write_all(line(&order).as_bytes()).ok();
    }

    /// Call this when no process of the command is left, or the guard is gone.
    pub fn finish(mut self) {
        if self.had_terminal {
            start::take_terminal();
        }
        self.guard.wait().ok();
    }
}

/// Kills all remaining processes of guard and command. Returns when none is left.
pub async fn sweep() {
    loop {
        for process in processes::own_descendants() {
            process.signal(Signal::KILL);
        }
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        tokio::time::sleep(KILL_AGAIN).await;
    }
}

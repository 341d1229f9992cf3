//! The client's side of its guard: starts it, sends orders, reads its reports.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, PipeWriter, Write, pipe};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Signal, WaitOptions, getpid, set_child_subreaper, wait};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use super::process::GUARD_COMMAND;
use super::protocol::{Lines, Order, Report};
use super::start::OWN_PROGRAM;
use crate::run::terminal;
use lockkeeper_processes as processes;

/// Processes started during one scan are found by the next.
const KILL_AGAIN: Duration = Duration::from_millis(10);
const READ_AT_ONCE: usize = 256;

pub struct Guarded {
    /// The guard ends the command when this is closed.
    orders: PipeWriter,
    reports: Receiver,
    lines: Lines,
    heard: VecDeque<Report>,
    guard: Child,
    /// The terminal is returned to the group that had it.
    had_terminal: bool,
}

impl Guarded {
    /// The command starts with the first order. Call this inside a runtime.
    pub fn start(command: &[OsString], variables: &[(&str, String)]) -> io::Result<Self> {
        // If the guard is killed, the processes it leaves behind become children of this one.
        set_child_subreaper(Some(getpid()))?;
        let had_terminal = terminal::is_ours();
        let (orders_of_guard, orders) = pipe()?;
        let (reports, reports_of_guard) = pipe()?;
        inherit(&orders_of_guard)?;
        inherit(&reports_of_guard)?;
        let mut guard = Command::new(OWN_PROGRAM);
        guard
            .arg(GUARD_COMMAND)
            .arg(orders_of_guard.as_raw_fd().to_string())
            .arg(reports_of_guard.as_raw_fd().to_string());
        guard.arg(terminal::argument(had_terminal)).args(command);
        guard.envs(variables.iter().map(|(name, value)| (name, value)));
        // A separate process group: a signal to the client's whole group must not end both.
        let guard = guard.process_group(0).spawn()?;
        // A guard that does not read must not block the client.
        fcntl_setfl(&orders, OFlags::NONBLOCK)?;
        Ok(Self {
            orders,
            reports: Receiver::from_owned_fd(OwnedFd::from(reports))?,
            lines: Lines::default(),
            heard: VecDeque::new(),
            guard,
            had_terminal,
        })
    }

    pub fn order(&mut self, order: Order) {
        // Fails only if the guard is gone, which its reports show, or has not read thousands of orders.
        self.orders.write_all(order.line().as_bytes()).ok();
    }

    /// None if the guard is gone without a report.
    pub async fn report(&mut self) -> Option<Report> {
        loop {
            if let Some(report) = self.heard.pop_front() {
                return Some(report);
            }
            let mut bytes = [0; READ_AT_ONCE];
            let count = self.reports.read(&mut bytes).await.ok().filter(|count| *count > 0)?;
            let lines = self.lines.add(&bytes[..count]);
            self.heard.extend(lines.iter().filter_map(|line| Report::read(line)));
        }
    }

    /// Call it when no process of the command is left, or the guard is gone.
    pub fn finish(mut self) {
        if self.had_terminal {
            terminal::take();
        }
        self.guard.wait().ok();
    }
}

/// Lets the next child inherit it.
fn inherit(end: &impl AsFd) -> io::Result<()> {
    Ok(fcntl_setfd(end, FdFlags::empty())?)
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

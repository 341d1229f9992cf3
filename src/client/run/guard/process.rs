//! The guard's process: one thread that waits for orders, for the ends of processes, and for its alarm.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, set_child_subreaper, wait};
use tokio::net::unix::pipe;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::plan::{Act, Event, Plan};
use super::protocol::{Ending, Messages, Order, Report, line};
use super::start::{OWN_PROGRAM, START_COMMAND};
use crate::output::note;
use crate::signals;
use crate::steady::{Alarm, Moment};
use lockkeeper_processes::{self as processes, Process};

/// `guard-command ORDERS REPORTS TERMINAL PROGRAM ARGUMENT…`: the numbers of two pipes, whether the command gets the
/// terminal, and the command.
pub const GUARD_COMMAND: &str = "guard-command";
/// The guard's name in the list of processes. Not the client's, so that killing clients by name does not hit it.
const GUARD_NAME: &str = "lk-guard";
/// The exit code of shells for a program that could not be executed.
const NOT_STARTED: i32 = 126;

/// Guards one command until none of its processes is left.
pub fn guard(arguments: &[OsString]) -> ExitCode {
    let runtime = Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(run(arguments))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("lockkeeper: the guard of the command failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[OsString]) -> io::Result<()> {
    // If that is not allowed, the process keeps its name.
    std::fs::write("/proc/self/comm", GUARD_NAME).ok();
    let [orders, reports, terminal, command @ ..] = arguments else {
        return Err(io::Error::other("it was not started by a client"));
    };
    // Signals for all processes must not end the guard: it ends after the command.
    signals::survive()?;
    // Before the first child, so that no end of a child is missed.
    let mut child_ended = signal(SignalKind::child())?;
    // Orphans among the command's processes become children of this one, so `wait` reports the end of the last.
    set_child_subreaper(Some(getpid()))?;
    let alarm = Alarm::new()?;
    let orders = inherited(orders, |path| pipe::OpenOptions::new().open_receiver(path))?;
    let reports = inherited(reports, |path| OpenOptions::new().write(true).open(path))?;
    let mut orders = Messages::new(orders);
    let Some(Order::Start { grace, until }) = orders.next().await else { return Ok(()) };
    let mut guard = match spawn(terminal, command) {
        Ok(command) => {
            Guard { command, command_has_ended: false, plan: Plan::new(grace, until), reports, client_is_gone: false }
        }
        Err(error) => {
            note(&format!("lockkeeper: cannot start a process: {error}"));
            send(&reports, Report::Ended(Ending::Code(NOT_STARTED)));
            send(&reports, Report::Gone);
            return Ok(());
        }
    };
    while guard.reap() {
        tokio::select! {
            _ = child_ended.recv() => {}
            order = orders.next(), if !guard.client_is_gone => guard.on_order(order),
            () = alarm.reached(guard.plan.alarm()) => guard.on(Event::Woke),
        }
    }
    send(&guard.reports, Report::Gone);
    Ok(())
}

/// Opens an inherited pipe and closes the inherited descriptor, which the command must not get.
fn inherited<T>(number: &OsStr, open: impl FnOnce(&str) -> io::Result<T>) -> io::Result<T> {
    let number = number.to_str().and_then(|number| number.parse::<i32>().ok());
    let number = number.ok_or_else(|| io::Error::other("it was not started by a client"))?;
    let opened = open(&format!("/proc/self/fd/{number}"))?;
    nix::unistd::close(number)?;
    Ok(opened)
}

/// Starts the command in a separate process group, through a process that becomes the command.
fn spawn(terminal: &OsStr, command: &[OsString]) -> io::Result<Pid> {
    let guard = getpid().as_raw_pid().to_string();
    let mut starter = Command::new(OWN_PROGRAM);
    starter.arg(START_COMMAND).arg(guard).arg(terminal).args(command).process_group(0);
    // Not waited for here: the guard waits for all its children.
    let child = starter.spawn()?;
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("it has no id"))
}

struct Guard {
    /// The pid of the command, also the id of its process group.
    command: Pid,
    command_has_ended: bool,
    plan: Plan,
    reports: File,
    client_is_gone: bool,
}

impl Guard {
    /// `None`: the client is gone.
    fn on_order(&mut self, order: Option<Order>) {
        match order {
            None => {
                self.client_is_gone = true;
                self.on(Event::ClientGone);
            }
            Some(Order::Start { until, .. } | Order::Renewed(until)) => self.on(Event::Renewed(until)),
            Some(Order::Lost) => self.on(Event::Lost),
            Some(Order::Pass(signal)) => {
                if let Some(signal) = Signal::from_named_raw(signal).filter(|_| !self.command_has_ended) {
                    kill_process_group(self.command, signal).ok();
                }
            }
        }
    }

    fn on(&mut self, event: Event) {
        let act = self.plan.on(event, Moment::now());
        if let Some(Act::Terminate { lapsed: true } | Act::Kill { lapsed: true }) = act {
            send(&self.reports, Report::Lapsed);
        }
        match act {
            Some(Act::Terminate { .. }) => self.terminate(),
            Some(Act::Kill { .. }) => self.kill(),
            None => {}
        }
    }

    /// Reaps the children that have ended. Returns whether any child, and so any descendant, is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) if pid == self.command => self.on_status(status),
                Ok(Some(_)) => {}
                Ok(None) => {
                    if self.command_has_ended {
                        self.on(Event::LeftBehind);
                    }
                    return true;
                }
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn on_status(&mut self, status: WaitStatus) {
        let ending = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Ending::Code(code),
            (None, Some(signal)) => Ending::Signal(signal),
            // Ctrl-Z: a lock is not held for a suspended command. Other stops are the command's own business.
            (None, None) => {
                if status.stopping_signal() == Some(Signal::TSTP.as_raw()) {
                    kill_process_group(self.command, Signal::CONT).ok();
                }
                return;
            }
        };
        self.command_has_ended = true;
        send(&self.reports, Report::Ended(ending));
        let left = processes::own_descendants().len();
        if left > 0 {
            send(&self.reports, Report::Left(u32::try_from(left).unwrap_or(u32::MAX)));
        }
    }

    /// Asks each process once: many programs take a second signal as "now", and it would hit processes started to clean
    /// up. First the command's own group, which the kernel signals atomically.
    fn terminate(&self) {
        let all = processes::own_descendants();
        let asked = !self.command_has_ended && kill_process_group(self.command, Signal::TERM).is_ok();
        for process in all {
            if !(asked && self.is_in_its_group(&process)) {
                process.signal(Signal::TERM);
            }
            if process.is_stopped() {
                process.signal(Signal::CONT);
            }
        }
    }

    /// Whole groups first: otherwise a process could escape by starting another and ending before the scan sees it.
    fn kill(&self) {
        let left = processes::own_descendants();
        if left.iter().any(|process| self.is_in_its_group(process)) {
            kill_process_group(self.command, Signal::KILL).ok();
        }
        for leader in left.iter().filter(|process| process.leads_its_group()) {
            kill_process_group(leader.pid, Signal::KILL).ok();
        }
        left.iter().for_each(|process| process.signal(Signal::KILL));
    }

    fn is_in_its_group(&self, process: &Process) -> bool {
        process.group == self.command.as_raw_pid()
    }
}

fn send(mut reports: &File, report: Report) {
    // Fails only if the client is gone; then nobody needs the report.
    reports.write_all(line(&report).as_bytes()).ok();
}

//! Processes as the kernel lists them: who descends from whom, who belongs to a deployment, and how they are ended.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal};
use tracing::warn;

use super::supervise::SUPERVISE_COMMAND;
use crate::domain::DeploymentId;

/// The variable that marks what belongs to a deployment.
pub(super) const DEPLOYMENT_VARIABLE: &str = "LOCKKEEPER_DEPLOYMENT";
/// A supervisor whose server is gone kills at once, and knows better than anybody what. It takes milliseconds.
const SUPERVISOR_PATIENCE: Duration = Duration::from_secs(5);
/// Between one look and the next: a killed process needs a moment to be gone.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// So many looks in a row must find nothing: a process that is just becoming another program shows no variables for that
/// moment.
const LOOKS_IN_VAIN: u32 = 3;
/// After this long somebody should know that a process cannot be killed: another user's, or stuck in the kernel.
const COMPLAIN_AFTER: Duration = Duration::from_secs(30);

/// One process at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Process {
    pub pid: Pid,
    parent: i32,
    pub group: i32,
    state: u8,
    /// With the pid, what tells it from a later one that was given the same pid.
    started: u64,
}

impl Process {
    /// None if it has ended.
    fn read(pid: Pid) -> io::Result<Option<Self>> {
        Ok(look(pid, "stat")?.and_then(|stat| Self::parse(pid, &stat)))
    }

    fn parse(pid: Pid, stat: &[u8]) -> Option<Self> {
        // The second field is the program's name in parentheses, and may itself have any character.
        let after_name = &stat[stat.iter().rposition(|byte| *byte == b')')? + 1..];
        let mut fields = std::str::from_utf8(after_name).ok()?.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let started = fields.nth(16)?.parse().ok()?;
        Some(Self { pid, parent, group, state, started })
    }

    /// A zombie does nothing any more, and waits only for its parent to take notice.
    fn runs(&self) -> bool {
        !matches!(self.state, b'Z' | b'X')
    }

    pub fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// Never hits another process that was given the same pid in the meantime.
    pub fn signal(&self, signal: Signal) {
        let sent = match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(handle) => {
                let now = Self::read(self.pid).ok().flatten();
                let same = now.is_some_and(|now| now.started == self.started);
                if same { pidfd_send_signal(handle, signal) } else { Ok(()) }
            }
            Err(Errno::NOSYS) => kill_process(self.pid, signal),
            Err(_) => Ok(()),
        };
        // It has ended by itself, or may not be touched: whoever waits for its end looks again anyway.
        sent.ok();
    }

    fn carries(&self, mark: &[u8]) -> io::Result<bool> {
        let environment = look(self.pid, "environ")?.unwrap_or_default();
        Ok(environment.split(|byte| *byte == 0).any(|entry| entry == mark))
    }

    fn is_inside(&self, dir: &Path) -> bool {
        // Reading a link takes no descriptor, so it fails only where the process has ended or is somebody else's.
        let Ok(place) = fs::read_link(file(self.pid, "cwd")) else { return false };
        let bytes = place.as_os_str().as_bytes();
        let bytes = bytes.strip_suffix(b" (deleted)").unwrap_or(bytes);
        Path::new(OsStr::from_bytes(bytes)).starts_with(dir)
    }

    fn is_supervisor(&self) -> bool {
        let line = look(self.pid, "cmdline").ok().flatten().unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(SUPERVISE_COMMAND.as_bytes())
    }
}

fn file(pid: Pid, name: &str) -> String {
    format!("/proc/{}/{name}", pid.as_raw_pid())
}

/// None if the process has ended or is somebody else's. An error is one of ours, like too many open files: then nothing
/// is known about the process, least of all that it is gone.
fn look(pid: Pid, name: &str) -> io::Result<Option<Vec<u8>>> {
    match fs::read(file(pid, name)) {
        Ok(content) => Ok(Some(content)),
        Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM) => Ok(None),
            Some(_) | None => Err(error),
        },
    }
}

/// All that run now.
fn all() -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else { continue };
        processes.extend(Process::read(pid)?.filter(Process::runs));
    }
    Ok(processes)
}

/// All that run now and descend from this process, as far as one look can tell.
pub(super) fn own_descendants() -> Vec<Process> {
    // Whoever asks looks again until the kernel says that no child is left.
    let all = all().unwrap_or_default();
    let own = getpid();
    let mut family = HashSet::from([own.as_raw_pid()]);
    add_descendants(&mut family, &all, |_| true);
    all.into_iter().filter(|process| process.pid != own && family.contains(&process.pid.as_raw_pid())).collect()
}

fn add_descendants(family: &mut HashSet<i32>, all: &[Process], counts: impl Fn(&Process) -> bool) {
    loop {
        let before = family.len();
        for process in all {
            if family.contains(&process.parent) && counts(process) {
                family.insert(process.pid.as_raw_pid());
            }
        }
        if family.len() == before {
            return;
        }
    }
}

/// Ends everything that an earlier run of the server, or a supervisor that was killed, has left of a deployment: what
/// carries its mark, what works in its directory, and what descends from those. Returns when nothing of it is found any
/// more, and how many it had to kill. Blocking.
pub(super) fn sweep(deployment: DeploymentId, work_dir: &Path) -> usize {
    let began = Instant::now();
    let mark = format!("{DEPLOYMENT_VARIABLE}={deployment}");
    let work_dir = fs::canonicalize(work_dir).unwrap_or_else(|_| work_dir.to_owned());
    let mut killed = HashSet::new();
    let mut complained = false;
    let mut in_vain = 0;
    loop {
        let left = remains(mark.as_bytes(), &work_dir);
        in_vain = if left.as_ref().is_ok_and(Vec::is_empty) { in_vain + 1 } else { 0 };
        match &left {
            Ok(_) if in_vain == LOOKS_IN_VAIN => return killed.len(),
            Ok(left) if left.is_empty() => {}
            Ok(left) if began.elapsed() < SUPERVISOR_PATIENCE && left.iter().any(Process::is_supervisor) => {}
            Ok(left) => {
                for process in left {
                    process.signal(Signal::KILL);
                    killed.insert((process.pid, process.started));
                }
            }
            Err(_) => {}
        }
        if !complained && began.elapsed() > COMPLAIN_AFTER {
            complained = true;
            let error = left.err().map(|error| error.to_string());
            warn!(%deployment, error, "its processes cannot be found or killed; its environment waits for that");
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn remains(mark: &[u8], work_dir: &Path) -> io::Result<Vec<Process>> {
    let all = all()?;
    // This server may itself have been started by a step: neither it nor what started it belongs to what is left, and
    // what it started since has marks of its own.
    let forebears = forebears(getpid().as_raw_pid(), &all);
    let counts = |process: &Process| !forebears.contains(&process.pid.as_raw_pid());
    let mut family = HashSet::new();
    for process in all.iter().filter(|process| counts(process)) {
        if process.carries(mark)? || process.is_inside(work_dir) {
            family.insert(process.pid.as_raw_pid());
        }
    }
    add_descendants(&mut family, &all, counts);
    Ok(all.into_iter().filter(|process| family.contains(&process.pid.as_raw_pid())).collect())
}

/// A process, its parent, and so on.
fn forebears(of: i32, all: &[Process]) -> HashSet<i32> {
    let mut found = HashSet::new();
    let mut next = Some(of);
    while let Some(pid) = next.filter(|pid| found.insert(*pid)) {
        next = all.iter().find(|process| process.pid.as_raw_pid() == pid).map(|process| process.parent);
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_process_may_have_any_name() {
        let stat = b"42 (a) S 1 (b\n) T 7 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 998877 1 2 3\n";
        let process = Process::parse(Pid::from_raw(42).unwrap(), stat).unwrap();
        assert_eq!((process.parent, process.group, process.started), (7, 42, 998_877));
        assert!(process.is_stopped() && process.runs());
        assert!(Process::parse(Pid::from_raw(42).unwrap(), b"42 (a").is_none());
    }

    #[test]
    fn a_process_knows_itself_and_its_parents() {
        let all = all().unwrap();
        let own = Process::read(getpid()).unwrap().unwrap();
        let forebears = forebears(own.pid.as_raw_pid(), &all);
        assert!(forebears.contains(&own.pid.as_raw_pid()) && forebears.contains(&own.parent));
    }
}

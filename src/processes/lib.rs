//! Processes as listed by the kernel: the descendants of this process, and signals that cannot hit a later process with
//! the same pid. The supervisor of a step and the guard of a command use them to end everything that a program has
//! started.

use std::collections::HashSet;
use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal};

/// One process at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    pub pid: Pid,
    pub parent: i32,
    pub group: i32,
    state: u8,
    /// Distinguishes the process from a later one with the same pid.
    pub started: u64,
}

impl Process {
    /// `None` if the process has ended.
    pub fn read(pid: Pid) -> io::Result<Option<Self>> {
        Ok(read_proc(pid, "stat")?.and_then(|stat| Self::parse(pid, &stat)))
    }

    fn parse(pid: Pid, stat: &[u8]) -> Option<Self> {
        // The second field is the program's name in parentheses, which may contain any character.
        let after_name = &stat[stat.iter().rposition(|byte| *byte == b')')? + 1..];
        let mut fields = std::str::from_utf8(after_name).ok()?.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let started = fields.nth(16)?.parse().ok()?;
        Some(Self { pid, parent, group, state, started })
    }

    /// A zombie no longer runs; it only waits for its parent to reap it.
    fn runs(&self) -> bool {
        !matches!(self.state, b'Z' | b'X')
    }

    pub fn leads_its_group(&self) -> bool {
        self.group == self.pid.as_raw_pid()
    }

    pub fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// Sends a signal, never to a later process with the same pid.
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
        // An error means that the process has ended or belongs to another user; the caller scans again anyway.
        sent.ok();
    }
}

/// The path of a process's file in `/proc`.
pub fn file(pid: Pid, name: &str) -> String {
    format!("/proc/{}/{name}", pid.as_raw_pid())
}

/// `None` if the process has ended or belongs to another user. An error is the caller's own, such as too many open
/// files: the process may then still be running.
pub fn read_proc(pid: Pid, name: &str) -> io::Result<Option<Vec<u8>>> {
    match fs::read(file(pid, name)) {
        Ok(content) => Ok(Some(content)),
        Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM) => Ok(None),
            Some(_) | None => Err(error),
        },
    }
}

/// All running processes.
pub fn all() -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else { continue };
        processes.extend(Process::read(pid)?.filter(Process::runs));
    }
    Ok(processes)
}

/// A process and its descendants, at the time of one scan. Where the kernel lists children, only those are read.
pub fn tree(root: Pid) -> Vec<Pid> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(process) = found.get(at).copied() {
        at += 1;
        let threads = fs::read_dir(file(process, "task")).into_iter().flatten().flatten();
        for thread in threads {
            match fs::read_to_string(thread.path().join("children")) {
                Ok(children) => {
                    let children = children.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
                    found.extend(children);
                }
                // The folder of an ended thread is gone, which is no error.
                Err(_) if thread.path().exists() => return tree_of_all(root),
                Err(_) => {}
            }
        }
    }
    found
}

fn tree_of_all(root: Pid) -> Vec<Pid> {
    let mut family = HashSet::from([root.as_raw_pid()]);
    add_descendants(&mut family, &all().unwrap_or_default(), |_| true);
    family.into_iter().filter_map(Pid::from_raw).collect()
}

/// All running descendants of this process, at the time of one scan.
pub fn own_descendants() -> Vec<Process> {
    // On an error the result is empty; the caller scans again until the kernel reports that no child is left.
    let all = all().unwrap_or_default();
    let own = getpid();
    let mut family = HashSet::from([own.as_raw_pid()]);
    add_descendants(&mut family, &all, |_| true);
    all.into_iter().filter(|process| process.pid != own && family.contains(&process.pid.as_raw_pid())).collect()
}

/// Adds to a family all descendants for which `counts` is true.
pub fn add_descendants(family: &mut HashSet<i32>, all: &[Process], counts: impl Fn(&Process) -> bool) {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_tree_has_children_and_their_children() {
        let mut child = std::process::Command::new("sh").args(["-c", "sleep 60; :"]).spawn().unwrap();
        let root = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while tree(root).len() < 2 || tree_of_all(root).len() < 2 {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
        assert!(tree(root).contains(&root) && tree(getpid()).contains(&root));
        let sleeps = tree(root)[1];
        kill_process(sleeps, Signal::KILL).ok();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_may_have_any_name() {
        let stat = b"42 (a) S 1 (b\n) T 7 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 998877 1 2 3\n";
        let process = Process::parse(Pid::from_raw(42).unwrap(), stat).unwrap();
        assert_eq!((process.parent, process.group, process.started), (7, 42, 998_877));
        assert!(process.is_stopped() && process.runs());
        assert!(Process::parse(Pid::from_raw(42).unwrap(), b"42 (a").is_none());
    }
}

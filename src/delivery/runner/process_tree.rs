//! Finds and ends the processes of a deployment that have no supervisor any more.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid};
use tracing::warn;

use super::control_groups;
use super::protocol::SUPERVISE_COMMAND;
use ambient::backoff::{Backoff, Retries};
use domain::DeploymentId;
use processes::{Process, add_descendants, all, file, read_proc};

/// The environment variable that marks the processes of a deployment.
pub(super) const DEPLOYMENT_VARIABLE: &str = "LOCKKEEPER_DEPLOYMENT";
/// A supervisor whose server is gone kills its processes within milliseconds, and knows them best, so it goes first.
const SUPERVISOR_FIRST: Duration = Duration::from_secs(5);
/// The pause between scans: a killed process needs a moment to disappear, and one that cannot be killed needs long.
const SCAN_PAUSE: Duration = Duration::from_millis(20);
const SCAN_BACKOFF: Backoff = Backoff::new(Duration::from_millis(40), Duration::from_secs(2));
/// This many consecutive scans must find nothing: during `exec` a process has no visible variables for a moment.
const EMPTY_SCANS: u32 = 3;
/// After this time, warns the operator that a process cannot be killed: it is another user's, or stuck in the kernel.
const WARN_AFTER: Duration = Duration::from_secs(30);

/// Kills the processes of a deployment that an earlier run of the server, or a killed supervisor, left behind: those
/// with its mark, those in its control groups, those working in its directory, and their descendants. Returns the
/// number of killed processes once none is found any more. Blocking.
pub(super) fn sweep(deployment: DeploymentId, work_dir: &Path, groups: &[PathBuf]) -> usize {
    let began = Instant::now();
    let work_dir = fs::canonicalize(work_dir).unwrap_or_else(|_| work_dir.to_owned());
    let mut killed = HashSet::new();
    let mut warned = false;
    let (mut empty_scans, mut retries) = (0, Retries::new(SCAN_BACKOFF));
    loop {
        let left = leftovers(deployment, &work_dir, groups);
        empty_scans = if left.as_ref().is_ok_and(Vec::is_empty) { empty_scans + 1 } else { 0 };
        match &left {
            Ok(_) if empty_scans == EMPTY_SCANS => return killed.len(),
            Ok(left) if left.is_empty() => {}
            Ok(left) if began.elapsed() < SUPERVISOR_FIRST && left.iter().any(is_supervisor) => {}
            Ok(left) => {
                for process in left {
                    process.signal(Signal::KILL);
                    killed.insert((process.pid, process.started));
                }
            }
            Err(_) => {}
        }
        if !warned && began.elapsed() > WARN_AFTER {
            warned = true;
            let error = left.err().map(|error| error.to_string());
            warn!(%deployment, error, "cannot find or kill the processes of a deployment; its environment waits until they are gone");
        }
        std::thread::sleep(if empty_scans > 0 { SCAN_PAUSE } else { retries.failed() });
    }
}

fn leftovers(deployment: DeploymentId, work_dir: &Path, groups: &[PathBuf]) -> io::Result<Vec<Process>> {
    let (all, deployment) = (all()?, deployment.to_string());
    // A step may itself have started this server: neither it nor its ancestors count, and the processes that it has
    // started since carry their own marks.
    let ancestors = ancestors(getpid().as_raw_pid(), &all);
    let counts = |process: &Process| !ancestors.contains(&process.pid.as_raw_pid());
    let members = groups.iter().flat_map(|group| control_groups::members(group)).map(Pid::as_raw_pid);
    let mut family: HashSet<i32> = members.filter(|pid| !ancestors.contains(pid)).collect();
    for process in all.iter().filter(|process| counts(process)) {
        if is_marked(process, &deployment)? || is_inside(process, work_dir) {
            family.insert(process.pid.as_raw_pid());
        }
    }
    add_descendants(&mut family, &all, counts);
    Ok(all.into_iter().filter(|process| family.contains(&process.pid.as_raw_pid())).collect())
}

/// Whether a process has a mark of the deployment: a variable of a step's, or an argument of a supervisor's.
fn is_marked(process: &Process, deployment: &str) -> io::Result<bool> {
    let environment = read_proc(process.pid, "environ")?.unwrap_or_default();
    let is_ours = |entry: &[u8]| {
        let value = entry.strip_prefix(DEPLOYMENT_VARIABLE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        value == Some(deployment.as_bytes())
    };
    Ok(environment.split(|byte| *byte == 0).any(is_ours)
        || supervised(process)?.as_deref() == Some(deployment.as_bytes()))
}

fn is_inside(process: &Process, dir: &Path) -> bool {
    // Reading a link needs no file descriptor, so it fails only if the process has ended or is another user's.
    let Ok(place) = fs::read_link(file(process.pid, "cwd")) else { return false };
    let bytes = place.as_os_str().as_bytes();
    let bytes = bytes.strip_suffix(b" (deleted)").unwrap_or(bytes);
    Path::new(OsStr::from_bytes(bytes)).starts_with(dir)
}

fn is_supervisor(process: &Process) -> bool {
    supervised(process).is_ok_and(|deployment| deployment.is_some())
}

/// The deployment of the supervised step, if the process is a supervisor.
fn supervised(process: &Process) -> io::Result<Option<Vec<u8>>> {
    let line = read_proc(process.pid, "cmdline")?.unwrap_or_default();
    let mut arguments = line.split(|byte| *byte == 0).skip(1);
    let is_supervisor = arguments.next() == Some(SUPERVISE_COMMAND.as_bytes());
    Ok(arguments.next().filter(|_| is_supervisor).map(<[u8]>::to_vec))
}

/// A process, its parent, its grandparent, and so on.
fn ancestors(of: i32, all: &[Process]) -> HashSet<i32> {
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
    fn a_process_knows_itself_and_its_parents() {
        let all = all().unwrap();
        let own = Process::read(getpid()).unwrap().unwrap();
        let ancestors = ancestors(own.pid.as_raw_pid(), &all);
        assert!(ancestors.contains(&own.pid.as_raw_pid()) && ancestors.contains(&own.parent));
    }
}

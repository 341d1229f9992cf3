//! The init of a confined step, how its supervisor starts it, and the order in which it applies the layers.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, nice, set_parent_process_death_signal, setsid, wait};
use tokio::net::unix::pipe::Receiver;

use super::super::chain::{self, report};
use super::super::control_groups;
use super::super::host::OWN_PROGRAM;
use super::super::protocol::{self, CONFINE_COMMAND, Confinement, Exit, INIT_NAME, MessageReader, Status, StepOrder};
use super::{files, namespaces, privileges, sockets};
use shares::LAST;

pub(super) const NOT_CONFINED: &str = "it could not be confined: ";

/// An init that has started and waits for its order.
pub(in super::super) struct Init {
    child: Child,
}

/// The init of a running step.
pub(in super::super) struct RunningInit {
    pub pid: Pid,
    pub statuses: MessageReader<Receiver>,
    /// Held open for as long as the supervisor lives.
    _lifeline: Option<ChildStdin>,
}

/// Starts an init, in new namespaces if the confinement has them. Call it in a supervisor that has one thread and no
/// secrets yet. The error is the end of a sentence.
pub(in super::super) fn start(confinement: &Confinement) -> Result<Init, String> {
    if confinement.namespaces {
        namespaces::enter().map_err(failed)?;
    }
    let mut command = Command::new(OWN_PROGRAM);
    command.arg0(INIT_NAME).arg(CONFINE_COMMAND).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::inherit()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| failed(format!("cannot start its init: {error}")))?;
    let mut init = Init { child };
    init.send(confinement)?;
    Ok(init)
}

impl Init {
    /// Makes the init start the step. The error is the end of a sentence.
    pub fn begin(mut self, order: &StepOrder) -> Result<RunningInit, String> {
        self.send(order)?;
        let mut reports = self.child.stderr.take().ok_or_else(|| failed("its init has no output"))?;
        match chain::read_message(&mut reports) {
            Ok(Status::Started) => {}
            Ok(Status::NotStarted(reason)) => return Err(reason),
            Ok(Status::Exited(_) | Status::Gone { .. } | Status::LeaseOver(_)) | Err(_) => {
                return Err(failed("its init was killed"));
            }
        }
        let pid = crate::pid(self.child.id()).ok_or_else(|| failed("its init has no id"))?;
        let source = Receiver::from_owned_fd(OwnedFd::from(reports)).map_err(failed)?;
        Ok(RunningInit { pid, statuses: MessageReader::new(source), _lifeline: self.child.stdin.take() })
    }

    fn send(&mut self, message: &impl serde::Serialize) -> Result<(), String> {
        let bytes = protocol::encode(message).map_err(failed)?;
        if let Some(input) = &mut self.child.stdin {
            // Fails only if the init is dead, which is noticed by its report.
            input.write_all(&bytes).ok();
        }
        Ok(())
    }
}

/// The end of a sentence that begins with "could not be started".
fn failed(reason: impl std::fmt::Display) -> String {
    format!("{NOT_CONFINED}{reason}")
}

/// Reads a confinement and an order from standard input, confines itself, and runs the step until none of its processes
/// is left.
pub fn confine() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            report(&Status::NotStarted(reason));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    // If that is not allowed, the process keeps its name.
    fs::write("/proc/self/comm", INIT_NAME).ok();
    let runtime = chain::single_threaded().map_err(failed)?;
    {
        let _entered = runtime.enter();
        chain::ignore_signals().map_err(failed)?;
    }
    drop(runtime);
    // Detaches from the terminal of the server's user.
    setsid().map_err(failed)?;
    yield_processors();
    let mut input = chain::input().map_err(failed)?;
    let confinement: Confinement = chain::read_message(&mut input).map_err(failed)?;
    namespaces::enter_network(confinement.network).map_err(failed)?;
    apply(&confinement).map_err(failed)?;
    chain::shut_off().map_err(failed)?;
    // After the change of users, which would clear it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)?;
    let order: StepOrder = chain::read_message(&mut input).map_err(failed)?;
    if is_orphaned(&input) {
        return Err(failed("its supervisor was killed"));
    }
    if order.arguments.is_empty() {
        check(&confinement).map_err(failed)?;
        sockets::check(&order.variables).map_err(failed)?;
        report(&Status::Started);
        report(&Status::Exited(Exit::Code(0)));
        return Ok(());
    }
    let step = chain::start_program(&order)?;
    drop(order);
    report(&Status::Started);
    reap(step);
    Ok(())
}

/// The server must answer even while steps use all processors, so steps get the lowest priority. With
/// `sched_autogroup_enabled` the nice value of the whole session counts, and not every user may change it at any time.
/// Each step is its own session, so twenty steps, each with a tenth of the server's weight, would together get twice as
/// much as the server.
fn yield_processors() {
    nice(LAST).ok();
    fs::write("/proc/self/autogroup", LAST.to_string()).ok();
}

/// Whether the supervisor ended before the kernel knew that this process must end with it.
fn is_orphaned(lifeline: &impl AsFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::from_borrowed_fd(lifeline.as_fd(), PollFlags::empty())];
    let ready = poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0);
    ready && polled[0].revents().contains(PollFlags::HUP)
}

/// Returns when no child is left: as the first process of a namespace, this one adopts all its orphans.
fn reap(step: Pid) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == step => report(&Status::Exited(chain::exit(status))),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Confines this process permanently with all layers, each while it is still allowed. The error is the end of a
/// sentence.
fn apply(confinement: &Confinement) -> Result<(), String> {
    for group in &confinement.control_groups {
        control_groups::join(Path::new(group))
            .map_err(|error| format!("it cannot join the control group {group}: {error}"))?;
    }
    if confinement.namespaces {
        files::arrange(confinement)?;
    }
    privileges::limit(&confinement.limits)?;
    privileges::give_up(confinement.user)?;
    if confinement.file_rules {
        files::restrict(confinement)?;
    }
    if confinement.call_filter {
        privileges::filter()?;
    }
    Ok(())
}

/// The beginning of a reason whose cause may be a full disk.
pub(super) const WORK_DIR_UNUSABLE: &str = "it could not use its working directory";

/// Checks that a step could work here, and cannot see the data directory. Runs in a confined process.
fn check(confinement: &Confinement) -> Result<(), String> {
    let own = Path::new(&confinement.work_dir).join("probe");
    let used = File::create(&own).and_then(|_| fs::remove_file(&own));
    used.map_err(|error| format!("{WORK_DIR_UNUSABLE} {}: {error}", confinement.work_dir))?;
    if !confinement.namespaces && !confinement.file_rules {
        // Without namespaces nothing hides the data directory; the other layers still apply.
        return Ok(());
    }
    let seen = fs::read_dir(&confinement.data_dir).into_iter().flatten().flatten();
    let others = seen.filter(|entry| !Path::new(&confinement.work_dir).starts_with(entry.path())).count();
    if others > 0 {
        return Err(format!("it could see {others} entries of the data directory"));
    }
    Ok(())
}

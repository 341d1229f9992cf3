//! The supervisor of one step: a small process between the server and the step. It adopts everything the step starts,
//! however that detaches itself, and ends only when all of it has ended. It is this program, started with
//! [`SUPERVISE_COMMAND`](super::SUPERVISE_COMMAND); plain threads, no runtime, no settings.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, set_child_subreaper, umask, wait,
};
use tokio::signal::unix::{SignalKind, signal};
use zeroize::Zeroizing;

use super::process_tree;
use super::protocol::{self, Exit, LENGTH_BYTES, SUPERVISOR_NAME, Status, StepOrder, TERMINATE};

/// Processes that were born during one scan are found by the next.
const KILL_AGAIN: Duration = Duration::from_millis(5);
/// A process that is stuck in the kernel cannot be killed at once; scanning all the time would not help.
const KILL_AGAIN_MAX: Duration = Duration::from_millis(200);

/// A request to end the step's processes.
enum EndRequest {
    Terminate,
    Kill,
    /// The step has ended by itself; the processes it left behind must end too.
    CleanUp,
}

/// Reads an order from standard input and runs the step until none of its processes is left.
pub fn supervise() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&Status::NotStarted(format!("its supervisor failed: {error}")));
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    // If that is not allowed, the process keeps its name.
    std::fs::write("/proc/self/comm", SUPERVISOR_NAME).ok();
    ignore_signals()?;
    // Orphans among the step's processes become children of this one, so `wait` knows when the last has ended.
    set_child_subreaper(Some(getpid()))?;
    let order = read_order()?;
    let step = match start(&order) {
        Ok(step) => step,
        Err(reason) => {
            report(&Status::NotStarted(reason));
            report(&Status::Gone { left_behind: 0 });
            return Ok(());
        }
    };
    report(&Status::Started);
    let left_behind = Arc::new(AtomicU32::new(0));
    let (requests, inbox) = channel();
    let listener = requests.clone();
    let counter = left_behind.clone();
    thread::Builder::new().spawn(move || listen(&listener))?;
    thread::Builder::new().spawn(move || end_processes(&inbox, step, order.grace, &counter))?;
    reap(step, &requests);
    report(&Status::Gone { left_behind: left_behind.load(Ordering::SeqCst) });
    Ok(())
}

/// A signal to all processes of a service, a terminal or a machine also reaches the supervisor, but only it knows the
/// step's processes: it ends after they are gone, when the server says so or dies.
fn ignore_signals() -> io::Result<()> {
    // The runtime is only needed to register: a signal that was listened for once never ends the process again.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()] {
        drop(signal(kind)?);
    }
    drop(entered);
    Ok(())
}

fn read_order() -> io::Result<StepOrder> {
    let mut input = io::stdin().lock();
    let mut length = [0; LENGTH_BYTES];
    input.read_exact(&mut length)?;
    let mut payload = Zeroizing::new(vec![0; protocol::length(length)?]);
    input.read_exact(&mut payload)?;
    protocol::decode(&payload)
}

/// Starts the step's process. The error is the end of a sentence.
fn start(order: &StepOrder) -> Result<Pid, String> {
    let (program, arguments) = order.arguments.split_first().ok_or("no program is given")?;
    if !Path::new(&order.work_dir).is_dir() {
        return Err("its working directory does not exist".to_owned());
    }
    let output = io::stdout().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().current_dir(&order.work_dir).process_group(0);
    command.envs(order.variables.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::inherit()).stderr(Stdio::from(output));
    umask(Mode::from_raw_mode(order.umask));
    // Not waited for here: `reap` waits for all children.
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("the program `{program}` was not found"),
        io::ErrorKind::PermissionDenied => format!("the program `{program}` may not be executed"),
        io::ErrorKind::ArgumentListTooLong => "its arguments and variables are too long together".to_owned(),
        _ => error.to_string(),
    })?;
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| "its process has no id".to_owned())
}

/// Passes on the server's requests. End of file on standard input means that the server is gone.
fn listen(requests: &Sender<EndRequest>) {
    let mut byte = [0];
    loop {
        let request = match io::stdin().read(&mut byte) {
            Ok(1) if byte[0] == TERMINATE => EndRequest::Terminate,
            Ok(1) => continue,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => EndRequest::Kill,
        };
        let last = matches!(request, EndRequest::Kill);
        if requests.send(request).is_err() || last {
            return;
        }
    }
}

/// Returns when no child is left, which is when no descendant is left.
fn reap(step: Pid, requests: &Sender<EndRequest>) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == step => {
                report(&Status::Exited(exit(status)));
                requests.send(EndRequest::CleanUp).ok();
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn exit(status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}

/// Ends the step's processes on request: asks them first, then kills until this process itself ends.
fn end_processes(inbox: &Receiver<EndRequest>, step: Pid, grace: Duration, left_behind: &AtomicU32) {
    let mut kill_at: Option<Instant> = None;
    loop {
        let request = match kill_at {
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => inbox.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match request {
            Ok(EndRequest::Terminate | EndRequest::CleanUp) if kill_at.is_some() => {}
            Ok(EndRequest::Terminate) => {
                kill_at = Some(Instant::now() + grace);
                terminate(kill_process_group(step, Signal::TERM).is_ok().then_some(step));
            }
            Ok(EndRequest::CleanUp) => {
                kill_at = Some(Instant::now() + grace);
                let left = process_tree::own_descendants().len();
                left_behind.store(u32::try_from(left).unwrap_or(u32::MAX), Ordering::SeqCst);
                terminate(None);
            }
            Ok(EndRequest::Kill) | Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
    let mut pause = KILL_AGAIN;
    loop {
        kill();
        thread::sleep(pause);
        pause = (pause * 2).min(KILL_AGAIN_MAX);
    }
}

/// Whole groups first: otherwise a process could escape by starting another and ending before the scan sees it.
fn kill() {
    let left = process_tree::own_descendants();
    for leader in left.iter().filter(|process| process.group == process.pid.as_raw_pid()) {
        kill_process_group(leader.pid, Signal::KILL).ok();
    }
    left.iter().for_each(|process| process.signal(Signal::KILL));
}

/// Asks each process once: many programs take a second signal as "now", and it would hit processes started to clean up.
fn terminate(group_already_asked: Option<Pid>) {
    for process in process_tree::own_descendants() {
        if group_already_asked.is_none_or(|group| process.group != group.as_raw_pid()) {
            process.signal(Signal::TERM);
        }
        if process.is_stopped() {
            process.signal(Signal::CONT);
        }
    }
}

fn report(status: &Status) {
    let Ok(message) = protocol::encode(status) else { return };
    // Fails only if the server is gone, and then nobody needs it.
    io::stderr().write_all(&message).ok();
}

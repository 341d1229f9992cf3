//! The supervisor of one step: a small process between the server and the step, which adopts everything the step starts,
//! however it detaches itself, and ends only when all of it has ended. It is this program, started with
//! [`SUPERVISE_COMMAND`]; plain threads, no runtime, no settings.

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

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, set_child_subreaper, wait};
use tokio::signal::unix::{SignalKind, signal};
use zeroize::Zeroizing;

use super::protocol::{self, Exit, LENGTH_BYTES, Order, Status, TERMINATE};
use super::tree;

/// The argument that makes this program a supervisor.
pub const SUPERVISE_COMMAND: &str = "supervise-step";
/// How it is listed among the processes: not under the server's name, which somebody may kill by.
const PROCESS_NAME: &str = "lk-step";
/// Those that were born while the last look was taken are found by the next.
const KILL_AGAIN: Duration = Duration::from_millis(5);
/// What cannot be killed at once, being stuck in the kernel, need not be looked for all the time.
const KILL_AGAIN_AT_MOST: Duration = Duration::from_millis(200);

/// What is to be done about the step's processes.
enum Wish {
    Terminate,
    Kill,
    /// The step has ended by itself; whatever it left has to end too.
    CleanUp,
}

/// Runs the step that standard input orders, until nothing of it is left.
pub fn supervise() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&Status::NotStarted(format!("its supervisor failed: {error}")));
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    // Where that is not allowed, it is listed under another name.
    std::fs::write("/proc/self/comm", PROCESS_NAME).ok();
    heed_only_the_server()?;
    // Orphans among the step's processes become children of this one, so `wait` knows when the last has ended.
    set_child_subreaper(Some(getpid()))?;
    let order = read_order()?;
    let step = match start(&order) {
        Ok(step) => step,
        Err(reason) => {
            say(&Status::NotStarted(reason));
            say(&Status::Gone { left_behind: 0 });
            return Ok(());
        }
    };
    say(&Status::Started);
    let left_behind = Arc::new(AtomicU32::new(0));
    let (wishes, wished) = channel();
    let listener = wishes.clone();
    let counter = left_behind.clone();
    thread::Builder::new().spawn(move || listen(&listener))?;
    thread::Builder::new().spawn(move || end_tree(&wished, step, order.grace, &counter))?;
    reap(step, &wishes);
    say(&Status::Gone { left_behind: left_behind.load(Ordering::SeqCst) });
    Ok(())
}

/// Whoever ends all processes of a service, a terminal or a machine asks this one too, but only it knows what belongs to
/// the step: it ends when that is gone, which the server's word or its end sees to.
fn heed_only_the_server() -> io::Result<()> {
    // Needed to say so, and not afterwards: a signal that was once listened for never ends the process again.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()] {
        drop(signal(kind)?);
    }
    drop(entered);
    Ok(())
}

fn read_order() -> io::Result<Order> {
    let mut input = io::stdin().lock();
    let mut length = [0; LENGTH_BYTES];
    input.read_exact(&mut length)?;
    let mut payload = Zeroizing::new(vec![0; protocol::length(length)?]);
    input.read_exact(&mut payload)?;
    protocol::decode(&payload)
}

/// Its process, or why there is none, as the end of a sentence.
fn start(order: &Order) -> Result<Pid, String> {
    let (program, arguments) = order.arguments.split_first().ok_or("no program is named")?;
    if !Path::new(&order.work_dir).is_dir() {
        return Err("its working directory is not there".to_owned());
    }
    let output = io::stdout().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().current_dir(&order.work_dir).process_group(0);
    command.envs(order.variables.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::inherit()).stderr(Stdio::from(output));
    // Not waited for here: `reap` waits for all there are.
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("the program `{program}` was not found"),
        io::ErrorKind::PermissionDenied => format!("the program `{program}` may not be executed"),
        io::ErrorKind::ArgumentListTooLong => "its arguments and variables are too long together".to_owned(),
        _ => error.to_string(),
    })?;
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| "its process has no id".to_owned())
}

/// What the server wants. The end of standard input is the end of the server.
fn listen(wishes: &Sender<Wish>) {
    let mut byte = [0];
    loop {
        let wish = match io::stdin().read(&mut byte) {
            Ok(1) if byte[0] == TERMINATE => Wish::Terminate,
            Ok(1) => continue,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => Wish::Kill,
        };
        let last = matches!(wish, Wish::Kill);
        if wishes.send(wish).is_err() || last {
            return;
        }
    }
}

/// Returns when no child is left, which is when no descendant is left.
fn reap(step: Pid, wishes: &Sender<Wish>) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == step => {
                say(&Status::Exited(exit(status)));
                wishes.send(Wish::CleanUp).ok();
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

/// Ends the step's processes when that is wished: first asks them, then kills until this process itself ends.
fn end_tree(wished: &Receiver<Wish>, step: Pid, grace: Duration, left_behind: &AtomicU32) {
    let mut kill_at: Option<Instant> = None;
    loop {
        let wish = match kill_at {
            None => wished.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => wished.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match wish {
            Ok(Wish::Terminate | Wish::CleanUp) if kill_at.is_some() => {}
            Ok(Wish::Terminate) => {
                kill_at = Some(Instant::now() + grace);
                terminate(kill_process_group(step, Signal::TERM).is_ok().then_some(step));
            }
            Ok(Wish::CleanUp) => {
                kill_at = Some(Instant::now() + grace);
                let left = tree::own_descendants().len();
                left_behind.store(u32::try_from(left).unwrap_or(u32::MAX), Ordering::SeqCst);
                terminate(None);
            }
            Ok(Wish::Kill) | Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
    let mut pause = KILL_AGAIN;
    loop {
        kill();
        thread::sleep(pause);
        pause = (pause * 2).min(KILL_AGAIN_AT_MOST);
    }
}

/// Whole groups first: then a process cannot slip away by starting another and ending before it is seen.
fn kill() {
    let left = tree::own_descendants();
    let theirs = left.iter().filter(|process| process.group == process.pid.as_raw_pid());
    for leader in theirs {
        kill_process_group(leader.pid, Signal::KILL).ok();
    }
    left.iter().for_each(|process| process.signal(Signal::KILL));
}

/// Asks each of them once: a second time would be taken for impatience, and hit what they start to clean up.
fn terminate(group_already_asked: Option<Pid>) {
    for process in tree::own_descendants() {
        if group_already_asked.is_none_or(|group| process.group != group.as_raw_pid()) {
            process.signal(Signal::TERM);
        }
        if process.is_stopped() {
            process.signal(Signal::CONT);
        }
    }
}

fn say(status: &Status) {
    let Ok(message) = protocol::encode(status) else { return };
    // Nobody reads it if the server is gone, and then nobody needs it.
    io::stderr().write_all(&message).ok();
}

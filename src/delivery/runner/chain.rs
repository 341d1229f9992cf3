//! Code shared by the processes between the server and a step: they read messages from standard input, report on
//! standard error, ignore signals sent to everybody, and start a program.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Pid, WaitStatus, set_dumpable_behavior, umask};
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use zeroize::Zeroizing;

use super::protocol::{self, Exit, LENGTH_BYTES, Status, StepOrder};

/// A signal to all processes of a service, a terminal or a machine also reaches these processes. They must outlive the
/// step's processes, which nobody else knows, and end them when the server says so or dies. Call this inside a runtime,
/// which is only needed to register: once a signal has a listener, it never ends the process again.
pub(super) fn ignore_signals() -> io::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()] {
        drop(signal(kind)?);
    }
    Ok(())
}

/// A single-threaded runtime: a process with several threads cannot enter a namespace.
pub(super) fn single_threaded() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Closes file descriptors that were inherited through the server. Call it before anything is opened.
pub(super) fn close_inherited() {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // One of these descriptors belonged to the listing itself, and is already closed.
        nix::unistd::close(number).ok();
    }
}

/// From here on, no other process of the same user can read this one's memory, environment or files, or trace it.
pub(super) fn shut_off() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Unbuffered standard input: a buffer would read ahead.
pub(super) fn input() -> io::Result<File> {
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

pub(super) fn read_message<T: DeserializeOwned>(source: &mut impl Read) -> io::Result<T> {
    let mut length = [0; LENGTH_BYTES];
    source.read_exact(&mut length)?;
    let mut payload = Zeroizing::new(vec![0; protocol::length(length)?]);
    source.read_exact(&mut payload)?;
    protocol::decode(&payload)
}

pub(super) fn report(status: &Status) {
    let Ok(message) = protocol::encode(status) else { return };
    // Fails only if the reader is gone; then nobody needs the report.
    io::stderr().write_all(&message).ok();
}

/// Starts the step's process in its own group; both its outputs are this process's standard output. The error is the
/// end of a sentence.
pub(super) fn start_program(order: &StepOrder) -> Result<Pid, String> {
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
    // Not waited for here: the caller waits for all its children.
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("the program `{program}` was not found"),
        io::ErrorKind::PermissionDenied => format!("the program `{program}` may not be executed"),
        io::ErrorKind::ArgumentListTooLong => "its arguments and variables are too long together".to_owned(),
        _ => error.to_string(),
    })?;
    crate::pid(child.id()).ok_or_else(|| "its process has no id".to_owned())
}

pub(super) fn exit(status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}

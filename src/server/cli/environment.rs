//! Hides this process and the secrets in its environment from other processes of the same user, such as deployment
//! steps.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::set_name;
use zeroize::Zeroizing;

use crate::config;
use delivery::runner;

/// Names the descriptor that passes the secrets to the program after it has executed itself.
const HANDED_OVER: &str = "LK_SECRETS_DESCRIPTOR";
/// All secrets together are far smaller.
const SECRETS_BYTES_MAX: u64 = 1024 * 1024;

pub type Variables = Vec<(OsString, OsString)>;

/// The environment variables of this process. After this call no other process can read them or this process's memory.
///
/// The kernel shows the environment that a program was started with for as long as it runs. So if it contains secrets,
/// this executes the program again without them, and passes them in memory.
pub fn protect() -> io::Result<Variables> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let (secrets, mut others): (Variables, Variables) =
        std::env::vars_os().partition(|(name, _)| config::is_secret_variable(name));
    if !secrets.is_empty() {
        return Err(hand_over(&secrets)?);
    }
    if let Some(place) = others.iter().position(|(name, _)| name == HANDED_OVER) {
        let (_, descriptor) = others.swap_remove(place);
        set_name(&own_name())?;
        others.extend(take_over(&descriptor)?);
    }
    Ok(others)
}

fn hand_over(secrets: &Variables) -> io::Result<io::Error> {
    // The descriptor is inherited by the program, unlike those that Rust opens.
    let mut memory = File::from(memfd_create("secrets", MemfdFlags::empty())?);
    for (name, value) in secrets {
        for text in [name, value] {
            memory.write_all(text.as_bytes())?;
            memory.write_all(&[0])?;
        }
    }
    let mut command = Command::new(runner::OWN_PROGRAM);
    let mut arguments = std::env::args_os();
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).env(HANDED_OVER, memory.as_raw_fd().to_string());
    for (name, _) in secrets {
        command.env_remove(name);
    }
    Ok(command.exec())
}

fn take_over(descriptor: &OsStr) -> io::Result<Variables> {
    let unreadable = || io::Error::new(io::ErrorKind::InvalidInput, format!("{HANDED_OVER} is not ours; unset it"));
    let number: RawFd = descriptor.to_str().and_then(|text| text.parse().ok()).ok_or_else(unreadable)?;
    let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{number}"))?;
    // With sufficient capacity from the start: growing would leave copies of the secrets in memory.
    let size = usize::try_from(memory.metadata()?.len().min(SECRETS_BYTES_MAX)).unwrap_or_default();
    let mut bytes = Zeroizing::new(Vec::with_capacity(size + 1));
    (&memory).take(SECRETS_BYTES_MAX).read_to_end(&mut bytes)?;
    // Child processes would inherit the descriptor.
    memory.set_len(0)?;
    nix::unistd::close(number)?;
    let mut texts = bytes.split(|byte| *byte == 0).map(|text| OsString::from_vec(text.to_vec()));
    let mut variables = Variables::new();
    while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
        variables.push((name, value));
    }
    Ok(variables)
}

/// The name of the process; executed through /proc it would be called `exe`.
fn own_name() -> CString {
    let program = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default();
    CString::new(name.as_bytes()).unwrap_or_default()
}

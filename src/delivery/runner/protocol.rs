//! The protocol between the server and a step's supervisor. The server writes the confinement of the step and its order
//! to the supervisor's standard input and keeps it open for requests: end of file means that the server is gone. The
//! supervisor reports on its standard error. Only the order contains secrets; before it is read, the reader's memory is
//! protected from other processes. Messages have no version: both sides are the same program
//! ([`OWN_PROGRAM`](super::OWN_PROGRAM)).
//!
//! The supervisor of a confined step uses the same protocol with the step's init, its only child.

use std::io;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};
use zeroize::Zeroizing;

use super::step_lease::{Moment, StepLease};

/// The argument that makes this program a supervisor.
pub const SUPERVISE_COMMAND: &str = "supervise-step";
/// The argument that makes this program the init of a confined step.
pub const CONFINE_COMMAND: &str = "confine-step";
/// The supervisor's name in the list of processes. Not the server's, so that killing servers by name does not hit it.
pub(super) const SUPERVISOR_NAME: &str = "lk-step";
/// The name of a confined step's init.
pub(super) const INIT_NAME: &str = "lk-init";
/// Well above the operating system's limit on arguments and variables.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
pub(super) const LENGTH_BYTES: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StepOrder {
    /// The program and its arguments. Empty: only test the confinement, and that no socket among the variables can be
    /// reached.
    pub arguments: Vec<String>,
    /// The whole environment of the program.
    pub variables: Vec<(String, String)>,
    pub work_dir: String,
    /// The time between asking the step to end and killing it.
    pub grace: Duration,
    /// The file mode creation mask of the step.
    pub umask: u32,
    /// None: the step may run for as long as the server lives.
    pub lease: Option<StepLease>,
}

/// Sent after the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Request {
    /// End the step, and kill it after the grace period.
    Terminate,
    /// The server owned the environment at this moment; renews the lease.
    Beat(Moment),
}

/// The confinement of one step; without one, the step may do whatever the server's user may. If a named layer cannot be
/// applied, the step does not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// The user and group to run as; none for the server's.
    pub user: Option<u32>,
    /// User (unless the server is root), mount, PID and IPC namespaces.
    pub namespaces: bool,
    /// Landlock.
    pub file_rules: bool,
    /// The seccomp filter.
    pub call_filter: bool,
    pub network: StepNetwork,
    /// Hidden from the step, except for its own directories.
    pub data_dir: String,
    /// The step's working directory.
    pub work_dir: String,
    /// For temporary files, used only by this deployment.
    pub temporary_dir: String,
    /// May be read and executed, in addition to the paths of the system.
    pub read_only: Vec<String>,
    pub writable: Vec<String>,
    pub limits: StepLimits,
    /// The directories of control groups to join.
    pub control_groups: Vec<String>,
}

/// The network access of a confined step's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepNetwork {
    /// The machine's network.
    Open,
    /// Only a separate loopback.
    None,
}

/// The limits of a confined step; none leaves a resource unlimited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLimits {
    pub processes: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub file_bytes: Option<u64>,
    pub open_files: Option<u64>,
    pub cpu_seconds: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Status {
    Started,
    /// With the reason, as the end of a sentence.
    NotStarted(String),
    /// The step's first process has ended.
    Exited(Exit),
    /// All processes have ended; the supervisor had to end this many, which the step had left behind.
    Gone {
        left_behind: u32,
    },
    /// The lease, of this duration, is over: all processes are killed.
    LeaseOver(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Exit {
    Code(i32),
    Signal(i32),
}

pub(super) fn encode(message: &impl Serialize) -> io::Result<Zeroizing<Vec<u8>>> {
    let payload = Zeroizing::new(postcard::to_stdvec(message).map_err(io::Error::other)?);
    let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(LENGTH_BYTES + payload.len()));
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&payload);
    Ok(bytes)
}

/// The length of the message that follows.
pub(super) fn length(bytes: [u8; LENGTH_BYTES]) -> io::Result<usize> {
    let length = u32::from_le_bytes(bytes) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    Ok(length)
}

pub(super) fn decode<T: DeserializeOwned>(payload: &[u8]) -> io::Result<T> {
    postcard::from_bytes(payload).map_err(io::Error::other)
}

/// Reads messages as they arrive: reports of a supervisor or of an init, and requests of the server.
pub(super) struct MessageReader<R> {
    source: R,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    pub fn new(source: R) -> Self {
        Self { source, buffer: Vec::new() }
    }

    /// The next message, or `None` after the last. Cancel safe.
    pub async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(length) = self.buffer.first_chunk::<LENGTH_BYTES>() {
                let end = LENGTH_BYTES + self::length(*length)?;
                if self.buffer.len() >= end {
                    let message = decode(&self.buffer[LENGTH_BYTES..end])?;
                    self.buffer.drain(..end);
                    return Ok(Some(message));
                }
            }
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

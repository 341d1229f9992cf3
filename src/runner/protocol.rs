//! What the server and a step's supervisor say to each other. The server writes one order to the supervisor's standard
//! input and keeps it open: its end means that the server is gone. The supervisor answers on its standard error.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use zeroize::Zeroizing;

/// Longer orders are no orders: a program with all its variables starts only far below it.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
pub(super) const LENGTH_BYTES: usize = 4;

/// After the order, this asks the step to end, and kills it after the grace period.
pub(super) const TERMINATE: u8 = b't';

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    /// The program and its arguments.
    pub arguments: Vec<String>,
    /// All that it sees.
    pub variables: Vec<(String, String)>,
    pub work_dir: String,
    /// Between being asked to end and being killed.
    pub grace: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Status {
    Started,
    /// Why not, as the end of a sentence.
    NotStarted(String),
    /// The step's first process has ended.
    Exited(Exit),
    /// Everything has ended; so many processes had to be told to, since the step had left them behind.
    Gone {
        left_behind: u32,
    },
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

/// How long the message is that follows.
pub(super) fn length(bytes: [u8; LENGTH_BYTES]) -> io::Result<usize> {
    let length = u32::from_le_bytes(bytes) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
    }
    Ok(length)
}

pub(super) fn decode<T: DeserializeOwned>(payload: &[u8]) -> io::Result<T> {
    postcard::from_bytes(payload).map_err(io::Error::other)
}

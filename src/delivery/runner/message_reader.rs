//! Reads messages as they arrive: reports of a supervisor or of an init, and requests of the server.

use std::io;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::protocol::{self, LENGTH_BYTES};

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
                let end = LENGTH_BYTES + protocol::length(*length)?;
                if self.buffer.len() >= end {
                    let message = protocol::decode(&self.buffer[LENGTH_BYTES..end])?;
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

//! Reads the reports of a supervisor or of an init as they arrive.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::protocol::{self, LENGTH_BYTES, Status};

pub(super) struct StatusReader<R> {
    source: R,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> StatusReader<R> {
    pub fn new(source: R) -> Self {
        Self { source, buffer: Vec::new() }
    }

    /// The next status, or `None` after the last. Cancel safe.
    pub async fn next(&mut self) -> io::Result<Option<Status>> {
        loop {
            if let Some(length) = self.buffer.first_chunk::<LENGTH_BYTES>() {
                let end = LENGTH_BYTES + protocol::length(*length)?;
                if self.buffer.len() >= end {
                    let status = protocol::decode(&self.buffer[LENGTH_BYTES..end])?;
                    self.buffer.drain(..end);
                    return Ok(Some(status));
                }
            }
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

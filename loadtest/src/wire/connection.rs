//! Owns one keep-alive connection: a request out, its whole answer in, in a reused buffer.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::response::{ResponseError, parse_head};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Takes the usual answer in one read; small, because there may be 20,000 of them.
const BUFFER_BYTES: usize = 2 * 1024;

/// With the end of the chunk before.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

pub struct Connection<S = TcpStream> {
    stream: S,
    received: Vec<u8>,
    body: Range<usize>,
    closes: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("cannot send: {0}")]
    Send(io::Error),
    #[error("cannot receive: {0}")]
    Receive(io::Error),
    #[error("the server closed the connection before its answer was complete")]
    Closed,
    #[error("the server sent more than its answer")]
    Surplus,
    #[error(transparent)]
    Response(#[from] ResponseError),
}

impl ExchangeError {
    /// The answer comes in chunks.
    pub fn is_chunked(&self) -> bool {
        matches!(self, ExchangeError::Response(ResponseError::TransferEncoding))
    }
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Result<Self, ExchangeError> {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address));
        let stream = connecting
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")))
            .map_err(ExchangeError::Connect)?;
        stream.set_nodelay(true).map_err(ExchangeError::Connect)?;
        Ok(Self::over(stream))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn over(stream: S) -> Self {
        Self { stream, received: Vec::with_capacity(BUFFER_BYTES), body: 0..0, closes: false }
    }

    /// Returns the status; the body is kept until the next exchange. After an error the connection is of no use.
    pub async fn exchange(&mut self, request: &[u8]) -> Result<u16, ExchangeError> {
        self.received.clear();
        self.body = 0..0;
        self.stream.write_all(request).await.map_err(ExchangeError::Send)?;
        let head = loop {
            self.receive().await?;
            if let Some(head) = parse_head(&self.received)? {
                break head;
            }
        };
        let end = head.body_start + head.body_length;
        while self.received.len() < end {
            self.receive().await?;
        }
        if self.received.len() > end {
            return Err(ExchangeError::Surplus);
        }
        self.body = head.body_start..end;
        self.closes = head.closes;
        Ok(head.status)
    }

    /// Only sends; the connection is of no use afterwards, but to be dropped.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), ExchangeError> {
        self.stream.write_all(bytes).await.map_err(ExchangeError::Send)
    }

    /// After an exchange whose answer comes in chunks: receives the rest and drops it.
    pub async fn skip_chunks(&mut self) -> Result<(), ExchangeError> {
        while !self.received.ends_with(LAST_CHUNK) {
            let seen = self.received.len().saturating_sub(LAST_CHUNK.len());
            self.received.drain(..seen);
            self.receive().await?;
        }
        Ok(())
    }

    pub fn body(&self) -> &[u8] {
        &self.received[self.body.clone()]
    }

    /// The server has said that it closes the connection after this answer.
    pub fn closes(&self) -> bool {
        self.closes
    }

    async fn receive(&mut self) -> Result<(), ExchangeError> {
        if self.received.len() == self.received.capacity() {
            self.received.reserve(BUFFER_BYTES);
        }
        match self.stream.read_buf(&mut self.received).await.map_err(ExchangeError::Receive)? {
            0 => Err(ExchangeError::Closed),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::DuplexStream;

    use super::*;

    /// A server's end that takes a request of two bytes and then sends the pieces, each as a read of its own.
    async fn serve(mut server: DuplexStream, pieces: Vec<Vec<u8>>) {
        let mut request = [0; 2];
        server.read_exact(&mut request).await.expect("a request");
        for piece in pieces {
            server.write_all(&piece).await.expect("the client listens");
            tokio::task::yield_now().await;
        }
    }

    async fn exchange(pieces: Vec<Vec<u8>>) -> Result<(u16, Vec<u8>), ExchangeError> {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let server = tokio::spawn(serve(server, pieces));
        let mut connection = Connection::over(client);
        let status = connection.exchange(b"hi").await?;
        server.await.expect("the server does not panic");
        Ok((status, connection.body().to_vec()))
    }

    const ANSWER: &[u8] = b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello";

    #[tokio::test]
    async fn an_answer_is_the_same_however_it_is_split() {
        for cut in 0..ANSWER.len() {
            let (first, second) = ANSWER.split_at(cut);
            let answer = exchange(vec![first.to_vec(), second.to_vec()]).await.expect("complete");
            assert_eq!(answer, (201, b"hello".to_vec()), "cut at {cut}");
        }
        let bytes = ANSWER.iter().map(|byte| vec![*byte]).collect();
        assert_eq!(exchange(bytes).await.expect("complete"), (201, b"hello".to_vec()));
    }

    #[tokio::test]
    async fn a_body_larger_than_the_buffer_is_read_to_its_end() {
        let body = vec![b'x'; 3 * BUFFER_BYTES];
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let answer = exchange(vec![head.into_bytes(), body.clone()]).await.expect("complete");
        assert_eq!(answer, (200, body));
    }

    #[tokio::test]
    async fn a_connection_that_ends_within_the_answer_is_an_error() {
        for cut in 0..ANSWER.len() {
            let result = exchange(vec![ANSWER[..cut].to_vec()]).await;
            assert!(matches!(result, Err(ExchangeError::Closed)), "cut at {cut}");
        }
    }

    #[tokio::test]
    async fn bytes_behind_the_answer_are_an_error() {
        let result = exchange(vec![[ANSWER, b"HTTP"].concat()]).await;
        assert!(matches!(result, Err(ExchangeError::Surplus)));
    }
}

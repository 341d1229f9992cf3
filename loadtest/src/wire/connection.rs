//! One keep-alive connection: sends a request and receives its whole answer in a reused buffer.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Fits a typical answer in one read; small, since there may be 20,000 connections.
const BUFFER_BYTES: usize = 2 * 1024;

/// The last chunk, including the end of the previous one.
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

    /// Returns the status; the body is kept until the next exchange. After an error the connection is unusable.
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

    /// Sends without reading an answer; afterwards the connection can only be dropped.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), ExchangeError> {
        self.stream.write_all(bytes).await.map_err(ExchangeError::Send)
    }

    /// After an exchange with a chunked answer: receives the rest and discards it.
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

    /// Whether the server announced that it closes the connection after this answer.
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

/// Far more than a normal head, and low enough that a faulty server cannot fill our memory.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The server sends about ten.
const MAX_HEADERS: usize = 64;
/// Far more than any expected answer.
const MAX_BODY_BYTES: usize = 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub body_start: usize,
    pub body_length: usize,
    pub closes: bool,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    #[error("the answer does not begin with an HTTP/1.1 status line")]
    StatusLine,
    #[error("the answer has a header line without a colon")]
    HeaderLine,
    #[error("the answer's head is longer than {MAX_HEAD_BYTES} bytes")]
    HeadTooLong,
    #[error("the answer has no Content-Length")]
    MissingLength,
    #[error("the answer's Content-Length is not one number")]
    BadLength,
    #[error("the answer's body is longer than {MAX_BODY_BYTES} bytes")]
    BodyTooLong,
    #[error("the answer has a Transfer-Encoding, which this client does not read")]
    TransferEncoding,
    #[error("the answer is an interim {0}, which nobody asked for")]
    Interim(u16),
}

/// None while the head is incomplete. A head that arrives in pieces is parsed from its start again, which is rare.
pub fn parse_head(received: &[u8]) -> Result<Option<Head>, ResponseError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(received);
    if response.version.is_some_and(|version| version != 1) {
        return Err(ResponseError::StatusLine);
    }
    let body_start = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if received.len() <= MAX_HEAD_BYTES => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => return Err(ResponseError::HeadTooLong),
        Err(httparse::Error::Version | httparse::Error::Status) => return Err(ResponseError::StatusLine),
        Err(_) => return Err(ResponseError::HeaderLine),
    };
    let (mut length, mut closes) = (None, false);
    for httparse::Header { name, value } in response.headers {
        if name.eq_ignore_ascii_case("content-length") {
            let number = parse_length(value.trim_ascii())?;
            if length.is_some_and(|earlier| earlier != number) {
                return Err(ResponseError::BadLength);
            }
            length = Some(number);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(ResponseError::TransferEncoding);
        } else if name.eq_ignore_ascii_case("connection") {
            closes = value.trim_ascii().eq_ignore_ascii_case(b"close");
        }
    }
    let status = response.code.ok_or(ResponseError::StatusLine)?;
    let body_length = match (status, length) {
        // Answers with these statuses have no body, even with a Content-Length.
        (204 | 304, _) => 0,
        (100..200, _) => return Err(ResponseError::Interim(status)),
        (_, Some(length)) => length,
        (_, None) => return Err(ResponseError::MissingLength),
    };
    Ok(Some(Head { status, body_start, body_length, closes }))
}

/// Parses only digits: `str::parse` would accept a sign.
fn parse_length(value: &[u8]) -> Result<usize, ResponseError> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(ResponseError::BadLength);
    }
    let length = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
    length.filter(|length| *length <= MAX_BODY_BYTES).ok_or(ResponseError::BodyTooLong)
}

#[cfg(test)]
mod connection_tests {
    use tokio::io::DuplexStream;

    use super::*;

    /// A server that reads a request of two bytes and then sends the pieces, each to be read separately.
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

#[cfg(test)]
mod response_tests {
    use super::*;

    #[test]
    fn a_head_gives_status_and_place_of_the_body() {
        let answer = b"HTTP/1.1 201 Created\r\nX-A: b:c\r\ncontent-LENGTH:  5 \r\n\r\nhello";
        let head = Head { status: 201, body_start: answer.len() - 5, body_length: 5, closes: false };
        assert_eq!(parse_head(answer), Ok(Some(head)));
    }

    #[test]
    fn every_cut_off_head_is_incomplete_and_never_wrong() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: keep-alive\r\n\r\n";
        for cut in 0..head.len() {
            assert_eq!(parse_head(&head[..cut]), Ok(None), "cut at {cut}");
        }
        assert!(matches!(parse_head(head), Ok(Some(Head { body_length: 12, .. }))));
    }

    #[test]
    fn a_closing_connection_is_noticed() {
        let answer = b"HTTP/1.1 503 Service Unavailable\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n";
        assert!(matches!(parse_head(answer), Ok(Some(Head { status: 503, closes: true, .. }))));
    }

    #[test]
    fn an_answer_without_content_needs_no_length() {
        assert!(matches!(parse_head(b"HTTP/1.1 204 \r\n\r\n"), Ok(Some(Head { body_length: 0, .. }))));
        assert!(matches!(
            parse_head(b"HTTP/1.1 304\r\nContent-Length: 9\r\n\r\n"),
            Ok(Some(Head { body_length: 0, .. }))
        ));
    }

    #[test]
    fn an_answer_that_cannot_be_read_says_why() {
        for (answer, error) in [
            ("HTTP/1.1 200 OK\r\n\r\n", ResponseError::MissingLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", ResponseError::BadLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", ResponseError::BadLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", ResponseError::BadLength),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", ResponseError::BodyTooLong),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n", ResponseError::BodyTooLong),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ResponseError::TransferEncoding),
            ("HTTP/1.1 100 Continue\r\n\r\n", ResponseError::Interim(100)),
            ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", ResponseError::HeaderLine),
            ("HTTP/1.0 200 OK\r\n", ResponseError::StatusLine),
            ("HTTP/1.1 2000\r\n", ResponseError::StatusLine),
            ("SSH-2.0-x", ResponseError::StatusLine),
        ] {
            assert_eq!(parse_head(answer.as_bytes()), Err(error), "{answer:?}");
        }
    }

    #[test]
    fn a_head_without_end_is_given_up() {
        let mut endless = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
        endless.resize(MAX_HEAD_BYTES + 1, b'a');
        assert_eq!(parse_head(&endless), Err(ResponseError::HeadTooLong));
    }
}

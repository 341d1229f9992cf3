//! A bare connection, for requests that no well-behaved client would send.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{ADMIN_TOKEN, Answer, Server};

/// Only makes a test fail instead of hang if the server forgets a client.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Wire<S = TcpStream> {
    stream: S,
    unread: Vec<u8>,
}

impl Wire {
    pub async fn open(server: &Server) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }

    /// Resets the connection instead of closing it.
    pub fn reset(self) {
        // Without lingering, closing causes a reset.
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Sends bytes and the end of our side in one segment.
    pub async fn send_last(&mut self, bytes: impl AsRef<[u8]>) {
        socket2::SockRef::from(&self.stream).set_tcp_cork(true).unwrap();
        self.send(bytes).await;
        self.finish().await;
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub fn over(stream: S) -> Self {
        Self { stream, unread: Vec::new() }
    }

    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Sends raw bytes. The server may have closed already; then the answer, or its absence, shows it.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.ok();
    }

    /// Closes our side; answers are still read.
    pub async fn finish(&mut self) {
        self.stream.shutdown().await.ok();
    }

    /// The next answer, or none if the server closes the connection instead.
    pub async fn answer(&mut self) -> Option<Answer> {
        let head_end = loop {
            if let Some(place) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break place + 4;
            }
            if !self.read_more().await {
                return None;
            }
        };
        let head = String::from_utf8(self.unread.drain(..head_end).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let headers: HeaderMap = lines
            .map(|line| line.split_once(": ").unwrap_or_else(|| panic!("no header: {line}")))
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()))
            .collect();
        let length = headers.get("content-length").map_or(0, |length| length.to_str().unwrap().parse().unwrap());
        while self.unread.len() < length {
            assert!(self.read_more().await, "the connection ended within an answer: {head}");
        }
        Some(Answer {
            status: status.parse().unwrap(),
            headers,
            text: String::from_utf8(self.unread.drain(..length).collect()).unwrap(),
        })
    }

    /// Waits for the first bytes of an answer.
    pub async fn read_some(&mut self) {
        assert!(self.read_more().await, "the server closed the connection");
    }

    /// Waits until the server has closed the connection.
    pub async fn closed(mut self) {
        while self.read_more().await {}
    }

    async fn read_more(&mut self) -> bool {
        let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.unread)).await;
        read.expect("the server neither answers nor closes the connection").is_ok_and(|count| count > 0)
    }
}

/// The head of a request with the admin's token, without the final empty line.
pub fn head(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: lockkeeper\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n")
}

/// The head of a request with a JSON body, complete.
pub fn head_of_json(method: &str, path: &str, length: usize) -> String {
    let head = head(method, path);
    format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n")
}

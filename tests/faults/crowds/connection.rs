//! One job's connection: cheap enough for a thousand at a time, and it may break at any moment.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::wire::{head, head_of_json};

/// Only makes a test fail instead of hang if the server forgets a client.
const PATIENCE: Duration = Duration::from_secs(120);
const BASE: &str = "/api/v1/organizations/acme/pipelines/web/ephemeral-environments";

/// A request that can be repeated and printed.
#[derive(Debug, Clone)]
pub struct Request {
    method: &'static str,
    path: String,
    headers: String,
    body: Option<Value>,
}

impl Request {
    /// Any request; `path` is below the pipeline's environments.
    pub fn new(method: &'static str, path: &str, body: Option<Value>) -> Self {
        Self { method, path: format!("{BASE}{path}"), headers: String::new(), body }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers += &format!("{name}: {value}\r\n");
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let Some(body) = &self.body else {
            return format!("{}{}\r\n", head(self.method, &self.path), self.headers).into_bytes();
        };
        let body = body.to_string();
        let head = head_of_json(self.method, &self.path, body.len());
        format!("{}{}\r\n{body}", head.strip_suffix("\r\n").unwrap(), self.headers).into_bytes()
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path.strip_prefix(BASE).unwrap_or(&self.path))?;
        self.body.as_ref().map_or(Ok(()), |body| write!(f, " {body}"))
    }
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub etag: Option<String>,
    pub replayed: bool,
    pub body: Value,
}

impl Answer {
    /// The text for an unexpected answer.
    pub fn told(&self) -> String {
        format!("{} {}", self.status, self.body)
    }
}

/// The connection ended before a whole answer.
#[derive(Debug)]
pub struct Broken;

pub struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    /// `address` as the server prints it, `http://127.0.0.1:port`.
    pub async fn open(address: &str) -> Result<Self, Broken> {
        let stream = TcpStream::connect(address.trim_start_matches("http://")).await.map_err(|_| Broken)?;
        stream.set_nodelay(true).map_err(|_| Broken)?;
        Ok(Self { stream, unread: Vec::new() })
    }

    pub async fn ask(&mut self, request: &Request) -> Result<Answer, Broken> {
        self.stream.write_all(&request.bytes()).await.map_err(|_| Broken)?;
        let answer = tokio::time::timeout(PATIENCE, self.answer());
        answer.await.unwrap_or_else(|_| panic!("neither answered nor closed: {request}"))
    }

    /// Closes it immediately, without an orderly shutdown.
    pub fn reset(self) {
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }

    async fn answer(&mut self) -> Result<Answer, Broken> {
        let head_end = loop {
            match self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(place) => break place + 4,
                None => self.read_more().await?,
            }
        };
        let head = String::from_utf8(self.unread.drain(..head_end).collect()).unwrap();
        let header = |name: &str| {
            let mut headers = head.lines().filter_map(|line| line.split_once(": "));
            headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        let length = header("content-length").map_or(0, |length| length.parse().unwrap());
        while self.unread.len() < length {
            self.read_more().await?;
        }
        let body: Vec<u8> = self.unread.drain(..length).collect();
        Ok(Answer {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            etag: header("etag"),
            replayed: header("idempotency-replayed").is_some(),
            body: if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() },
        })
    }

    async fn read_more(&mut self) -> Result<(), Broken> {
        match self.stream.read_buf(&mut self.unread).await {
            Ok(count) if count > 0 => Ok(()),
            Ok(_) | Err(_) => Err(Broken),
        }
    }
}

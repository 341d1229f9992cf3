//! A client of the event stream that only implements the standard.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::Value;

use crate::support::Client;

/// Only makes the test fail instead of hang if a stream falls silent.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: String,
    pub kind: String,
    pub data: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum SseItem {
    Event(Event),
    Comment(String),
    Retry(u64),
}

pub struct Stream {
    response: Response,
    unread: Vec<u8>,
    said: VecDeque<SseItem>,
    /// The event being parsed.
    kind: String,
    data: Option<Value>,
    /// Sent by a client when it reconnects.
    pub last_id: String,
}

/// The stream to follow, and the token.
#[derive(Clone)]
pub struct Follow {
    http: reqwest::Client,
    client: Client,
    path: String,
}

impl Follow {
    pub fn new(client: &Client, query: &str) -> Self {
        // Without the timeout of other clients, since a stream does not end.
        let http = reqwest::Client::builder().build().unwrap();
        Self { http, client: client.clone(), path: client.path(&format!("/events/stream{query}")) }
    }

    /// The same after a restart of the server.
    pub fn by(&self, client: Client) -> Self {
        Self { client, ..self.clone() }
    }

    /// Connects for the first time, or reconnects after an event.
    pub async fn open(&self, last_id: &str) -> Result<Stream, reqwest::Error> {
        let mut request = self.client.request(Method::GET, &self.path).build()?;
        *request.timeout_mut() = None;
        if !last_id.is_empty() {
            request.headers_mut().insert("Last-Event-ID", last_id.parse().unwrap());
        }
        let response = self.http.execute(request).await?.error_for_status()?;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let last_id = response.headers()["last-event-id"].to_str().unwrap().to_owned();
        let (unread, said) = (Vec::new(), VecDeque::new());
        Ok(Stream { response, unread, said, kind: String::new(), data: None, last_id })
    }
}

impl Stream {
    pub async fn open(client: &Client, query: &str, last_id: &str) -> Self {
        Follow::new(client, query).open(last_id).await.unwrap()
    }

    /// The next event; none when the stream ends.
    pub async fn event(&mut self) -> Option<Event> {
        loop {
            match self.next().await? {
                SseItem::Event(event) => return Some(event),
                SseItem::Comment(_) | SseItem::Retry(_) => {}
            }
        }
    }

    pub async fn events(&mut self, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        while events.len() < count {
            events.push(self.event().await.expect("the stream goes on"));
        }
        events
    }

    /// The next item; none when the stream ends, properly or not.
    pub async fn next(&mut self) -> Option<SseItem> {
        loop {
            if let Some(said) = self.said.pop_front() {
                return Some(said);
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("the stream is silent");
            self.unread.extend_from_slice(&chunk.ok()??);
            self.read_lines();
        }
    }

    fn read_lines(&mut self) {
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8(self.unread.drain(..=end).collect()).unwrap();
            let line = line.trim_end_matches('\n');
            match line.split_once(": ").unwrap_or((line, "")) {
                ("", "") => {
                    let data = self.data.take().expect("clients exist that take an end without data for an event");
                    let kind = std::mem::take(&mut self.kind);
                    self.said.push_back(SseItem::Event(Event { id: self.last_id.clone(), kind, data }));
                }
                ("", comment) => self.said.push_back(SseItem::Comment(comment.to_owned())),
                ("id", id) => id.clone_into(&mut self.last_id),
                ("event", name) => name.clone_into(&mut self.kind),
                ("retry", millis) => self.said.push_back(SseItem::Retry(millis.parse().unwrap())),
                ("data", text) => {
                    let data = serde_json::from_str(text).unwrap();
                    assert_eq!(self.data.replace(data), None, "one line");
                }
                (other, _) => panic!("no field of the standard: {other:?} in {line:?}"),
            }
        }
    }
}

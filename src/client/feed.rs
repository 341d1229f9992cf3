//! The events of an organization: their stream, followed through broken connections and restarts of the server, and
//! their descriptions. It resumes after the last event seen, so that none is missed or repeated.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::api::{Api, Stream};
use super::failure::{CallError, Failure};
use super::output::text::{Style, harmless};
use super::output::{Out, text_of, times};
use super::retry::{self, Retrying};

/// The server writes at least a comment every 15 seconds. A connection that is silent for longer is dead, even if
/// proxies keep it open.
const SILENCE_MAX: Duration = Duration::from_secs(50);

/// An item of the feed.
#[derive(Debug)]
pub enum News {
    Event(Value),
    /// The events after the last one seen are no longer kept; the stream continues with new ones.
    Gap,
    /// The connection broke, for this reason, and is being restored.
    Cut(String),
    /// The connection is restored.
    Back,
}

/// Keeps its whole state, so that the future of `next` may be dropped and `next` called again.
pub struct Feed<'a> {
    api: &'a Api,
    path: String,
    last: Option<String>,
    state: State<'a>,
    parser: Parser,
    frames: VecDeque<Frame>,
    attempt: u32,
}

type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Stream, CallError>> + 'a>>;

enum State<'a> {
    Open { stream: Box<Stream>, heard_at: Instant },
    Pausing { until: Instant },
    Connecting(Connecting<'a>),
}

impl<'a> Feed<'a> {
    /// `path` is that of the stream, with its filters. The stream contains every event after this returns. The first
    /// connection is tried for as long as a request.
    pub async fn open(api: &'a Api, path: String) -> Result<Self, Failure> {
        let retrying = api.retrying();
        let opening = retry::insist(api.patience, &retrying, || api.stream(&path, None, &retrying));
        let stream = retrying.during(opening).await?;
        drop(retrying);
        let last = stream.header("last-event-id").map(str::to_owned);
        let state = State::Open { stream: Box::new(stream), heard_at: Instant::now() };
        Ok(Self { api, path, last, state, parser: Parser::default(), frames: VecDeque::new(), attempt: 0 })
    }

    /// Fails only if the server refuses permanently.
    pub async fn next(&mut self) -> Result<News, Failure> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                self.last = frame.id.or(self.last.take());
                if frame.event == "reset" {
                    return Ok(News::Gap);
                }
                match serde_json::from_str(&frame.data) {
                    Ok(event) => return Ok(News::Event(event)),
                    Err(_) => continue,
                }
            }
            match &mut self.state {
                State::Open { stream, heard_at } => {
                    let heard = tokio::time::timeout_at(*heard_at + SILENCE_MAX, stream.next()).await;
                    let cut = match heard {
                        Ok(Ok(Some(piece))) => {
                            *heard_at = Instant::now();
                            if let Some(frames) = self.parser.push(&piece) {
                                self.attempt = 0;
                                self.frames.extend(frames);
                                continue;
                            }
                            "the server sent an event without an end".to_owned()
                        }
                        Ok(Ok(None)) => format!("{} closed the event stream", self.api.url()),
                        Ok(Err(error)) => Failure::from(error).to_string(),
                        Err(_) => format!("{} has gone silent", self.api.url()),
                    };
                    self.pause();
                    return Ok(News::Cut(cut));
                }
                State::Pausing { until } => {
                    tokio::time::sleep_until(*until).await;
                    let (api, path, last) = (self.api, self.path.clone(), self.last.clone());
                    self.state = State::Connecting(Box::pin(async move {
                        // The caller reports why the connection broke, and that it is being restored.
                        api.stream(&path, last.as_deref(), &Retrying::silent()).await
                    }));
                }
                State::Connecting(connecting) => match connecting.await {
                    Ok(stream) => {
                        self.parser = Parser::default();
                        self.state = State::Open { stream: Box::new(stream), heard_at: Instant::now() };
                        return Ok(News::Back);
                    }
                    Err(error) if error.is_passing(true) => {
                        self.pause();
                        return Ok(News::Cut(Failure::from(error).to_string()));
                    }
                    Err(error) => return Err(error.into()),
                },
            }
        }
    }

    /// The next state after a failed connection or attempt.
    fn pause(&mut self) {
        let pause = retry::pause(self.attempt, None, rand::random());
        self.attempt = self.attempt.saturating_add(1);
        self.state = State::Pausing { until: Instant::now() + pause };
    }
}

/// The longest event: far more than the server writes, and too little to exhaust memory.
const FRAME_BYTES_MAX: usize = 1024 * 1024;

/// One event of a stream.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Frame {
    id: Option<String>,
    /// Empty if the stream names none.
    event: String,
    data: String,
}

/// Server-sent events, parsed from pieces: keeps an unfinished line and event between two pieces.
#[derive(Default)]
struct Parser {
    line: Vec<u8>,
    frame: Frame,
}

impl Parser {
    /// The events that this piece completes; `None` if one is too long.
    fn push(&mut self, piece: &[u8]) -> Option<Vec<Frame>> {
        let mut frames = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() + self.frame.data.len() > FRAME_BYTES_MAX {
                return None;
            }
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let line = String::from_utf8_lossy(&line);
                frames.extend(self.take_line(line.trim_end_matches(['\r', '\n'])));
            }
        }
        Some(frames)
    }

    /// The event that this line completes, if any: an empty line after data.
    fn take_line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let mut frame = std::mem::take(&mut self.frame);
            return frame.data.pop().map(|_| frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.frame.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.frame.event),
            "data" => {
                self.frame.data.push_str(value);
                self.frame.data.push('\n');
            }
            // A comment has an empty name. `retry` is ignored: the feed has its own backoff.
            _ => {}
        }
        None
    }
}

/// Wide enough for most types; a longer one shifts the rest of its line.
const TYPE_WIDTH: usize = 20;
const PLACE_WIDTH: usize = 16;
const ACTOR_WIDTH: usize = 8;

/// An event, split into the columns of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventWords {
    /// The time, as the server writes it.
    pub at: String,
    pub event_type: String,
    /// The pipeline and the environment, if the event has them.
    pub place: String,
    pub actor: String,
    pub details: String,
}

impl EventWords {
    pub fn of(event: &Value) -> Self {
        let text = |name: &str| text_of(event, name).to_owned();
        let place = match (event["pipelineId"].as_str(), event["envName"].as_str()) {
            (Some(pipeline), Some(environment)) => format!("{pipeline}/{environment}"),
            (pipeline, environment) => pipeline.or(environment).unwrap_or_default().to_owned(),
        };
        let actor = event["actor"]["name"].as_str().or(event["actor"]["kind"].as_str()).unwrap_or_default();
        Self { at: text("at"), event_type: text("type"), place, actor: actor.to_owned(), details: details(event) }
    }

    /// One line for a growing list, whose column widths are unknown.
    pub fn line(&self, out: &Out) -> String {
        self.after(&out.paint(&times::clock(&self.at), Style::Dim))
    }

    /// One line without colours and date, for events of the last minutes.
    pub fn brief(&self) -> String {
        let clock = times::clock(&self.at);
        self.after(clock.split(' ').next_back().unwrap_or_default())
    }

    fn after(&self, time: &str) -> String {
        let [event_type, place, actor] = [&self.event_type, &self.place, &self.actor].map(|text| harmless(text));
        let line = format!("{time}  {event_type:TYPE_WIDTH$}  {place:PLACE_WIDTH$}  {actor:ACTOR_WIDTH$}  ");
        format!("{line}{}", harmless(&self.details)).trim_end().to_owned()
    }
}

/// All other fields of the event, and its ids, so that events of unknown types are shown too.
fn details(event: &Value) -> String {
    let none = Map::new();
    let data = event["data"].as_object().unwrap_or(&none);
    let mut parts: Vec<String> = data.iter().filter_map(|(name, value)| part(name, value)).collect();
    // The environment identifies a session; a deployment's id is needed for its log.
    if let Some(deployment) = event["deploymentId"].as_str() {
        parts.push(deployment.to_owned());
    }
    parts.join(", ")
}

fn part(name: &str, value: &Value) -> Option<String> {
    let value = match value {
        Value::Null => return None,
        Value::String(text) if text.is_empty() => return None,
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    // The prefix of an id already names its kind.
    if name.ends_with("Id") && value.contains('_') { Some(value) } else { Some(format!("{} {value}", spaced(name))) }
}

/// Turns `fencingToken` into `fencing token`.
fn spaced(name: &str) -> String {
    let mut words = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(character.to_ascii_lowercase());
    }
    words.strip_suffix(" id").map(str::to_owned).unwrap_or(words)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    const STREAM: &str = ": nothing new\nretry: 2000\nid: evt_1\nevent: session.claimed\ndata: {\"a\":\ndata: 1}\n\n\
                          : nothing for you up to evt_4\nid: evt_5\r\nevent: reset\r\ndata:{}\r\n\r\n";

    fn frame(id: &str, event: &str, data: &str) -> Frame {
        Frame { id: Some(id.to_owned()), event: event.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn events_are_the_same_in_whatever_pieces_they_arrive() {
        let whole = vec![frame("evt_1", "session.claimed", "{\"a\":\n1}"), frame("evt_5", "reset", "{}")];
        for size in 1..STREAM.len() {
            let mut parser = Parser::default();
            let pieces = STREAM.as_bytes().chunks(size);
            let frames: Vec<Frame> = pieces.flat_map(|piece| parser.push(piece).unwrap()).collect();
            assert_eq!(frames, whole, "in pieces of {size}");
        }
    }

    #[test]
    fn comments_and_empty_blocks_are_no_events() {
        let mut parser = Parser::default();
        assert_eq!(parser.push(b": hello\n\nid: evt_1\n\n\n").unwrap(), []);
    }

    #[test]
    fn an_event_without_an_end_is_refused() {
        let mut parser = Parser::default();
        let piece = [b'x'; 4096];
        let refused = (0..=FRAME_BYTES_MAX / piece.len()).any(|_| parser.push(&piece).is_none());
        assert!(refused);
    }

    #[test]
    fn an_event_says_who_did_what_where() {
        let words = EventWords::of(&json!({
            "eventId": "evt_1", "type": "session.claimed", "at": "2026-11-15T09:30:00.123Z",
            "actor": { "kind": "user", "userId": "usr_1", "name": "ana", "tokenId": "tok_1" },
            "pipelineId": "web", "envName": "review-1", "sessionId": "ses_1", "deploymentId": null,
            "data": { "fencingToken": 42, "commitId": "c0ffee1" },
        }));
        assert_eq!((&*words.place, &*words.actor), ("web/review-1", "ana"));
        assert_eq!(words.details, "commit c0ffee1, fencing token 42");
    }

    #[test]
    fn an_unknown_event_is_shown_too() {
        let words = EventWords::of(&json!({
            "type": "cluster.moved", "at": "2026-11-15T09:30:00.123Z", "actor": { "kind": "system", "name": null },
            "pipelineId": null, "envName": null, "deploymentId": "dep_1",
            "data": { "approvalId": "apr_1", "toNode": "b", "because": null, "parts": [1, 2] },
        }));
        assert_eq!((&*words.place, &*words.actor), ("", "system"));
        assert_eq!(words.details, "apr_1, parts [1,2], to node b, dep_1");
    }

    #[test]
    fn whatever_comes_is_shown() {
        for strange in [json!(null), json!([]), json!({ "data": 1, "actor": "x" })] {
            assert_eq!(EventWords::of(&strange).details, "", "{strange}");
        }
    }
}

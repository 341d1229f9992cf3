//! The event stream of an organization, followed through broken connections and restarts of the server: after the last event
//! that was seen, so that none is missed and none comes twice.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::sse::{Frame, FrameTooLong, Parser};
use crate::api::{Api, CallError, Stream};
use crate::failure::Failure;
use crate::retry;
use crate::retrying::Retrying;
use crate::steady::Moment;

/// The server writes at least a comment every 15 seconds. A connection that is silent for longer is dead, whatever the
/// machines between have to say about it.
const SILENCE_MAX: Duration = Duration::from_secs(50);

/// Something to tell.
#[derive(Debug)]
pub enum News {
    Event(Value),
    /// The events after the last one that was seen are no longer kept; the stream goes on with new ones.
    Gap,
    /// The connection broke, and why; it is being made again.
    Cut(String),
    /// The connection is there again.
    Back,
}

/// Everything it is in the middle of is kept in it, so that `next` may be dropped and called again.
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
    /// `path` is that of the stream, with its filters. It begins now; everything that happens after this has returned is in
    /// it. The first connection is tried as long as a request is repeated.
    pub async fn open(api: &'a Api, path: String) -> Result<Self, Failure> {
        let retrying = Retrying::new(api.patience(), format!("waiting for an answer of {}", api.url()));
        let stream = tokio::select! {
            stream = first_stream(api, &path, &retrying) => stream?,
            never = retrying.show() => match never {},
        };
        drop(retrying);
        let last = stream.header("last-event-id").map(str::to_owned);
        let state = State::Open { stream: Box::new(stream), heard_at: Instant::now() };
        Ok(Self { api, path, last, state, parser: Parser::default(), frames: VecDeque::new(), attempt: 0 })
    }

    /// Fails only if the server refuses for good.
    pub async fn next(&mut self) -> Result<News, Failure> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                if let Some(news) = self.told_by(frame) {
                    return Ok(news);
                }
                continue;
            }
            match &mut self.state {
                State::Open { stream, heard_at } => {
                    let heard = tokio::time::timeout_at(*heard_at + SILENCE_MAX, stream.next()).await;
                    let cut = match heard {
                        Ok(Ok(Some(piece))) => {
                            *heard_at = Instant::now();
                            match self.parser.push(&piece) {
                                Ok(frames) => {
                                    self.attempt = 0;
                                    self.frames.extend(frames);
                                    continue;
                                }
                                Err(FrameTooLong) => "the server sent an event without an end".to_owned(),
                            }
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
                        // The caller tells why the connection broke, and that it is being made again.
                        api.stream(&path, last.as_deref(), &Retrying::silent()).await
                    }));
                }
                State::Connecting(connecting) => match connecting.await {
                    Ok(stream) => {
                        self.parser = Parser::default();
                        self.state = State::Open { stream: Box::new(stream), heard_at: Instant::now() };
                        return Ok(News::Back);
                    }
                    Err(error) if error.is_passing() => {
                        self.pause();
                        return Ok(News::Cut(Failure::from(error).to_string()));
                    }
                    Err(error) => return Err(error.into()),
                },
            }
        }
    }

    /// The next state after a connection that broke or was not made.
    fn pause(&mut self) {
        let pause = retry::pause(self.attempt, None, rand::random());
        self.attempt = self.attempt.saturating_add(1);
        self.state = State::Pausing { until: Instant::now() + pause };
    }

    fn told_by(&mut self, frame: Frame) -> Option<News> {
        if frame.id.is_some() {
            self.last = frame.id;
        }
        if frame.event == "reset" {
            return Some(News::Gap);
        }
        serde_json::from_str(&frame.data).ok().map(News::Event)
    }
}

async fn first_stream(api: &Api, path: &str, retrying: &Retrying) -> Result<Stream, Failure> {
    let (began, mut attempt) = (Moment::now(), 0);
    loop {
        let error = match api.stream(path, None, retrying).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        let pause = retry::pause(attempt, None, rand::random());
        if !error.is_passing() || Moment::now().since(began) + pause > api.patience() {
            return Err(error.into());
        }
        retrying.failed(error.to_string());
        tokio::time::sleep(pause).await;
        attempt += 1;
    }
}

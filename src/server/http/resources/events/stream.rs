//! The event stream (server-sent events): in order, without gaps or duplicates, resumed after the client's last event.

use std::pin::pin;
use std::time::Instant;

use actix_web::http::Method;
use actix_web::http::header::HeaderName;
use actix_web::web::{Bytes, BytesMut};
use futures_util::{FutureExt, stream as streams};
use serde_json::json;
use tokio::sync::watch;

use super::filter;
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::call::Call;
use crate::http::clients::{Waited, while_connected};
use crate::http::dto::Written;
use crate::http::event_hubs::{Progress, RingEvents, StreamTiming, Subscription, frame};
use crate::http::head::{Headers, ascii};
use crate::http::paging::Query;
use crate::http::problem::Problem;
use crate::http::request::Request;
use crate::http::response::Response;
use crate::http::streaming::{OwnPatience, bare};
use accounts::auth::Permission;
use domain::Identifier;
use events::{Events, Filter, Resumption, Span};
use shares::Place;
use store::StoreError;

/// The header with the id of the last event that the client has seen.
pub const LAST_EVENT_ID: &str = "Last-Event-ID";
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// Used instead of an id for the position before the first event that is kept.
pub const START: &str = "start";
/// How many milliseconds a client waits before it reconnects. A part of the first event: clients exist that take a block
/// without data for an event.
const RETRY: &[u8] = b"retry: 2000\n";
/// A subscriber that was up to date and falls behind by more than this is disconnected. When it reconnects, it may catch up
/// at its own speed.
const BEHIND_MAX: u64 = 50_000;

pub async fn stream(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let filter = filter::take(&mut query);
    let asked = query.one("lastEventId");
    query.finish()?;
    if call.request.method() == Method::HEAD {
        return Ok(bare(answer()));
    }
    // A client that reconnects names its newest event in the header, while the query is still that of its first request.
    let seen = last_event_id(call.request.headers()).or(asked);
    let hubs = &access.realm.event_hubs;
    let subscription = hubs
        .subscribe(&access.caller.organization, access.caller.holder())
        .map_err(|refused| Problem::overloaded(&format!("too many event streams are open: {refused}; close some")))?;
    let held = access.hold_connection()?;
    let start = StreamStart::find(&access.realm.events, &access.caller.organization, seen.as_deref())?;
    let subscriber = Subscriber {
        _patience: OwnPatience::new(&call.request, hubs.timing.stall),
        progress: subscription.hub.progress(),
        timing: hubs.timing,
        request: call.request.clone(),
        next: start.next,
        reset: start.reset,
        retry: Some(RETRY),
        skipped: None,
        live: false,
        sent_at: None,
        access,
        filter,
        subscription,
        _held: held,
    };
    Ok(subscriber.follow(answer().with(LAST_EVENT, &start.after)))
}

fn answer() -> Response {
    /// For proxies that would buffer an answer.
    const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
    Response::ok("text/event-stream").with(BUFFERING, "no")
}

/// `None` if the header is missing or empty.
fn last_event_id(headers: &Headers) -> Option<String> {
    let value = headers.get(&LAST_EVENT)?;
    Some(ascii(value).unwrap_or("?").trim().to_owned()).filter(|id| !id.is_empty())
}

/// The position where a stream starts.
struct StreamStart {
    next: u64,
    /// The id that a client sends to start there again.
    after: String,
    /// The first event, if the client's position is not available.
    reset: Option<Bytes>,
}

impl StreamStart {
    fn find(events: &Events, organization: &Identifier, seen: Option<&str>) -> Result<Self, StoreError> {
        let Some(seen) = seen else {
            let next = events.next(organization)?;
            return Ok(Self { next, after: id_before(events, organization, next)?, reset: None });
        };
        let place = match seen {
            START => Resumption::Next(events.span(organization)?.first),
            id => match id.parse() {
                Ok(id) => events.after(organization, id)?,
                Err(_) => Resumption::Unknown,
            },
        };
        match place {
            Resumption::Next(next) => Ok(Self { next, after: seen.to_owned(), reset: None }),
            Resumption::Expired => Self::reset(events, organization, "expired"),
            Resumption::Unknown => Self::reset(events, organization, "unknown"),
        }
    }

    /// Starts at the newest event, since the client's position is not available.
    fn reset(events: &Events, organization: &Identifier, reason: &str) -> Result<Self, StoreError> {
        let Span { first, next } = events.span(organization)?;
        let first = events.id_of(organization, first)?;
        let after = id_before(events, organization, next)?;
        let data = json!({ "reason": reason, "firstEventId": first.map(Written) });
        let text = format!("event: reset\nid: {after}\ndata: {data}\n\n");
        Ok(Self { next, after, reset: Some(text.into()) })
    }
}

/// The id of the last event before this number.
fn id_before(events: &Events, organization: &Identifier, next: u64) -> Result<String, StoreError> {
    let last = next.checked_sub(1).map(|last| events.id_of(organization, last)).transpose()?.flatten();
    Ok(last.map_or(START.to_owned(), |id| id.to_string()))
}

struct Subscriber {
    access: Access,
    request: Request,
    subscription: Subscription,
    filter: Filter,
    timing: StreamTiming,
    progress: watch::Receiver<Progress>,
    /// The number of the first event that it has not seen.
    next: u64,
    /// The first event, if its position was not available.
    reset: Option<Bytes>,
    /// Sent with the first event.
    retry: Option<&'static [u8]>,
    /// The id of the last event that the filter skipped since something was sent.
    skipped: Option<String>,
    /// Whether it has been up to date at some time.
    live: bool,
    /// When something was sent last.
    sent_at: Option<Instant>,
    _held: Option<Place>,
    _patience: OwnPatience,
}

impl Subscriber {
    fn follow(self, response: Response) -> Response {
        let pieces = streams::try_unfold(self, |mut subscriber| async move {
            let (request, access) = (subscriber.request.clone(), subscriber.access.clone());
            let waited = while_connected(&request, &access, true, pin!(subscriber.next_piece())).await;
            match waited {
                Waited::There(piece) => Ok(piece?.map(|piece| {
                    subscriber.sent_at = Some(Instant::now());
                    (piece, subscriber)
                })),
                Waited::TooLate(_) | Waited::Gone | Waited::Revoked(..) => Ok::<_, Problem>(None),
            }
        });
        response.streaming(pieces)
    }

    /// `None` at the end: the server stops, or the events cannot be read.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, Problem> {
        if let Some(reset) = self.reset.take() {
            return Ok(Some(self.with_retry(reset)));
        }
        loop {
            if self.access.realm.environments.closed().now_or_never().is_some() {
                return Ok(None);
            }
            if self.sent_at.is_some_and(|sent| sent.elapsed() >= self.timing.heartbeat) {
                return Ok(Some(self.heartbeat()));
            }
            // Before the ring is read: events that are added meanwhile wake the subscriber again.
            let progress = *self.progress.borrow_and_update();
            match progress {
                Progress::UpTo(_) => {}
                Progress::Failed => return Ok(None),
                Progress::NotStarted => {
                    self.wait().await;
                    continue;
                }
            }
            match self.subscription.hub.events_from(self.next, &self.filter) {
                RingEvents::Piece { text, next, last } => {
                    (self.next, self.live) = (next, true);
                    if !text.is_empty() {
                        self.skipped = None;
                        return Ok(Some(self.with_retry(text)));
                    }
                    self.skipped = last.map(|id| id.to_string()).or(self.skipped.take());
                    // Nothing to begin with: a comment shows that the stream works.
                    if self.sent_at.is_none() {
                        return Ok(Some(self.heartbeat()));
                    }
                    self.wait().await;
                }
                RingEvents::Behind { by } if self.live && by > BEHIND_MAX => {
                    let organization = &self.access.caller.organization;
                    tracing::info!(%organization, by, "disconnected an event subscriber that fell too far behind");
                    return Ok(None);
                }
                RingEvents::Behind { .. } => {
                    if let Some(text) = self.read_store().await? {
                        return Ok(Some(self.with_retry(text)));
                    }
                }
            }
        }
    }

    /// Events, after `retry` if they are the first.
    fn with_retry(&mut self, events: Bytes) -> Bytes {
        match self.retry.take() {
            Some(retry) => [retry, &events[..]].concat().into(),
            None => events,
        }
    }

    /// Until there are new events, a heartbeat is due, or the server stops.
    async fn wait(&mut self) {
        let silent = self.sent_at.map(|sent| sent.elapsed()).unwrap_or_default();
        let silence = self.timing.heartbeat.saturating_sub(silent);
        tokio::select! {
            // An error means that the hub is gone, which is checked next.
            _ = self.progress.changed() => {}
            () = tokio::time::sleep(silence) => {}
            () = self.access.realm.environments.closed() => {}
        }
    }

    /// A piece of the events before the ring, if the filter selects any.
    async fn read_store(&mut self) -> Result<Option<Bytes>, Problem> {
        let (events, organization) = (self.access.realm.events.clone(), self.access.caller.organization.clone());
        let (from, filter) = (self.next, self.filter.clone());
        let read = move || {
            let stretch = events.onwards(&organization, from, &filter)?;
            // Nothing was found: the events have been dropped since.
            let reset = (stretch.next == from).then(|| StreamStart::reset(&events, &organization, "expired"));
            Ok::<_, StoreError>((stretch, reset.transpose()?))
        };
        let (stretch, reset) = self.access.read_list(read).await?;
        if let Some(reset) = reset {
            self.next = reset.next;
            return Ok(reset.reset);
        }
        self.next = stretch.next;
        let mut text = BytesMut::new();
        for event in &stretch.events {
            text.extend_from_slice(&frame(event));
        }
        Ok((!text.is_empty()).then(|| text.freeze()))
    }

    /// A comment, without an empty line after it: there are clients that would take that for the end of an event. For the
    /// same reason the id of the last skipped event is only a part of it, and no field.
    fn heartbeat(&mut self) -> Bytes {
        match self.skipped.take() {
            Some(id) => format!(": nothing for you up to {id}\n").into(),
            None => Bytes::from_static(b": nothing new\n"),
        }
    }
}

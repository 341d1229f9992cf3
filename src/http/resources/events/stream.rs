//! One who follows what happens, by server-sent events: from where it was, in order, without a gap and nothing twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actix_web::HttpRequest;
use actix_web::http::Method;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, X_CONTENT_TYPE_OPTIONS};
use actix_web::web::{self, Bytes, BytesMut};
use actix_web::{HttpResponse, HttpResponseBuilder};
use futures_util::{FutureExt, stream as streams};
use serde_json::json;
use tokio::sync::{oneshot, watch};

use super::wanted;
use crate::auth::Permission;
use crate::domain::Identifier;
use crate::events::{Events, Filter, Place, Span};
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::call::Call;
use crate::http::clients::{Waited, while_connected};
use crate::http::dto::Text;
use crate::http::event_hubs::{Gathered, Pace, Reached, Seat, frame};
use crate::http::paging::Query;
use crate::http::problem::Problem;
use crate::http::streaming::{bare, cut_off, fitted};
use crate::store::StoreError;

/// The header by which a client says what it has seen.
pub const LAST_EVENT_ID: &str = "Last-Event-ID";
/// What stands in the place of an id before the first event: everything that is kept comes after it.
pub const START: &str = "start";
/// When a client comes again whose connection has ended: soon, since what it missed waits for it.
const RETRY_MILLIS: u64 = 2_000;
/// One that was up to date and falls behind by more than this is sent away: it may come again, and then takes its time.
const BEHIND_MAX: u64 = 50_000;
/// How often it is asked whether a token still lets its bearer in, where more is sent than heartbeats.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

pub async fn stream(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let filter = wanted::take(&mut query);
    let asked = query.one("lastEventId");
    query.finish()?;
    let response = answer();
    if call.request.method() == Method::HEAD {
        return Ok(fitted(&call.request, bare(response)));
    }
    // A client that comes again says in the header what it has seen since, and in the query still what it first asked for.
    let seen = last_event_id(call.request.headers()).or(asked);
    let hubs = &access.realm.event_hubs;
    let seat = hubs.join(&access.caller.organization);
    let seat = seat.ok_or_else(|| Problem::overloaded("as many follow what happens already as may"))?;
    let opening = Opening::find(&access.realm.events, &access.caller.organization, seen.as_deref())?;
    let taken = Arc::new(Taken::new());
    let subscriber = Subscriber {
        _there: cut_off(&call.request, &access.realm.environments, taken.clone().stalled(hubs.pace.stall)),
        reached: seat.hub.reached(),
        pace: hubs.pace,
        request: call.request.clone(),
        next: opening.next,
        opening: Some(opening.text),
        passed: None,
        live: false,
        said: Instant::now(),
        checked: Instant::now(),
        access,
        filter,
        seat,
        taken,
    };
    Ok(fitted(&call.request, subscriber.follow(response)))
}

fn answer() -> HttpResponseBuilder {
    /// For proxies that would collect an answer before they pass it on.
    const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
    let mut response = HttpResponse::Ok();
    response
        .insert_header((CONTENT_TYPE, "text/event-stream"))
        .insert_header((CACHE_CONTROL, "no-store"))
        .insert_header((BUFFERING, "no"))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"));
    response
}

/// What a client says it has seen; one that says nothing by it has seen nothing.
fn last_event_id(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(LAST_EVENT_ID)?;
    Some(value.to_str().unwrap_or("?").trim().to_owned()).filter(|id| !id.is_empty())
}

/// Where a stream begins, and what it says of that.
struct Opening {
    next: u64,
    text: Bytes,
}

impl Opening {
    fn find(events: &Events, organization: &Identifier, seen: Option<&str>) -> Result<Self, StoreError> {
        let retry = format!("retry: {RETRY_MILLIS}\n");
        let place = match seen {
            // Where it is now is told too: else a client that is cut off before anything happens would miss what comes.
            None => {
                let next = events.next(organization)?;
                let text = format!("{retry}id: {}\n\n", id_before(events, organization, next)?);
                return Ok(Self { next, text: text.into() });
            }
            Some(START) => Place::Next(events.span(organization)?.first),
            Some(id) => match id.parse() {
                Ok(id) => events.after(organization, id)?,
                Err(_) => Place::Unknown,
            },
        };
        let reason = match place {
            Place::Next(next) => return Ok(Self { next, text: format!("{retry}\n").into() }),
            Place::Expired => "expired",
            Place::Unknown => "unknown",
        };
        let reset = Self::reset(events, organization, reason)?;
        Ok(Self { text: [retry.as_bytes(), &reset.text].concat().into(), ..reset })
    }

    /// From now on, since from where it was is not possible.
    fn reset(events: &Events, organization: &Identifier, reason: &str) -> Result<Self, StoreError> {
        let Span { first, next } = events.span(organization)?;
        let first = events.id_of(organization, first)?;
        let data = json!({ "reason": reason, "firstEventId": first.map(Text) });
        let text = format!("event: reset\nid: {}\ndata: {data}\n\n", id_before(events, organization, next)?);
        Ok(Self { next, text: text.into() })
    }
}

/// What a client has seen that has seen everything before this number.
fn id_before(events: &Events, organization: &Identifier, next: u64) -> Result<String, StoreError> {
    let last = next.checked_sub(1).map(|last| events.id_of(organization, last)).transpose()?.flatten();
    Ok(last.map_or(START.to_owned(), |id| id.to_string()))
}

struct Subscriber {
    access: Access,
    request: HttpRequest,
    seat: Seat,
    filter: Filter,
    pace: Pace,
    reached: watch::Receiver<Reached>,
    /// The number of the first event that it has not seen.
    next: u64,
    opening: Option<Bytes>,
    /// The id of the last event that was passed over since something was said.
    passed: Option<String>,
    /// Whether it has once been up to date.
    live: bool,
    said: Instant,
    checked: Instant,
    taken: Arc<Taken>,
    _there: oneshot::Sender<()>,
}

impl Subscriber {
    fn follow(self, mut response: HttpResponseBuilder) -> HttpResponse {
        let pieces = streams::try_unfold(self, |mut subscriber| async move {
            subscriber.taken.asked();
            let request = subscriber.request.clone();
            match while_connected(&request, true, subscriber.next_piece()).await {
                Waited::There(piece) => Ok(piece?.map(|piece| {
                    subscriber.taken.handed_over();
                    subscriber.said = Instant::now();
                    (piece, subscriber)
                })),
                Waited::TooLate(_) | Waited::Gone => Ok::<_, Problem>(None),
            }
        });
        response.streaming(pieces)
    }

    /// None when nothing comes any more: the server ends, or the client is no longer welcome.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, Problem> {
        if let Some(opening) = self.opening.take() {
            return Ok(Some(opening));
        }
        loop {
            let silent = self.said.elapsed() >= self.pace.heartbeat;
            if self.access.realm.environments.closed().now_or_never().is_some() || !self.is_welcome(silent) {
                return Ok(None);
            }
            if silent {
                return Ok(Some(self.heartbeat()));
            }
            // Before the look: what is read meanwhile wakes it again.
            let reached = *self.reached.borrow_and_update();
            match reached {
                Reached::UpTo(_) => {}
                Reached::Failed => return Ok(None),
                Reached::Nothing => {
                    self.wait().await;
                    continue;
                }
            }
            match self.seat.hub.gather(self.next, &self.filter) {
                Gathered::Piece { text, next, last } => {
                    (self.next, self.live) = (next, true);
                    if !text.is_empty() {
                        self.passed = None;
                        return Ok(Some(text));
                    }
                    self.passed = last.map(|id| id.to_string()).or(self.passed.take());
                    self.wait().await;
                }
                Gathered::Behind { by } if self.live && by > BEHIND_MAX => {
                    let organization = &self.access.caller.organization;
                    tracing::info!(%organization, by, "sent away who follows events and fell too far behind");
                    return Ok(None);
                }
                Gathered::Behind { .. } => {
                    if let Some(text) = self.read_on().await? {
                        return Ok(Some(text));
                    }
                }
            }
        }
    }

    /// Until something has happened, there is reason to say that nothing has, or the server ends.
    async fn wait(&mut self) {
        let silence = self.pace.heartbeat.saturating_sub(self.said.elapsed());
        tokio::select! {
            // Nobody reads any more; that is looked at next.
            _ = self.reached.changed() => {}
            () = tokio::time::sleep(silence) => {}
            () = self.access.realm.environments.closed() => {}
        }
    }

    /// A piece of what lies before the ring, if there is anything in it that is wanted.
    async fn read_on(&mut self) -> Result<Option<Bytes>, Problem> {
        let (events, organization) = (self.access.realm.events.clone(), self.access.caller.organization.clone());
        let (from, filter) = (self.next, self.filter.clone());
        let read = move || {
            let stretch = events.onwards(&organization, from, &filter)?;
            // Nothing was there: it has been dropped since.
            let reset = (stretch.next == from).then(|| Opening::reset(&events, &organization, "expired"));
            Ok::<_, StoreError>((stretch, reset.transpose()?))
        };
        let Some(_permit) = self.access.node.scans.permit().await else { return Err(overrun()) };
        let (stretch, reset) = web::block(read).await.map_err(Problem::internal)??;
        if let Some(reset) = reset {
            self.next = reset.next;
            return Ok(Some(reset.text));
        }
        self.next = stretch.next;
        let mut text = BytesMut::new();
        for event in &stretch.events {
            text.extend_from_slice(&frame(event));
        }
        Ok((!text.is_empty()).then(|| text.freeze()))
    }

    /// A comment; and the id of what was passed over, so that a client that comes again is not asked to go through it
    /// once more.
    fn heartbeat(&mut self) -> Bytes {
        match self.passed.take() {
            Some(id) => format!(": nothing for you\nid: {id}\n\n").into(),
            None => Bytes::from_static(b": nothing new\n\n"),
        }
    }

    /// Whether the token still lets its bearer in; looked at now and then, or `now`.
    fn is_welcome(&mut self, now: bool) -> bool {
        if now || self.checked.elapsed() >= CHECKED_EVERY {
            self.checked = Instant::now();
            return self.access.still_holds(self.request.headers(), Permission::Read);
        }
        true
    }
}

fn overrun() -> Problem {
    Problem::overloaded("too much is being read at once")
}

/// Whether what was handed over is taken. The web server asks for more when it has room for it.
struct Taken {
    began: Instant,
    /// When something was handed over, in milliseconds from the beginning; 0 once more is asked for.
    handed_over_millis: AtomicU64,
}

impl Taken {
    fn new() -> Self {
        Self { began: Instant::now(), handed_over_millis: AtomicU64::new(0) }
    }

    fn asked(&self) {
        self.handed_over_millis.store(0, Ordering::Relaxed);
    }

    fn handed_over(&self) {
        self.handed_over_millis.store(self.millis().max(1), Ordering::Relaxed);
    }

    fn millis(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Resolves when nothing has been taken for so long.
    async fn stalled(self: Arc<Self>, patience: Duration) {
        loop {
            tokio::time::sleep(patience / 4).await;
            let since = self.handed_over_millis.load(Ordering::Relaxed);
            if since > 0 && u128::from(self.millis().saturating_sub(since)) >= patience.as_millis() {
                tracing::info!("cut off who follows events and takes nothing of what is sent");
                return;
            }
        }
    }
}

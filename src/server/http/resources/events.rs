//! Events: list, view, and stream as server-sent events, in order, without gaps or duplicates, resuming after the
//! client's last event.

use std::pin::pin;
use std::time::Instant;

use actix_web::http::Method;
use actix_web::http::header::HeaderName;
use actix_web::web::{Bytes, BytesMut};
use futures_util::{FutureExt, stream as streams};
use serde_json::json;
use tokio::sync::watch;

use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::call::Call;
use crate::http::clients::{OwnPatience, Waited, bare, while_connected};
use crate::http::codes::Code;
use crate::http::dto::{EventView, Written};
use crate::http::event_hubs::{Progress, RingEvents, StreamTiming, Subscription, frame};
use crate::http::paging::{self, Query, Slice, moment};
use crate::http::problem::Problem;
use accounts::auth::Permission;
use domain::nearest::nearest;
use domain::{DeploymentId, EventType, Identifier, Malformed, SessionId, UserId};
use events::{Actor, Events, Filter, Notices, Resumption, Span};
use http1::{Headers, Request, Response, ascii};
use shares::Permit;
use store::StoreError;

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let filter = take_filter(&mut query);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let (events, organization) = (access.realm.events.clone(), access.caller.organization.clone());
    let read = move || events.list(&organization, &filter, slice.offset, slice.limit);
    let listed = access.read_list(read).await?;
    Ok(paging::slice(&call.request, slice, listed.total, listed.events.iter().map(EventView::new).collect()))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    Query::of(&call.request).finish()?;
    let id = call.id("eventId", Code::EventNotFound)?;
    let found = access.realm.events.get(&access.caller.organization, id)?;
    let event = found.ok_or(Code::EventNotFound)?;
    Ok(answer::ok(EventView::new(&event)))
}

/// The header with the id of the last event that the client has seen.
pub const LAST_EVENT_ID: &str = "Last-Event-ID";
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// Used instead of an id for the position before the first kept event.
pub const START: &str = "start";
/// How many milliseconds a client waits before it reconnects. Sent with the first event, since some clients take a
/// block without data for an event.
const RETRY: &[u8] = b"retry: 2000\n";
/// A subscriber that was up to date and falls further behind than this is disconnected. After reconnecting, it may
/// catch up at any speed.
const BEHIND_MAX: u64 = 50_000;

pub async fn stream(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let filter = take_filter(&mut query);
    let asked = query.one("lastEventId");
    query.finish()?;
    if call.request.method() == Method::HEAD {
        return Ok(bare(answer()));
    }
    // A reconnecting client names its newest event in the header; its query is still that of its first request.
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
    /// Tells proxies not to buffer the response.
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
    /// The id with which a client can start here again.
    after: String,
    /// Sent first if the client's position is not available.
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

/// The id of the event before this number.
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
    /// The number of the first event not yet seen.
    next: u64,
    /// Sent first if the client's position was not available.
    reset: Option<Bytes>,
    /// Sent with the first event.
    retry: Option<&'static [u8]>,
    /// The id of the last event that the filter skipped since the last send.
    skipped: Option<String>,
    /// Whether the subscriber has ever been up to date.
    live: bool,
    sent_at: Option<Instant>,
    _held: Option<Permit>,
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

    /// `None` at the end: the server is stopping, or the events cannot be read.
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
            // Read before the ring, so that events added meanwhile wake the subscriber again.
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
                    // If there are no events yet, a comment shows that the stream works.
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

    /// Prepends `retry` to the first events.
    fn with_retry(&mut self, events: Bytes) -> Bytes {
        match self.retry.take() {
            Some(retry) => [retry, &events[..]].concat().into(),
            None => events,
        }
    }

    /// Waits until there are new events, a heartbeat is due, or the server stops.
    async fn wait(&mut self) {
        let silent = self.sent_at.map(|sent| sent.elapsed()).unwrap_or_default();
        let silence = self.timing.heartbeat.saturating_sub(silent);
        tokio::select! {
            // An error means that the hub is gone, which the caller checks next.
            _ = self.progress.changed() => {}
            () = tokio::time::sleep(silence) => {}
            () = self.access.realm.environments.closed() => {}
        }
    }

    /// Reads a piece of the events that are older than the ring, if the filter selects any.
    async fn read_store(&mut self) -> Result<Option<Bytes>, Problem> {
        let (events, organization) = (self.access.realm.events.clone(), self.access.caller.organization.clone());
        let (from, filter) = (self.next, self.filter.clone());
        let read = move || {
            let stretch = events.onwards(&organization, from, &filter)?;
            // No progress: the events have been dropped in the meantime.
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

    /// A comment without an empty line after it, which some clients would take for the end of an event. For the same
    /// reason, the comment contains the id of the last skipped event, which is not sent as a field.
    fn heartbeat(&mut self) -> Bytes {
        match self.skipped.take() {
            Some(id) => format!(": nothing for you up to {id}\n").into(),
            None => Bytes::from_static(b": nothing new\n"),
        }
    }
}

pub fn take_filter(query: &mut Query) -> Filter {
    Filter {
        event_types: types(query),
        actor: query.text("actor", actor),
        pipeline: query.text("pipelineId", Identifier::parse),
        environment: query.text("envName", Identifier::parse),
        session: query.text("sessionId", str::parse::<SessionId>),
        deployment: query.text("deploymentId", str::parse::<DeploymentId>),
        since: query.text("since", moment),
        until: query.text("until", moment),
    }
}

/// Reads all `type` parameters; each contains one or more names, separated by commas.
fn types(query: &mut Query) -> Option<Notices> {
    let values = query.all("type");
    let mut wanted = Notices::default();
    for name in values.iter().flat_map(|value| value.split(',')).map(str::trim) {
        let before = wanted;
        for event_type in EventType::ALL.iter().copied().filter(|event_type| is_named(*event_type, name)) {
            wanted.add(event_type);
        }
        if wanted == before && !EventType::ALL.iter().any(|event_type| is_named(*event_type, name)) {
            query.wrong("type", unknown(name));
            return None;
        }
    }
    (!values.is_empty()).then_some(wanted)
}

/// Whether the name is that of the type or of its group, such as `session.*`.
fn is_named(event_type: EventType, name: &str) -> bool {
    match name.strip_suffix(".*") {
        Some(group) => group_of(event_type) == group,
        None => event_type.as_str() == name,
    }
}

fn group_of(event_type: EventType) -> &'static str {
    event_type.as_str().split('.').next().unwrap_or_default()
}

fn unknown(name: &str) -> String {
    /// How many characters of an unknown name are shown.
    const SHOWN_MAX: usize = 40;
    let shown: String = name.chars().take(SHOWN_MAX).collect();
    let group = name.split('.').next().unwrap_or_default();
    let names = EventType::ALL.iter().map(|event_type| event_type.as_str());
    let groups = EventType::ALL.iter().map(|event_type| format!("{}.*", group_of(*event_type)));
    let known: Vec<String> = names.map(str::to_owned).chain(groups).collect();
    if let Some(meant) = nearest(name, &known) {
        return format!("has no value `{shown}`; did you mean `{meant}`?");
    }
    let of_group: Vec<_> = EventType::ALL.iter().filter(|event_type| group_of(**event_type) == group).collect();
    if of_group.is_empty() {
        let mut groups: Vec<_> = EventType::ALL.iter().map(|event_type| group_of(*event_type)).collect();
        groups.dedup();
        return format!("has no value `{shown}`; write a group like `session.*`, of {}", groups.join(", "));
    }
    let of_group: Vec<_> = of_group.iter().map(|event_type| event_type.as_str()).collect();
    format!("has no value `{shown}`; there are {}, or all of them as `{group}.*`", of_group.join(", "))
}

fn actor(text: &str) -> Result<Actor, Malformed> {
    if text == "system" {
        return Ok(Actor::System);
    }
    let user = text.parse::<UserId>().map_err(|_| Malformed("must be a user id (usr_…) or `system`"))?;
    Ok(Actor::User(user))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use actix_web::http::Uri;

    use super::*;
    use testkit::fuzz::fuzz;

    fn filter(query: &str) -> Result<Filter, String> {
        let request = Request::get(&format!("/?{query}")).unwrap();
        let mut query = Query::of(&request);
        let filter = take_filter(&mut query);
        query.finish().map(|()| filter).map_err(|problem| problem.to_string())
    }

    fn named(query: &str) -> Vec<&'static str> {
        let event_types = filter(query).unwrap().event_types.unwrap();
        EventType::ALL
            .iter()
            .filter(|event_type| event_types.has(**event_type))
            .map(|event_type| event_type.as_str())
            .collect()
    }

    #[test]
    fn types_are_named_one_by_one_with_commas_or_by_their_group() {
        assert_eq!(named("type=session.claimed&type=token.revoked"), ["session.claimed", "token.revoked"]);
        assert_eq!(named("type=session.claimed,token.revoked"), ["session.claimed", "token.revoked"]);
        assert_eq!(named("type=approval.*"), ["approval.requested", "approval.approved", "approval.rejected"]);
        assert_eq!(named("type=approval.*,approval.requested").len(), 3);
        assert_eq!(filter("").unwrap(), Filter::default());
    }

    #[test]
    fn an_unknown_type_is_answered_with_similar_ones() {
        for (wrong, meant) in [
            ("session.claim", "session.claimed"),
            ("sesion.claimed", "session.claimed"),
            ("SESSION.*", "session.*"),
            ("deployments.*", "deployment.*"),
        ] {
            let told = filter(&format!("type={wrong}")).unwrap_err();
            assert!(told.contains(&format!("has no value `{wrong}`; did you mean `{meant}`?")), "{told}");
        }
        let far = filter("type=approval.frobnicated").unwrap_err();
        assert!(
            far.ends_with(
                "; there are approval.requested, approval.approved, approval.rejected, or all of them as `approval.*`"
            ),
            "{far}"
        );
        let farther = filter("type=frobnicated").unwrap_err();
        assert!(farther.contains("; write a group like `session.*`, of session, deployment, "), "{farther}");
        for wrong in ["type=", "type=*", "type=.*", "type=session", "type=session.claimed,", "type=SESSION.*"] {
            assert!(filter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_moment_between_two_milliseconds_divides_them() {
        let since = |text: &str| filter(&format!("since={text}")).unwrap().since.unwrap().as_millis();
        assert_eq!(since("1970-01-01T00:00:00.005Z"), 5);
        assert_eq!(since("1970-01-01T00:00:00.0051Z"), 6);
        assert_eq!(since("1970-01-01T01:00:00%2B01:00"), 0);
        assert_eq!(since("1969-12-31T23:59:59.9995Z"), 0);
        for wrong in ["since=yesterday", "until=2026-13-01T00:00:00Z", "since=2026-01-01", "actor=ana", "sessionId=x"] {
            assert!(filter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fuzzed_filters_are_taken_or_refused() {
        let sample = "type=session.*,token.revoked&actor=system&pipelineId=web&envName=review-1&since=1970-01-01T01:00:00%2B01:00\
                      &sessionId=ses_01a1dcfadc8773e9b7e277941&until=-009999-01-02T01:59:59Z";
        let words =
            ["&", "=", "%", "type=", ",", ".*", "since=", "Z", "+", "9999-12-31T23:59:60Z", "actor=usr_", "\u{e4}"];
        fuzz([sample], &words, |text| {
            let query: String = form_urlencoded::byte_serialize(text).collect();
            // Reads the text as the whole query, if it is a valid one, and as a single value.
            let plain = std::str::from_utf8(text).ok().filter(|text| format!("/?{text}").parse::<Uri>().is_ok());
            let read =
                [plain.map(filter), Some(filter(&format!("type={query}"))), Some(filter(&format!("since={query}")))];
            read.map(|read| read.map(|read| read.map(|_| ()).map_err(|told| told.chars().take(30).collect::<String>())))
        });
    }
}

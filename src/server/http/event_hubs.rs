//! The events of an organization, read and rendered once for all subscribers. Each organization with subscribers has
//! one hub with one task. The hub keeps the newest events in a ring; a subscriber only has a position in the ring, and
//! reads from the store if it is behind.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use actix_web::web::{Bytes, BytesMut};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};

use crate::http::answer;
use crate::http::dto::EventView;
use domain::{Holder, Identifier};
use events::{EventId, Events, Filter, RecordedEvent, Span};
use shares::{Capacity, Permit, Permits, ShareError};
use store::StoreError;

/// Each subscriber holds a connection, and wakes up for every event of its organization.
const SUBSCRIBERS_MAX: usize = 4_000;
/// The events that a subscriber can catch up on without reading the store.
const RING_EVENTS: u64 = 2_048;
/// The limit on the bytes in the ring, for large events.
const RING_BYTES: usize = 4 * 1024 * 1024;
/// The size of a piece, which is also about how much is buffered for a client that does not read.
const PIECE_BYTES: usize = 32 * 1024;
/// Events that become durable within this time are read together.
const BATCHING: Duration = Duration::from_millis(5);

/// The hubs of all organizations with subscribers.
pub struct EventHubs {
    events: Events,
    pub timing: StreamTiming,
    open: Mutex<HashMap<Identifier, OpenHub>>,
    places: Permits,
    subscribers: metrics::Gauge,
}

/// The timing of streams.
#[derive(Debug, Clone, Copy)]
pub struct StreamTiming {
    /// A comment is sent after this much silence.
    pub heartbeat: Duration,
    /// A subscriber that reads nothing for this long is cut off.
    pub stall: Duration,
}

struct OpenHub {
    hub: Arc<Hub>,
    subscribers: usize,
}

pub struct Hub {
    organization: Identifier,
    ring: RwLock<Ring>,
    progress: watch::Sender<Progress>,
    abandoned: Notify,
}

/// How far a hub has read the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    NotStarted,
    UpTo(u64),
    /// The hub has stopped reading.
    Failed,
}

#[derive(Default)]
struct Ring {
    first: u64,
    frames: VecDeque<Frame>,
    bytes: usize,
}

struct Frame {
    event: RecordedEvent,
    text: Bytes,
}

/// The events of the ring from a position on.
pub enum RingEvents {
    /// The selected events, if any, and the position after them.
    Piece { text: Bytes, next: u64, last: Option<EventId> },
    /// The position is before the start of the ring; `by` counts the events from there to the newest.
    Behind { by: u64 },
}

/// A subscription to an organization's hub, until it is dropped.
pub struct Subscription {
    hubs: Arc<EventHubs>,
    pub hub: Arc<Hub>,
    _place: Permit,
}

impl EventHubs {
    /// `organizations` is the number of organizations on this server.
    pub fn new(events: Events, timing: StreamTiming, organizations: usize) -> Arc<Self> {
        let subscribers = metrics::gauge!("lockkeeper_event_subscribers");
        let places = Permits::without_queue("event_streams", Capacity::seats(SUBSCRIBERS_MAX).among(organizations));
        Arc::new(Self { events, timing, open: Mutex::default(), places, subscribers })
    }

    /// Refused if the member, the organization or the server has too many subscriptions.
    pub fn subscribe(self: &Arc<Self>, organization: &Identifier, holder: Holder) -> Result<Subscription, ShareError> {
        let place = self.places.try_acquire_for(organization, Some(holder))?;
        let mut hubs = self.open.lock();
        let open = hubs.entry(organization.clone()).or_insert_with(|| {
            let hub = Arc::new(Hub::new(organization.clone()));
            actix_web::rt::spawn(self.clone().run(hub.clone()));
            OpenHub { hub, subscribers: 0 }
        });
        open.subscribers += 1;
        self.subscribers.increment(1.0);
        Ok(Subscription { hubs: self.clone(), hub: open.hub.clone(), _place: place })
    }

    /// Reads new events into the ring while there are subscribers.
    async fn run(self: Arc<Self>, hub: Arc<Hub>) {
        let mut durable = self.events.durable();
        let events = self.events.clone();
        let filled = hub.clone();
        let begun = actix_web::web::block(move || filled.begin(&events)).await;
        let mut failed = match begun {
            Ok(begun) => begun.err(),
            Err(error) => Some(StoreError::Read(error.to_string())),
        };
        while failed.is_none() {
            tokio::select! {
                changed = durable.changed() => if changed.is_err() { break },
                () = hub.abandoned.notified() => return,
            }
            failed = hub.catch_up(&self.events).err();
            tokio::time::sleep(BATCHING).await;
        }
        if let Some(error) = failed {
            tracing::error!(organization = %hub.organization, %error, "cannot read events; disconnecting their subscribers");
        }
        self.remove(&hub);
        hub.progress.send_replace(Progress::Failed);
    }

    fn remove(&self, hub: &Arc<Hub>) {
        let mut hubs = self.open.lock();
        if hubs.get(&hub.organization).is_some_and(|open| Arc::ptr_eq(&open.hub, hub)) {
            hubs.remove(&hub.organization);
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hubs.subscribers.decrement(1.0);
        let mut hubs = self.hubs.open.lock();
        let Some(open) = hubs.get_mut(&self.hub.organization) else { return };
        if !Arc::ptr_eq(&open.hub, &self.hub) {
            return;
        }
        open.subscribers -= 1;
        if open.subscribers == 0 {
            hubs.remove(&self.hub.organization);
            self.hub.abandoned.notify_one();
        }
    }
}

impl Hub {
    fn new(organization: Identifier) -> Self {
        let progress = watch::Sender::new(Progress::NotStarted);
        Self { organization, ring: RwLock::default(), progress, abandoned: Notify::new() }
    }

    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Fills the ring with the newest events, for subscribers that reconnect.
    fn begin(&self, events: &Events) -> Result<(), StoreError> {
        let Span { first, next } = events.span(&self.organization)?;
        self.ring.write().first = next.saturating_sub(RING_EVENTS).max(first);
        self.catch_up(events)?;
        let next = self.ring.read().next();
        self.progress.send_replace(Progress::UpTo(next));
        Ok(())
    }

    fn catch_up(&self, events: &Events) -> Result<(), StoreError> {
        let before = self.ring.read().next();
        let mut next = before;
        while next < events.next(&self.organization)? {
            let read = events.read(&self.organization, next)?;
            let Some(last) = read.last() else {
                // The events were dropped before they were read; subscribers that missed them get a reset.
                let Span { first, .. } = events.span(&self.organization)?;
                if first <= next {
                    break;
                }
                *self.ring.write() = Ring { first, ..Ring::default() };
                next = first;
                continue;
            };
            next = last.id.number + 1;
            let frames: Vec<_> = read.into_iter().map(Frame::new).collect();
            self.ring.write().extend(frames);
        }
        if next > before {
            self.progress.send_replace(Progress::UpTo(next));
        }
        Ok(())
    }

    pub fn events_from(&self, from: u64, filter: &Filter) -> RingEvents {
        let ring = self.ring.read();
        let Some(skipped) = from.checked_sub(ring.first) else {
            return RingEvents::Behind { by: ring.next().saturating_sub(from) };
        };
        let (mut text, mut next, mut last) = (BytesMut::new(), from, None);
        for frame in ring.frames.iter().skip(usize::try_from(skipped).unwrap_or(usize::MAX)) {
            if filter.wants(&frame.event.head()) {
                if !text.is_empty() && text.len() + frame.text.len() > PIECE_BYTES {
                    break;
                }
                text.extend_from_slice(&frame.text);
            }
            next = frame.event.id.number + 1;
            last = Some(frame.event.id);
        }
        RingEvents::Piece { text: text.freeze(), next, last }
    }
}

impl Ring {
    fn next(&self) -> u64 {
        self.first + self.frames.len() as u64
    }

    fn extend(&mut self, frames: Vec<Frame>) {
        for frame in frames {
            if frame.event.id.number != self.next() {
                // The journal has been truncated, so the earlier events are not contiguous with this one.
                *self = Self { first: frame.event.id.number, ..Self::default() };
            }
            self.bytes += frame.text.len();
            self.frames.push_back(frame);
            while self.frames.len() as u64 > RING_EVENTS || self.bytes > RING_BYTES {
                let Some(oldest) = self.frames.pop_front() else { break };
                self.bytes -= oldest.text.len();
                self.first += 1;
            }
        }
    }
}

impl Frame {
    fn new(event: RecordedEvent) -> Self {
        let text = frame(&event);
        Self { event, text }
    }
}

/// An event as a server-sent event.
pub fn frame(event: &RecordedEvent) -> Bytes {
    let mut text = format!("id: {}\nevent: {}\ndata: ", event.id, event.event_type.as_str()).into_bytes();
    text.extend_from_slice(&answer::written(&EventView::new(event)));
    text.extend_from_slice(b"\n\n");
    text.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::samples::AnyEvent;
    use domain::{EventType, EventValue, Timestamp};
    use events::{Cause, NewEvent, Notices, record};
    use store::{Batch, MemoryStore, Store};

    fn happen(store: &MemoryStore, times: u64, text: &str) {
        let acme = Identifier::parse("acme").unwrap();
        let event_types = [EventType::SecretCreated, EventType::SecretDeleted];
        for number in 0..times {
            let data = AnyEvent(event_types[(number % 2) as usize], vec![("text", EventValue::Text(text.into()))]);
            let mut batch = Batch::default();
            record(&mut batch, &acme, &NewEvent::new(&data, Cause::system(Timestamp::from_millis(1))));
            store.commit(batch).unwrap();
        }
    }

    fn hub(store: &Arc<MemoryStore>) -> (Events, Hub) {
        let (events, hub) = (Events::new(store.clone()), Hub::new(Identifier::parse("acme").unwrap()));
        hub.begin(&events).unwrap();
        (events, hub)
    }

    /// The numbers of the events from a position on, and the position after them.
    fn numbers_from(hub: &Hub, mut from: u64, filter: &Filter) -> (Vec<u64>, u64) {
        let mut numbers = Vec::new();
        loop {
            let RingEvents::Piece { text, next, .. } = hub.events_from(from, filter) else {
                panic!("behind at {from}")
            };
            assert!(text.len() <= PIECE_BYTES);
            let ids = std::str::from_utf8(&text).unwrap().lines().filter_map(|line| line.strip_prefix("id: "));
            numbers.extend(ids.map(|id| id.parse::<EventId>().unwrap().number));
            if next == from {
                return (numbers, next);
            }
            from = next;
        }
    }

    #[test]
    fn a_hub_begins_with_the_newest_events_and_adds_new_ones() {
        let store = Arc::new(MemoryStore::new());
        happen(&store, RING_EVENTS + 100, "");
        let (events, hub) = hub(&store);
        let open = Filter::default();
        let all = |from: u64, to: u64| ((from..to).collect::<Vec<_>>(), to);
        assert_eq!(numbers_from(&hub, 100, &open), all(100, RING_EVENTS + 100));
        assert!(matches!(hub.events_from(99, &open), RingEvents::Behind { by } if by == RING_EVENTS + 1));
        assert_eq!(*hub.progress().borrow(), Progress::UpTo(RING_EVENTS + 100));
        happen(&store, 7, "");
        assert_eq!(numbers_from(&hub, RING_EVENTS + 100, &open), (vec![], RING_EVENTS + 100), "not read yet");
        hub.catch_up(&events).unwrap();
        assert_eq!(numbers_from(&hub, RING_EVENTS, &open), all(RING_EVENTS, RING_EVENTS + 107));
        assert!(matches!(hub.events_from(106, &open), RingEvents::Behind { .. }), "the oldest made room");
        assert_eq!(numbers_from(&hub, RING_EVENTS + 500, &open), (vec![], RING_EVENTS + 500), "nobody is put back");
        let mut event_types = Notices::default();
        event_types.add(EventType::SecretDeleted);
        let deleted = Filter { event_types: Some(event_types), ..Filter::default() };
        let (numbers, next) = numbers_from(&hub, RING_EVENTS + 90, &deleted);
        assert_eq!((numbers.len(), next), (8, RING_EVENTS + 107));
    }

    #[test]
    fn a_hub_goes_on_when_events_are_dropped_before_it_has_read_them() {
        let store = Arc::new(MemoryStore::new());
        happen(&store, 100, "");
        let (events, hub) = (Events::new(store.clone()), Hub::new(Identifier::parse("acme").unwrap()));
        // The hub found its first position just before a sweep.
        let mut batch = Batch::default();
        (0..2).for_each(|page| batch.delete(store::journal::page_key("acme", page)));
        batch.put(b"EF/acme", 64_u64.to_be_bytes());
        store.commit(batch).unwrap();
        hub.catch_up(&events).unwrap();
        let open = Filter::default();
        assert!(matches!(hub.events_from(63, &open), RingEvents::Behind { .. }));
        assert_eq!(numbers_from(&hub, 64, &open), ((64..100).collect(), 100));
        assert_eq!(*hub.progress().borrow(), Progress::UpTo(100));
    }

    #[test]
    fn the_ring_is_bounded_by_bytes_too() {
        let store = Arc::new(MemoryStore::new());
        happen(&store, 300, &"x".repeat(30_000));
        let (_, hub) = hub(&store);
        let ring = hub.ring.read();
        assert!(ring.bytes <= RING_BYTES && ring.frames.len() < 150 && ring.next() == 300);
        assert_eq!(ring.bytes, ring.frames.iter().map(|frame| frame.text.len()).sum::<usize>());
    }
}

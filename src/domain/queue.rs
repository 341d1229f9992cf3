//! The queue of an environment: higher priority first, then order of arrival.

use std::cmp::Reverse;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use super::{
    Blueprint, Configuration, Ended, EndedHow, Event, EventData, Expiry, IdSeed, Now, Priority, RequestRef, Session,
    SessionId, SessionQueuedData, Tick, Ticket, UserId,
};

/// A queued session expires if it is not polled for this long, and so does a grant that its client does not notice.
pub const ASK_WITHIN_MILLIS: i64 = 60_000;

/// Waiters removed per transition. Limits the size of its batch: the record of an ended session has up to 5 KiB, most
/// of it a context of 1,024 characters.
pub(super) const LET_GO_AT_ONCE: usize = 50;

/// The order in a queue: the smaller turn comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Turn {
    pub priority: Reverse<Priority>,
    pub ticket: Ticket,
}

impl Turn {
    pub fn new(priority: Priority, ticket: Ticket) -> Self {
        Self { priority: Reverse(priority), ticket }
    }
}

/// A session that waits for the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    pub ticket: Ticket,
    pub kept_by: KeptBy,
    /// Whether the client has received the id of the session, or can find it with its idempotency key. A session whose
    /// client first waits on its connection is unknown until then, and does not survive a restart.
    pub known: bool,
    pub session: Session,
    /// The request of the claim.
    pub via: Option<RequestRef>,
}

/// How a place in the queue is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptBy {
    /// The client's open connection.
    Connection,
    /// The client's open connection. After a restart of the server, the client may return for its place with its
    /// idempotency key.
    Key(PlaceKey),
    /// The client polls the session, whose id it knows.
    Polling,
}

/// Identifies a returning client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlaceKey {
    pub record: Arc<[u8]>,
    pub fingerprint: [u8; 16],
}

/// The connection of a waiter's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// The client waits for its turn on this connection.
    Open,
    /// The connection was lost. With an idempotency key the client can return.
    Closed { keyed: bool },
    /// The waiter has no connection.
    Absent,
}

/// The consequence for a waiter when its client disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterHangUp {
    Stays,
    /// The client keeps its place by polling from now on.
    Polls,
    Leaves,
}

/// A waiter that leaves without the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    pub waiter: Arc<Waiter>,
    /// The ended session.
    pub session: Arc<Session>,
}

/// Whether the client of a waiter is present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Connected,
    /// The client disconnected.
    Vanished,
    /// The client is not connected; it last polled at this tick.
    LastSeen(Tick),
}

/// The inputs of a decision besides the environment itself.
pub trait DecisionPorts {
    fn presence(&self, waiter: &Waiter) -> Presence;

    /// Takes the first waiter of the pool that accepts this environment, if it comes before `before`. Afterwards no
    /// other environment can take that waiter.
    fn take_from_pool(&mut self, configuration: &Configuration, before: Option<Turn>) -> Option<Arc<Waiter>>;

    /// The seed of a new id.
    fn seed(&mut self) -> IdSeed;

    /// The current state of the environment's pipeline. Only read when a deployment could start.
    fn pipeline(&self) -> PipelineNow;
}

/// A pipeline at the moment a deployment could start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineNow {
    /// A stopped pipeline starts nothing; running deployments continue.
    pub stopped: bool,
    /// The blueprint, with the steps of registries resolved unless that failed.
    pub blueprint: Arc<Blueprint>,
    /// Why resolving failed: the error of a deployment that would start.
    pub unresolved: Option<Arc<str>>,
}

impl Waiter {
    pub fn turn(&self) -> Turn {
        Turn::new(self.session.priority, self.ticket)
    }

    /// Whether the place survives a restart.
    pub fn is_durable(&self) -> bool {
        !matches!(self.kept_by, KeptBy::Connection)
    }

    /// Whether the client can return to its place after a restart.
    pub fn is_findable(&self) -> bool {
        match self.kept_by {
            KeptBy::Connection => false,
            KeptBy::Key(_) => true,
            KeptBy::Polling => self.known,
        }
    }

    /// Whether the lock can be granted to the waiter now.
    pub fn is_ready(&self, presence: Presence) -> bool {
        match (presence, &self.kept_by) {
            (Presence::Connected, _) | (Presence::LastSeen(_), KeptBy::Polling) => true,
            // The client is away: it keeps its place for a while, but gets no lock.
            (Presence::LastSeen(_), KeptBy::Key(_) | KeptBy::Connection) | (Presence::Vanished, _) => false,
        }
    }

    /// When the waiter loses its place unless the client polls.
    pub fn due(&self, presence: Presence) -> Option<Tick> {
        match presence {
            Presence::Connected => None,
            Presence::Vanished => Some(Tick(i64::MIN)),
            Presence::LastSeen(tick) => Some(tick.plus(ASK_WITHIN_MILLIS)),
        }
    }

    /// The event of the waiter's arrival, for a session that its client knows.
    pub fn queued(&self, position: usize) -> Event {
        let queued = SessionQueuedData { position: position as u64 };
        Event::session(self.session.id, EventData::SessionQueued(queued))
    }

    /// Whether the client is present, as far as the server knows. A server that is shutting down has closed the
    /// connections itself.
    pub fn presence(
        &self,
        connection: Connection,
        closing: bool,
        now: Tick,
        last_poll: impl FnOnce(Ticket) -> Tick,
    ) -> Presence {
        match (connection, &self.kept_by) {
            (Connection::Open, _) => Presence::Connected,
            // The session cannot be polled: the server has restarted, or refused to keep the place.
            (Connection::Absent, KeptBy::Polling) if !self.is_findable() => Presence::Vanished,
            // The idempotency key leads to the session id, so the client can still poll.
            (Connection::Closed { keyed: true }, KeptBy::Polling)
            | (Connection::Absent, KeptBy::Key(_) | KeptBy::Polling) => Presence::LastSeen(last_poll(self.ticket)),
            (Connection::Closed { .. }, KeptBy::Key(_)) if closing => Presence::LastSeen(now),
            (Connection::Closed { .. }, _) | (Connection::Absent, KeptBy::Connection) => Presence::Vanished,
        }
    }

    /// `connection` is the waiter's connection when the server handles the disconnect.
    pub fn after_hang_up(&self, connection: Connection) -> AfterHangUp {
        match (connection, &self.kept_by) {
            // The client returned meanwhile.
            (Connection::Open, _) => AfterHangUp::Stays,
            (Connection::Closed { keyed: true }, KeptBy::Polling) => AfterHangUp::Polls,
            (Connection::Closed { .. } | Connection::Absent, _) => AfterHangUp::Leaves,
        }
    }

    /// The waiter after its client has received the id of the session.
    pub fn made_known(&self) -> Arc<Self> {
        Arc::new(Self { known: true, ..self.clone() })
    }

    pub fn expired(self: &Arc<Self>, why: Expiry, now: Now) -> Departure {
        self.departure(Ended { at: now.at, by: None, how: EndedHow::Expired(why) })
    }

    pub(super) fn departure(self: &Arc<Self>, ended: Ended) -> Departure {
        let mut session = self.session.clone();
        session.end(ended);
        Departure { waiter: self.clone(), session: Arc::new(session) }
    }
}

impl Departure {
    /// None if no client ever knew the session.
    pub fn event(&self) -> Option<Event> {
        (self.waiter.kept_by == KeptBy::Polling).then(|| self.session.end_event()).flatten()
    }
}

/// The waiters in order. Cheap to clone at any length: copies share structure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    /// One lane per priority, without empty ones.
    lanes: RedBlackTreeMapSync<Reverse<Priority>, Lane>,
    /// The number of waiters per member. Members without waiters are not in the map.
    members: RedBlackTreeMapSync<UserId, usize>,
    length: usize,
    durable: usize,
}

type Lane = RedBlackTreeMapSync<Ticket, Arc<Waiter>>;

impl Queue {
    pub fn new() -> Self {
        Self { lanes: RedBlackTreeMapSync::new_sync(), members: RedBlackTreeMapSync::new_sync(), length: 0, durable: 0 }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The number of places of the member.
    pub fn of_member(&self, member: UserId) -> usize {
        self.members.get(&member).copied().unwrap_or(0)
    }

    /// Whether the queue has a place that must survive a restart.
    pub fn has_durable(&self) -> bool {
        self.durable > 0
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Waiter>> {
        self.lanes.values().flat_map(Lane::values)
    }

    pub fn get(&self, ticket: Ticket) -> Option<&Arc<Waiter>> {
        self.lanes.values().find_map(|lane| lane.get(&ticket))
    }

    /// The waiter with this session id.
    pub fn session(&self, id: SessionId) -> Option<&Arc<Waiter>> {
        match id.origin {
            super::Origin::Queued(ticket) => self.get(ticket).filter(|waiter| waiter.session.id == id),
            super::Origin::Granted(_) => None,
        }
    }

    /// From 1; position 1 is served next.
    pub fn position(&self, waiter: &Waiter) -> usize {
        let turn = waiter.turn();
        let ahead = self.lanes.iter().take_while(|(priority, _)| **priority < turn.priority);
        let lane = self.lanes.get(&turn.priority);
        ahead.map(|(_, lane)| lane.size()).sum::<usize>() + lane.map_or(0, |lane| lane.range(..=turn.ticket).count())
    }

    pub fn insert(&mut self, waiter: Arc<Waiter>) {
        let turn = waiter.turn();
        let mut lane = self.lanes.get(&turn.priority).cloned().unwrap_or_else(Lane::new_sync);
        self.length += 1;
        self.durable += usize::from(waiter.is_durable());
        let member = waiter.session.user.id;
        self.members.insert_mut(member, self.of_member(member) + 1);
        lane.insert_mut(turn.ticket, waiter);
        self.lanes.insert_mut(turn.priority, lane);
    }

    pub fn remove(&mut self, ticket: Ticket) -> Option<Arc<Waiter>> {
        let waiter = self.get(ticket)?.clone();
        let priority = waiter.turn().priority;
        let mut lane = self.lanes.get(&priority)?.clone();
        lane.remove_mut(&ticket);
        self.length -= 1;
        self.durable -= usize::from(waiter.is_durable());
        let member = waiter.session.user.id;
        match self.of_member(member) {
            0 | 1 => _ = self.members.remove_mut(&member),
            more => self.members.insert_mut(member, more - 1),
        }
        if lane.is_empty() {
            self.lanes.remove_mut(&priority);
        } else {
            self.lanes.insert_mut(priority, lane);
        }
        Some(waiter)
    }
}

/// The earliest time at which a waiter loses its place.
pub(super) fn next_due(queue: &Queue, ports: &dyn DecisionPorts) -> Option<Tick> {
    queue.iter().filter_map(|waiter| waiter.due(ports.presence(waiter))).min()
}

/// The waiters that have lost their place by now, and why.
pub(super) fn overdue<'a>(
    waiters: impl Iterator<Item = &'a Arc<Waiter>>,
    presence: impl Fn(&Waiter) -> Presence,
    now: Now,
) -> impl Iterator<Item = (&'a Arc<Waiter>, Expiry)> {
    waiters.filter_map(move |waiter| {
        let presence = presence(waiter);
        let why = if presence == Presence::Vanished { Expiry::Vanished } else { Expiry::Unasked };
        (waiter.due(presence)? <= now.tick).then_some((waiter, why))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::samples::{Subject, claim, person};
    use crate::{Claim, Elapse, Release};

    /// Locked by 1, with this many waiters.
    fn queued(kept_by: KeptBy, waiting: u64) -> Subject {
        let mut subject = Subject::with(Configuration::default());
        subject.run(0, claim(1)).unwrap();
        for number in 2..2 + waiting {
            subject.run(0, Claim { waits: Some(kept_by.clone()), ..claim(number) }).unwrap();
        }
        subject
    }

    fn release(subject: &mut Subject, millis: i64) {
        let session = subject.environment.lock.as_ref().unwrap().id.into();
        subject.run(millis, Release { session, by: person(1), any: false }).unwrap();
    }

    #[test]
    fn who_has_not_asked_in_time_is_passed_over_even_if_the_timer_is_late() {
        let mut subject = queued(KeptBy::Polling, 2);
        subject.ports.except = vec![(Ticket(2), Presence::LastSeen(Tick(0))), (Ticket(3), Presence::LastSeen(Tick(1)))];
        release(&mut subject, ASK_WITHIN_MILLIS);
        assert_eq!((subject.holder(), subject.queue()), (Some(3), vec![2]));
        subject.run(ASK_WITHIN_MILLIS, Elapse).unwrap();
        assert_eq!(subject.queue(), Vec::<u64>::new());
    }

    #[test]
    fn who_hung_up_is_skipped_before_anybody_has_noticed() {
        let mut subject = queued(KeptBy::Connection, 2);
        subject.ports.except = vec![(Ticket(2), Presence::Vanished)];
        release(&mut subject, 1);
        assert_eq!((subject.holder(), subject.queue()), (Some(3), vec![]));
    }

    #[test]
    fn a_crowd_that_is_gone_leaves_in_pieces_that_the_store_takes_and_gets_nothing_meanwhile() {
        let waiting = 3 * LET_GO_AT_ONCE as u64;
        for presence in [Presence::Vanished, Presence::LastSeen(Tick(0))] {
            let mut subject = queued(KeptBy::Polling, waiting);
            subject.ports.except = (0..2 + waiting).map(|number| (Ticket(number), presence)).collect();
            release(&mut subject, ASK_WITHIN_MILLIS);
            let mut pieces = 0;
            while !subject.environment.queue.is_empty() {
                let (due, outcome) = subject.run(ASK_WITHIN_MILLIS, Elapse).unwrap();
                assert!(outcome.left.len() <= LET_GO_AT_ONCE, "{} at once", outcome.left.len());
                assert!(subject.queue().is_empty() || due.is_some_and(|due| due.0 <= ASK_WITHIN_MILLIS));
                assert_eq!(subject.holder(), None, "a lock is not given to nobody");
                pieces += 1;
                assert!(pieces <= 3, "they leave too slowly");
            }
        }
    }
}

//! The state of one environment in the specification: the holder, the queue, how every earlier session ended, and the
//! used keys. Knows neither clients nor the passing of time.

use crate::linearizability::history::{Lock, Moment, Session, Status};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The fencing token of the newest grant.
    pub fencing: u64,
    pub holder: Option<Holder>,
    /// The certain waiters, in the order in which they are granted.
    pub queue: Vec<Waiter>,
    pub ended: Vec<Ended>,
    /// Grants to unanswered claims that are not over yet.
    pub unclaimed: u32,
    /// The number of these grants that happened when a holder left: only waiting claims get such a grant.
    pub passed_on: u32,
    /// Used idempotency keys, each with the fencing token of its grant.
    pub keys: Vec<(u32, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// None if no answer in the whole history names the session.
    pub session: Option<Session>,
    pub fencing: u64,
    pub ttl: Option<Moment>,
    /// The earliest possible moment of the session's last activity.
    pub active: Moment,
    /// Whether the lock was granted in the queue; it then expires unless the client polls in time.
    pub polled: bool,
    /// Whether the claim was never answered: the server may find the client gone and revoke the lock.
    pub revocable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The request that queued it.
    pub request: usize,
    pub sent: Moment,
    /// The waiter was in the queue by this moment.
    pub entered: Moment,
    pub session: Option<Session>,
    pub priority: i8,
    pub ttl: Option<Moment>,
    /// Whether the place is held by a session.
    pub polled: bool,
    /// Whether the request is still waiting for an answer.
    pub waits: bool,
    /// When the request's wait ends.
    pub tires: Moment,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ended {
    pub session: Session,
    pub status: Status,
    pub fencing: Option<u64>,
}

/// The contents of a read of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionState {
    pub status: Status,
    pub fencing: Option<u64>,
    pub position: Option<usize>,
}

impl State {
    pub fn holds(&self, session: Session) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.session == Some(session))
    }

    pub fn waits(&self, session: Session) -> Option<usize> {
        self.queue.iter().position(|waiter| waiter.session == Some(session))
    }

    pub fn is_held_by(&self, lock: Option<Lock>) -> bool {
        self.holder.as_ref().map(|holder| holder.fencing) == lock.map(|lock| lock.fencing)
    }

    pub fn session(&self, session: Session) -> Option<SessionState> {
        if let Some(holder) = self.holder.as_ref().filter(|holder| holder.session == Some(session)) {
            return Some(SessionState { status: Status::Active, fencing: Some(holder.fencing), position: None });
        }
        if let Some(index) = self.waits(session) {
            return Some(SessionState { status: Status::Queued, fencing: None, position: Some(index + 1) });
        }
        let ended = self.ended.iter().find(|ended| ended.session == session)?;
        Some(SessionState { status: ended.status, fencing: ended.fencing, position: None })
    }

    /// Ends the holder's session. The lock is then free; the caller decides who gets it next.
    pub fn vacate(&mut self, status: Status) {
        if let Some(Holder { session: Some(session), fencing, .. }) = self.holder.take() {
            self.end(Ended { session, status, fencing: Some(fencing) });
        }
    }

    pub fn leave(&mut self, index: usize, status: Status) -> Waiter {
        let waiter = self.queue.remove(index);
        if let Some(session) = waiter.session {
            self.end(Ended { session, status, fencing: None });
        }
        waiter
    }

    /// Adds an ended session. The list is sorted, so that otherwise equal states compare equal.
    pub fn end(&mut self, ended: Ended) {
        let place = self.ended.partition_point(|known| known.session < ended.session);
        self.ended.insert(place, ended);
    }

    /// The possible places of a newcomer: last of its priority, or before waiters that may have arrived at the same
    /// time. A claim arrives when the server first notices it, a little before it enters the queue.
    pub fn places(&self, priority: i8, sent: Moment) -> std::ops::RangeInclusive<usize> {
        let last = self.queue.partition_point(|waiter| waiter.priority >= priority);
        let overtaken = self.queue[..last].iter().rev();
        let overtaken = overtaken.take_while(move |waiter| waiter.priority == priority && sent < waiter.entered);
        (last - overtaken.count())..=last
    }
}

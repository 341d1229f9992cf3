//! Waiting claims: their clients and answers, the order of arrival, polls, and the places to which clients may return.
//! Each organization and each of its members has a share of the places; each token has a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dashmap::DashMap;
use tokio::sync::{oneshot, watch};

use crate::idempotency::{Pending, StoredAnswer};
use crate::ports::{Failure, TicketLane};
use domain::{
    ClaimReply, Connection, EnvironmentKey, Holder, Identifier, KeptBy, Now, PipelineKey, Presence, RequestRef,
    Session, Tick, Ticket, Timestamp, TokenId, Waiter,
};
use shares::{Capacity, LimitReached, Limited, LimitedPermit, Permit, Permits};
use store::Batch;

pub struct WaiterRegistry {
    /// One order for all claims that may have to wait.
    next_ticket: AtomicU64,
    lane: TicketLane,
    started: Tick,
    /// The number of waiters in memory for an environment by name.
    by_name: AtomicUsize,
    /// The number of sessions that ended in a queue since the last cleanup.
    ended: AtomicUsize,
    polled: DashMap<Ticket, Polled>,
    /// By the record key of the waiter's idempotency key.
    kept_places: DashMap<Arc<[u8]>, KeptPlace>,
    /// Whether the server shuts down, so that clients can no longer wait.
    closing: watch::Sender<bool>,
    places: WaitingPlaces,
}

/// A waiter whose place is kept by polling.
struct Polled {
    last: Tick,
    /// `None` for a restored waiter above the limit of its organization or token.
    place: Option<WaitingPlace>,
}

/// The queue of an environment, or of the pool of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueKey {
    Environment(EnvironmentKey),
    Pool(PipelineKey),
}

/// A borrowed [`QueueKey`]: a claim that does not wait needs no owned key.
#[derive(Debug, Clone, Copy)]
pub enum QueueRef<'a> {
    Environment(&'a EnvironmentKey),
    Pool(&'a PipelineKey),
}

impl QueueKey {
    pub fn borrowed(&self) -> QueueRef<'_> {
        match self {
            Self::Environment(key) => QueueRef::Environment(key),
            Self::Pool(pipeline) => QueueRef::Pool(pipeline),
        }
    }
}

impl QueueRef<'_> {
    fn organization(&self) -> &Identifier {
        match self {
            Self::Environment(key) => &key.pipeline.organization,
            Self::Pool(pipeline) => &pipeline.organization,
        }
    }
}

/// A place in a queue to which a client may return with its idempotency key.
#[derive(Debug, Clone)]
pub struct KeptPlace {
    pub queue: QueueKey,
    pub ticket: Ticket,
    pub fingerprint: [u8; 16],
}

impl WaiterRegistry {
    /// `waiting`: how many claims may wait; `per_token`: how many of them may have the same token.
    pub fn new(started: Now, lane: TicketLane, waiting: Capacity, per_token: usize) -> Self {
        Self {
            // Later runs use later tickets: each run begins at its starting millisecond, with a million tickets per
            // millisecond, which the shards of a cluster share.
            next_ticket: AtomicU64::new(lane.first_from(started.at.as_millis().unsigned_abs() << 20 | 1)),
            lane,
            started: started.tick,
            by_name: AtomicUsize::new(0),
            // Not zero, so that the first cleanup examines the sessions of the last run.
            ended: AtomicUsize::new(1),
            polled: DashMap::new(),
            kept_places: DashMap::new(),
            closing: watch::Sender::new(false),
            places: WaitingPlaces::new(waiting, per_token),
        }
    }

    pub fn next_ticket(&self) -> Ticket {
        Ticket(self.next_ticket.fetch_add(self.lane.of.get(), Ordering::Relaxed))
    }

    /// Takes a place for a claim that may have to wait.
    pub fn place(
        &self,
        queue: QueueRef<'_>,
        holder: Option<Holder>,
        via: Option<&RequestRef>,
    ) -> Result<WaitingPlace, Failure> {
        self.places.take(queue.organization(), holder, via)
    }

    /// Restores a waiter of the last run.
    pub fn restore(&self, waiter: &Waiter, queue: QueueKey) {
        self.next_ticket.fetch_max(self.lane.first_from(waiter.ticket.0 + 1), Ordering::Relaxed);
        match &waiter.kept_by {
            KeptBy::Connection => {}
            KeptBy::Key(key) => {
                let place = KeptPlace { queue, ticket: waiter.ticket, fingerprint: key.fingerprint };
                self.kept_places.insert(key.record.clone(), place);
            }
            KeptBy::Polling => {
                self.start_polling(waiter.ticket, self.started);
                // The waiter already had a place, so it may use the admins' reserve whatever its role.
                let holder = Holder { member: waiter.session.user.id, is_admin: true };
                self.keep(waiter.ticket, self.place(queue.borrowed(), Some(holder), waiter.via.as_ref()).ok());
            }
        }
    }

    /// A waiter has left its queue, with or without the lock.
    pub fn forget(&self, waiter: &Waiter) {
        match &waiter.kept_by {
            KeptBy::Connection => {}
            KeptBy::Key(place) => _ = self.kept_places.remove(&place.record),
            KeptBy::Polling => _ = self.polled.remove(&waiter.ticket),
        }
    }

    pub fn kept_place(&self, record_key: &[u8]) -> Option<KeptPlace> {
        self.kept_places.get(record_key).map(|place| place.clone())
    }

    /// The client keeps its place by polling from now on.
    pub fn start_polling(&self, ticket: Ticket, now: Tick) {
        self.polled.entry(ticket).or_insert(Polled { last: now, place: None }).last = now;
    }

    /// Holds the place of a polling waiter until the waiter is forgotten.
    pub fn keep(&self, ticket: Ticket, place: Option<WaitingPlace>) {
        if let Some(mut polled) = self.polled.get_mut(&ticket) {
            polled.place = place;
        }
    }

    /// The client has polled, or has otherwise been active.
    pub fn polled(&self, ticket: Ticket, now: Tick) {
        if let Some(mut polled) = self.polled.get_mut(&ticket) {
            polled.last = now;
        }
    }

    /// The last poll; waiters of the last run count as having polled at the start.
    pub fn last_poll(&self, ticket: Ticket) -> Tick {
        self.polled.get(&ticket).map_or(self.started, |polled| polled.last)
    }

    /// Whether the client of a waiter is present, as far as known.
    pub fn presence(&self, waiter: &Waiter, client: Option<&HeldClient>, now: Tick) -> Presence {
        waiter.presence(HeldClient::connection(client), self.is_closing(), now, |ticket| self.last_poll(ticket))
    }

    /// The number of waiters in memory for an environment by name.
    pub fn by_name(&self) -> usize {
        self.by_name.load(Ordering::Relaxed)
    }

    pub fn joined(&self, count: usize) {
        self.by_name.fetch_add(count, Ordering::Relaxed);
    }

    pub fn left(&self, count: usize) {
        self.by_name.fetch_sub(count, Ordering::Relaxed);
    }

    pub fn sessions_ended(&self, count: usize) {
        self.ended.fetch_add(count, Ordering::Relaxed);
    }

    /// Whether a session has ended in a queue since the last call.
    pub fn take_ended(&self) -> bool {
        self.ended.swap(0, Ordering::Relaxed) > 0
    }

    /// The server shuts down: clients can no longer wait.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    pub fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    pub async fn closed(&self) {
        // The sender lives as long as `self`.
        self.closing.subscribe().wait_for(|closing| *closing).await.ok();
    }

    /// The number of waiting claims of the token.
    #[cfg(test)]
    pub fn of_token(&self, token: TokenId) -> usize {
        self.places.of_token(token)
    }

    #[cfg(test)]
    pub fn keeps_places(&self) -> bool {
        !self.kept_places.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimOutcome {
    Granted {
        environment: EnvironmentKey,
        session: Arc<Session>,
    },
    /// A session to poll, and its position in the queue.
    Queued {
        session: Arc<Session>,
        position: usize,
        /// Whether the session waits for a lock that only ends when it is released.
        holder_never_expires: bool,
    },
}

impl ClaimOutcome {
    /// The outcome of a claim decided in this environment. None if the claim waits or was refused.
    pub fn of(reply: ClaimReply, environment: &EnvironmentKey) -> Option<Self> {
        match reply {
            ClaimReply::Granted(session) => Some(Self::Granted { environment: environment.clone(), session }),
            ClaimReply::Queued { session, position, holder_never_expires } => {
                Some(Self::Queued { session, position, holder_never_expires })
            }
            ClaimReply::Waiting | ClaimReply::Refused(_) => None,
        }
    }

    /// A waiter for any environment does not depend on one holder.
    pub fn queued_for_any(waiter: &Waiter, position: usize) -> Self {
        Self::Queued { session: Arc::new(waiter.session.clone()), position, holder_never_expires: false }
    }
}

/// The idempotency key of a request: the answer is stored in the same batch as the effect.
pub struct Keyed<R> {
    pub pending: Pending,
    pub render: Box<dyn Fn(&R) -> StoredAnswer + Send>,
}

impl<R> Keyed<R> {
    /// Adds the answer to the batch. The key stays in flight until `self` is dropped. Drop it when the batch is durable
    /// or refused, and before answering the client, which may reuse its key immediately.
    pub fn record(&self, batch: &mut Batch, reply: &R, now: Timestamp) {
        self.pending.record(batch, &(self.render)(reply), now);
    }
}

/// A client that holds its connection open until its turn comes.
pub struct HeldClient {
    pub reply: oneshot::Sender<Result<ClaimOutcome, Failure>>,
    /// Boxed, since it is large and most claims have none.
    pub keyed: Option<Box<Keyed<ClaimOutcome>>>,
    /// The client's place among all waiting claims, unless it does not wait.
    pub place: Option<WaitingPlace>,
}

impl HeldClient {
    pub fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }

    /// The connection of a waiter with this client.
    pub fn connection(client: Option<&Self>) -> Connection {
        match client {
            None => Connection::Absent,
            Some(client) if client.is_gone() => Connection::Closed { keyed: client.keyed.is_some() },
            Some(_) => Connection::Open,
        }
    }

    /// Stores the outcome under the client's idempotency key, if it has one.
    pub fn record(&self, batch: &mut Batch, outcome: &ClaimOutcome, now: Timestamp) {
        if let Some(keyed) = &self.keyed {
            keyed.record(batch, outcome, now);
        }
    }

    pub fn refuse(self, failure: impl Into<Failure>) {
        drop(self.keyed);
        self.reply.send(Err(failure.into())).ok();
    }
}

struct WaitingPlaces {
    among_all: Permits,
    of_tokens: Limited<TokenId>,
}

/// A claim's permit to wait, returned on drop.
pub struct WaitingPlace {
    _among_all: Permit,
    /// None for a claim without a token.
    _of_token: Option<LimitedPermit<TokenId>>,
}

impl WaitingPlaces {
    /// `total`: how many claims may wait; `per_token`: how many of them may have the same token.
    pub fn new(total: Capacity, per_token: usize) -> Self {
        Self { among_all: Permits::without_queue("waiting_claims", total), of_tokens: Limited::new(per_token) }
    }

    /// Refused if the token, the member, the organization or the server already has too many.
    pub fn take(
        &self,
        organization: &Identifier,
        holder: Option<Holder>,
        via: Option<&RequestRef>,
    ) -> Result<WaitingPlace, Failure> {
        let of_token = via.map(|via| self.of_tokens.try_acquire(via.token)).transpose();
        let of_token = of_token.map_err(|LimitReached { most }| Failure::TokenCrowded { most })?;
        let among_all = self.among_all.try_acquire_for(organization, holder).map_err(Failure::Crowded)?;
        Ok(WaitingPlace { _among_all: among_all, _of_token: of_token })
    }

    #[cfg(test)]
    pub fn of_token(&self, token: TokenId) -> usize {
        self.of_tokens.used_by(token)
    }
}

//! All waiters: the order of arrival, signs of life, and the places that clients may come back for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dashmap::DashMap;
use tokio::sync::watch;

use super::clients::HeldClient;
use crate::domain::{EnvironmentKey, KeptBy, Now, PipelineKey, Presence, Tick, Ticket, Waiter};

pub struct WaiterRegistry {
    /// One order for all claims that may have to wait.
    next_ticket: AtomicU64,
    started: Tick,
    /// Waiters for an environment by name that are in memory.
    by_name: AtomicUsize,
    /// Sessions that ended in a queue since the last cleanup.
    ended: AtomicUsize,
    last_polls: DashMap<Ticket, Tick>,
    /// By the record of their idempotency key.
    kept_places: DashMap<Arc<[u8]>, KeptPlace>,
    /// Whether the server shuts down, so that nobody can wait any longer.
    closing: watch::Sender<bool>,
}

/// The queue of an environment, or of the pool of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueKey {
    Environment(EnvironmentKey),
    Pool(PipelineKey),
}

/// A place in a queue whose client may come back for it with its idempotency key.
#[derive(Debug, Clone)]
pub struct KeptPlace {
    pub queue: QueueKey,
    pub ticket: Ticket,
    pub fingerprint: [u8; 16],
}

impl WaiterRegistry {
    pub fn new(started: Now) -> Self {
        Self {
            // Later runs give later tickets: each run begins with its starting millisecond, and has a million tickets
            // per millisecond.
            next_ticket: AtomicU64::new(started.at.as_millis().unsigned_abs() << 20 | 1),
            started: started.tick,
            by_name: AtomicUsize::new(0),
            // Not zero, so that the first cleanup looks at what the last run left behind.
            ended: AtomicUsize::new(1),
            last_polls: DashMap::new(),
            kept_places: DashMap::new(),
            closing: watch::Sender::new(false),
        }
    }

    pub fn next_ticket(&self) -> Ticket {
        Ticket(self.next_ticket.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes over a waiter of the last run.
    pub fn restore(&self, waiter: &Waiter, queue: QueueKey) {
        self.next_ticket.fetch_max(waiter.ticket.0 + 1, Ordering::Relaxed);
        match &waiter.kept_by {
            KeptBy::Connection => {}
            KeptBy::Key(key) => {
                let place = KeptPlace { queue, ticket: waiter.ticket, fingerprint: key.fingerprint };
                self.kept_places.insert(key.record.clone(), place);
            }
            KeptBy::Polling => self.start_polling(waiter.ticket, self.started),
        }
    }

    /// A waiter has left its queue, with or without the lock.
    pub fn forget(&self, waiter: &Waiter) {
        match &waiter.kept_by {
            KeptBy::Connection => {}
            KeptBy::Key(place) => _ = self.kept_places.remove(&place.record),
            KeptBy::Polling => _ = self.last_polls.remove(&waiter.ticket),
        }
    }

    pub fn kept_place(&self, record_key: &[u8]) -> Option<KeptPlace> {
        self.kept_places.get(record_key).map(|place| place.clone())
    }

    /// From now on the place is kept by polling.
    pub fn start_polling(&self, ticket: Ticket, now: Tick) {
        self.last_polls.insert(ticket, now);
    }

    /// The client has polled, or was heard of otherwise.
    pub fn polled(&self, ticket: Ticket, now: Tick) {
        if let Some(mut last) = self.last_polls.get_mut(&ticket) {
            *last = now;
        }
    }

    /// The last sign of life; waiters of the last run count as heard of at the start.
    pub fn last_poll(&self, ticket: Ticket) -> Tick {
        self.last_polls.get(&ticket).map_or(self.started, |tick| *tick)
    }

    /// Whether the client of a waiter is there, as far as we can know.
    pub fn presence(&self, waiter: &Waiter, client: Option<&HeldClient>, now: Tick) -> Presence {
        waiter.presence(HeldClient::connection(client), self.is_closing(), now, |ticket| self.last_poll(ticket))
    }

    /// How many wait for an environment by name, as far as it is in memory.
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

    /// The server shuts down: nobody can wait any longer.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    pub fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    pub async fn closed(&self) {
        // The sender lives as long as we do.
        self.closing.subscribe().wait_for(|closing| *closing).await.ok();
    }

    #[cfg(test)]
    pub fn keeps_places(&self) -> bool {
        !self.kept_places.is_empty()
    }
}

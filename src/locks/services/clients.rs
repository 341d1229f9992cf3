//! The clients of claims and how they are answered.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::waiting_places::WaitingPlace;
use crate::failure::Failure;
use crate::idempotency::{Pending, StoredAnswer};
use domain::{ClaimReply, Connection, EnvironmentKey, Session, Timestamp, Waiter};
use store::Batch;

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
        /// Whether it waits for a lock that ends only if somebody ends it.
        holder_never_expires: bool,
    },
}

impl ClaimOutcome {
    /// The outcome of a claim that was decided in this environment; None if it waits or was refused.
    pub fn of(reply: ClaimReply, environment: &EnvironmentKey) -> Option<Self> {
        match reply {
            ClaimReply::Granted(session) => Some(Self::Granted { environment: environment.clone(), session }),
            ClaimReply::Queued { session, position, holder_never_expires } => {
                Some(Self::Queued { session, position, holder_never_expires })
            }
            ClaimReply::Waiting | ClaimReply::Refused(_) => None,
        }
    }

    /// It does not wait for one holder: whichever environment is free first will do.
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
    /// The key stays in flight as long as this lives. Drop it when the batch is durable or refused, and before the client
    /// is answered: it may use its key again at once.
    pub fn record(&self, batch: &mut Batch, reply: &R, now: Timestamp) {
        self.pending.record(batch, &(self.render)(reply), now);
    }
}

/// A client that holds its connection open until its turn comes.
pub struct HeldClient {
    pub reply: oneshot::Sender<Result<ClaimOutcome, Failure>>,
    /// In a box, since it is large and most claims have none.
    pub keyed: Option<Box<Keyed<ClaimOutcome>>>,
    /// Its place among all claims that wait, unless it does not wait.
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

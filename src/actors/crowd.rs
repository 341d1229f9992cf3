//! The clients of those who wait: who is still there, and how each is answered.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::claiming::ClaimOutcome;
use super::environments::{Failure, Parts};
use super::pool::PipelinePool;
use crate::domain::{
    Configuration, Crowd, IdSeed, Kept, PipelineKey, PipelineNow, Presence, Tick, Ticket, Timestamp, Turn, Waiter,
};
use crate::entropy;
use crate::idempotency::{Pending, StoredAnswer};
use crate::store::Batch;

/// What a request with an idempotency key brings along: its answer is kept in the same batch as its effect.
pub struct Keyed<R> {
    pub pending: Pending,
    pub render: Box<dyn Fn(&R) -> StoredAnswer + Send>,
}

impl<R> Keyed<R> {
    /// The key stays in flight as long as this lives; let it go when the batch is durable.
    pub(super) fn record(&self, batch: &mut Batch, reply: &R, now: Timestamp) {
        self.pending.record(batch, &(self.render)(reply), now);
    }
}

/// A client that holds its connection open until its turn comes.
pub struct Held {
    pub reply: oneshot::Sender<Result<ClaimOutcome, Failure>>,
    pub keyed: Option<Keyed<ClaimOutcome>>,
}

/// Whether the client of one who waits is there, as far as we can know.
pub fn presence(waiter: &Waiter, held: Option<&Held>, parts: &Parts, now: Tick) -> Presence {
    match (held, &waiter.kept) {
        (Some(held), _) if !held.reply.is_closed() => Presence::Connected,
        // It has its session's id under its key, and can ask about it when it comes again.
        (Some(Held { keyed: Some(_), .. }), Kept::ByAsking) => Presence::LastSeen(parts.last_asked(waiter.ticket)),
        // We sent it away ourselves; it keeps its place for when it comes again.
        (Some(_), Kept::ByKey(_)) if parts.closing() => Presence::LastSeen(now),
        (Some(_), _) | (None, Kept::ByConnection) => Presence::Vanished,
        (None, Kept::ByKey(_) | Kept::ByAsking) => Presence::LastSeen(parts.last_asked(waiter.ticket)),
    }
}

/// What an environment's actor knows of the crowd while it decides.
pub struct ActorCrowd<'a> {
    pub held: &'a HashMap<Ticket, Held>,
    pub parts: &'a Parts,
    pub pipeline: &'a PipelineKey,
    pub pool: &'a PipelinePool,
    pub now: Tick,
    /// Who was taken from the pool for this decision.
    pub taken: Option<(Ticket, Presence)>,
}

impl Crowd for ActorCrowd<'_> {
    fn presence(&self, waiter: &Waiter) -> Presence {
        match self.taken {
            Some((ticket, presence)) if ticket == waiter.ticket => presence,
            Some(_) | None => presence(waiter, self.held.get(&waiter.ticket), self.parts, self.now),
        }
    }

    fn take_outsider(&mut self, configuration: &Configuration, before: Option<Turn>) -> Option<Arc<Waiter>> {
        let (waiter, presence) = self.pool.take(self.parts, configuration, before, self.now)?;
        self.taken = Some((waiter.ticket, presence));
        Some(waiter)
    }

    fn seed(&mut self) -> IdSeed {
        entropy::id_seed()
    }

    fn pipeline(&self) -> PipelineNow {
        self.parts.definitions.now(self.pipeline)
    }
}

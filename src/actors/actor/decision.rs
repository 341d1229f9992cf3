//! What the rules ask an actor about while it decides.

use std::collections::HashMap;
use std::sync::Arc;

use super::ActorLinks;
use crate::actors::services::clients::HeldClient;
use crate::domain::{Configuration, IdSeed, PipelineNow, Presence, Surroundings, Tick, Ticket, Turn, Waiter};
use crate::entropy;

pub struct DecisionContext<'a> {
    pub links: &'a ActorLinks,
    pub held: &'a HashMap<Ticket, HeldClient>,
    pub now: Tick,
    /// The waiter taken from the pool for this decision.
    pub taken: Option<(Ticket, Presence)>,
}

impl Surroundings for DecisionContext<'_> {
    fn presence(&self, waiter: &Waiter) -> Presence {
        match self.taken {
            Some((ticket, presence)) if ticket == waiter.ticket => presence,
            Some(_) | None => self.links.services.waiters.presence(waiter, self.held.get(&waiter.ticket), self.now),
        }
    }

    fn take_outsider(&mut self, configuration: &Configuration, before: Option<Turn>) -> Option<Arc<Waiter>> {
        let (waiter, presence) = self.links.pool.take(&self.links.services, configuration, before, self.now)?;
        self.taken = Some((waiter.ticket, presence));
        Some(waiter)
    }

    fn seed(&mut self) -> IdSeed {
        entropy::id_seed()
    }

    fn pipeline(&self) -> PipelineNow {
        self.links.services.pipelines.now(&self.links.key.pipeline)
    }
}

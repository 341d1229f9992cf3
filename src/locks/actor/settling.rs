//! After a commit is durable: the view is published, watchers are woken, effects performed, answers sent.

use std::sync::Arc;

use actix::prelude::*;

use super::messages::Trim;
use super::{ActorLinks, EnvironmentActor};
use crate::services::clients::{ClaimOutcome, HeldClient};
use crate::state::loaded::ChangedSessions;
use domain::{DeploymentId, Effect, Environment, Rejection, Session, Ticket};
use store::Sequence;

/// A command that was decided and handed in.
pub struct Executed<R> {
    pub reply: R,
    pub settlement: Settlement,
}

/// The work to do once the store is durable up to `sequence`.
pub struct Settlement {
    pub sequence: Sequence,
    pub view: Option<Arc<Environment>>,
    pub sessions: ChangedSessions,
    pub deployments: Vec<DeploymentId>,
    pub effects: Vec<Effect>,
    /// In a box, since it is large and most settlements have none.
    pub granted: Option<Box<Granted>>,
    /// Clients that waited on their connection and no longer can.
    pub sent_away: Vec<(HeldClient, Rejection)>,
    pub trim_on: bool,
}

/// A waiter that got the lock.
pub struct Granted {
    pub ticket: Ticket,
    pub client: Option<HeldClient>,
    pub session: Arc<Session>,
    /// Whether it came from the pool.
    pub outsider: bool,
}

impl EnvironmentActor {
    /// Settles when the commit is durable, and then answers.
    pub(super) fn settle(
        &mut self,
        settlement: Settlement,
        context: &mut Context<Self>,
        answer: impl FnOnce(&ActorLinks) + 'static,
    ) {
        let sequence = settlement.sequence;
        let trim_on = settlement.trim_on.then(|| context.address());
        let already_durable = self.links.has_settled(sequence);
        let settle = move |links: &ActorLinks| {
            match &settlement.view {
                Some(view) => links.publish(view, sequence),
                None if already_durable => {}
                None => links.view.settle(sequence),
            }
            settlement.happen(links);
            answer(links);
            // A long history is dropped piece by piece, each when the last is durable, so that it does not crowd out
            // other work. A full mailbox has more urgent things in it; the next commit trims on.
            if let Some(actor) = trim_on {
                actor.try_send(Trim).ok();
            }
        };
        if already_durable {
            settle(&self.links);
        } else {
            self.when_durable(sequence, settle);
        }
    }
}

impl EnvironmentActor {
    /// Runs `settle` when the store is durable up to `sequence`, and after every settlement of this environment that waits.
    pub(super) fn when_durable(&self, sequence: Sequence, settle: impl FnOnce(&ActorLinks) + 'static) {
        let links = self.links.clone();
        links.pending.update(|pending| pending + 1);
        let in_turn = move || {
            links.pending.update(|pending| pending - 1);
            settle(&links);
        };
        self.services().settlements.when_durable(sequence, Box::new(in_turn));
    }
}

impl Settlement {
    /// Readers find the new state before anybody is told of it.
    fn happen(self, links: &ActorLinks) {
        let ActorLinks { key, services, pool, .. } = links;
        if let Some(granted) = self.granted.as_ref().filter(|granted| granted.outsider) {
            pool.settled(granted.ticket);
        }
        if self.view.is_some() {
            services.watchers.environments.changed(key);
        }
        for session in self.sessions {
            services.watchers.sessions.changed(&session);
        }
        for deployment in self.deployments {
            services.watchers.deployments.changed(&deployment);
        }
        for effect in self.effects {
            services.perform(key, effect);
        }
        for (client, rejection) in self.sent_away {
            client.refuse(rejection);
        }
        if let Some(granted) = self.granted
            && let Granted { client: Some(client), session, .. } = *granted
        {
            services.deliver(client, ClaimOutcome::Granted { environment: key.clone(), session });
        }
    }
}

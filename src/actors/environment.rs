//! The actor of one environment: takes commands one by one, decides, hands the outcome to the store, and answers when it
//! is durable. It does not wait for the disk before it decides the next one; it waits before it answers.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use actix::prelude::*;
use tokio::sync::oneshot;

use super::claiming::ClaimOutcome;
use super::committing::{Executed, Loaded};
use super::crowd::{Held, Keyed};
use super::directory::{Desk, Note};
use super::environments::{Environments, Failure, Parts};
use super::pool::PipelinePool;
use super::stored::StoredEnvironment;
use super::{deployments, reading};
use crate::domain::{Agent, Claim, ClaimReply, Command, Environment, EnvironmentKey, HandOver, Ticket};
use crate::store::{Sequence, StoreError, durable_up_to};

pub struct EnvironmentActor {
    pub(super) home: Rc<Home>,
    /// Clients that hold their connection open until their turn comes.
    pub(super) held: HashMap<Ticket, Held>,
    /// What it was told and the store did not let it do yet.
    pub(super) undone: Vec<Note>,
    /// Or why it could not be loaded. Nothing is handled before one of both is known.
    pub(super) loaded: Result<Loaded, StoreError>,
}

/// Who the actor is and whom it deals with: what everything that waits for the disk needs, too.
pub(super) struct Home {
    pub key: EnvironmentKey,
    pub environments: Environments,
    pub pool: Arc<PipelinePool>,
    pub desk: Arc<Desk>,
}

/// A command and where its answer goes.
pub struct Ask<C: Command> {
    pub command: C,
    pub reply: oneshot::Sender<Result<C::Reply, Failure>>,
    pub keyed: Option<Keyed<C::Reply>>,
    /// Who asks.
    pub by: Option<Arc<Agent>>,
}

impl<C: Command> Message for Ask<C> {
    type Result = ();
}

/// A claim, which may be answered much later.
#[derive(Message)]
#[rtype(result = "()")]
pub struct AskClaim {
    pub claim: Claim,
    /// Whether the caller waits for its turn.
    pub hold: bool,
    pub held: Held,
}

/// A client comes back for its place in the queue.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Attach {
    pub ticket: Ticket,
    pub held: Held,
    /// Gives the key back if there is no such place.
    pub reply: oneshot::Sender<Result<(), Option<Keyed<ClaimOutcome>>>>,
}

/// Look at your notes.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Nudge;

/// Leave memory, if nobody needs you.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Leave;

/// Drop more of the history that is no longer kept.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Trim;

impl EnvironmentActor {
    pub fn start(key: EnvironmentKey, environments: Environments, desk: Arc<Desk>) -> Addr<Self> {
        let pool = environments.pool(&key.pipeline);
        Self::create(|context| {
            context.set_mailbox_capacity(environments.parts.options.mailbox);
            let loaded = Err(StoreError::Read("it is still being loaded".to_owned()));
            let home = Rc::new(Home { key, environments, pool, desk });
            Self { home, held: HashMap::new(), undone: Vec::new(), loaded }
        })
    }

    pub(super) fn parts(&self) -> &Arc<Parts> {
        &self.home.environments.parts
    }
}

impl Actor for EnvironmentActor {
    type Context = Context<Self>;

    /// Commands wait in the mailbox until the environment is there.
    fn started(&mut self, context: &mut Self::Context) {
        let load = load(self.home.environments.clone(), self.home.key.clone()).into_actor(self);
        context.wait(load.map(|loaded, actor, _| match loaded {
            Ok((stored, settled)) => {
                let loaded = Loaded::new(stored, settled, actor.parts().tick());
                actor.home.desk.publish(loaded.environment.clone(), settled);
                actor.parts().queues_at_rest.remove(&actor.home.key);
                actor.parts().waiting.fetch_add(loaded.environment.queue.len(), Ordering::Relaxed);
                actor.loaded = Ok(loaded);
                actor.note_held_back();
                actor.arm();
            }
            Err(error) => {
                tracing::error!(environment = %actor.home.key, %error, "an environment cannot be loaded");
                actor.loaded = Err(error);
            }
        }));
    }
}

/// Reads the environment once everything handed in so far is durable: an actor that went before may have left with
/// commits under way, and must not be contradicted.
async fn load(environments: Environments, key: EnvironmentKey) -> Result<(StoredEnvironment, Sequence), StoreError> {
    let settled = environments.parts.store.handed_in();
    durable_up_to(&*environments.parts.store, settled).await;
    let has_queue = environments.parts.queues_at_rest.contains_key(&key);
    let read = move || {
        let stored = reading::stored_with_queue(&environments.parts, &key)?;
        stored.map(|stored| deployments::with_runs(&environments.parts, &key, stored)).transpose()
    };
    // One record is read faster than a thread is found to read it; those who wait may be ten thousand.
    let stored = if has_queue {
        tokio::task::spawn_blocking(read).await.map_err(|error| StoreError::Read(error.to_string()))??
    } else {
        read()?
    };
    let absent = || StoredEnvironment { environment: Environment::absent(), keeping: Default::default() };
    Ok((stored.unwrap_or_else(absent), settled))
}

impl<C> Handler<Ask<C>> for EnvironmentActor
where
    C: Command + Send + 'static,
    C::Reply: Send + 'static,
{
    type Result = ();

    fn handle(&mut self, ask: Ask<C>, context: &mut Self::Context) {
        self.attend(context, |actor, context| actor.answer(ask, context));
    }
}

impl EnvironmentActor {
    fn answer<C>(&mut self, ask: Ask<C>, context: &mut Context<Self>)
    where
        C: Command + Send + 'static,
        C::Reply: Send + 'static,
    {
        let Ask { command, reply, keyed, by } = ask;
        // Who has given up must not be granted anything afterwards.
        if reply.is_closed() {
            return;
        }
        let record = |outcome: &C::Reply, batch: &mut _, now| {
            if let Some(keyed) = &keyed {
                keyed.record(batch, outcome, now);
            }
        };
        match self.execute(command, by.as_deref(), record) {
            Ok(Executed { reply: outcome, settlement }) => {
                let note = C::grants(&outcome).map(|session| Note::Undelivered { session, keyed: keyed.is_some() });
                let home = self.home.clone();
                self.settle(settlement, context, move || {
                    if reply.send(Ok(outcome)).is_err()
                        && let Some(note) = note
                    {
                        home.environments.note(&home.key, note);
                    }
                    drop(keyed);
                });
            }
            Err(failure) => self.refuse(reply, failure, context),
        }
    }
}

impl Handler<AskClaim> for EnvironmentActor {
    type Result = ();

    fn handle(&mut self, ask: AskClaim, context: &mut Self::Context) {
        self.attend(context, |actor, context| actor.answer_claim(ask, context));
    }
}

impl EnvironmentActor {
    fn answer_claim(&mut self, ask: AskClaim, context: &mut Context<Self>) {
        let AskClaim { claim, hold, held } = ask;
        if held.reply.is_closed() {
            return;
        }
        let (ticket, home) = (claim.ticket, self.home.clone());
        let outcome_of = |reply: &ClaimReply| match reply {
            ClaimReply::Granted(session) => {
                Some(ClaimOutcome::Granted { environment: home.key.clone(), session: Box::new(session.clone()) })
            }
            ClaimReply::Queued(session, position) => {
                Some(ClaimOutcome::Queued { session: Box::new(session.clone()), position: *position })
            }
            ClaimReply::Waiting | ClaimReply::Refused(_) => None,
        };
        // A queued session is one from now on, also if its client waits on the line for a while and is cut off.
        let record = |reply: &ClaimReply, batch: &mut _, now| {
            if let (Some(keyed), Some(outcome)) = (&held.keyed, outcome_of(reply)) {
                keyed.record(batch, &outcome, now);
            }
        };
        let by = Agent { person: claim.user.clone(), via: claim.via.clone() };
        let Executed { reply, settlement } = match self.execute(claim, Some(&by), record) {
            Ok(executed) => executed,
            Err(failure) => return self.refuse(held.reply, failure, context),
        };
        let outcome = outcome_of(&reply);
        match reply {
            ClaimReply::Refused(rejection) => {
                let Held { reply, keyed } = held;
                self.settle(settlement, context, move || {
                    reply.send(Err(rejection.into())).ok();
                    drop(keyed);
                });
            }
            ClaimReply::Waiting => {
                self.held.insert(ticket, held);
                self.settle(settlement, context, || {});
            }
            ClaimReply::Queued(..) if hold => {
                self.parts().asked.insert(ticket, self.parts().tick());
                self.held.insert(ticket, held);
                self.settle(settlement, context, || {});
            }
            ClaimReply::Granted(_) | ClaimReply::Queued(..) => {
                if let ClaimReply::Queued(..) = reply {
                    self.parts().asked.insert(ticket, self.parts().tick());
                }
                let home = self.home.clone();
                self.settle(settlement, context, move || {
                    if let Some(outcome) = outcome {
                        deliver(&home.environments, held, outcome);
                    }
                });
            }
        }
    }
}

/// Answers one who waited, or was served at once. One who has gone may come back for a grant only with its key.
pub(super) fn deliver(environments: &Environments, held: Held, outcome: ClaimOutcome) {
    let keyed = held.keyed.is_some();
    if let Err(Ok(ClaimOutcome::Granted { environment, session })) = held.reply.send(Ok(outcome)) {
        environments.note(&environment, Note::Undelivered { session: session.id, keyed });
    }
    // The key is free again only now that what it stands for is durable.
    drop(held.keyed);
}

impl Handler<Attach> for EnvironmentActor {
    type Result = ();

    fn handle(&mut self, attach: Attach, context: &mut Self::Context) {
        self.attend(context, |actor, context| {
            let Attach { ticket, held, reply } = attach;
            let waits = actor.loaded.as_ref().is_ok_and(|loaded| loaded.environment.queue.get(ticket).is_some());
            if !waits {
                reply.send(Err(held.keyed)).ok();
                return;
            }
            actor.held.insert(ticket, held);
            reply.send(Ok(())).ok();
            actor.perform(HandOver, context);
        });
    }
}

impl Handler<Nudge> for EnvironmentActor {
    type Result = ();

    fn handle(&mut self, _: Nudge, context: &mut Self::Context) {
        self.attend(context, |_, _| {});
    }
}

impl Handler<Leave> for EnvironmentActor {
    type Result = ();

    fn handle(&mut self, _: Leave, context: &mut Self::Context) {
        self.attend(context, |_, _| {});
        // The last thing it does: whoever comes next finds another actor, and what that one does not know of is lost.
        let needed = !self.undone.is_empty()
            || self.loaded.as_ref().is_ok_and(|loaded| {
                !self.home.desk.has_settled(loaded.handed_in) || !loaded.environment.queue.is_empty()
            });
        if !needed {
            self.leave_if_unneeded(context);
        }
    }
}

impl EnvironmentActor {
    /// One message, and what goes with each: it counts as handled, the notes come first, and afterwards the pool learns
    /// how the environment stands and the next deadline is set.
    fn attend(&mut self, context: &mut Context<Self>, work: impl FnOnce(&mut Self, &mut Context<Self>)) {
        self.home.desk.handled();
        self.read_notes(context);
        work(self, context);
        if self.report() {
            // Somebody came to wait for any environment just before this one was known to be free.
            self.perform(HandOver, context);
            self.report();
        }
        self.arm();
    }

    fn refuse<R: 'static>(
        &mut self,
        reply: oneshot::Sender<Result<R, Failure>>,
        failure: Failure,
        context: &mut Context<Self>,
    ) {
        match &self.loaded {
            // A refusal too speaks of a state, and nobody is told of a state that could still be lost.
            Ok(loaded) if !self.home.desk.has_settled(loaded.handed_in) => {
                let settle = move || {
                    reply.send(Err(failure)).ok();
                };
                self.parts().settlements.when_durable(loaded.handed_in, Box::new(settle));
            }
            Ok(_) => {
                reply.send(Err(failure)).ok();
            }
            Err(_) => {
                reply.send(Err(failure)).ok();
                self.leave_if_unneeded(context);
            }
        }
    }

    fn leave_if_unneeded(&mut self, context: &mut Context<Self>) {
        if self.parts().directory.remove_unneeded(&self.home.key, &self.home.desk) {
            context.stop();
        }
    }
}

/// An actor that ends has nobody waiting, unless it died; then their clients are told so by the closed channel.
impl Drop for EnvironmentActor {
    fn drop(&mut self) {
        if let Ok(loaded) = &self.loaded {
            self.parts().waiting.fetch_sub(loaded.environment.queue.len(), Ordering::Relaxed);
            if !loaded.environment.queue.is_empty() {
                // Whoever takes over looks for those whose place is written down.
                self.parts().queues_at_rest.insert(self.home.key.clone(), ());
            }
        }
        let waiting = self.held.values().filter(|held| !held.reply.is_closed()).count();
        if waiting > 0 {
            tracing::warn!(environment = %self.home.key, waiting, "an environment's actor ended while clients waited");
        }
    }
}

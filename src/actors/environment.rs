//! The actor of one environment: takes commands one by one, decides, hands the outcome to the store, and answers when it
//! is durable. It does not wait for the disk before it decides the next one; it waits before it answers.

use std::collections::VecDeque;
use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::oneshot;

use super::directory::Desk;
use super::environments::{Failure, Parts};
use super::stored::{self, StoredEnvironment};
use super::{keys, reading};
use crate::domain::{self, Command, Environment, EnvironmentKey, Session, SessionId, Transition};
use crate::store::{Batch, Sequence, StoreError, durable_up_to};

/// How many old sessions one commit drops from the history, so that a lowered retention or a deletion never makes a
/// batch that the store refuses.
const TRIM_AT_ONCE: u64 = 500;

pub struct EnvironmentActor {
    key: EnvironmentKey,
    parts: Arc<Parts>,
    desk: Arc<Desk>,
    /// Or why it could not be loaded. Nothing is handled before one of both is known.
    loaded: Result<Loaded, StoreError>,
}

/// The environment as of the last command, durable or not.
struct Loaded {
    environment: Environment,
    kept_from: u64,
    handed_in: Sequence,
    /// Sessions whose end may not be durable yet, so the store may not show it.
    just_ended: VecDeque<(Sequence, Session)>,
}

/// A command and where its answer goes.
pub struct Ask<C: Command> {
    pub command: C,
    pub reply: oneshot::Sender<Result<C::Reply, Failure>>,
}

impl<C: Command> Message for Ask<C> {
    type Result = ();
}

/// Leave memory, if nobody needs you.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Leave;

/// Drop more of the history that is no longer kept.
#[derive(Message)]
#[rtype(result = "()")]
struct Trim;

impl EnvironmentActor {
    pub fn start(key: EnvironmentKey, parts: Arc<Parts>, desk: Arc<Desk>) -> Addr<Self> {
        Self::create(|context| {
            context.set_mailbox_capacity(parts.options.mailbox);
            Self { key, parts, desk, loaded: Err(StoreError::Read("it is still being loaded".to_owned())) }
        })
    }
}

impl Actor for EnvironmentActor {
    type Context = Context<Self>;

    /// Commands wait in the mailbox until the environment is there.
    fn started(&mut self, context: &mut Self::Context) {
        let load = load(self.parts.clone(), self.key.clone()).into_actor(self);
        context.wait(load.map(|loaded, actor, _| match loaded {
            Ok((stored, settled)) => {
                actor.desk.publish(Arc::new(stored.environment.clone()), settled);
                actor.loaded = Ok(Loaded {
                    environment: stored.environment,
                    kept_from: stored.kept_from,
                    handed_in: settled,
                    just_ended: VecDeque::new(),
                });
            }
            Err(error) => {
                tracing::error!(environment = %actor.key, %error, "an environment cannot be loaded");
                actor.loaded = Err(error);
            }
        }));
    }
}

/// Reads the environment once everything handed in so far is durable: an actor that went before may have left with
/// commits under way, and must not be contradicted.
async fn load(parts: Arc<Parts>, key: EnvironmentKey) -> Result<(StoredEnvironment, Sequence), StoreError> {
    let settled = parts.store.handed_in();
    durable_up_to(&*parts.store, settled).await;
    let read = tokio::task::spawn_blocking(move || reading::stored_environment(&*parts.store, &key));
    let stored = read.await.map_err(|error| StoreError::Read(error.to_string()))??;
    let absent = StoredEnvironment { environment: Environment::absent(), kept_from: 1 };
    Ok((stored.unwrap_or(absent), settled))
}

impl<C> Handler<Ask<C>> for EnvironmentActor
where
    C: Command + Send + 'static,
    C::Reply: Send + 'static,
{
    type Result = ();

    fn handle(&mut self, ask: Ask<C>, context: &mut Self::Context) {
        self.desk.handled();
        let Ask { mut command, reply } = ask;
        // Who has given up must not be granted anything afterwards.
        if reply.is_closed() {
            return;
        }
        let loaded = match &self.loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                answer(reply, Err(Failure::Store(error.clone())));
                return self.leave_if_unneeded(context);
            }
        };
        if let Some(subject) = command.subject()
            && loaded.environment.session(subject.id).is_none()
        {
            match self.recall(loaded, subject.id) {
                Ok(ended) => subject.ended = ended.map(Box::new),
                Err(error) => return answer(reply, Err(Failure::Store(error))),
            }
        }
        match domain::decide(&loaded.environment, command, (self.parts.clock)()) {
            Ok(transition) if transition.next.revision == loaded.environment.revision => {
                self.answer_when_settled(reply, Ok(transition.reply));
            }
            Ok(transition) => self.commit(transition, reply, context),
            // A refusal too speaks of a state, and nobody is told of a state that could still be lost.
            Err(rejection) => self.answer_when_settled(reply, Err(Failure::Rejected(rejection))),
        }
    }
}

impl Handler<Leave> for EnvironmentActor {
    type Result = ();

    fn handle(&mut self, _: Leave, context: &mut Self::Context) {
        self.desk.handled();
        if self.loaded.as_ref().is_ok_and(|loaded| !self.desk.has_settled(loaded.handed_in)) {
            return;
        }
        self.leave_if_unneeded(context);
    }
}

impl Handler<Trim> for EnvironmentActor {
    type Result = ();

    fn handle(&mut self, _: Trim, context: &mut Self::Context) {
        let Ok(loaded) = &mut self.loaded else { return };
        let mut batch = Batch::default();
        let (kept_from, more) =
            trim(&self.key, &loaded.environment, loaded.kept_from, self.parts.retention(), &mut batch);
        batch.put(keys::environment(&self.key), stored::encode_environment(&loaded.environment, kept_from));
        // If the store refuses, the next commit of this environment trims on.
        let Ok(sequence) = self.parts.store.commit(batch) else { return };
        loaded.kept_from = kept_from;
        loaded.handed_in = sequence;
        let (desk, view) = (self.desk.clone(), Arc::new(loaded.environment.clone()));
        let trim_on = more.then(|| context.address());
        let settle = move || {
            desk.publish(view, sequence);
            send_trim(trim_on);
        };
        self.parts.settlements.when_durable(sequence, Box::new(settle));
    }
}

impl EnvironmentActor {
    fn leave_if_unneeded(&self, context: &mut Context<Self>) {
        if self.parts.directory.remove_unneeded(&self.key, &self.desk) {
            context.stop();
        }
    }

    /// What the history says of a session that the environment no longer has.
    fn recall(&self, loaded: &Loaded, id: SessionId) -> Result<Option<Session>, StoreError> {
        if !loaded.environment.remembered_sessions(self.parts.retention()).contains(&id.number) {
            return Ok(None);
        }
        if let Some((_, session)) = loaded.just_ended.iter().rev().find(|(_, session)| session.id == id) {
            return Ok(Some(session.clone()));
        }
        reading::stored_session(&*self.parts.store, &self.key, id)
    }

    fn commit<R: 'static>(
        &mut self,
        transition: Transition<R>,
        reply: oneshot::Sender<Result<R, Failure>>,
        context: &mut Context<Self>,
    ) {
        let Ok(loaded) = &mut self.loaded else { return };
        let Transition { next, ended, events, reply: outcome } = transition;
        let mut batch = Batch::default();
        let remembered = next.remembered_sessions(self.parts.retention());
        for session in ended.iter().filter(|session| remembered.contains(&session.id.number)) {
            batch.put(keys::session(&self.key, session.id.number), stored::encode_session(session));
        }
        let (kept_from, more) = trim(&self.key, &next, loaded.kept_from, self.parts.retention(), &mut batch);
        batch.put(keys::environment(&self.key), stored::encode_environment(&next, kept_from));
        let sequence = match self.parts.store.commit(batch) {
            Ok(sequence) => sequence,
            // Nothing was handed in, so nothing has changed.
            Err(error) => return answer(reply, Err(Failure::Store(error))),
        };

        let view = Arc::new(next.clone());
        loaded.environment = next;
        loaded.kept_from = kept_from;
        loaded.handed_in = sequence;
        let desk = &self.desk;
        while loaded.just_ended.pop_front_if(|(ended_at, _)| desk.has_settled(*ended_at)).is_some() {}
        loaded.just_ended.extend(ended.into_iter().map(|session| (sequence, session)));

        let (desk, parts, key) = (self.desk.clone(), self.parts.clone(), self.key.clone());
        let trim_on = more.then(|| context.address());
        let settle = move || {
            desk.publish(view, sequence);
            parts.observer.happened(&key, &events);
            answer(reply, Ok(outcome));
            send_trim(trim_on);
        };
        self.parts.settlements.when_durable(sequence, Box::new(settle));
    }

    fn answer_when_settled<R: 'static>(&self, reply: oneshot::Sender<Result<R, Failure>>, outcome: Result<R, Failure>) {
        match &self.loaded {
            Ok(loaded) if !self.desk.has_settled(loaded.handed_in) => {
                let settle = move || answer(reply, outcome);
                self.parts.settlements.when_durable(loaded.handed_in, Box::new(settle));
            }
            Ok(_) | Err(_) => answer(reply, outcome),
        }
    }
}

/// Deletes what the history no longer keeps, a bounded number at once; says from where on it is kept and whether there is
/// more to drop.
fn trim(key: &EnvironmentKey, next: &Environment, kept_from: u64, retention: u64, batch: &mut Batch) -> (u64, bool) {
    let wanted = *next.remembered_sessions(retention).start();
    let kept_until = wanted.min(kept_from + TRIM_AT_ONCE).max(kept_from);
    for number in kept_from..kept_until {
        batch.delete(keys::session(key, number));
    }
    (kept_until, kept_until < wanted)
}

/// A long history is dropped piece by piece, the next when the last is durable, so that it does not crowd out others. A
/// mailbox that is full has more urgent things in it; the next commit trims on.
fn send_trim(to: Option<Addr<EnvironmentActor>>) {
    if let Some(actor) = to {
        actor.try_send(Trim).ok();
    }
}

/// The caller may have gone; then nobody misses the answer.
fn answer<R>(reply: oneshot::Sender<R>, outcome: R) {
    reply.send(outcome).ok();
}

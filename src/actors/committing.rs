//! From a decision to its effects: the batch that makes it durable, and what happens once it is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use actix::prelude::*;

use super::batching::{Change, Committed};
use super::claiming::ClaimOutcome;
use super::crowd::{ActorCrowd, Held};
use super::deployments::{RecentDeployments, is_unfinished};
use super::environment::{EnvironmentActor, Home, deliver};
use super::environments::{Failure, Parts};
use super::history::{RecentPages, send_trim};
use super::stored::{Keeping, StoredEnvironment};
use crate::domain::{
    self, ASK_WITHIN_MILLIS, Agent, Command, DeploymentId, Effect, Environment, Kept, Now, Outcome, Session, SessionId,
    Standing, Tick, Ticket, Timestamp, Transition,
};
use crate::store::{Batch, Sequence, StoreError};

/// The environment as of the last command, durable or not.
pub struct Loaded {
    pub environment: Arc<Environment>,
    pub handed_in: Sequence,
    /// When somebody in the queue may lose their place for want of a sign of life.
    pub queue_due: Option<Tick>,
    /// When to try again what the store has refused.
    pub retry_at: Option<Tick>,
    pub keeping: Keeping,
    pub recent: RecentPages,
    /// Whether the store says that something here runs out by itself.
    pub marked: bool,
    /// Whether it says that a deployment here has not ended.
    pub unfinished: bool,
    pub deployments: RecentDeployments,
    armed: Option<Tick>,
    reported: Option<(bool, u64, Option<Timestamp>)>,
}

impl Loaded {
    pub fn new(stored: StoredEnvironment, settled: Sequence, now: Tick) -> Self {
        let StoredEnvironment { environment, keeping } = stored;
        Self {
            handed_in: settled,
            queue_due: environment.queue.has_durable().then_some(now),
            retry_at: None,
            keeping,
            recent: RecentPages::default(),
            marked: environment.lock.as_ref().is_some_and(|lock| lock.expiry().is_some()),
            unfinished: is_unfinished(&environment),
            deployments: RecentDeployments::default(),
            armed: None,
            reported: None,
            environment: Arc::new(environment),
        }
    }

    fn wake(&self) -> Option<Tick> {
        let lock = self.environment.lock.as_ref().and_then(Session::expiry).map(|(until, _)| until.due);
        let queue = self.queue_due.filter(|_| self.environment.queue.has_durable());
        [lock, queue, self.retry_at].into_iter().flatten().min()
    }
}

/// A command that was decided and handed in.
pub struct Executed<R> {
    pub reply: R,
    pub settlement: Settlement,
}

/// What is to happen when the store is durable up to a place.
pub struct Settlement {
    sequence: Sequence,
    view: Option<Arc<Environment>>,
    changed: Vec<SessionId>,
    deployments: Vec<DeploymentId>,
    effects: Vec<Effect>,
    granted: Option<Granted>,
    trim_on: bool,
}

/// One who waited has the lock.
struct Granted {
    ticket: Ticket,
    held: Option<Held>,
    session: Session,
    outsider: bool,
}

impl EnvironmentActor {
    /// Decides, and hands in what comes of it, which is the doing of `by`; `record` may add to the batch. If the store refuses, nothing has changed.
    pub(super) fn execute<C: Command>(
        &mut self,
        mut command: C,
        by: Option<&Agent>,
        record: impl FnOnce(&C::Reply, &mut Batch, Timestamp),
    ) -> Result<Executed<C::Reply>, Failure> {
        let home = self.home.clone();
        let parts = &home.environments.parts;
        let loaded = self.loaded.as_ref().map_err(StoreError::clone)?;
        if let Some(subject) = command.subject()
            && loaded.environment.session(subject.id).is_none()
        {
            subject.ended = loaded.recall(parts, &home.key, subject.id)?.map(Box::new);
        }
        if let Some(target) = command.deployment()
            && loaded.environment.unfinished_deployment(target.id).is_none()
        {
            target.ended = loaded.recall_deployment(parts, &home.key, target.id)?.map(Box::new);
        }
        let now = (parts.clock)();
        let (pipeline, pool) = (&home.key.pipeline, &*home.pool);
        let mut crowd = ActorCrowd { held: &self.held, parts, pipeline, pool, now: now.tick, taken: None };
        let Transition { next, outcome, reply } = domain::decide(&loaded.environment, command, now, &mut crowd)?;

        match self.hand_in(&next, &outcome, by, now, |batch| record(&reply, batch, now.at)) {
            Ok(committed) => {
                let settlement = self.accept(Arc::new(next), outcome, committed, now);
                Ok(Executed { reply, settlement })
            }
            Err(error) => {
                if let Some(granted) = outcome.granted.filter(|granted| granted.outsider) {
                    // It is offered to others, and not to us again at once.
                    self.report_unavailable();
                    self.home.pool.put_back(&self.home.environments, granted.waiter.ticket);
                }
                Err(error.into())
            }
        }
    }

    /// Hands what a decision changes to the store.
    fn hand_in(
        &self,
        next: &Environment,
        outcome: &Outcome,
        by: Option<&Agent>,
        now: Now,
        record: impl FnOnce(&mut Batch),
    ) -> Result<Committed, StoreError> {
        let loaded = self.loaded.as_ref().map_err(StoreError::clone)?;
        let mut change = Change::new(&self.home.environments.parts, &self.home.key, loaded);
        change.deployments(next, outcome)?;
        change.environment(next, outcome, now)?;
        change.queue(outcome);
        change.events(outcome, by, now);
        self.record_grant(outcome, &mut change.batch, now);
        record(&mut change.batch);
        change.commit()
    }

    /// The answer to one who waited with a key is kept with the grant.
    fn record_grant(&self, outcome: &Outcome, batch: &mut Batch, now: Now) {
        let Some(granted) = &outcome.granted else { return };
        let session = || Box::new(granted.session.clone());
        let answer = || ClaimOutcome::Granted { environment: self.home.key.clone(), session: session() };
        let mut keep = |held: &Held| {
            if let Some(keyed) = &held.keyed {
                keyed.record(batch, &answer(), now.at);
            }
        };
        if granted.outsider {
            self.home.pool.with_taken(granted.waiter.ticket, keep);
        } else if let Some(held) = self.held.get(&granted.waiter.ticket) {
            keep(held);
        }
    }

    /// The environment is what was decided, from now on.
    pub(super) fn accept(
        &mut self,
        next: Arc<Environment>,
        outcome: Outcome,
        committed: Committed,
        now: Now,
    ) -> Settlement {
        let Committed { sequence, pages, keeping, traces, trim_on } = committed;
        let Outcome { ended, left, enqueued, dequeued, granted, deployments: records, .. } = outcome;
        let (blueprints, effects) = (outcome.blueprints, outcome.effects);
        let parts = &self.home.environments.parts;
        let granted = granted.map(|granted| {
            let ticket = granted.waiter.ticket;
            let held = if granted.outsider { self.home.pool.granted(ticket) } else { self.held.remove(&ticket) };
            parts.forget(&granted.waiter);
            Granted { ticket, held, session: granted.session, outsider: granted.outsider }
        });
        // After the one who got the lock is out of it: it must hear of that, or it is taken back.
        for waiter in &dequeued {
            parts.forget(waiter);
            // One whose client is told something else has its answer taken by who tells it.
            if self.held.get(&waiter.ticket).is_some_and(|held| held.reply.is_closed()) {
                self.held.remove(&waiter.ticket);
            }
        }

        let Ok(loaded) = &mut self.loaded else { unreachable!("what is not loaded decides nothing") };
        let before = std::mem::replace(&mut loaded.environment, next);
        parts.waiting.fetch_add(usize::from(enqueued.is_some()), Ordering::Relaxed);
        parts.waiting.fetch_sub(dequeued.len(), Ordering::Relaxed);
        parts.left.fetch_add(left.len(), Ordering::Relaxed);
        let next = &loaded.environment;
        let mut changed: Vec<_> = ended.iter().chain(&left).map(|session| session.id).collect();
        if let Some(lock) = &next.lock
            && before.lock.as_ref().is_none_or(|old| (old.id, old.revision) != (lock.id, lock.revision))
        {
            changed.push(lock.id);
        }
        let moved = before.revision != next.revision || enqueued.is_some() || !dequeued.is_empty();
        loaded.marked = next.lock.as_ref().is_some_and(|lock| lock.expiry().is_some());
        loaded.unfinished = is_unfinished(next);
        loaded.keeping = keeping;
        loaded.handed_in = sequence;
        if enqueued.is_some_and(|waiter| waiter.is_durable()) && loaded.queue_due.is_none() {
            loaded.queue_due = Some(now.tick.plus(ASK_WITHIN_MILLIS));
        }
        let desk = &self.home.desk;
        loaded.recent.advance(pages, sequence, |written| desk.has_settled(written));
        let deployments = records.iter().map(|record| record.deployment.id).collect();
        loaded.deployments.advance(records, blueprints, traces, sequence, |written| desk.has_settled(written));
        let view = moved.then(|| loaded.environment.clone());
        self.note_decided(before.held_back);
        Settlement { sequence, view, changed, deployments, effects, granted, trim_on }
    }

    /// Does what is to be done when it is durable, and then `answer`.
    pub(super) fn settle(
        &mut self,
        settlement: Settlement,
        context: &mut Context<Self>,
        answer: impl FnOnce() + 'static,
    ) {
        let sequence = settlement.sequence;
        let trim_on = settlement.trim_on.then(|| context.address());
        if self.home.desk.has_settled(sequence) {
            self.settled_now(settlement);
            answer();
            send_trim(trim_on);
            return;
        }
        let home = self.home.clone();
        let settle = move || {
            match &settlement.view {
                Some(view) => home.desk.publish(view.clone(), sequence),
                None => home.desk.settle(sequence),
            }
            settlement.happen(&home);
            answer();
            send_trim(trim_on);
        };
        self.parts().settlements.when_durable(sequence, Box::new(settle));
    }

    fn settled_now(&self, settlement: Settlement) {
        if let Some(view) = &settlement.view {
            self.home.desk.publish(view.clone(), settlement.sequence);
        }
        settlement.happen(&self.home);
    }

    /// Tells the pool how the environment stands, if it wants to know and does not. Says whether somebody there wants it.
    pub(super) fn report(&mut self) -> bool {
        let Ok(loaded) = &mut self.loaded else { return false };
        if !self.home.pool.is_active() {
            loaded.reported = None;
            return false;
        }
        let environment = &loaded.environment;
        let standing = (environment.is_vacant(), environment.configuration_revision, environment.last_used);
        if loaded.reported == Some(standing) {
            return false;
        }
        loaded.reported = Some(standing);
        self.home.pool.report(&self.home.environments.parts, &self.home.key.name, standing_of(environment))
    }

    /// The same although nothing may have changed: an offer has been answered.
    pub(super) fn report_anew(&mut self) {
        if let Ok(loaded) = &mut self.loaded {
            loaded.reported = None;
        }
        self.report();
    }

    /// Tells the pool that the environment cannot be had for now, whatever it says of itself. The next report says more.
    pub(super) fn report_unavailable(&mut self) {
        let Ok(loaded) = &mut self.loaded else { return };
        loaded.reported = None;
        let configuration = loaded.environment.configuration.clone();
        let standing = configuration.map_or(Standing::Gone, |configuration| Standing::Taken { configuration });
        self.home.pool.report(&self.home.environments.parts, &self.home.key.name, standing);
    }

    /// Sees to it that the environment is looked at when something here may have run out.
    pub(super) fn arm(&mut self) {
        let Ok(loaded) = &mut self.loaded else { return };
        let wake = loaded.wake();
        let sooner = match (wake, loaded.armed) {
            (Some(wake), Some(armed)) => wake < armed,
            (Some(_), None) => true,
            (None, armed) => armed.is_some(),
        };
        // One that is armed too early only looks, and is armed again.
        if sooner {
            loaded.armed = wake;
            self.home.environments.parts.deadlines.arm(&self.home.key, wake);
        }
    }

    /// The deadline that was armed has come.
    pub(super) fn disarmed(&mut self) {
        if let Ok(loaded) = &mut self.loaded {
            loaded.armed = None;
            if loaded.retry_at.take().is_some() {
                // What the store refused may have been an offer; the pool has not heard since how the environment stands.
                loaded.reported = None;
            }
        }
    }
}

pub(super) fn standing_of(environment: &Environment) -> Standing {
    match &environment.configuration {
        None => Standing::Gone,
        Some(configuration) if environment.is_vacant() => {
            Standing::Free { configuration: configuration.clone(), last_used: environment.last_used }
        }
        Some(configuration) => Standing::Taken { configuration: configuration.clone() },
    }
}

impl Settlement {
    /// Readers find what is new before anybody is told to look.
    fn happen(self, home: &Home) {
        let Home { key, environments, pool, .. } = home;
        let parts = &environments.parts;
        if let Some(granted) = self.granted.as_ref().filter(|granted| granted.outsider) {
            pool.settled(granted.ticket);
        }
        if self.view.is_some() {
            parts.watchers.environment_changed(key);
        }
        for session in self.changed {
            parts.watchers.session_changed(session);
        }
        for deployment in self.deployments {
            parts.watchers.deployment_changed(deployment);
        }
        for effect in self.effects {
            parts.have_done(key, effect);
        }
        if let Some(Granted { held: Some(held), session, .. }) = self.granted {
            let session = Box::new(session);
            deliver(environments, held, ClaimOutcome::Granted { environment: key.clone(), session });
        }
    }
}

impl Parts {
    /// Nobody does anything before there is an executor; when there is, what has begun by then is looked at anew.
    fn have_done(&self, key: &domain::EnvironmentKey, effect: Effect) {
        let Some(executor) = self.executor.get() else { return };
        match effect {
            Effect::RunStage(order) => executor.run_stage(key, *order),
            Effect::Stop(deployment) => executor.stop(key, deployment),
            Effect::Sweep(deployment) => executor.sweep(key, deployment),
        }
    }

    /// One who waited no longer does.
    pub(super) fn forget(&self, waiter: &domain::Waiter) {
        match &waiter.kept {
            Kept::ByConnection => {}
            Kept::ByKey(place) => {
                self.places.remove(&place.record);
            }
            Kept::ByAsking => {
                self.asked.remove(&waiter.ticket);
            }
        }
    }
}

//! Observes the clients and the server, and fails when something forbidden happens.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::log::WaitsFor;
use super::world::{RequestKind, World};
use crate::samples::number;
use crate::*;

pub struct Witness {
    /// The waiters, by their arrivals and departures.
    pub waiting: BTreeMap<Ticket, SeenWaiter>,
    /// Per operation: the grant, and how much of the log must survive for it to count.
    granted: BTreeMap<usize, (usize, SessionId)>,
    /// Per environment: the session that received each fencing token.
    tokens: Vec<BTreeMap<u64, SessionId>>,
    /// Per environment: the sessions whose clients believe that they hold the lock.
    believed: Vec<BTreeSet<SessionId>>,
    /// Until when their clients were told they hold the lock without further activity.
    promised: BTreeMap<SessionId, Timestamp>,
    /// Sessions whose clients were told that they have ended.
    over: BTreeSet<SessionId>,
    /// The running deployments.
    pub running: Vec<Option<DeploymentId>>,
    /// Granted sessions whose client may never learn of the grant: the server crashed before it could answer, or the
    /// client polled without waiting for the answer. Only the client's key or a maintainer can resolve that.
    pub stranded: BTreeSet<SessionId>,
}

pub struct SeenWaiter {
    turn: Turn,
    place: WaitsFor,
    /// Whether the client keeps its place by polling.
    asks: bool,
}

/// The cause of a decision, as far as it justifies the outcome.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cause {
    pub asker: Option<usize>,
    /// The waiter that leaves at its client's request.
    pub lets_go: Option<Ticket>,
    pub forced: bool,
}

impl Witness {
    pub fn new(count: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            granted: BTreeMap::new(),
            tokens: vec![BTreeMap::new(); count],
            believed: vec![BTreeSet::new(); count],
            promised: BTreeMap::new(),
            over: BTreeSet::new(),
            running: vec![None; count],
            stranded: BTreeSet::new(),
        }
    }

    /// The client has released the session, knows that it has ended, or is gone.
    pub fn believed_no_more(&mut self, session: SessionId) {
        self.believed.iter_mut().for_each(|believed| {
            believed.remove(&session);
        });
    }

    /// The client may never learn of the grant, unless it already knows.
    pub fn strand(&mut self, index: usize, holder: &Session) {
        let told = holder.fencing_token().and_then(|token| self.tokens[index].get(&token));
        if told != Some(&holder.id) {
            self.stranded.insert(holder.id);
        }
    }

    pub fn ended(&mut self, session: SessionId) {
        self.over.insert(session);
    }
}

impl World {
    /// Runs before a decision takes effect.
    pub fn check_decision(
        &self,
        index: usize,
        before: &Environment,
        next: &Environment,
        outcome: &Outcome,
        cause: Cause,
    ) {
        assert_eq!(invariants::check(next), Ok(()));
        assert_eq!(invariants::check_step(before, next), Ok(()));
        let holder = next.lock.as_ref().filter(|holder| before.lock.as_ref().map(|lock| lock.id) != Some(holder.id));
        if let Some(holder) = holder {
            assert!(!next.configuration.as_ref().unwrap().disabled, "what is out of service was handed out");
            assert!(cause.forced || next.reset.is_none(), "what is being reset was handed out");
            self.check_grant(index, holder, outcome, cause);
        }
        if let Some(lock) = next.lock.as_ref().filter(|lock| self.witness.believed[index].contains(&lock.id)) {
            let unseen = lock.claimed.as_ref().is_some_and(|claimed| claimed.unseen_until.is_some());
            assert!(!unseen, "{} will end although its client has it", lock.id);
        }
        for waiter in &outcome.dequeued {
            let granted = outcome.granted.as_ref().is_some_and(|granted| granted.waiter.ticket == waiter.ticket);
            let excused = granted || cause.lets_go == Some(waiter.ticket);
            assert!(excused || !self.keeps_place(waiter.ticket), "{:?} lost its place", waiter.ticket);
        }
        for session in outcome.ended.iter().filter(|session| self.witness.believed[index].contains(&session.id)) {
            match session.ended.as_ref().unwrap().how {
                EndedHow::Expired(Expiry::Ttl) => {
                    let promised = self.witness.promised[&session.id];
                    assert!(promised <= self.now.at, "{} ended before its time", session.id);
                }
                EndedHow::Overridden(_) | EndedHow::Expired(Expiry::MaxHold) => {}
                how @ (EndedHow::Released | EndedHow::Expired(Expiry::Unasked | Expiry::Vanished)) => {
                    panic!("{} was {how:?} although its client has it", session.id)
                }
            }
        }
        if next.is_vacant() {
            self.check_nobody_is_ready(index, outcome);
        }
    }

    fn check_grant(&self, index: usize, holder: &Session, outcome: &Outcome, cause: Cause) {
        let first_request = number(holder.id.seed) as usize;
        let plan = self.plan(first_request).expect("only claims are granted");
        let before = self.witness.granted.get(&plan.operation);
        assert!(before.is_none(), "{} has {before:?} and now {} as well", plan.operation, holder.id);
        let turn = Turn { priority: Reverse(plan.priority), ticket: plan.ticket };
        let there = match &outcome.granted {
            Some(granted) => {
                assert_eq!(granted.waiter.turn(), turn);
                assert!(self.is_for(&self.witness.waiting[&plan.ticket], index), "it asked for another one");
                self.is_there(plan.ticket, &self.witness.waiting[&plan.ticket])
            }
            None => cause.asker.is_some_and(|request| self.requests[request].open),
        };
        assert!(there, "{} was granted to a client that is gone", holder.id);
        let rivals = self.witness.waiting.iter().filter(|(ticket, waiter)| {
            !cause.forced && self.is_for(waiter, index) && self.is_there(**ticket, waiter) && waiter.turn < turn
        });
        let overtaken: Vec<_> = rivals.map(|(ticket, _)| ticket).collect();
        assert!(overtaken.is_empty(), "{turn:?} overtakes {overtaken:?}");
    }

    fn check_nobody_is_ready(&self, index: usize, outcome: &Outcome) {
        let gone = |ticket: &Ticket| outcome.dequeued.iter().any(|waiter| waiter.ticket == *ticket);
        let waiters =
            self.witness.waiting.iter().filter(|(ticket, waiter)| self.is_for(waiter, index) && !gone(ticket));
        let ready: Vec<_> =
            waiters.filter(|(ticket, waiter)| self.is_there(**ticket, waiter)).map(|waiter| waiter.0).collect();
        assert!(ready.is_empty(), "environment {index} is free, and kept from {ready:?}");
    }

    fn is_for(&self, waiter: &SeenWaiter, index: usize) -> bool {
        match &waiter.place {
            WaitsFor::Environment(wanted) => *wanted == index,
            WaitsFor::Pool(wanted) => {
                self.server.environments[index].configuration.as_ref().is_some_and(|c| c.has_labels(wanted))
            }
        }
    }

    /// Whether the lock may be granted to this waiter.
    fn is_there(&self, ticket: Ticket, waiter: &SeenWaiter) -> bool {
        match self.server.held.get(&ticket) {
            Some(request) => self.requests[*request].open,
            None => waiter.asks && self.keeps_place(ticket),
        }
    }

    /// Whether the waiter must not lose its place yet.
    fn keeps_place(&self, ticket: Ticket) -> bool {
        match (self.server.held.get(&ticket), self.server.asked.get(&ticket)) {
            (Some(request), _) => self.requests[*request].open,
            (None, Some(asked)) => self.now.tick < asked.plus(60_000),
            (None, None) => false,
        }
    }

    /// Runs after a decision was handed to the log.
    pub fn record_decision(&mut self, index: usize, holder: Option<&Session>, outcome: &Outcome) {
        let written = self.server.written[index];
        if let Some(waiter) = &outcome.enqueued {
            self.witness_arrival(waiter, &WaitsFor::Environment(index));
        }
        for waiter in outcome.dequeued.iter().chain(outcome.granted.iter().map(|granted| &granted.waiter)) {
            self.witness_departure(waiter.ticket);
        }
        if let Some(holder) = holder {
            let operation = self.plan(number(holder.id.seed) as usize).unwrap().operation;
            self.witness.granted.insert(operation, (written, holder.id));
        }
        let running = &mut self.witness.running[index];
        for event in &outcome.events {
            if event.event_type() == EventType::DeploymentStarted {
                assert_eq!(*running, None, "a deployment was started while another runs");
                *running = event.deployment;
            } else if event.deployment.is_some() && event.deployment == *running {
                let over =
                    [EventType::DeploymentSucceeded, EventType::DeploymentFailed, EventType::DeploymentCancelled];
                running.take_if(|_| over.contains(&event.event_type()));
            }
        }
    }

    pub fn witness_arrival(&mut self, waiter: &Waiter, place: &WaitsFor) {
        let seen = SeenWaiter { turn: waiter.turn(), place: place.clone(), asks: waiter.kept_by == KeptBy::Polling };
        assert!(self.witness.waiting.insert(waiter.ticket, seen).is_none(), "two wait under one ticket");
    }

    pub fn witness_departure(&mut self, ticket: Ticket) {
        self.witness.waiting.remove(&ticket);
    }

    /// A client learns that it holds the lock. It may already have lost the lock again, but no other client may believe
    /// to hold it.
    pub fn check_told(&mut self, index: usize, session: &Session) {
        assert_eq!(session.status(), SessionStatus::Active);
        let durable = &self.log.stored;
        let token = session.fencing_token().unwrap();
        let before = self.witness.tokens[index].insert(token, session.id);
        assert!(before.is_none_or(|before| before == session.id), "the token {token} was given to two");
        self.witness.stranded.remove(&session.id);
        self.witness.believed[index].retain(|id| !durable.ended.contains_key(id));
        if durable.ended.contains_key(&session.id) {
            return;
        }
        let holder = durable.environments[index].lock.as_ref().map(|lock| lock.id);
        assert_eq!(holder, Some(session.id), "what was answered is not durable");
        self.witness.believed[index].insert(session.id);
        let believed = &self.witness.believed[index];
        assert_eq!(believed.len(), 1, "environment {index} is held more than once: {believed:?}");
        if let Some(lease) = session.claimed.as_ref().and_then(|claimed| claimed.lease) {
            self.witness.promised.insert(session.id, lease.until.at);
        }
    }

    /// Runs after a crash, before the restart: everything that was answered still exists.
    pub fn check_survivors(&mut self) {
        let stored = &self.log.stored;
        let survived = self.log.durable();
        self.witness.granted.retain(|_, (written, _)| *written <= survived);
        for (index, environment) in stored.environments.iter().enumerate() {
            let holder = environment.lock.as_ref();
            for session in &self.witness.believed[index] {
                let there = holder.is_some_and(|holder| holder.id == *session) || stored.ended.contains_key(session);
                assert!(there, "{session} was answered and is lost");
            }
            let newest = self.witness.tokens[index].keys().last().copied().unwrap_or_default();
            assert!(environment.fencing_token >= newest, "the fencing token has gone back");
            if let Some(holder) = holder {
                let unseen = holder.claimed.as_ref().is_some_and(|claimed| claimed.unseen_until.is_some());
                if !unseen {
                    self.witness.strand(index, holder);
                }
            }
        }
        for session in &self.witness.over {
            assert!(stored.ended.contains_key(session), "{session} was answered as ended, and that is lost");
        }
    }

    /// Runs after a start: the waiters are those of the log, and no lease is shorter than promised or longer than its
    /// TTL.
    pub fn recount(&mut self) {
        for holder in self.server.environments.iter().filter_map(|environment| environment.lock.as_ref()) {
            let promised = self.witness.promised.get(&holder.id);
            let lease = holder.claimed.as_ref().unwrap().lease;
            let until = lease.map(|lease| lease.until.at);
            assert!(promised.is_none_or(|promised| until >= Some(*promised)), "a heartbeat of {} is lost", holder.id);
            let whole = lease.map(|lease| self.now.tick.plus(i64::from(lease.ttl_seconds) * 1000));
            assert!(lease.map(|lease| lease.until.due) <= whole, "{} lasts longer than it may", holder.id);
        }
        self.witness.waiting.clear();
        for (place, waiter) in self.log.stored.waiting.clone().into_values() {
            self.witness_arrival(&waiter, &place);
        }
        let running = self.log.stored.environments.iter().map(|environment| environment.current_deployment());
        self.witness.running = running.map(|deployment| deployment.map(|d| d.id)).collect();
    }

    /// Runs when no message is pending: no waiter is missed, and the queues are as witnessed.
    pub fn check_at_rest(&self) {
        for (index, environment) in self.server.environments.iter().enumerate() {
            if environment.is_vacant() {
                self.check_nobody_is_ready(index, &Outcome::default());
            }
            let queue: Vec<_> = environment.queue.iter().map(|waiter| waiter.turn()).collect();
            let mut seen: Vec<_> = self.waiters(|place| *place == WaitsFor::Environment(index));
            seen.sort_unstable();
            assert_eq!(queue, seen, "the queue of environment {index}");
            assert_eq!(self.witness.running[index], environment.current_deployment().map(|d| d.id));
        }
        for waiter in self.server.pool.iter() {
            let request = self.server.held.get(&waiter.ticket);
            let waits = request.and_then(|request| self.plan(*request)).is_none_or(|plan| plan.wait_millis > 0);
            assert!(waits, "{:?} does not wait on its connection, and is not answered", waiter.ticket);
        }
        let mut pool: Vec<_> = self.server.pool.iter().map(|waiter| waiter.turn()).collect();
        let mut seen: Vec<_> = self.waiters(|place| matches!(place, WaitsFor::Pool(_)));
        pool.sort_unstable();
        seen.sort_unstable();
        assert_eq!(pool, seen, "the pool");
    }

    fn waiters(&self, here: impl Fn(&WaitsFor) -> bool) -> Vec<Turn> {
        self.witness.waiting.values().filter(|waiter| here(&waiter.place)).map(|waiter| waiter.turn).collect()
    }

    /// At the end nobody holds a lock or waits, and every request is answered.
    pub fn check_end(&self) {
        for (index, environment) in self.server.environments.iter().enumerate() {
            assert_eq!(environment.lock_status(), LockStatus::Unlocked, "environment {index} is haunted");
            assert!(environment.queue.is_empty(), "somebody waits for environment {index} for ever");
        }
        assert!(self.server.pool.is_empty(), "somebody waits for any environment for ever");
        assert!(self.witness.waiting.is_empty() && self.server.held.is_empty() && self.server.asked.is_empty());
        assert!(self.server.in_flight.is_empty(), "a key is in flight for ever");
        let open = self.requests.iter().filter(|request| request.open).map(|request| &request.what);
        let unanswered: Vec<&RequestKind> = open.collect();
        assert!(unanswered.is_empty(), "never answered: {unanswered:?}");
    }
}

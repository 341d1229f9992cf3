//! A lock service that handles one request at a time: claims and queues, force-claims, releases, leases. Written
//! independently of the specification that it tests. Correct except for one optional fault.

use std::collections::HashMap;

use crate::linearizability::history::{Answer, Claim, Lock, Moment, Request, Session, Status};

/// A fault that happens once, at the first opportunity after some requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    TwoHolders,
    LostClaim,
    LostRelease,
    StaleRead,
    RepeatedToken,
    Overtaking,
    /// At a take-over: the new owner does not know a session in the queue.
    LostPlace,
    /// At a take-over: the new owner does not know the lock, and grants it to another.
    LostHolder,
}

/// Number of requests before a fault happens.
const BEFORE_FAULT: usize = 60;
/// After this time, only the server still remembers an ended state.
const STALE: Moment = 700_000_000;

/// One request, as sent by a client.
#[derive(Clone, Debug)]
pub struct Wish {
    /// None for a claim of any environment.
    pub environment: Option<usize>,
    pub request: Request,
    /// Whether this heartbeat is a deployment.
    pub deploys: bool,
}

#[derive(Default)]
pub struct Server {
    fault: Option<Fault>,
    pub planted: bool,
    performed: usize,
    /// Grants to waiting requests, still to be delivered.
    pub granted: Vec<(usize, Answer)>,
    environments: Vec<Environment>,
    /// Claims that wait for any environment.
    pool: Vec<Waiting>,
    /// Number of ended sessions that are kept for each environment.
    retention: u64,
    lives: HashMap<Session, Life>,
    next_session: u32,
    keys: HashMap<u32, Answer>,
    /// Granted requests that the client has not confirmed, with their sessions.
    unconfirmed: HashMap<usize, Session>,
}

#[derive(Default)]
struct Environment {
    fencing: u64,
    holder: Option<Session>,
    queue: Vec<Waiting>,
    shown: Vec<(Moment, Answer)>,
}

struct Waiting {
    ticket: usize,
    sent: Moment,
    entered: Moment,
    session: Option<Session>,
    claim: Claim,
    waits: bool,
}

struct Life {
    environment: usize,
    status: Status,
    fencing: Option<u64>,
    ttl: Option<Moment>,
    active: Moment,
    deployments: u64,
}

impl Server {
    pub fn new(environments: usize, retention: u64, fault: Option<Fault>) -> Self {
        let environments = (0..environments).map(|_| Environment::default()).collect();
        Self { fault, environments, retention, ..Self::default() }
    }

    /// Performs a request; None if it waits.
    pub fn perform(&mut self, ticket: usize, wish: &Wish, sent: Moment, now: Moment) -> Option<Answer> {
        self.performed += 1;
        let key = wish.request.key();
        if let Some(answer) = key.and_then(|key| self.keys.get(&key)) {
            return Some(answer.clone());
        }
        if key.is_some() && self.queues().flatten().any(|waiting| waiting.claim.key == key) {
            return Some(Answer::NothingDone);
        }
        let place = wish.environment.unwrap_or(0);
        let answer = match &wish.request {
            Request::Claim(claim) => self.claim(ticket, wish.environment, claim, (sent, now)),
            Request::ForceClaim { ttl, key } => Some(self.force_claim(place, *ttl, *key, now)),
            Request::Release(session) => Some(self.release(*session, now)),
            Request::Heartbeat(session) => Some(self.act(*session, wish.deploys, now)),
            Request::ReadEnvironment => Some(self.read(place, sent)),
            Request::ReadSession(session) => Some(self.read_session(*session)),
            Request::ReadQueue => {
                let shown = |waiting: &Waiting| waiting.session.filter(|_| waiting.claim.queues);
                Some(Answer::Queue(self.environments[place].queue.iter().map(shown).collect()))
            }
        };
        self.remember(now);
        answer
    }

    /// A session's environment and its number of deployments.
    pub fn about(&self, session: Session) -> Option<(usize, u64)> {
        self.lives.get(&session).map(|life| (life.environment, life.deployments))
    }

    /// Ends the wait of a request.
    pub fn tire(&mut self, ticket: usize) -> Option<Answer> {
        let (queue, place) = self.place_of(|waiting| waiting.ticket == ticket && waiting.waits)?;
        if let Some(session) = self.queue(queue)[place].session {
            self.queue(queue)[place].waits = false;
            return Some(Answer::Queued { session, position: place + 1 });
        }
        self.queue(queue).remove(place);
        Some(Answer::Locked { holder: queue.and_then(|environment| self.lock(environment)) })
    }

    /// Handles that the client of this request has disconnected without an answer.
    pub fn notice(&mut self, ticket: usize, now: Moment) {
        if let Some((queue, place)) = self.place_of(|waiting| waiting.ticket == ticket && waiting.waits) {
            self.leave(queue, place, Status::Expired);
        } else if let Some(session) = self.unconfirmed.remove(&ticket)
            && let Some(environment) = self.held_by(session)
        {
            self.pass_on(environment, Status::Expired, now);
        }
    }

    /// When the next lease expires.
    pub fn expiry(&self) -> Option<Moment> {
        (0..self.environments.len()).filter_map(|environment| self.expiry_of(environment)).min()
    }

    pub fn elapse(&mut self, now: Moment) {
        for environment in 0..self.environments.len() {
            if self.expiry_of(environment).is_some_and(|expiry| expiry <= now) {
                self.pass_on(environment, Status::Expired, now);
            }
        }
    }

    /// Restarts the server, or moves to another node in a take-over. Returns the requests that lost their place.
    pub fn restart(&mut self) -> Vec<usize> {
        self.unconfirmed.clear();
        let mut gone = Vec::new();
        while let Some((queue, place)) = self.place_of(|waiting| waiting.waits) {
            gone.push(self.leave(queue, place, Status::Expired).ticket);
        }
        gone
    }

    /// Applies the faults of a take-over.
    pub fn lose(&mut self) {
        if !self.environments[0].queue.is_empty() && self.plants(Fault::LostPlace) {
            let lost = self.environments[0].queue.remove(0);
            lost.session.map(|session| self.lives.remove(&session));
        }
        if self.environments[0].holder.is_some() && self.plants(Fault::LostHolder) {
            self.environments[0].holder.take().map(|holder| self.lives.remove(&holder));
        }
    }

    fn claim(
        &mut self,
        ticket: usize,
        wanted: Option<usize>,
        claim: &Claim,
        (sent, now): (Moment, Moment),
    ) -> Option<Answer> {
        let free = |environment: &usize| self.environments[*environment].holder.is_none();
        let free = wanted.map_or_else(|| (0..self.environments.len()).find(free), |wanted| Some(wanted).filter(free));
        let free = free.or_else(|| wanted.filter(|_| self.plants(Fault::TwoHolders)));
        if let Some(environment) = free {
            let before = (self.environments[environment].fencing, self.environments[environment].holder);
            let lock = self.grant(environment, None, claim.ttl, now);
            let answer = Answer::Granted { lock, overrode: None };
            self.note_grant(ticket, claim, lock, &answer);
            self.lose_claim(environment, lock, before);
            return Some(answer);
        }
        if !claim.waits() && !claim.queues {
            return Some(Answer::Locked { holder: wanted.and_then(|environment| self.lock(environment)) });
        }
        let session = claim.queues.then(|| self.new_session(wanted.unwrap_or(0)));
        let waiting = Waiting { ticket, sent, entered: now, session, claim: claim.clone(), waits: claim.waits() };
        let queue = self.queue(wanted);
        let place = queue.partition_point(|other| other.claim.priority >= claim.priority);
        queue.insert(place, waiting);
        session.filter(|_| !claim.waits()).map(|session| Answer::Queued { session, position: place + 1 })
    }

    fn note_grant(&mut self, ticket: usize, claim: &Claim, lock: Lock, answer: &Answer) {
        match claim.key {
            Some(key) => _ = self.keys.insert(key, answer.clone()),
            None => _ = self.unconfirmed.insert(ticket, lock.session),
        }
    }

    fn force_claim(&mut self, environment: usize, ttl: Option<Moment>, key: Option<u32>, now: Moment) -> Answer {
        let overrode = self.lock(environment);
        self.end(environment, Status::Overridden);
        let fencing = self.environments[environment].fencing;
        let lock = self.grant(environment, None, ttl, now);
        let answer = Answer::Granted { lock, overrode };
        self.keys.extend(key.map(|key| (key, answer.clone())));
        self.lose_claim(environment, lock, (fencing, None));
        answer
    }

    fn lose_claim(&mut self, environment: usize, lock: Lock, before: (u64, Option<Session>)) {
        if self.plants(Fault::LostClaim) {
            (self.environments[environment].fencing, self.environments[environment].holder) = before;
            self.lives.remove(&lock.session);
        }
    }

    fn release(&mut self, session: Session, now: Moment) -> Answer {
        if let Some(environment) = self.held_by(session) {
            let fencing = self.lives[&session].fencing;
            if !self.plants(Fault::LostRelease) {
                self.pass_on(environment, Status::Released, now);
            }
            return Answer::Session { status: Status::Released, fencing, position: None };
        }
        if let Some((queue, place)) = self.place_of(|waiting| waiting.session == Some(session)) {
            let waiting = self.leave(queue, place, Status::Released);
            if waiting.waits {
                self.granted.push((waiting.ticket, Answer::NothingDone));
            }
        }
        self.read_session(session)
    }

    fn act(&mut self, session: Session, deploys: bool, now: Moment) -> Answer {
        match self.known(session).map(|life| life.status) {
            None => return Answer::NoSuchSession,
            Some(Status::Active) => {}
            Some(status) => return Answer::NotHolding(status),
        }
        if let Some(life) = self.lives.get_mut(&session) {
            life.active = now;
            life.deployments += u64::from(deploys);
        }
        self.unconfirmed.retain(|_, unconfirmed| *unconfirmed != session);
        self.read_session(session)
    }

    fn read(&mut self, environment: usize, sent: Moment) -> Answer {
        let now = self.shown(environment);
        let shown = &self.environments[environment].shown;
        let old = shown.iter().rev().find(|(at, _)| *at + STALE < sent).map(|(_, shown)| shown.clone());
        match old.filter(|old| old.locks().next() != now.locks().next()) {
            Some(old) if self.plants(Fault::StaleRead) => old,
            Some(_) | None => now,
        }
    }

    pub fn read_session(&self, session: Session) -> Answer {
        let Some(life) = self.known(session) else { return Answer::NoSuchSession };
        let place = self.environments[life.environment].queue.iter().position(|other| other.session == Some(session));
        Answer::Session { status: life.status, fencing: life.fencing, position: place.map(|place| place + 1) }
    }

    pub fn shown(&self, environment: usize) -> Answer {
        Answer::Environment { lock: self.lock(environment), queue_length: self.environments[environment].queue.len() }
    }

    fn lock(&self, environment: usize) -> Option<Lock> {
        let session = self.environments[environment].holder?;
        Some(Lock { session, fencing: self.lives[&session].fencing? })
    }

    /// The session, if the server still knows it: the holder, a waiter, or an ended one within the retention.
    fn known(&self, session: Session) -> Option<&Life> {
        let life = self.lives.get(&session)?;
        let environment = &self.environments[life.environment];
        let newest_ended = environment.fencing - u64::from(environment.holder.is_some());
        let is_kept = |fencing: u64| fencing.saturating_add(self.retention) > newest_ended;
        Some(life).filter(|life| life.fencing.is_none_or(is_kept))
    }

    fn new_session(&mut self, environment: usize) -> Session {
        let session = Session(self.next_session);
        self.next_session += 1;
        let life = Life { environment, status: Status::Queued, fencing: None, ttl: None, active: 0, deployments: 0 };
        self.lives.insert(session, life);
        session
    }

    fn grant(&mut self, environment: usize, session: Option<Session>, ttl: Option<Moment>, now: Moment) -> Lock {
        if self.environments[environment].fencing == 0 || !self.plants(Fault::RepeatedToken) {
            self.environments[environment].fencing += 1;
        }
        let session = session.unwrap_or_else(|| self.new_session(environment));
        let place = &mut self.environments[environment];
        place.holder = Some(session);
        let (status, fencing) = (Status::Active, place.fencing);
        let life = Life { environment, status, fencing: Some(fencing), ttl, active: now, deployments: 0 };
        self.lives.insert(session, life);
        Lock { session, fencing }
    }

    fn end(&mut self, environment: usize, status: Status) {
        let holder = self.environments[environment].holder.take();
        if let Some(life) = holder.and_then(|session| self.lives.get_mut(&session)) {
            life.status = status;
        }
    }

    fn leave(&mut self, queue: Option<usize>, place: usize, status: Status) -> Waiting {
        let waiting = self.queue(queue).remove(place);
        if let Some(life) = waiting.session.and_then(|session| self.lives.get_mut(&session)) {
            life.status = status;
        }
        waiting
    }

    /// Grants the lock to the first in the queue, or to an earlier claim for any environment.
    fn pass_on(&mut self, environment: usize, status: Status, now: Moment) {
        self.end(environment, status);
        let of_queue = self.environments[environment].queue.first().map(|waiting| waiting.entered);
        let from_pool = self.pool.first().is_some_and(|any| of_queue.is_none_or(|entered| any.entered < entered));
        let place = if from_pool { 0 } else { self.first_served(environment) };
        let queue = self.queue(Some(environment).filter(|_| !from_pool));
        if let Some(Waiting { ticket, session, claim, waits, .. }) = (!queue.is_empty()).then(|| queue.remove(place)) {
            let lock = self.grant(environment, session, claim.ttl, now);
            if waits {
                let answer = Answer::Granted { lock, overrode: None };
                self.note_grant(ticket, &claim, lock, &answer);
                self.granted.push((ticket, answer));
            }
        }
        self.remember(now);
    }

    /// The index of the next waiter: the first; with the fault, the second, if the first was certainly queued before
    /// the second was sent: otherwise the fault could not be proved.
    fn first_served(&mut self, environment: usize) -> usize {
        let provable = match &self.environments[environment].queue[..] {
            [first, second, ..] => {
                !first.waits
                    && first.claim.priority == second.claim.priority
                    && first.entered + 50_000_000 < second.sent
            }
            _ => false,
        };
        usize::from(provable && self.plants(Fault::Overtaking))
    }

    fn expiry_of(&self, environment: usize) -> Option<Moment> {
        let life = &self.lives[&self.environments[environment].holder?];
        Some(life.active + life.ttl?)
    }

    fn held_by(&self, session: Session) -> Option<usize> {
        self.environments.iter().position(|environment| environment.holder == Some(session))
    }

    /// The queue of an environment; None selects the claims for any environment.
    fn queue(&mut self, environment: Option<usize>) -> &mut Vec<Waiting> {
        match environment {
            Some(environment) => &mut self.environments[environment].queue,
            None => &mut self.pool,
        }
    }

    fn queues(&self) -> impl Iterator<Item = &Vec<Waiting>> {
        self.environments.iter().map(|environment| &environment.queue).chain([&self.pool])
    }

    fn place_of(&self, wanted: impl Fn(&Waiting) -> bool) -> Option<(Option<usize>, usize)> {
        let found =
            self.queues().enumerate().find_map(|(number, queue)| Some((number, queue.iter().position(&wanted)?)));
        found.map(|(number, place)| (Some(number).filter(|number| *number < self.environments.len()), place))
    }

    fn remember(&mut self, now: Moment) {
        for environment in 0..self.environments.len() {
            let shown = self.shown(environment);
            self.environments[environment].shown.push((now, shown));
        }
    }

    fn plants(&mut self, fault: Fault) -> bool {
        let now = self.fault == Some(fault) && !self.planted && self.performed > BEFORE_FAULT;
        self.planted |= now;
        now
    }
}

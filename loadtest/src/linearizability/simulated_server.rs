//! Owns a server of one environment that does one request after the other. It is written on its own, not from the
//! specification that it is to try, and knows how to break its promises once.

use std::collections::{HashMap, HashSet};

use crate::linearizability::history::{Answer, Claim, Lock, Moment, Request, Session, Status};

/// What may be wrong, once, at the first opportunity after a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    TwoHolders,
    LostClaim,
    LostRelease,
    StaleRead,
    RepeatedToken,
    Overtaking,
    /// At a take-over: a session in the queue is not known to the new owner.
    LostPlace,
    /// At a take-over: the new owner does not know of the lock, and gives it to another.
    LostHolder,
}

/// Requests that go by before a fault is planted.
const BEFORE_FAULT: usize = 60;
/// A state that was left so long ago is in nobody's memory but the server's.
const STALE: Moment = 700_000_000;

pub enum Outcome {
    Answered(Answer),
    Waits,
}

pub struct Server {
    fault: Option<Fault>,
    pub planted: bool,
    performed: usize,
    pub sessions: u32,
    /// Grants to those who waited, for whoever delivers them.
    pub granted: Vec<(usize, Answer)>,
    fencing: u64,
    holder: Option<u32>,
    queue: Vec<Waiting>,
    lives: HashMap<u32, Life>,
    keys: HashMap<u32, Answer>,
    /// Requests whose grant its client has not confirmed, and whose session it is.
    unconfirmed: HashMap<usize, u32>,
    shown: Vec<(Moment, Answer)>,
    vanished: HashSet<usize>,
}

struct Waiting {
    request: usize,
    sent: Moment,
    entered: Moment,
    session: Option<u32>,
    claim: Claim,
    waits: bool,
}

struct Life {
    status: Status,
    fencing: Option<u64>,
    ttl: Option<Moment>,
    active: Moment,
}

impl Server {
    pub fn new(fault: Option<Fault>) -> Self {
        Self {
            fault,
            planted: false,
            performed: 0,
            sessions: 0,
            granted: Vec::new(),
            fencing: 0,
            holder: None,
            queue: Vec::new(),
            lives: HashMap::new(),
            keys: HashMap::new(),
            unconfirmed: HashMap::new(),
            shown: Vec::new(),
            vanished: HashSet::new(),
        }
    }

    pub fn perform(&mut self, index: usize, request: &Request, sent: Moment, now: Moment) -> Outcome {
        self.performed += 1;
        if self.vanished.contains(&index) {
            return Outcome::Answered(Answer::NothingDone);
        }
        let key = request.key();
        if let Some(answer) = key.and_then(|key| self.keys.get(&key)) {
            return Outcome::Answered(answer.clone());
        }
        let outcome = match request {
            Request::Claim(claim) => return self.claim(index, claim, sent, now),
            Request::ForceClaim { ttl, key } => {
                let overrode = self.lock();
                self.end(Status::Overridden);
                let lock = self.grant(None, *ttl, now);
                let answer = Answer::Granted { lock, overrode };
                self.keys.extend(key.map(|key| (key, answer.clone())));
                if self.plants(Fault::LostClaim) {
                    (self.fencing, self.holder) = (self.fencing - 1, None);
                    self.lives.remove(&lock.session.0);
                }
                answer
            }
            Request::Release(session) => self.release(session.0, now),
            Request::Heartbeat(session) => self.heartbeat(session.0, now),
            Request::ReadEnvironment => self.read(sent),
            Request::ReadSession(session) => self.read_session(session.0),
            Request::ReadQueue => {
                let shown = |waiting: &Waiting| waiting.session.filter(|_| waiting.claim.queues).map(Session);
                Answer::Queue(self.queue.iter().map(shown).collect())
            }
        };
        self.remember(now);
        Outcome::Answered(outcome)
    }

    /// It has waited long enough.
    pub fn tire(&mut self, index: usize) -> Option<Answer> {
        let place = self.queue.iter().position(|waiting| waiting.request == index && waiting.waits)?;
        if let Some(session) = self.queue[place].session {
            self.queue[place].waits = false;
            return Some(Answer::Queued { session: Session(session), position: place + 1 });
        }
        self.queue.remove(place);
        Some(Answer::Locked { holder: self.lock() })
    }

    /// The client of this request has gone without an answer.
    pub fn notice(&mut self, index: usize, now: Moment) {
        self.vanished.insert(index);
        if let Some(place) = self.queue.iter().position(|waiting| waiting.request == index && waiting.waits) {
            self.leave(place, Status::Expired);
        } else if let Some(session) = self.unconfirmed.remove(&index).filter(|session| self.holder == Some(*session)) {
            debug_assert!(self.lives.contains_key(&session));
            self.pass_on(Status::Expired, now);
        }
    }

    pub fn expiry(&self) -> Option<Moment> {
        let life = &self.lives[&self.holder?];
        Some(life.active + life.ttl?)
    }

    pub fn elapse(&mut self, now: Moment) {
        if self.expiry().is_some_and(|expiry| expiry <= now) {
            self.pass_on(Status::Expired, now);
        }
    }

    /// Of the same server, or on another node that takes over. Returns the requests that have lost their place.
    pub fn restart(&mut self) -> Vec<usize> {
        self.unconfirmed.clear();
        let mut gone = Vec::new();
        while let Some(place) = self.queue.iter().position(|waiting| waiting.waits) {
            gone.push(self.leave(place, Status::Expired).request);
        }
        gone
    }

    /// The faults of a take-over.
    pub fn lose(&mut self) {
        if !self.queue.is_empty() && self.plants(Fault::LostPlace) {
            let lost = self.queue.remove(0);
            lost.session.map(|session| self.lives.remove(&session));
        }
        if self.holder.is_some() && self.plants(Fault::LostHolder) {
            self.holder.take().map(|holder| self.lives.remove(&holder));
        }
    }

    fn claim(&mut self, request: usize, claim: &Claim, sent: Moment, now: Moment) -> Outcome {
        let two = self.holder.is_some() && self.plants(Fault::TwoHolders);
        if self.holder.is_none() || two {
            let before = (self.fencing, self.holder);
            let lock = self.grant(None, claim.ttl, now);
            let answer = Answer::Granted { lock, overrode: None };
            self.keys.extend(claim.key.map(|key| (key, answer.clone())));
            if claim.key.is_none() {
                self.unconfirmed.insert(request, lock.session.0);
            }
            if self.plants(Fault::LostClaim) {
                (self.fencing, self.holder) = before;
                self.lives.remove(&lock.session.0);
            }
            self.remember(now);
            return Outcome::Answered(answer);
        }
        if !claim.waits() && !claim.queues {
            return Outcome::Answered(Answer::Locked { holder: self.lock() });
        }
        let session = claim.queues.then(|| self.new_session(Status::Queued));
        let place = self.queue.partition_point(|other| other.claim.priority >= claim.priority);
        let waiting = Waiting { request, sent, entered: now, session, claim: claim.clone(), waits: claim.waits() };
        self.queue.insert(place, waiting);
        self.remember(now);
        match session.filter(|_| !claim.waits()) {
            Some(session) => Outcome::Answered(Answer::Queued { session: Session(session), position: place + 1 }),
            None => Outcome::Waits,
        }
    }

    fn release(&mut self, session: u32, now: Moment) -> Answer {
        if self.holder == Some(session) {
            let fencing = self.lives[&session].fencing;
            if !self.plants(Fault::LostRelease) {
                self.pass_on(Status::Released, now);
            }
            return Answer::Session { status: Status::Released, fencing, position: None };
        }
        let place = self.queue.iter().position(|waiting| waiting.session == Some(session));
        if let Some(place) = place {
            let waiting = self.leave(place, Status::Released);
            if waiting.waits {
                self.granted.push((waiting.request, Answer::NothingDone));
            }
        }
        self.read_session(session)
    }

    fn heartbeat(&mut self, session: u32, now: Moment) -> Answer {
        let Some(life) = self.lives.get_mut(&session) else { return Answer::NoSuchSession };
        if life.status != Status::Active {
            return Answer::NotHolding(life.status);
        }
        life.active = now;
        self.unconfirmed.retain(|_, unconfirmed| *unconfirmed != session);
        self.read_session(session)
    }

    fn read(&mut self, sent: Moment) -> Answer {
        let now = Answer::Environment { lock: self.lock(), queue_length: self.queue.len() };
        let old = self.shown.iter().rev().find(|(at, _)| *at + STALE < sent).map(|(_, shown)| shown.clone());
        match old.filter(|old| old.locks().next() != now.locks().next()) {
            Some(old) if self.plants(Fault::StaleRead) => old,
            Some(_) | None => now,
        }
    }

    fn read_session(&self, session: u32) -> Answer {
        let Some(life) = self.lives.get(&session) else { return Answer::NoSuchSession };
        let place = self.queue.iter().position(|waiting| waiting.session == Some(session));
        Answer::Session { status: life.status, fencing: life.fencing, position: place.map(|place| place + 1) }
    }

    fn lock(&self) -> Option<Lock> {
        let session = self.holder?;
        Some(Lock { session: Session(session), fencing: self.lives[&session].fencing? })
    }

    fn new_session(&mut self, status: Status) -> u32 {
        self.sessions += 1;
        let life = Life { status, fencing: None, ttl: None, active: 0 };
        self.lives.insert(self.sessions - 1, life);
        self.sessions - 1
    }

    fn grant(&mut self, session: Option<u32>, ttl: Option<Moment>, now: Moment) -> Lock {
        if self.fencing == 0 || !self.plants(Fault::RepeatedToken) {
            self.fencing += 1;
        }
        let session = session.unwrap_or_else(|| self.new_session(Status::Active));
        let life = Life { status: Status::Active, fencing: Some(self.fencing), ttl, active: now };
        self.lives.insert(session, life);
        self.holder = Some(session);
        Lock { session: Session(session), fencing: self.fencing }
    }

    fn end(&mut self, status: Status) {
        if let Some(life) = self.holder.take().and_then(|session| self.lives.get_mut(&session)) {
            life.status = status;
        }
    }

    fn leave(&mut self, place: usize, status: Status) -> Waiting {
        let waiting = self.queue.remove(place);
        if let Some(life) = waiting.session.and_then(|session| self.lives.get_mut(&session)) {
            life.status = status;
        }
        waiting
    }

    fn pass_on(&mut self, status: Status, now: Moment) {
        self.end(status);
        if self.queue.is_empty() {
            return self.remember(now);
        }
        // Provable only if the first was certainly there before the second was sent.
        let provable = self.queue.len() > 1
            && !self.queue[0].waits
            && self.queue[0].claim.priority == self.queue[1].claim.priority
            && self.queue[0].entered + 50_000_000 < self.queue[1].sent;
        let place = usize::from(provable && self.plants(Fault::Overtaking));
        let Waiting { request, session, claim, waits, .. } = self.queue.remove(place);
        let lock = self.grant(session, claim.ttl, now);
        if waits {
            self.unconfirmed.insert(request, lock.session.0);
            self.granted.push((request, Answer::Granted { lock, overrode: None }));
        }
        self.remember(now);
    }

    fn remember(&mut self, now: Moment) {
        self.shown.push((now, Answer::Environment { lock: self.lock(), queue_length: self.queue.len() }));
    }

    fn plants(&mut self, fault: Fault) -> bool {
        let now = self.fault == Some(fault) && !self.planted && self.performed > BEFORE_FAULT;
        self.planted |= now;
        now
    }
}

//! Owns the rules of the lock service, one request after the other: claims and their line, force-claims, releases,
//! leases.

use std::collections::{HashMap, VecDeque};

use crate::history::{Answer, SessionName, SessionStatus};

pub type Time = u64;

/// Which request waits, or is granted.
pub type Ticket = usize;

pub struct Grant {
    pub ticket: Ticket,
    pub environment: usize,
    pub at: Time,
    pub session: SessionName,
    pub fencing: u64,
}

pub enum Claimed {
    Granted(Grant),
    InLine,
    Locked,
}

pub struct Server {
    places: Vec<Place>,
    /// Those who wait for any, in order.
    pool: VecDeque<Waiter>,
    lives: HashMap<SessionName, Life>,
    arrived: u64,
    retention: u64,
}

#[derive(Default)]
struct Place {
    fencing: u64,
    holder: Option<SessionName>,
    line: VecDeque<Waiter>,
}

struct Waiter {
    arrival: u64,
    ticket: Ticket,
    ttl: Option<Time>,
}

struct Life {
    environment: usize,
    fencing: u64,
    status: SessionStatus,
    deployments: u64,
    ttl: Option<Time>,
    active: Time,
}

impl Server {
    pub fn new(environments: usize, retention: u64) -> Self {
        let places = (0..environments).map(|_| Place::default()).collect();
        Self { places, pool: VecDeque::new(), lives: HashMap::new(), arrived: 0, retention }
    }

    pub fn claim(
        &mut self,
        wanted: Option<usize>,
        waits: bool,
        ticket: Ticket,
        ttl: Option<Time>,
        now: Time,
    ) -> Claimed {
        self.arrived += 1;
        let waiter = Waiter { arrival: self.arrived, ticket, ttl };
        let free = |number: &usize| self.places[*number].holder.is_none();
        match wanted.map_or_else(|| (0..self.places.len()).find(free), |number| Some(number).filter(free)) {
            Some(number) => return Claimed::Granted(self.grant(number, waiter, now)),
            None if !waits => return Claimed::Locked,
            None => {}
        }
        match wanted {
            Some(number) => self.places[number].line.push_back(waiter),
            None => self.pool.push_back(waiter),
        }
        Claimed::InLine
    }

    pub fn force_claim(&mut self, environment: usize, ticket: Ticket, now: Time) -> Grant {
        if let Some(holder) = self.places[environment].holder.take() {
            self.lives.get_mut(&holder).unwrap().status = SessionStatus::Overridden;
        }
        self.arrived += 1;
        self.grant(environment, Waiter { arrival: self.arrived, ticket, ttl: None }, now)
    }

    /// The client of one who waits has gone.
    pub fn leave(&mut self, ticket: Ticket) {
        let lines = self.places.iter_mut().map(|place| &mut place.line).chain([&mut self.pool]);
        lines.for_each(|line| line.retain(|waiter| waiter.ticket != ticket));
    }

    /// With who has it next, if it was the holder and somebody waits.
    pub fn release(&mut self, session: &SessionName, now: Time) -> (Answer, Option<Grant>) {
        match self.remembered(session).map(|life| (life.environment, life.status)) {
            None => (not_found(), None),
            Some((environment, SessionStatus::Active)) => (Answer::Done, self.end(environment, now)),
            Some(_) => (Answer::Done, None),
        }
    }

    pub fn act(&mut self, session: &SessionName, deploys: bool, now: Time) -> Answer {
        if self.remembered(session).is_none() {
            return not_found();
        }
        let life = self.lives.get_mut(session).unwrap();
        if life.status != SessionStatus::Active {
            return Answer::Refused { status: 409, code: "session_expired".into() };
        }
        life.active = now;
        life.deployments += u64::from(deploys);
        Answer::Done
    }

    pub fn read(&self, environment: usize) -> Answer {
        let place = &self.places[environment];
        let fencing = if place.holder.is_some() { place.fencing } else { 0 };
        Answer::Environment { holder: place.holder.clone(), fencing, queue_length: place.line.len() as u64 }
    }

    pub fn read_session(&self, session: &SessionName) -> Answer {
        self.remembered(session).map_or_else(not_found, |life| Answer::Session {
            status: life.status,
            fencing: life.fencing,
            deployments: life.deployments,
        })
    }

    /// When the next lease runs out.
    pub fn next_expiry(&self) -> Option<Time> {
        self.places.iter().filter_map(|place| self.expiry(place)).min()
    }

    /// Ends what has run out, and says who has it next.
    pub fn expire(&mut self, now: Time) -> Option<Grant> {
        let place = (0..self.places.len()).find(|number| self.expiry(&self.places[*number]) == Some(now))?;
        self.end(place, now)
    }

    fn expiry(&self, place: &Place) -> Option<Time> {
        let life = &self.lives[place.holder.as_ref()?];
        Some(life.active + life.ttl?)
    }

    fn end(&mut self, environment: usize, now: Time) -> Option<Grant> {
        let holder = self.places[environment].holder.take()?;
        self.lives.get_mut(&holder).unwrap().status = SessionStatus::Ended;
        let arrival = |line: &VecDeque<Waiter>| line.front().map_or(u64::MAX, |waiter| waiter.arrival);
        let line = &mut self.places[environment].line;
        let next = if arrival(line) < arrival(&self.pool) { line.pop_front() } else { self.pool.pop_front() }?;
        Some(self.grant(environment, next, now))
    }

    fn grant(&mut self, environment: usize, Waiter { ticket, ttl, .. }: Waiter, now: Time) -> Grant {
        let place = &mut self.places[environment];
        place.fencing += 1;
        let fencing = place.fencing;
        let session = SessionName(format!("ses_{environment}_{fencing}").into());
        place.holder = Some(session.clone());
        let life = Life { environment, fencing, status: SessionStatus::Active, deployments: 0, ttl, active: now };
        self.lives.insert(session.clone(), life);
        Grant { ticket, environment, at: now, session, fencing }
    }

    /// The newest that have ended, and the holder.
    fn remembered(&self, session: &SessionName) -> Option<&Life> {
        let life = self.lives.get(session)?;
        let place = &self.places[life.environment];
        let newest_ended = place.fencing - u64::from(place.holder.is_some());
        Some(life).filter(|life| life.fencing + self.retention > newest_ended)
    }
}

fn not_found() -> Answer {
    Answer::Refused { status: 404, code: "session_not_found".into() }
}

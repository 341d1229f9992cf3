//! Owns the time between clients and server: when a request is sent, when it takes effect, and when its answer is
//! there, if it ever is.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::clients::{Client, TICK, Wish};
use super::server::{Claimed, Grant, Server, Ticket, Time};
use super::tape::Tape;
use crate::history::{Answer, History, Moment, Record, Request};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Sends(usize),
    Arrives(Ticket),
    IsTold(Ticket),
    GivesUp(Ticket),
    /// The server sees that its client has gone.
    IsMissed(Ticket),
}

struct Flight {
    client: usize,
    wish: Wish,
    sent: Time,
    in_line_at: Option<Time>,
    answer: Option<(Option<usize>, Answer)>,
    /// Its client does not wait for the answer, or no longer.
    lost: bool,
    over: bool,
}

/// What an idempotency key stands for.
enum Kept {
    UnderWay(Ticket),
    Granted(usize, Answer),
}

pub struct World {
    tape: Tape,
    server: Server,
    clients: Vec<Client>,
    flights: Vec<Flight>,
    keys: HashMap<usize, Kept>,
    events: BinaryHeap<Reverse<(Time, usize, Event)>>,
    scheduled: usize,
    history: History,
    /// The first client is somebody else's, and what it does is not recorded.
    stranger: bool,
    closing: bool,
}

impl World {
    pub fn new(mut tape: Tape) -> Self {
        let environments = 1 + tape.below(3);
        let clients = (0..2 + tape.below(6)).map(|_| Client::new(2 + tape.below(10))).collect();
        let retention = if tape.one_in(2) { 2 } else { 1_000 };
        let stranger = tape.one_in(4);
        let names = (0..environments).map(|number| format!("load-{number}")).collect();
        let history = History { environments: names, alone: !stranger, retention, ..History::default() };
        let server = Server::new(environments, retention);
        let (flights, keys, events) = (Vec::new(), HashMap::new(), BinaryHeap::new());
        Self { tape, server, clients, flights, keys, events, scheduled: 0, history, stranger, closing: false }
    }

    pub fn run(mut self) -> History {
        (0..self.clients.len()).for_each(|client| self.later(0, 0..20, Event::Sends(client)));
        let mut now = 0;
        loop {
            while let Some(next) = self.next(Time::MAX) {
                now = next;
            }
            // Those who still wait have had enough, one after the other, and do not come back.
            self.closing = true;
            let Some(ticket) = self.flights.iter().position(|flight| !flight.over && !flight.lost) else { break };
            self.flights[ticket].lost = true;
            self.later(now, 0..2, Event::GivesUp(ticket));
        }
        self.audit(now + 1_000 * TICK);
        self.history
    }

    /// Whatever happens next, and when.
    fn next(&mut self, until: Time) -> Option<Time> {
        let event = self.events.peek().map(|Reverse((at, _, _))| *at);
        if let Some(expiry) =
            self.server.next_expiry().filter(|at| event.is_none_or(|event| *at <= event) && *at <= until)
        {
            if let Some(grant) = self.server.expire(expiry) {
                self.granted(grant);
            }
            return Some(expiry);
        }
        let Reverse((now, _, event)) = self.events.pop()?;
        match event {
            Event::Sends(client) => self.send(client, now),
            Event::Arrives(ticket) => self.arrive(ticket, now),
            Event::IsTold(ticket) => self.end(ticket, now),
            Event::GivesUp(ticket) => {
                self.flights[ticket].answer = Some((None, Answer::Unknown));
                self.end(ticket, now);
                self.later(now, 0..10, Event::IsMissed(ticket));
            }
            Event::IsMissed(ticket) => self.miss(ticket),
        }
        Some(now)
    }

    fn send(&mut self, client: usize, now: Time) {
        if self.closing {
            return;
        }
        let environments = self.history.environments.len();
        let Some(mut wish) = self.clients[client].wish(&mut self.tape, environments) else { return };
        let ticket = self.flights.len();
        // A key is the number of the request that had it first, counted from 1.
        wish.key = wish.key.map(|key| if key == 0 { ticket + 1 } else { key });
        let lost = self.tape.one_in(8);
        let flight = Flight { client, wish, sent: now, in_line_at: None, answer: None, lost, over: false };
        self.flights.push(flight);
        // What gets no answer may be on its way long after its client has gone.
        self.later(now, if lost { 0..60 } else { 0..8 }, Event::Arrives(ticket));
        if lost {
            self.later(now, 1..40, Event::GivesUp(ticket));
        }
    }

    fn arrive(&mut self, ticket: Ticket, now: Time) {
        let Flight { wish, over, .. } = &self.flights[ticket];
        let (Wish { environment, request, waits, key }, gone) = (wish.clone(), *over);
        if self.tape.one_in(16) {
            return self.answer(ticket, environment, refused(503, "overloaded"), now);
        }
        let place = environment.unwrap_or_default();
        let answer = match request {
            Request::Claim { ttl, .. } => {
                let ttl = ttl.map(|ttl| Time::try_from(ttl.as_nanos()).unwrap());
                return self.claim(ticket, environment, waits && !gone, ttl, key, now);
            }
            Request::ForceClaim => {
                let grant = self.server.force_claim(place, ticket, now);
                return self.granted(grant);
            }
            Request::Release { session } => {
                let (answer, next) = self.server.release(&session, now);
                next.into_iter().for_each(|grant| self.granted(grant));
                answer
            }
            Request::Heartbeat { session } => self.server.act(&session, false, now),
            Request::Deploy { session } => self.server.act(&session, true, now),
            Request::ReadEnvironment => self.server.read(place),
            Request::ReadSession { session } => self.server.read_session(&session),
        };
        self.answer(ticket, environment, answer, now);
    }

    fn claim(
        &mut self,
        ticket: Ticket,
        wanted: Option<usize>,
        waits: bool,
        ttl: Option<Time>,
        key: Option<usize>,
        now: Time,
    ) {
        match key.and_then(|key| self.keys.get(&key)) {
            Some(Kept::Granted(place, answer)) => return self.answer(ticket, Some(*place), answer.clone(), now),
            Some(Kept::UnderWay(_)) => {
                return self.answer(ticket, wanted, refused(409, "idempotency_key_in_flight"), now);
            }
            None => {}
        }
        match self.server.claim(wanted, waits, ticket, ttl, now) {
            Claimed::Granted(grant) => self.granted(grant),
            Claimed::Locked => self.answer(ticket, wanted, refused(409, "environment_locked"), now),
            Claimed::InLine => {
                self.flights[ticket].in_line_at =
                    (!self.tape.one_in(4)).then(|| now + TICK * (1 + self.tape.below(3) as Time));
                if let Some(key) = key {
                    self.keys.insert(key, Kept::UnderWay(ticket));
                }
            }
        }
    }

    fn granted(&mut self, Grant { ticket, environment, at, session, fencing }: Grant) {
        let flight = &mut self.flights[ticket];
        flight.in_line_at = flight.in_line_at.filter(|in_line| *in_line <= at);
        let answer = Answer::Granted { session, fencing };
        if let Some(key) = flight.wish.key {
            self.keys.insert(key, Kept::Granted(environment, answer.clone()));
        }
        self.answer(ticket, Some(environment), answer, at);
    }

    fn answer(&mut self, ticket: Ticket, environment: Option<usize>, answer: Answer, now: Time) {
        let flight = &mut self.flights[ticket];
        if !flight.lost {
            flight.answer = Some((environment, answer));
            self.later(now, 1..8, Event::IsTold(ticket));
        }
    }

    fn miss(&mut self, ticket: Ticket) {
        self.server.leave(ticket);
        let key = self.flights[ticket].wish.key;
        if let Some(key) = key.filter(|key| matches!(self.keys.get(key), Some(Kept::UnderWay(by)) if *by == ticket)) {
            self.keys.remove(&key);
        }
    }

    /// The client has its answer, or knows that it gets none.
    fn end(&mut self, ticket: Ticket, now: Time) {
        let flight = &mut self.flights[ticket];
        if std::mem::replace(&mut flight.over, true) {
            return;
        }
        let (environment, answer) = flight.answer.take().unwrap();
        let environment = environment.or(flight.wish.environment);
        let client = flight.client;
        let mut request = flight.wish.request.clone();
        if let Request::Claim { in_line_at, .. } = &mut request {
            *in_line_at = flight.in_line_at.filter(|at| *at < now).map(Moment);
        }
        self.clients[client].told(&flight.wish, environment, &answer, &mut self.tape);
        let sent = Moment(flight.sent);
        if !(self.stranger && client == 0) {
            let environment = environment.map(|number| number as u32);
            let record = Record { client: client as u32, environment, request, sent, ended: Moment(now), answer };
            self.history.records.push(record);
        }
        self.later(now, 0..30, Event::Sends(client));
    }

    fn audit(&mut self, mut now: Time) {
        while self.next(now).is_some() {}
        let mut reads: Vec<(u32, Request)> = Vec::new();
        reads.extend((0..self.history.environments.len()).map(|number| (number as u32, Request::ReadEnvironment)));
        for record in &self.history.records {
            if let (Answer::Granted { session, .. }, Some(environment)) = (&record.answer, record.environment) {
                reads.push((environment, Request::ReadSession { session: session.clone() }));
            }
        }
        for (environment, request) in reads {
            let answer = match &request {
                Request::ReadSession { session } => self.server.read_session(session),
                _ => self.server.read(environment as usize),
            };
            let (sent, ended) = (Moment(now), Moment(now + TICK));
            let environment = Some(environment);
            self.history.audit.push(Record { client: 1_000, environment, request, sent, ended, answer });
            now += 2 * TICK;
        }
    }

    fn later(&mut self, now: Time, ticks: std::ops::Range<usize>, event: Event) {
        let ticks = ticks.start + self.tape.below(ticks.len());
        self.scheduled += 1;
        self.events.push(Reverse((now + TICK * ticks as Time, self.scheduled, event)));
    }
}

fn refused(status: u16, code: &str) -> Answer {
    Answer::Refused { status, code: code.into() }
}

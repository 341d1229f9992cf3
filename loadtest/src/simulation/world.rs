//! Simulates the time between clients and server: when a request is sent, when it takes effect, and when its answer
//! arrives, if ever. The server may be killed, or be the owner in a cluster, whose nodes forward requests to it and
//! take over from it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::clients::{JobClient, TICK};
use super::server::{Server, Wish};
use crate::linearizability::history::{Answer, Interval, Moment, Request, Session};
use crate::linearizability::requests::next_request;
use crate::random::Random;

const MILLISECOND: Moment = 1_000_000;
/// Unit of leases and waits.
const UNIT: Moment = 100 * MILLISECOND;
const CLIENTS: u32 = 6;
/// Nodes of a cluster.
const NODES: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Send(u32),
    Arrive(usize),
    Answer(usize),
    /// The wait of a request ends.
    Tire(usize),
    /// The client gives up waiting for the answer.
    GiveUp(usize),
    /// The server notices that the client has given up.
    Notice(usize),
    Elapse,
    Kill,
    /// A node of a cluster is killed.
    KillNode,
    /// Another node takes over.
    TakeOver(u32),
}

/// All durations, in units of `steps` steps of `step` nanoseconds each.
struct Pace {
    step: Moment,
    steps: u64,
    there: Range<u64>,
    /// The delay of a request that may outlive its client.
    late: Range<u64>,
    back: Range<u64>,
    patience: Range<u64>,
    notice: Range<u64>,
    rest: Range<u64>,
}

/// The work of the clients.
pub enum Clients {
    /// This many random requests in one environment.
    Any(usize),
    /// Jobs, in several environments.
    Jobs(Vec<JobClient>),
}

/// A request and its outcome.
pub struct Flight {
    pub client: u32,
    pub wish: Wish,
    pub sent: Moment,
    pub ended: Moment,
    /// The client's view of the answer. None while it waits.
    pub told: Option<Answer>,
    /// The environment of a grant, and the number of deployments of a session.
    pub about: Option<(usize, u64)>,
    /// When some client saw the claim in the queue.
    pub in_line_at: Option<Moment>,
    /// From this moment on no node forwards the request.
    pub let_go: Option<Moment>,
    answer: Option<Answer>,
    has_arrived: bool,
    /// Whether the server does not know the request, or no longer does.
    dead: bool,
}

pub struct World {
    pub random: Random,
    pub server: Server,
    clients: Clients,
    pace: Pace,
    pub flights: Vec<Flight>,
    /// In the order in which the requests ended for their clients.
    pub ended: Vec<usize>,
    /// Sessions named in some answer.
    pub learned: Vec<Session>,
    pub kills: Vec<Moment>,
    pub takeovers: Vec<Interval>,
    pub now: Moment,
    environments: usize,
    events: BinaryHeap<Reverse<(Moment, usize, Event)>>,
    scheduled: usize,
    /// The node that owns the environment; none for a single server.
    owner: Option<u32>,
    /// True until a node takes over.
    is_away: bool,
}

impl World {
    pub fn new(random: Random, server: Server, environments: usize, clients: Clients, owner: Option<u32>) -> Self {
        let (step, steps) = if let Clients::Any(_) = clients { (1, MILLISECOND) } else { (TICK, 1) };
        let pace = match clients {
            Clients::Any(_) => Pace {
                step,
                steps,
                there: 1..20,
                late: 1..300,
                back: 1..20,
                patience: 1..60,
                notice: 1..40,
                rest: 0..15,
            },
            Clients::Jobs(_) => {
                Pace { step, steps, there: 0..8, late: 0..60, back: 1..8, patience: 1..40, notice: 0..10, rest: 0..30 }
            }
        };
        Self {
            random,
            server,
            clients,
            pace,
            flights: Vec::new(),
            ended: Vec::new(),
            learned: Vec::new(),
            kills: Vec::new(),
            takeovers: Vec::new(),
            now: 0,
            environments,
            events: BinaryHeap::new(),
            scheduled: 0,
            owner,
            is_away: false,
        }
    }

    pub fn run(&mut self) {
        let count = if let Clients::Jobs(clients) = &self.clients { clients.len() as u32 } else { CLIENTS };
        (0..count).for_each(|client| self.soon(Event::Send(client), 0..5));
        match (&self.clients, self.owner) {
            (Clients::Jobs(_), _) => {}
            (Clients::Any(_), None) => (0..self.random.below(4)).for_each(|_| self.soon(Event::Kill, 0..4_000)),
            // One node after another.
            (Clients::Any(_), Some(_)) => {
                (0..4).for_each(|number| self.soon(Event::KillNode, number * 700..number * 700 + 500));
            }
        }
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            self.now = at;
            self.handle(event);
            if let Some(expiry) = self.server.expiry().filter(|expiry| *expiry > self.now) {
                self.at(expiry, Event::Elapse);
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Send(client) => self.send(client),
            // The node keeps the request until the shard has an owner.
            Event::Arrive(_) if self.is_away => self.soon(event, 10..150),
            Event::Tire(_) | Event::Elapse | Event::Notice(_) if self.is_away => {}
            Event::Arrive(index) => self.arrive(index),
            Event::Answer(index) => self.end(index, false),
            Event::Tire(index) => {
                if let Some(answer) = self.server.tire(index).filter(|_| !self.flights[index].dead) {
                    self.answered(index, answer);
                }
            }
            Event::GiveUp(index) => self.end(index, true),
            Event::Notice(index) => {
                self.server.notice(index, self.now);
                self.hand_out();
            }
            Event::Elapse => {
                self.server.elapse(self.now);
                self.hand_out();
            }
            Event::Kill => self.kill(),
            Event::KillNode => self.kill_node(),
            Event::TakeOver(node) => self.take_over(node),
        }
    }

    fn send(&mut self, client: u32) {
        let random = &mut self.random;
        let wish = match &mut self.clients {
            Clients::Any(operations) if self.flights.len() >= *operations => None,
            Clients::Any(_) => {
                let newest = &self.learned[self.learned.len().saturating_sub(4)..];
                Some(Wish { environment: Some(0), request: next_request(random, newest, UNIT), deploys: false })
            }
            Clients::Jobs(clients) => clients[client as usize].next(random, self.environments as u64),
        };
        let Some(wish) = wish else { return };
        let index = self.flights.len();
        self.flights.push(Flight {
            client,
            wish,
            sent: self.now,
            ended: 0,
            told: None,
            about: None,
            in_line_at: None,
            let_go: None,
            answer: None,
            has_arrived: false,
            dead: false,
        });
        let gives_up = if self.random.percent(90) {
            self.soon(Event::Arrive(index), self.pace.there.clone());
            self.random.percent(5)
        } else {
            // The request arrives very late or never.
            if self.random.percent(50) {
                self.soon(Event::Arrive(index), self.pace.late.clone());
            }
            true
        };
        if gives_up {
            self.soon(Event::GiveUp(index), self.pace.patience.clone());
        }
    }

    fn arrive(&mut self, index: usize) {
        let flight = &mut self.flights[index];
        if flight.dead {
            return;
        }
        flight.has_arrived = true;
        let is_gone = flight.told.is_some();
        if matches!(self.clients, Clients::Jobs(_)) && self.random.one_in(16) {
            return self.answered(index, Answer::NothingDone);
        }
        let flight = &self.flights[index];
        match self.server.perform(index, &flight.wish, flight.sent, self.now) {
            Some(answer) => self.answered(index, answer),
            None => {
                let seen = self.now + TICK * self.random.within(1..4);
                self.flights[index].in_line_at = (!self.random.one_in(4)).then_some(seen);
                let wait = if let Request::Claim(claim) = &self.flights[index].wish.request { claim.wait } else { 0 };
                self.at(self.now + wait, Event::Tire(index));
            }
        }
        if is_gone {
            self.soon(Event::Notice(index), self.pace.notice.clone());
        }
        self.hand_out();
    }

    fn answered(&mut self, index: usize, answer: Answer) {
        let flight = &mut self.flights[index];
        let session = match (&flight.wish.request, &answer) {
            (_, Answer::Granted { lock, .. }) => Some(lock.session),
            (Request::ReadSession(session), _) => Some(*session),
            _ => None,
        };
        flight.about = session.and_then(|session| self.server.about(session));
        flight.in_line_at = flight.in_line_at.filter(|at| *at <= self.now);
        flight.answer = Some(answer);
        self.soon(Event::Answer(index), self.pace.back.clone());
    }

    fn hand_out(&mut self) {
        for (index, answer) in std::mem::take(&mut self.server.granted) {
            self.answered(index, answer);
        }
    }

    /// Ends a request: the client has its answer, or has given up.
    fn end(&mut self, index: usize, gives_up: bool) {
        let flight = &mut self.flights[index];
        if flight.told.is_some() {
            return;
        }
        let answer = if gives_up { Answer::Unknown } else { flight.answer.take().expect("it was answered") };
        flight.ended = self.now;
        flight.in_line_at = flight.in_line_at.filter(|at| *at < self.now);
        self.ended.push(index);
        for session in named(&answer) {
            if !self.learned.contains(&session) {
                self.learned.push(session);
            }
        }
        let environment = flight.about.filter(|_| !gives_up).map(|(environment, _)| environment);
        let (client, environment) = (flight.client, environment.or(flight.wish.environment));
        if let Clients::Jobs(clients) = &mut self.clients {
            clients[client as usize].told(&flight.wish, environment, &answer, &mut self.random);
        }
        let notices = gives_up && flight.has_arrived;
        flight.told = Some(answer);
        if notices {
            self.soon(Event::Notice(index), self.pace.notice.clone());
        }
        self.soon(Event::Send(client), self.pace.rest.clone());
    }

    fn kill(&mut self) {
        self.kills.push(self.now);
        self.server.restart();
        for index in 0..self.flights.len() {
            self.flights[index].dead = true;
            if self.flights[index].answer.is_none() || self.random.percent(50) {
                self.end(index, true);
            }
        }
    }

    /// Kills a node. Its clients get no more answers. If it was the owner, no client does until another node takes
    /// over.
    fn kill_node(&mut self) {
        let node = self.owner.filter(|_| self.random.percent(60)).unwrap_or(self.random.below(NODES.into()) as u32);
        for index in 0..self.flights.len() {
            let flight = &mut self.flights[index];
            if flight.client % NODES == node {
                flight.let_go.get_or_insert(self.now);
                if flight.answer.is_none() || self.random.percent(50) {
                    self.end(index, true);
                }
            }
        }
        if self.owner == Some(node) {
            self.is_away = true;
            self.soon(Event::TakeOver((node + 1) % NODES), 20..120);
        }
    }

    /// The living nodes send the requests that they still hold to the new owner. All other requests are lost.
    fn take_over(&mut self, node: u32) {
        (self.owner, self.is_away) = (Some(node), false);
        let [before, after] = [(); 2].map(|()| self.random.within(1..10 * MILLISECOND));
        self.takeovers.push(Interval { since: self.now - before, by: self.now + after });
        self.now += after + 1;
        for index in self.server.restart() {
            // The node on which the request waits answers that its outcome is unknown.
            self.flights[index].dead = true;
            if self.flights[index].told.is_none() {
                self.flights[index].let_go = Some(self.now);
                self.end(index, true);
            }
        }
        for flight in &mut self.flights {
            flight.dead |= flight.let_go.is_some();
        }
        self.server.lose();
    }

    fn soon(&mut self, event: Event, units: Range<u64>) {
        let Pace { step, steps, .. } = self.pace;
        let at = self.now + step * self.random.within(units.start * steps..units.end * steps);
        self.at(at, event);
    }

    fn at(&mut self, at: Moment, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((at, self.scheduled, event)));
    }
}

/// All sessions that an answer names.
fn named(answer: &Answer) -> Vec<Session> {
    let queue = if let Answer::Queue(waiting) = answer { waiting.as_slice() } else { &[] };
    let locks = answer.locks().map(|lock| lock.session);
    queue.iter().flatten().copied().chain(locks).chain(answer.made()).collect()
}

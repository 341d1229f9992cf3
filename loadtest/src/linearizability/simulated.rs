//! Owns histories to try the checker on: clients of a simulated server, whose requests overlap, get lost, and are cut off
//! by kills. The server keeps its promises, but for one fault that may be planted into it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::linearizability::choices;
use crate::linearizability::history::{Answer, Claim, History, Moment, Record, Request, Session};
use crate::linearizability::random::Random;
pub use crate::linearizability::simulated_server::Fault;
use crate::linearizability::simulated_server::{Outcome, Server};

const MILLISECOND: Moment = 1_000_000;
/// Of leases and waits.
const UNIT: Moment = 100 * MILLISECOND;
const CLIENTS: u32 = 6;

/// With whether the fault came about.
pub fn history(seed: u64, operations: usize, fault: Option<Fault>) -> (History, bool) {
    let mut world = World {
        random: Random::branch(seed, 0),
        server: Server::new(fault),
        history: History { environment: "simulated".to_owned(), seed, ..History::default() },
        learned: Vec::new(),
        under_way: Vec::new(),
        events: BinaryHeap::new(),
        now: 0,
        operations,
    };
    world.run();
    let planted = world.server.planted;
    (world.history, planted)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Send(u32),
    Arrive(usize),
    Answer(usize),
    /// It has waited long enough.
    Tire(usize),
    /// The client does not wait for its answer any longer.
    GiveUp(usize),
    /// The server notices that.
    Notice(usize),
    Elapse,
    Kill,
}

struct UnderWay {
    client: u32,
    sent: Moment,
    request: Request,
    answer: Option<Answer>,
    recorded: bool,
    /// It is not known to the server, or not any more.
    dead: bool,
}

struct World {
    random: Random,
    server: Server,
    history: History,
    /// Sessions that some client was told of.
    learned: Vec<Session>,
    under_way: Vec<UnderWay>,
    events: BinaryHeap<Reverse<(Moment, Event)>>,
    now: Moment,
    operations: usize,
}

impl World {
    fn run(&mut self) {
        for client in 0..CLIENTS {
            self.soon(Event::Send(client), 0..5);
        }
        for _ in 0..self.random.below(4) {
            self.soon(Event::Kill, 0..4_000);
        }
        while let Some(Reverse((at, event))) = self.events.pop() {
            self.now = at;
            self.handle(event);
        }
        self.look_at_the_end();
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Send(client) => self.send(client),
            Event::Arrive(index) if !self.under_way[index].dead => {
                let request = self.under_way[index].request.clone();
                let wait = if let Request::Claim(claim) = &request { claim.wait } else { 0 };
                match self.server.perform(index, &request, self.under_way[index].sent, self.now) {
                    Outcome::Answered(answer) => self.answered(index, answer),
                    Outcome::Waits => self.events.push(Reverse((self.now + wait, Event::Tire(index)))),
                }
                self.hand_out();
            }
            Event::Answer(index) => self.record(index, false),
            Event::Tire(index) if !self.under_way[index].dead => {
                if let Some(answer) = self.server.tire(index) {
                    self.answered(index, answer);
                }
            }
            Event::GiveUp(index) => self.record(index, true),
            Event::Notice(index) => {
                self.server.notice(index, self.now);
                self.hand_out();
            }
            Event::Elapse => {
                self.server.elapse(self.now);
                self.hand_out();
            }
            Event::Kill => self.kill(),
            Event::Arrive(_) | Event::Tire(_) => {}
        }
        if let Some(expiry) = self.server.expiry().filter(|expiry| *expiry > self.now) {
            self.events.push(Reverse((expiry, Event::Elapse)));
        }
    }

    fn send(&mut self, client: u32) {
        if self.under_way.len() >= self.operations {
            return;
        }
        let request = self.choose();
        let index = self.under_way.len();
        self.under_way.push(UnderWay { client, sent: self.now, request, answer: None, recorded: false, dead: false });
        if self.random.percent(92) {
            self.soon(Event::Arrive(index), 1..20);
            if self.random.percent(5) {
                self.soon(Event::GiveUp(index), 1..60);
            }
        } else {
            // It is on its way for a long time, or for ever.
            if self.random.percent(50) {
                self.soon(Event::Arrive(index), 1..300);
            }
            self.soon(Event::GiveUp(index), 1..60);
        }
    }

    fn choose(&mut self) -> Request {
        let newest = &self.learned[self.learned.len().saturating_sub(4)..];
        choices::next(&mut self.random, newest, UNIT)
    }

    fn answered(&mut self, index: usize, answer: Answer) {
        self.under_way[index].answer = Some(answer);
        self.soon(Event::Answer(index), 1..20);
    }

    fn hand_out(&mut self) {
        for (index, answer) in std::mem::take(&mut self.server.granted) {
            self.answered(index, answer);
        }
    }

    fn record(&mut self, index: usize, gives_up: bool) {
        if self.under_way[index].recorded {
            return;
        }
        let UnderWay { client, sent, request, answer, recorded, .. } = &mut self.under_way[index];
        *recorded = true;
        let answer = if gives_up { Answer::Unknown } else { answer.take().expect("it was answered") };
        let record = Record { client: *client, sent: *sent, ended: self.now, request: request.clone(), answer };
        let client = *client;
        for session in told(&record.answer) {
            if !self.learned.contains(&session) {
                self.learned.push(session);
            }
        }
        self.history.records.push(record);
        if gives_up {
            self.soon(Event::Notice(index), 1..40);
        }
        self.soon(Event::Send(client), 0..15);
    }

    fn kill(&mut self) {
        self.history.kills.push(self.now);
        self.server.restart();
        for index in 0..self.under_way.len() {
            self.under_way[index].dead = true;
            let lost = self.under_way[index].answer.is_none() || self.random.percent(50);
            if !self.under_way[index].recorded && lost {
                self.record(index, true);
            }
        }
    }

    /// When all is quiet, everything is read once more.
    fn look_at_the_end(&mut self) {
        let first = self.learned.len().saturating_sub(8);
        let sessions = self.learned[first..].iter().copied().map(Request::ReadSession);
        let claim = Request::Claim(Claim::default());
        let all = [Request::ReadEnvironment, Request::ReadQueue].into_iter().chain(sessions).chain([claim]);
        for request in all.collect::<Vec<_>>() {
            let index = self.under_way.len() + self.history.records.len();
            let Outcome::Answered(answer) = self.server.perform(index, &request, self.now, self.now) else { continue };
            let (sent, ended) = (self.now + 1, self.now + 2);
            self.now += 3;
            self.history.records.push(Record { client: 0, sent, ended, request, answer });
        }
    }

    fn soon(&mut self, event: Event, milliseconds: std::ops::Range<u64>) {
        let nanoseconds = milliseconds.start * MILLISECOND..milliseconds.end * MILLISECOND;
        let at = self.now + self.random.within(nanoseconds) + 1;
        self.events.push(Reverse((at, event)));
    }
}

fn told(answer: &Answer) -> Vec<Session> {
    let queue = if let Answer::Queue(waiting) = answer { waiting.as_slice() } else { &[] };
    let locks = answer.locks().map(|lock| lock.session);
    queue.iter().flatten().copied().chain(locks).chain(answer.made()).collect()
}

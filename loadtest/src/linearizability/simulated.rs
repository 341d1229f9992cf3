//! Owns histories to try the checker on: clients of a simulated server, whose requests overlap, get lost, and are cut off
//! by kills; or of a simulated cluster, whose nodes pass them on to the one that owns the environment, and take over from
//! it. The server keeps its promises, but for one fault that may be planted into it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::linearizability::choices;
use crate::linearizability::history::{Answer, Claim, History, Interval, Moment, Record, Request, Session};
use crate::linearizability::random::Random;
pub use crate::linearizability::simulated_server::Fault;
use crate::linearizability::simulated_server::{Outcome, Server};

const MILLISECOND: Moment = 1_000_000;
/// Of leases and waits.
const UNIT: Moment = 100 * MILLISECOND;
const CLIENTS: u32 = 6;
/// Of a cluster.
const NODES: u32 = 3;

/// With whether the fault came about.
pub fn history(seed: u64, operations: usize, fault: Option<Fault>) -> (History, bool) {
    simulate(seed, operations, fault, None)
}

pub fn history_of_cluster(seed: u64, operations: usize, fault: Option<Fault>) -> (History, bool) {
    simulate(seed, operations, fault, Some(0))
}

fn simulate(seed: u64, operations: usize, fault: Option<Fault>, owner: Option<u32>) -> (History, bool) {
    let mut world = World {
        random: Random::branch(seed, 0),
        server: Server::new(fault),
        history: History { environment: "simulated".to_owned(), seed, ..History::default() },
        learned: Vec::new(),
        under_way: Vec::new(),
        events: BinaryHeap::new(),
        now: 0,
        operations,
        owner,
        is_away: false,
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
    /// A node of a cluster is killed.
    KillNode,
    /// Another node takes over.
    TakeOver(u32),
}

struct UnderWay {
    client: u32,
    sent: Moment,
    request: Request,
    answer: Option<Answer>,
    recorded: bool,
    /// From when on no node passes it on; and the place of its record.
    let_go: Option<Moment>,
    record: Option<usize>,
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
    /// The node that owns the environment; none: a server alone.
    owner: Option<u32>,
    /// Nobody has taken over yet.
    is_away: bool,
}

impl World {
    fn run(&mut self) {
        for client in 0..CLIENTS {
            self.soon(Event::Send(client), 0..5);
        }
        match self.owner {
            None => (0..self.random.below(4)).for_each(|_| self.soon(Event::Kill, 0..4_000)),
            // One after the other.
            Some(_) => (0..4).for_each(|number| self.soon(Event::KillNode, number * 700..number * 700 + 500)),
        }
        while let Some(Reverse((at, event))) = self.events.pop() {
            self.now = at;
            self.handle(event);
        }
        for UnderWay { record, let_go, .. } in &self.under_way {
            if let Some(record) = record.map(|record| &mut self.history.records[record]) {
                record.let_go = let_go.filter(|_| record.answer == Answer::Unknown);
            }
        }
        self.look_at_the_end();
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Send(client) => self.send(client),
            // Its node keeps it until there is an owner.
            Event::Arrive(_) if self.is_away => self.soon(event, 10..150),
            Event::Tire(_) | Event::Elapse | Event::Notice(_) if self.is_away => {}
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
            Event::KillNode => self.kill_node(),
            Event::TakeOver(node) => self.take_over(node),
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
        self.under_way.push(UnderWay {
            client,
            sent: self.now,
            request,
            answer: None,
            recorded: false,
            let_go: None,
            record: None,
            dead: false,
        });
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
        let UnderWay { client, sent, request, answer, recorded, record, .. } = &mut self.under_way[index];
        *recorded = true;
        *record = Some(self.history.records.len());
        let answer = if gives_up { Answer::Unknown } else { answer.take().expect("it was answered") };
        let record =
            Record { client: *client, sent: *sent, ended: self.now, request: request.clone(), answer, let_go: None };
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

    /// Its clients get no answer any more. If it was the owner, nobody does until another takes over.
    fn kill_node(&mut self) {
        let node = self.owner.filter(|_| self.random.percent(60)).unwrap_or(self.random.below(NODES.into()) as u32);
        for index in 0..self.under_way.len() {
            let UnderWay { client, recorded, let_go, answer, .. } = &mut self.under_way[index];
            if *client % NODES != node {
                continue;
            }
            let_go.get_or_insert(self.now);
            let is_on_its_way = answer.is_some() && self.random.percent(50);
            if !*recorded && !is_on_its_way {
                self.record(index, true);
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
        self.history.takeovers.push(Interval { since: self.now - before, by: self.now + after });
        self.now += after + 1;
        for index in self.server.restart() {
            // The node that it waits on says that its outcome is not known.
            self.under_way[index].dead = true;
            if !self.under_way[index].recorded {
                self.under_way[index].let_go = Some(self.now);
                self.record(index, true);
            }
        }
        for under_way in &mut self.under_way {
            under_way.dead |= under_way.let_go.is_some();
        }
        self.server.lose();
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
            self.history.records.push(Record { client: 0, sent, ended, request, answer, let_go: None });
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

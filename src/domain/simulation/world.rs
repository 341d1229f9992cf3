//! The whole simulation: a server with several environments, its clients, the log, and the witness.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::clients::Client;
use super::log::{Grant, Key, Log, WaitsFor};
use super::random::Random;
use super::witness::Witness;
use crate::samples::{labels, seed};
use crate::*;

pub struct World {
    pub random: Random,
    pub trace: Trace,
    pub now: Now,
    pub log: Log,
    pub server: Server,
    /// All requests ever sent; they outlive the server.
    pub requests: Vec<Request>,
    pub clients: Vec<Client>,
    pub witness: Witness,
}

/// The state that a crash destroys.
pub struct Server {
    pub names: Vec<Identifier>,
    /// The state after the last decision, durable or not.
    pub environments: Vec<Environment>,
    /// How much of the log must be durable before the environment's answers may be sent.
    pub written: Vec<usize>,
    /// One per environment, and the last for the pool.
    pub mailboxes: Vec<VecDeque<Message>>,
    pub pool: Pool,
    pub ended: BTreeMap<SessionId, Arc<Session>>,
    pub answers: BTreeMap<Key, Grant>,
    /// Per waiter: the request that waits on its connection.
    pub held: BTreeMap<Ticket, usize>,
    /// The last poll of each waiter without a connection.
    pub asked: BTreeMap<Ticket, Tick>,
    pub in_flight: BTreeSet<Key>,
    pub replies: Vec<Reply>,
    /// Disconnects that the server has not noticed yet.
    pub signals: Vec<(usize, Message)>,
    /// Environments whose last decision the pool does not know yet.
    pub unreported: BTreeSet<usize>,
    pub last_ticket: u64,
    pub last_number: u64,
}

/// A message to an actor. `Attach` and `Replay` come from clients that return with their key, for their place or for
/// their grant. `HandOver`: the environment was offered, or a waiter of the pool may want it.
#[derive(Debug, Clone)]
pub enum Message {
    Ask(usize),
    Attach(usize, Ticket),
    Replay(usize, SessionId),
    GiveUp(Ticket),
    HungUp(Ticket),
    Undelivered { session: SessionId, keyed: bool },
    HandOver { offered: bool },
    Elapse,
    Finish(DeploymentId, StageEnd),
    Configure(Box<Configuration>),
}

/// A request, and whether its client still waits for the answer.
#[derive(Debug, Clone)]
pub struct Request {
    pub client: usize,
    pub what: RequestKind,
    pub open: bool,
}

#[derive(Debug, Clone)]
pub enum RequestKind {
    Claim(ClaimPlan),
    Force(usize, ClaimPlan),
    Release(usize, SessionId),
    Heartbeat(usize, SessionId),
    Deploy(usize, SessionId),
    Look(usize, SessionId),
}

/// The claim that a client makes.
#[derive(Debug, Clone)]
pub struct ClaimPlan {
    /// The operation that must be executed once, however often the client repeats the claim with its key.
    pub operation: usize,
    pub place: WaitsFor,
    pub priority: Priority,
    pub ttl_seconds: Option<u32>,
    pub deploys: bool,
    pub wait_millis: i64,
    pub queue: bool,
    pub key: Option<Key>,
    pub ticket: Ticket,
    /// When the client stops waiting; none once that has been signalled.
    pub until: Option<Tick>,
}

#[derive(Debug)]
pub struct Reply {
    /// The reply is sent once the log is durable up to here.
    pub position: usize,
    pub request: usize,
    pub answer: Answer,
}

#[derive(Debug)]
pub enum Answer {
    Granted(usize, Arc<Session>),
    Queued(Arc<Session>),
    Refused,
    /// The session after a release, a heartbeat, a deployment or a poll.
    Stands(usize, Option<Arc<Session>>),
    InFlight,
}

pub enum Trace {
    Off,
    Print,
    Keep(Vec<String>),
}

impl World {
    pub fn new(seed_number: u64, trace: Trace) -> Self {
        let mut random = Random::new(seed_number);
        let count = 1 + random.below(3);
        let started = Now { at: Timestamp::from_millis(1_000_000), tick: Tick(random.between(0, 5_000)) };
        let mut world = Self {
            trace,
            now: started,
            log: Log::new(count),
            server: Server::new(count),
            requests: Vec::new(),
            clients: (0..3 + random.below(5)).map(Client::new).collect(),
            witness: Witness::new(count),
            random,
        };
        for index in 0..count {
            let configuration = world.configuration(index);
            world.server.mailboxes[index].push_back(Message::Configure(Box::new(configuration)));
            world.process(index);
            world.process(index);
        }
        world.log.settle(world.log.handed_in());
        world
    }

    fn configuration(&mut self, index: usize) -> Configuration {
        let random = &mut self.random;
        let of: [&[(&str, &str)]; 3] = [&[("size", "large")], &[("size", "large"), ("os", "linux")], &[]];
        Configuration {
            labels: labels(of[index]),
            default_ttl_seconds: random.percent(30).then_some(20),
            max_hold_seconds: random.percent(20).then_some(90),
            max_queue_length: if random.percent(15) { 1 } else { 10_000 },
            on_release: random.percent(40).then(samples::commit),
            ..Configuration::default()
        }
    }

    pub fn line(&mut self, line: impl FnOnce(&Self) -> String) {
        match self.trace {
            Trace::Off => {}
            Trace::Print => eprintln!("{:>9}  {}", self.now.at.as_millis() - 1_000_000, line(self)),
            Trace::Keep(_) => {
                let line = format!("{} {}", self.now.at.as_millis(), line(self));
                if let Trace::Keep(lines) = &mut self.trace {
                    lines.push(line);
                }
            }
        }
    }

    pub fn pool_mailbox(&self) -> usize {
        self.server.environments.len()
    }

    /// Whether an actor has work.
    pub fn is_busy(&self, mailbox: usize) -> bool {
        !self.server.mailboxes[mailbox].is_empty() || self.server.unreported.contains(&mailbox)
    }

    /// Whether no message is pending.
    pub fn is_at_rest(&self) -> bool {
        self.server.signals.is_empty() && !(0..=self.pool_mailbox()).any(|mailbox| self.is_busy(mailbox))
    }

    pub fn mailbox_of(&self, place: &WaitsFor) -> usize {
        match place {
            WaitsFor::Environment(index) => *index,
            WaitsFor::Pool(_) => self.pool_mailbox(),
        }
    }

    /// Advances the time and fires the timers that are due.
    pub fn pass(&mut self, millis: i64) {
        self.now = Now { at: self.now.at.plus(millis), tick: self.now.tick.plus(millis) };
        for index in 0..self.server.environments.len() {
            let environment = &self.server.environments[index];
            let expiry = environment.lock.as_deref().and_then(Session::expiry).map(|(until, _)| until.due);
            let due = environment.queue.iter().filter_map(|waiter| waiter.due(self.presence(waiter)));
            let is_due = due.chain(expiry).min().is_some_and(|due| due <= self.now.tick);
            let mailbox = &mut self.server.mailboxes[index];
            if is_due && !mailbox.iter().any(|message| matches!(message, Message::Elapse)) {
                mailbox.push_back(Message::Elapse);
            }
        }
        self.expire_in_pool();
        for request in 0..self.requests.len() {
            let Request { what: RequestKind::Claim(plan), open: true, .. } = &mut self.requests[request] else {
                continue;
            };
            if plan.until.take_if(|until| *until <= self.now.tick).is_some() {
                let (ticket, place) = (plan.ticket, plan.place.clone());
                let mailbox = self.mailbox_of(&place);
                self.server.mailboxes[mailbox].push_back(Message::GiveUp(ticket));
            }
        }
    }

    pub fn presence(&self, waiter: &Waiter) -> Presence {
        presence(waiter, &self.server.held, &self.server.asked, &self.requests)
    }

    pub fn connection(&self, ticket: Ticket) -> Connection {
        connection(ticket, &self.server.held, &self.requests)
    }

    pub fn plan(&self, request: usize) -> Option<&ClaimPlan> {
        match &self.requests[request].what {
            RequestKind::Claim(plan) | RequestKind::Force(_, plan) => Some(plan),
            RequestKind::Release(..) | RequestKind::Heartbeat(..) | RequestKind::Deploy(..) | RequestKind::Look(..) => {
                None
            }
        }
    }
}

impl Server {
    pub fn new(count: usize) -> Self {
        Self {
            names: (0..count).map(|index| Identifier::parse(&format!("review-{index}")).unwrap()).collect(),
            environments: vec![Environment::absent(); count],
            written: vec![0; count],
            mailboxes: vec![VecDeque::new(); count + 1],
            pool: Pool::default(),
            ended: BTreeMap::new(),
            answers: BTreeMap::new(),
            held: BTreeMap::new(),
            asked: BTreeMap::new(),
            in_flight: BTreeSet::new(),
            replies: Vec::new(),
            signals: Vec::new(),
            unreported: BTreeSet::new(),
            last_ticket: 0,
            last_number: 0,
        }
    }
}

pub fn presence(
    waiter: &Waiter,
    held: &BTreeMap<Ticket, usize>,
    asked: &BTreeMap<Ticket, Tick>,
    requests: &[Request],
) -> Presence {
    waiter.presence(connection(waiter.ticket, held, requests), false, Tick(0), |ticket| asked[&ticket])
}

fn connection(ticket: Ticket, held: &BTreeMap<Ticket, usize>, requests: &[Request]) -> Connection {
    match held.get(&ticket).map(|request| &requests[*request]) {
        None => Connection::Absent,
        Some(Request { open: true, .. }) => Connection::Open,
        Some(Request { what: RequestKind::Claim(plan), .. }) => Connection::Closed { keyed: plan.key.is_some() },
        Some(_) => unreachable!("only claims wait"),
    }
}

pub struct SimulatedPorts<'a> {
    pub pool: &'a mut Pool,
    pub held: &'a BTreeMap<Ticket, usize>,
    pub asked: &'a BTreeMap<Ticket, Tick>,
    pub requests: &'a [Request],
    pub last_number: &'a mut u64,
}

/// Seeds of the server start here; those of requests are smaller.
const FIRST_OF_SERVER: u64 = 1 << 32;

impl DecisionPorts for SimulatedPorts<'_> {
    fn presence(&self, waiter: &Waiter) -> Presence {
        presence(waiter, self.held, self.asked, self.requests)
    }

    fn take_from_pool(&mut self, configuration: &Configuration, before: Option<Turn>) -> Option<Arc<Waiter>> {
        let (held, asked, requests) = (self.held, self.asked, self.requests);
        self.pool.take(configuration, before, |waiter| presence(waiter, held, asked, requests))
    }

    fn seed(&mut self) -> IdSeed {
        *self.last_number += 1;
        seed(FIRST_OF_SERVER + *self.last_number)
    }

    fn pipeline(&self) -> PipelineNow {
        samples::pipeline(1)
    }
}

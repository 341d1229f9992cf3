//! Owns the clients of one environment of a real server: their requests, the timing, and the answers.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::linearizability::history::{Answer, Claim, History, Interval, Moment, Record, Request, Session};
use crate::linearizability::requests::{next_request, read_answer, request_bytes};
use crate::random::Random;
use crate::sync::locked;
use crate::wire::{Api, Connection, Token};

const SECOND: Moment = 1_000_000_000;
/// The timeout of a request: longer than any restart or pause.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between attempts to reach a server that is down.
const RETRY: Duration = Duration::from_millis(10);
/// Number of newest sessions that clients continue to use.
const NEWEST: usize = 4;
/// Sessions that are read once all clients have stopped.
const READ_AT_THE_END: usize = 12;

/// Shared by all clients of a server or cluster, in all environments.
pub struct Shared {
    /// A single server, or the nodes of a cluster.
    pub nodes: Vec<Node>,
    pub api: Api,
    pub origin: Instant,
    /// Unexpected answers, with their counts.
    pub errors: Mutex<BTreeMap<String, u64>>,
}

/// A server from the clients' point of view.
pub struct Node {
    pub address: SocketAddr,
    /// When each earlier process of the node had ended. Connections to those processes are dead.
    ended: Mutex<Vec<Moment>>,
}

/// One process of one node.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Life {
    node: usize,
    number: usize,
}

/// One environment and what its clients observed.
pub struct Environment {
    pub shared: Arc<Shared>,
    pub name: String,
    pub seed: u64,
    /// Requests still to be sent.
    left: AtomicU32,
    seen: Mutex<Observed>,
}

/// When a server or cluster lost its non-durable state.
#[derive(Debug, Default)]
pub struct Losses {
    pub kills: Vec<Moment>,
    pub takeovers: Vec<Interval>,
    pub stops: Vec<Interval>,
}

#[derive(Default)]
struct Observed {
    records: Vec<Record>,
    /// The process that each record's request was sent to, by the record's index.
    lives: Vec<Life>,
    names: Vec<String>,
    numbers: HashMap<String, Session>,
}

struct Client {
    environment: Arc<Environment>,
    number: u32,
    connection: Option<(Life, Connection)>,
}

impl Environment {
    pub fn new(shared: Arc<Shared>, name: String, seed: u64, operations: u32) -> Self {
        Self { shared, name, seed, left: AtomicU32::new(operations), seen: Mutex::default() }
    }

    /// Runs one client until all requests are sent.
    pub async fn drive(self: Arc<Self>, number: u32) {
        let mut random = Random::branch(self.seed, number.into());
        let mut client = Client { environment: self.clone(), number, connection: None };
        while self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            if random.percent(30) {
                tokio::time::sleep(Duration::from_micros(random.below(20_000))).await;
            }
            let newest = self.newest();
            let request = next_request(&mut random, &newest, SECOND);
            let patience = if random.percent(6) { Duration::from_micros(random.below(60_000)) } else { PATIENCE };
            client.ask(request, patience).await;
        }
    }

    /// Reads everything once more after all clients have stopped.
    pub async fn look_at_the_end(self: Arc<Self>) {
        let mut client = Client { environment: self.clone(), number: u32::MAX, connection: None };
        client.ask(Request::ReadEnvironment, PATIENCE).await;
        client.ask(Request::ReadQueue, PATIENCE).await;
        let sessions = self.seen().names.len();
        for session in sessions.saturating_sub(READ_AT_THE_END)..sessions {
            client.ask(Request::ReadSession(Session(session as u32)), PATIENCE).await;
        }
        // Whether granted or refused, the answer shows the newest fencing token.
        client.ask(Request::Claim(Claim::default()), PATIENCE).await;
    }

    pub fn history(&self, losses: &Losses) -> History {
        let Observed { mut records, lives, names, .. } = std::mem::take(&mut *self.seen());
        for (record, life) in records.iter_mut().zip(lives).filter(|(record, _)| record.answer == Answer::Unknown) {
            let ended = self.shared.nodes[life.node].ended().get(life.number).copied();
            record.let_go = [record.let_go, ended].into_iter().flatten().min();
        }
        let began = records.iter().map(|record| record.sent).min().unwrap_or(0);
        let Losses { kills, takeovers, stops } = losses;
        let kills = kills.iter().copied().filter(|killed| *killed > began).collect();
        let later = |all: &[Interval]| all.iter().copied().filter(|interval| interval.by > began).collect();
        let (takeovers, stops) = (later(takeovers), later(stops));
        History { environment: self.name.clone(), seed: self.seed, records, kills, takeovers, stops, names }
    }

    fn newest(&self) -> Vec<Session> {
        let known = self.seen().names.len();
        (known.saturating_sub(NEWEST)..known).map(|number| Session(number as u32)).collect()
    }

    fn seen(&self) -> MutexGuard<'_, Observed> {
        locked(&self.seen)
    }
}

impl Client {
    async fn ask(&mut self, request: Request, patience: Duration) {
        let environment = self.environment.clone();
        let bytes = {
            let seen = environment.seen();
            request_bytes(&environment.shared.api, &environment.name, &request, |session| {
                seen.names[session.0 as usize].as_str()
            })
        };
        let (life, mut connection) = self.connect().await;
        // The time of sending is taken after connecting: the process that accepted the connection gets everything sent
        // over it.
        let sent = environment.shared.now();
        let waits =
            if let Request::Claim(claim) = &request { Duration::from_nanos(claim.wait) } else { Duration::ZERO };
        let limit = if patience == PATIENCE { waits + patience } else { patience };
        let status = tokio::time::timeout(limit, connection.exchange(&bytes)).await;
        let ended = environment.shared.now();
        let mut let_go = None;
        let answer = match status {
            Ok(Ok(status)) => {
                // The node has answered, so it will not forward the request again.
                let_go = (status == 408 || status >= 500).then_some(ended);
                let answer = environment.seen().read(&request, status, connection.body());
                if !connection.closes() {
                    self.connection = Some((life, connection));
                }
                answer.unwrap_or_else(|unexpected| {
                    environment.shared.error(unexpected);
                    Answer::Unknown
                })
            }
            Ok(Err(_)) | Err(_) => Answer::Unknown,
        };
        let mut seen = environment.seen();
        seen.records.push(Record { client: self.number, sent, ended, request, answer, let_go });
        seen.lives.push(life);
    }

    /// Connects to the node used last, or to the client's own, or to the next reachable one.
    async fn connect(&mut self) -> (Life, Connection) {
        let nodes = &self.environment.shared.nodes;
        if let Some((life, connection)) = self.connection.take()
            && life.number == nodes[life.node].life()
        {
            return (life, connection);
        }
        let mut node = self.number as usize % nodes.len();
        loop {
            let number = nodes[node].life();
            // It is only certain which process accepted the connection if no other was started meanwhile.
            if let Ok(connection) = Connection::open(nodes[node].address).await
                && number == nodes[node].life()
            {
                return (Life { node, number }, connection);
            }
            node = (node + 1) % nodes.len();
            tokio::time::sleep(RETRY).await;
        }
    }
}

impl Observed {
    fn read(&mut self, request: &Request, status: u16, body: &[u8]) -> Result<Answer, String> {
        let Self { names, numbers, .. } = self;
        read_answer(request, status, body, |name| {
            *numbers.entry(name.to_owned()).or_insert_with(|| {
                names.push(name.to_owned());
                Session(names.len() as u32 - 1)
            })
        })
    }
}

impl Node {
    fn new(address: SocketAddr) -> Self {
        Self { address, ended: Mutex::default() }
    }

    /// Records that the current process had ended by this moment. Call this before the next one is started.
    pub fn end(&self, by: Moment) {
        self.ended().push(by);
    }

    fn life(&self) -> usize {
        self.ended().len()
    }

    fn ended(&self) -> MutexGuard<'_, Vec<Moment>> {
        locked(&self.ended)
    }
}

impl Shared {
    pub fn new(addresses: Vec<SocketAddr>, token: &Token, origin: Instant) -> Self {
        let api = Api::new(&addresses[0], token);
        let nodes = addresses.into_iter().map(Node::new).collect();
        Self { nodes, api, origin, errors: Mutex::default() }
    }

    pub fn now(&self) -> Moment {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(Moment::MAX)
    }

    fn error(&self, what: String) {
        *locked(&self.errors).entry(what).or_default() += 1;
    }
}

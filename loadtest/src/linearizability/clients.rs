//! Owns the clients of one environment of a real server: what they ask, when, and what they were told.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::linearizability::answers;
use crate::linearizability::choices;
use crate::linearizability::history::{Answer, Claim, History, Moment, Record, Request, Session};
use crate::linearizability::random::Random;
use crate::linearizability::requests;
use crate::wire::connection::Connection;

const SECOND: Moment = 1_000_000_000;
/// Longer than any restart or pause takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// While the server is away.
const RETRY: Duration = Duration::from_millis(10);
/// How many of the newest sessions clients go on to use.
const NEWEST: usize = 4;
/// Sessions that are read when all clients have stopped.
const READ_AT_THE_END: usize = 12;

/// What all clients of all environments of one server share.
pub struct Shared {
    pub address: SocketAddr,
    /// Of every request: host and token.
    pub headers: String,
    /// Of all environments.
    pub base: String,
    pub origin: Instant,
    /// Lives of the server; connections of an earlier one are of no use.
    pub life: AtomicU32,
    /// Answers that no request should get.
    pub errors: Mutex<BTreeMap<String, u64>>,
}

/// One environment and what was seen of it.
pub struct Environment {
    pub shared: Arc<Shared>,
    pub name: String,
    pub seed: u64,
    /// Requests that are still to be sent.
    left: AtomicU32,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    records: Vec<Record>,
    names: Vec<String>,
    numbers: HashMap<String, Session>,
}

struct Client {
    environment: Arc<Environment>,
    number: u32,
    connection: Option<(u32, Connection)>,
}

impl Environment {
    pub fn new(shared: Arc<Shared>, name: String, seed: u64, operations: u32) -> Self {
        Self { shared, name, seed, left: AtomicU32::new(operations), seen: Mutex::default() }
    }

    /// One client, until all requests are sent.
    pub async fn drive(self: Arc<Self>, number: u32) {
        let mut random = Random::branch(self.seed, number.into());
        let mut client = Client { environment: self.clone(), number, connection: None };
        while self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            if random.percent(30) {
                tokio::time::sleep(Duration::from_micros(random.below(20_000))).await;
            }
            let newest = self.newest();
            let request = choices::next(&mut random, &newest, SECOND);
            let patience = if random.percent(6) { Duration::from_micros(random.below(60_000)) } else { PATIENCE };
            client.ask(request, patience).await;
        }
    }

    /// When all is quiet, everything is read once more.
    pub async fn look_at_the_end(self: Arc<Self>) {
        let mut client = Client { environment: self.clone(), number: u32::MAX, connection: None };
        client.ask(Request::ReadEnvironment, PATIENCE).await;
        client.ask(Request::ReadQueue, PATIENCE).await;
        let sessions = self.seen().names.len();
        for session in sessions.saturating_sub(READ_AT_THE_END)..sessions {
            client.ask(Request::ReadSession(Session(session as u32)), PATIENCE).await;
        }
        // Whether granted or refused, it says which fencing token is the newest.
        client.ask(Request::Claim(Claim::default()), PATIENCE).await;
    }

    pub fn history(&self, kills: &[Moment]) -> History {
        let Seen { records, names, .. } = std::mem::take(&mut *self.seen());
        let began = records.iter().map(|record| record.sent).min().unwrap_or(0);
        let kills = kills.iter().copied().filter(|killed| *killed > began).collect();
        History { environment: self.name.clone(), seed: self.seed, records, kills, names }
    }

    fn newest(&self) -> Vec<Session> {
        let known = self.seen().names.len();
        (known.saturating_sub(NEWEST)..known).map(|number| Session(number as u32)).collect()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    async fn ask(&mut self, request: Request, patience: Duration) {
        let environment = self.environment.clone();
        let bytes = {
            let seen = environment.seen();
            requests::bytes(&environment.shared, &environment.name, &request, |session| {
                seen.names[session.0 as usize].as_str()
            })
        };
        let (life, mut connection) = self.connect().await;
        // Only now: what is sent over this connection is for the server that has accepted it.
        let sent = environment.shared.now();
        let waits =
            if let Request::Claim(claim) = &request { Duration::from_nanos(claim.wait) } else { Duration::ZERO };
        let limit = if patience == PATIENCE { waits + patience } else { patience };
        let status = tokio::time::timeout(limit, connection.exchange(&bytes)).await;
        let ended = environment.shared.now();
        let answer = match status {
            Ok(Ok(status)) => {
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
        environment.seen().records.push(Record { client: self.number, sent, ended, request, answer });
    }

    async fn connect(&mut self) -> (u32, Connection) {
        let shared = &self.environment.shared;
        if let Some((life, connection)) = self.connection.take()
            && life == shared.life.load(Ordering::Relaxed)
        {
            return (life, connection);
        }
        loop {
            let life = shared.life.load(Ordering::Relaxed);
            if let Ok(connection) = Connection::open(shared.address).await {
                return (life, connection);
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

impl Seen {
    fn read(&mut self, request: &Request, status: u16, body: &[u8]) -> Result<Answer, String> {
        let Self { names, numbers, .. } = self;
        answers::read(request, status, body, |name| {
            *numbers.entry(name.to_owned()).or_insert_with(|| {
                names.push(name.to_owned());
                Session(names.len() as u32 - 1)
            })
        })
    }
}

impl Shared {
    pub fn now(&self) -> Moment {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(Moment::MAX)
    }

    fn error(&self, what: String) {
        *self.errors.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
    }
}

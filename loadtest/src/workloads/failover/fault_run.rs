//! State shared by all clients of one fault: the nodes, the environments, and the observations; and how a client sends
//! a request: it retries, going from node to node, until one returns its outcome.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::engine::{Fault, LoadTest, Operation};
use crate::history::{Answer, Moment, Record, Request};
use crate::sync::locked;
use crate::wire::{Api, Connection, ExchangeError, problem_code};

/// One organization per shard, in the order of the shards: the CRC-32C of its name modulo the number of shards.
pub const ORGANIZATIONS: [&str; 4] = ["a", "initech", "acme", "team-1"];

pub struct FaultRun {
    pub nodes: Vec<SocketAddr>,
    api: Api,
    /// The number of environments per organization.
    pub environments: u32,
    /// The prefix of every idempotency key, so that no two faults share one.
    pub name: String,
    origin: Instant,
    closing: AtomicBool,
    records: Mutex<Vec<Record>>,
    told: Mutex<Outcomes>,
}

#[derive(Clone, Default)]
pub struct Outcomes {
    pub statuses: BTreeMap<(Operation, u16), u64>,
    /// Number of retries with the same key.
    pub sent_again: u64,
    /// Errors that remained after all retries.
    pub errors: BTreeMap<String, u64>,
}

impl FaultRun {
    pub fn new(test: &mut LoadTest, environments: u32, name: String) -> Result<Self, Fault> {
        let nodes = test.server.cluster()?.addresses();
        let api = Api::new(&nodes[0], &test.scope.token);
        Ok(Self {
            nodes,
            api,
            environments,
            name: name.replace(|character: char| !character.is_ascii_alphanumeric(), "-"),
            origin: Instant::now(),
            closing: AtomicBool::new(false),
            records: Mutex::default(),
            told: Mutex::default(),
        })
    }

    /// The number of environments in all organizations.
    pub fn count(&self) -> u32 {
        self.environments * ORGANIZATIONS.len() as u32
    }

    pub fn shard_of(&self, environment: u32) -> Option<u16> {
        u16::try_from(environment / self.environments).ok()
    }

    pub fn names(&self) -> Vec<String> {
        (0..self.count()).map(|number| self.path(number)).collect()
    }

    pub fn path(&self, number: u32) -> String {
        let organization = ORGANIZATIONS[(number / self.environments) as usize % ORGANIZATIONS.len()];
        let place = number % self.environments;
        format!("/organizations/{organization}/pipelines/web/ephemeral-environments/load-{place:04}")
    }

    pub fn request(&self, method: &str, path: &str, key: &str, body: &str) -> Vec<u8> {
        let key = if key.is_empty() { String::new() } else { format!("Idempotency-Key: {}-{key}\r\n", self.name) };
        self.api.request(method, path, &key, body)
    }

    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    pub fn now(&self) -> Moment {
        Moment(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    pub fn take_records(&self) -> Vec<Record> {
        std::mem::take(&mut *locked(&self.records))
    }

    pub fn error(&self, what: String) {
        *locked(&self.told).errors.entry(what).or_default() += 1;
    }

    pub fn told(&self) -> Outcomes {
        locked(&self.told).clone()
    }
}

/// A node that does not answer for this long may be paused; the client then tries the next one.
const ATTEMPT: Duration = Duration::from_secs(5);
/// A client without an answer for this long gives up. No fault here lasts as long.
const GIVES_UP_AFTER: Duration = Duration::from_secs(60);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);
/// After this time, a client that switched to another node returns to its own.
const COMES_BACK_AFTER: Duration = Duration::from_secs(5);
/// Codes of refusals after which the same request may be retried.
const AGAIN: [&str; 6] = [
    "engine_unavailable",
    "outcome_unknown",
    "shutting_down",
    "storage_full",
    "idempotency_key_in_flight",
    "overloaded",
];

pub struct Asker {
    pub field: Arc<FaultRun>,
    number: u32,
    home: usize,
    node: usize,
    left_home: Instant,
    connection: Option<Connection>,
}

/// A request and its environment, for the history.
pub struct Asked {
    pub operation: Operation,
    pub environment: u32,
    pub request: Request,
}

impl Asker {
    pub fn new(field: Arc<FaultRun>, number: u32, home: usize) -> Self {
        Self { field, number, home, node: home, left_home: Instant::now(), connection: None }
    }

    /// Returns status and body; if the client gave up, records an error and returns none.
    pub async fn until_answered(&mut self, operation: Operation, request: &[u8]) -> Option<(u16, Vec<u8>)> {
        self.attempt(operation, request, |_, _| {}).await
    }

    /// Records every attempt; `read` gets the answer, and the number of earlier attempts that had none.
    pub async fn ask(
        &mut self,
        asked: Asked,
        bytes: &[u8],
        read: impl Fn(u16, &[u8], u32) -> Result<Answer, String>,
    ) -> Answer {
        let (field, client) = (self.field.clone(), self.number);
        let Asked { operation, environment, request } = asked;
        let (mut before, mut last) = (0, Answer::Unknown);
        self.attempt(operation, bytes, |sent, answered| {
            let answer = answered.map_or(Ok(Answer::Unknown), |(status, body)| read(status, body, before));
            before += 1;
            last = answer.unwrap_or_else(|unexpected| {
                field.error(format!("{}: {unexpected}", operation.name()));
                Answer::Unknown
            });
            let (environment, request, answer) = (Some(environment), request.clone(), last.clone());
            locked(&field.records).push(Record { client, environment, request, sent, ended: field.now(), answer });
        })
        .await;
        last
    }

    /// Calls `attempted` for each attempt with the moment of sending, and with its answer unless that allows a retry.
    async fn attempt(
        &mut self,
        operation: Operation,
        request: &[u8],
        mut attempted: impl FnMut(Moment, Option<(u16, &[u8])>),
    ) -> Option<(u16, Vec<u8>)> {
        let field = self.field.clone();
        let began = Instant::now();
        let mut last = String::new();
        while began.elapsed() < GIVES_UP_AFTER {
            let sent = field.now();
            match tokio::time::timeout(ATTEMPT, self.exchange(request)).await {
                Ok(Ok((status, connection))) => {
                    *locked(&field.told).statuses.entry((operation, status)).or_default() += 1;
                    match why_again(status, connection.body()) {
                        Some(why) => last = why,
                        None => {
                            attempted(sent, Some((status, connection.body())));
                            let body = connection.body().to_vec();
                            self.connection = Some(connection).filter(|connection| !connection.closes());
                            return Some((status, body));
                        }
                    }
                }
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => "no answer".clone_into(&mut last),
            }
            attempted(sent, None);
            locked(&field.told).sent_again += 1;
            self.go_on();
            tokio::time::sleep(BETWEEN_ATTEMPTS).await;
        }
        field.error(format!("{}: gave up after {} s: {last}", operation.name(), GIVES_UP_AFTER.as_secs()));
        None
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<(u16, Connection), ExchangeError> {
        if self.node != self.home && self.left_home.elapsed() >= COMES_BACK_AFTER {
            self.node = self.home;
            self.connection = None;
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(self.field.nodes[self.node]).await?,
        };
        let status = connection.exchange(request).await?;
        Ok((status, connection))
    }

    fn go_on(&mut self) {
        if self.node == self.home {
            self.left_home = Instant::now();
        }
        self.node = (self.node + 1) % self.field.nodes.len();
        self.connection = None;
    }
}

/// The reason why the same request may be retried, if the answer allows it.
fn why_again(status: u16, body: &[u8]) -> Option<String> {
    // A node that was paused may consider a request too slow.
    if status == 408 {
        return Some("too slow".to_owned());
    }
    problem_code(body).filter(|code| status >= 400 && AGAIN.contains(code)).map(str::to_owned)
}

/// Creates all environments: for locks in the first pipeline of each organization, for steps in the second.
pub async fn prepare(field: FaultRun) -> Result<(), Fault> {
    let field = Arc::new(field);
    let mut asker = Asker::new(field.clone(), 0, 0);
    let steps = ORGANIZATIONS.map(|id| format!("/organizations/{id}/pipelines/steps/ephemeral-environments/steps-1"));
    let of_load = (0..field.count()).map(|number| field.path(number));
    for path in of_load.chain(steps) {
        let request = field.request("PUT", &path, "", "{}");
        if !matches!(asker.until_answered(Operation::Put, &request).await, Some((200 | 201, _))) {
            return Err(Fault::Cluster(format!("cannot make an environment: {:?}", field.told().errors)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_sent_again_is() {
        let body = |code: &str| format!(r#"{{"code": "{code}"}}"#).into_bytes();
        assert_eq!(why_again(503, &body("engine_unavailable")), Some("engine_unavailable".to_owned()));
        assert_eq!(why_again(409, &body("idempotency_key_in_flight")), Some("idempotency_key_in_flight".to_owned()));
        assert_eq!(why_again(408, b""), Some("too slow".to_owned()));
        assert_eq!(why_again(409, &body("environment_locked")), None);
        assert_eq!(why_again(503, &body("rate_limited")), None);
        assert_eq!(why_again(201, b"{}"), None);
    }
}

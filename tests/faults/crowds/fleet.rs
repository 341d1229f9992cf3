//! A server with five environments for a crowd, and its state as visible from outside.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use super::checks;
use super::record::{History, Past, Record, Story, job_of};
use crate::support::{Client, Server, Setup, at};

pub const ENVIRONMENTS: usize = 5;
/// The history has room for all jobs.
const SETTINGS: &str = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\nhistory_retention = 1000000\n";
/// How long the server may hold a request that waits for a change.
const WAIT_SECONDS: u32 = 30;
const PAGE: usize = 100;

/// The target of a job's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    Named(usize),
    Any,
}

impl Wants {
    /// Half want one by name, evenly distributed, and half want any.
    pub fn of(number: usize) -> Self {
        if number.is_multiple_of(2) { Wants::Named(number / 2 % ENVIRONMENTS) } else { Wants::Any }
    }

    /// The path of its claim, below the pipeline's environments.
    pub fn path(self) -> String {
        match self {
            Wants::Named(number) => format!("/{}/sessions", name(number)),
            Wants::Any => "/sessions".to_owned(),
        }
    }

    /// The body of its claim.
    pub fn body(self, mut with: Value) -> Value {
        if self == Wants::Any {
            with["labels"] = labels();
        }
        with
    }
}

pub fn name(number: usize) -> String {
    format!("crowd-{number}")
}

pub fn names() -> impl Iterator<Item = String> {
    (0..ENVIRONMENTS).map(name)
}

fn labels() -> Value {
    json!({ "for": "crowds" })
}

pub struct Fleet {
    pub server: Server,
    pub record: Arc<Record>,
}

impl Fleet {
    pub async fn start() -> Self {
        raise_file_limit();
        let server = Setup::default().settings(SETTINGS).start();
        let client = server.admin();
        for name in names() {
            client.put(&at(&name), json!({ "labels": labels() })).await.created();
        }
        Self { server, record: Arc::default() }
    }

    /// The number of waiters for each environment by name.
    pub async fn queue_lengths(&self) -> Vec<usize> {
        let client = self.server.admin();
        let mut lengths = Vec::new();
        for name in names() {
            lengths.push(queue_length(&client.environment(&name).await.ok().data()));
        }
        lengths
    }

    /// The number of waiters for any environment, as reported to a claim without waiting. Call it while all are held.
    pub async fn pool_length(&self) -> usize {
        let path = at("sessions");
        let refused = self.server.admin().post(&path, json!({ "labels": labels() })).await;
        queue_length(&refused.refused(409, "environment_locked").json())
    }

    /// Waits until this many wait for an environment.
    pub async fn until_queue_is(&self, environment: usize, length: usize) {
        self.until(environment, |found| queue_length(found) == length).await;
    }

    pub async fn until_locked(&self, environment: usize) {
        self.until(environment, |found| found["lockStatus"] == "locked").await;
    }

    /// Waits until this many wait for any; polls, since there is no event for it. Call it while all are held.
    pub async fn until_pool_is(&self, length: usize) {
        const ATTEMPTS: usize = 10_000;
        for _ in 0..ATTEMPTS {
            if self.pool_length().await == length {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("{length} never wait for any environment");
    }

    /// Waits until the environment has the wanted state.
    async fn until(&self, environment: usize, wanted: impl Fn(&Value) -> bool) {
        const CHANGES: usize = 10_000;
        let client = self.server.admin();
        let path = client.path(&format!("{}?waitSeconds={WAIT_SECONDS}", at(&name(environment))));
        let mut etag = String::new();
        for _ in 0..CHANGES {
            let request = client.request(reqwest::Method::GET, &path).header("If-None-Match", &etag);
            let found = client.send(request).await;
            assert_ne!(found.status, 304, "{} stays as it is for too long", name(environment));
            etag = found.header("etag").to_owned();
            if wanted(&found.ok().data()) {
                return;
            }
        }
        panic!("{} never comes to look as it should", name(environment));
    }

    /// Waits until every lock is free, and checks that no waiter is left.
    pub async fn until_all_is_quiet(&self) {
        for number in 0..ENVIRONMENTS {
            self.until(number, |found| found["lockStatus"] == "unlocked" && queue_length(found) == 0).await;
        }
    }

    /// The whole story, checked; also checks that no waiter for any environment is left.
    pub async fn check(&self) -> Story {
        self.until_all_is_quiet().await;
        let client = self.server.admin();
        let mut histories = Vec::new();
        for name in names() {
            histories.push(history(&client, &name).await);
        }
        let story = self.record.told(histories);
        checks::check(&story);
        for name in names() {
            client.claim(&name, json!({})).await.created();
        }
        assert_eq!((self.pool_length().await, self.queue_lengths().await), (0, vec![0; ENVIRONMENTS]));
        story
    }
}

fn queue_length(found: &Value) -> usize {
    found["queueLength"].as_u64().unwrap() as usize
}

async fn history(client: &Client, name: &str) -> History {
    let mut sessions = Vec::new();
    for page in 1.. {
        let found = client.get(&format!("{}/history?page={page}&limit={PAGE}", at(name))).await.ok().json();
        let entries = found["data"].as_array().unwrap();
        sessions.extend(entries.iter().map(past));
        if page >= found["pagination"]["totalPages"].as_u64().unwrap() {
            assert_eq!(found["pagination"]["total"], sessions.len());
            break;
        }
    }
    sessions.reverse();
    History { environment: name.to_owned(), sessions }
}

fn past(entry: &Value) -> Past {
    let text = |field: &str| entry[field].as_str().unwrap().to_owned();
    Past {
        job: job_of(&text("context")).unwrap(),
        token: entry["fencingToken"].as_u64().unwrap(),
        session: text("sessionId"),
        claimed_at: text("claimedAt").parse().unwrap(),
        status: text("lockStatus"),
        reason: entry["endReason"].as_str().map(str::to_owned),
    }
}

/// A thousand connections exceed many systems' initial limit for a process.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
}

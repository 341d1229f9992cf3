//! Owns what all clients of one fault share: the nodes, the environments, and what was seen.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::engine::load_test::{Fault, LoadTest};
use crate::engine::tally::Operation;
use crate::history::{Moment, Record};
use crate::wire::request::Api;

/// One in each shard, by its number: the CRC-32C of its name modulo the number of shards.
pub const ORGANIZATIONS: [&str; 4] = ["a", "initech", "acme", "team-1"];

pub struct Field {
    pub nodes: Vec<SocketAddr>,
    api: Api,
    /// In each organization.
    pub environments: u32,
    /// Begins every key, so that no two faults share one.
    pub name: String,
    origin: Instant,
    closing: AtomicBool,
    records: Mutex<Vec<Record>>,
    told: Mutex<Told>,
}

/// The answers that the clients got.
#[derive(Clone, Default)]
pub struct Told {
    pub statuses: BTreeMap<(Operation, u16), u64>,
    /// Attempts that were sent again, as a client with a key may.
    pub sent_again: u64,
    /// Errors that clients got after all their retries.
    pub errors: BTreeMap<String, u64>,
}

impl Field {
    pub fn new(test: &mut LoadTest, environments: u32, name: String) -> Result<Self, Fault> {
        let nodes = test.server.cluster()?.addresses();
        let api = Api::new(&nodes[0], &test.place.token);
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

    /// Of all organizations.
    pub fn count(&self) -> u32 {
        self.environments * ORGANIZATIONS.len() as u32
    }

    pub fn shard_of(&self, environment: u32) -> Option<u16> {
        u16::try_from(environment / self.environments).ok()
    }

    pub fn names(&self) -> Vec<String> {
        (0..self.count()).map(|number| self.path(number)).collect()
    }

    /// The path of an environment.
    pub fn path(&self, number: u32) -> String {
        let organization = ORGANIZATIONS[(number / self.environments) as usize % ORGANIZATIONS.len()];
        let place = number % self.environments;
        format!("/organizations/{organization}/pipelines/web/ephemeral-environments/load-{place:04}")
    }

    /// With a key, if there is one.
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

    pub fn record(&self, record: Record) {
        lock(&self.records).push(record);
    }

    pub fn take_records(&self) -> Vec<Record> {
        std::mem::take(&mut *lock(&self.records))
    }

    pub fn count_status(&self, operation: Operation, status: u16) {
        *lock(&self.told).statuses.entry((operation, status)).or_default() += 1;
    }

    pub fn count_again(&self) {
        lock(&self.told).sent_again += 1;
    }

    pub fn error(&self, what: String) {
        *lock(&self.told).errors.entry(what).or_default() += 1;
    }

    pub fn told(&self) -> Told {
        lock(&self.told).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

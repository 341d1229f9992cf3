//! The states that a crowd has seen, which later answers must not contradict.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on stops")]

use std::collections::HashMap;
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use crate::support::Client;

/// Runs them all concurrently and waits for all.
pub async fn at_once<T: Send + 'static>(
    tasks: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let tasks: Vec<_> = tasks.map(tokio::spawn).collect();
    let mut results = Vec::with_capacity(tasks.len());
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

pub async fn actors_in_memory(client: &Client) -> u64 {
    let metrics = client.send(client.request(Method::GET, "/metrics")).await.ok().text;
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix("lockkeeper_environment_actors "));
    value.map_or(0, |value| value.trim().parse::<f64>().unwrap() as u64)
}

/// Waits until the number of environments in memory is as wanted.
pub async fn until_actors(client: &Client, wanted: impl Fn(u64) -> bool) {
    const ATTEMPTS: usize = 3000;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 0..ATTEMPTS {
        if wanted(actors_in_memory(client).await) {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("environments stay in memory");
}

/// The progress of an environment: a session's grant is even, its end is the next odd number.
type Position = u64;

/// All states seen by any client.
pub struct Sightings {
    known: Vec<Position>,
    sessions: HashMap<(usize, u64), String>,
}

impl Sightings {
    pub fn new(environments: usize) -> Self {
        Self { known: vec![0; environments], sessions: HashMap::new() }
    }

    /// The states known now, which later requests must not contradict.
    pub fn known(&self) -> Vec<Position> {
        self.known.clone()
    }

    pub fn grants(&self) -> usize {
        self.sessions.len()
    }

    pub fn newest_session(&self, environment: usize) -> Option<String> {
        let token = self.known[environment] / 2;
        self.sessions.get(&(environment, token)).cloned()
    }

    pub fn told_holder(&mut self, environment: usize, session: &Value) {
        let token = self.note(environment, session);
        self.advance(environment, 2 * token);
    }

    pub fn told_ended(&mut self, environment: usize, session: &Value) {
        let token = self.note(environment, session);
        self.advance(environment, 2 * token + 1);
    }

    /// A reader saw this lock, or none, after `before` was known.
    pub fn saw(&mut self, environment: usize, lock: &Value, before: &[Position], how: &str) {
        if lock.is_null() {
            // The previously known session has ended; nothing more is known.
            self.advance(environment, before[environment] | 1);
            return;
        }
        let token = self.note(environment, lock);
        self.check(environment, 2 * token, before, how);
    }

    pub fn saw_ended(&mut self, environment: usize, session: &Value, before: &[Position], how: &str) {
        let token = self.note(environment, session);
        self.check(environment, 2 * token + 1, before, how);
    }

    fn check(&mut self, environment: usize, seen: Position, before: &[Position], how: &str) {
        let known = before[environment];
        assert!(seen >= known, "{how} of environment {environment} shows {seen} to a reader who could know of {known}");
        self.advance(environment, seen);
    }

    fn advance(&mut self, environment: usize, position: Position) {
        let known = &mut self.known[environment];
        *known = position.max(*known);
    }

    fn note(&mut self, environment: usize, session: &Value) -> u64 {
        let token = session["fencingToken"].as_u64().unwrap();
        let id = session["sessionId"].as_str().unwrap();
        let known = self.sessions.entry((environment, token)).or_insert_with(|| id.to_owned());
        assert_eq!(*known, id, "token {token} of environment {environment} has two holders");
        token
    }
}

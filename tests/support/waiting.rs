//! Waiting clients: in a queue, for a change, with a key. Nothing here sleeps; reads are held open instead.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{Answer, Client, at};

/// Only makes a test fail instead of hang.
const PATIENCE: Duration = Duration::from_secs(120);
/// Often enough to be quick, and rarely enough to leave the processor to the awaited processes.
const POLLED_EVERY: Duration = Duration::from_millis(10);

/// Waits for a condition that no answer reports: a line of a log, a file, another process.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    until_found(what, async || holds().await.then_some(())).await;
}

/// The same, for a value.
pub async fn until_found<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "timed out after {PATIENCE:?} waiting: {what}");
        tokio::time::sleep(POLLED_EVERY).await;
    }
}

/// Waits until a program ends, and returns how.
pub fn exit_of(program: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until("a program that ends", || {
        status = program.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// The same outside a runtime.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "timed out after {PATIENCE:?} waiting: {what}");
        std::thread::sleep(POLLED_EVERY);
    }
}

/// A process that ends with the test, and in any case after a while, so that reading its output ends too.
pub struct Bounded {
    child: Child,
    /// Dropped with it, which ends the thread that would kill it.
    _over: mpsc::Sender<()>,
}

impl Bounded {
    pub fn spawn(command: &mut Command) -> Self {
        let child = command.spawn().unwrap();
        let pid = Pid::from_child(&child);
        let (over, ended) = mpsc::channel();
        std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                kill_process(pid, Signal::KILL).ok();
            }
        });
        Self { child, _over: over }
    }
}

impl Deref for Bounded {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Bounded {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// How long one read is held open.
const HOLD_SECONDS: u64 = 20;
/// Only makes a test fail instead of hang if a change never comes.
const HOLDS: usize = 6;

/// The path for claiming any environment of the pipeline `web`, below the organization.
pub const ANY: &str = "/pipelines/web/ephemeral-environments/sessions";

impl Client {
    pub async fn heartbeat(&self, environment: &str, session: &str) -> Answer {
        self.post(&format!("{}/sessions/{session}/heartbeat", at(environment)), json!({})).await
    }

    pub async fn claim_any(&self, body: Value) -> Answer {
        self.post(ANY, body).await
    }

    /// A session by its id only.
    pub async fn any_session(&self, session: &str) -> Answer {
        self.get(&format!("{ANY}/{session}")).await
    }

    pub async fn release_any(&self, session: &str) -> Answer {
        self.delete(&format!("{ANY}/{session}")).await
    }

    pub async fn queue(&self, environment: &str) -> Answer {
        self.get(&format!("{}/queue", at(environment))).await
    }

    /// A waiting claim in a separate task; returns once it is at position `place`, the last in the queue.
    pub async fn wait_in_line(&self, environment: &str, body: Value, place: usize) -> JoinHandle<Answer> {
        let (client, name) = (self.clone(), environment.to_owned());
        let claim = tokio::spawn(async move { client.claim(&name, body).await });
        self.until_queue_is(environment, place).await;
        claim
    }

    /// A claim that is answered with a queued session.
    pub async fn enqueue(&self, environment: &str, body: Value) -> Answer {
        let mut body = body;
        body["queue"] = json!(true);
        self.claim(environment, body).await.has_status(202)
    }

    /// Reads a resource unless it still has this ETag, waiting as long as the server may hold the read.
    pub async fn read_unless(&self, rest: &str, etag: &str, wait_seconds: u64) -> Answer {
        let path = self.path(&format!("{rest}?waitSeconds={wait_seconds}"));
        self.send(self.request(Method::GET, &path).header("If-None-Match", etag)).await
    }

    /// Waits until a resource is as wanted, and returns it.
    pub async fn until(&self, rest: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut found = self.get(rest).await.ok();
        let mut held = 0;
        while !wanted(&found.data()) {
            assert!(held < HOLDS, "it stays as it is: {found:?}");
            let next = self.read_unless(rest, found.header("etag"), HOLD_SECONDS).await;
            if next.status == 304 {
                held += 1;
            } else {
                found = next.ok();
            }
        }
        found.data()
    }

    /// Waits until the log of a deployment has this text.
    pub async fn until_printed(&self, deployment: &str, text: &str) {
        let path = self.path(&format!("/deployments/{deployment}/logs?follow=true"));
        let mut response = self.request(Method::GET, &path).send().await.unwrap();
        let mut seen = Vec::new();
        while let Some(chunk) = response.chunk().await.unwrap() {
            seen.extend_from_slice(&chunk);
            if String::from_utf8_lossy(&seen).contains(text) {
                return;
            }
        }
        panic!("{text:?} was never printed: {}", String::from_utf8_lossy(&seen));
    }

    pub async fn until_environment(&self, environment: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(&at(environment), wanted).await
    }

    /// Waits until this many are in the queue.
    pub async fn until_queue_is(&self, environment: &str, length: usize) {
        self.until_environment(environment, |found| found["queueLength"] == length).await;
    }

    /// Waits until a session has this status, and returns the session.
    pub async fn until_session_is(&self, environment: &str, session: &str, status: &str) -> Value {
        self.until(&format!("{}/sessions/{session}", at(environment)), |found| found["lockStatus"] == status).await
    }

    /// The same by its id only.
    pub async fn until_any_session_is(&self, session: &str, status: &str) -> Value {
        self.until(&format!("{ANY}/{session}"), |found| found["lockStatus"] == status).await
    }
}

/// A time of an answer, in milliseconds.
pub fn millis(time: &Value) -> i64 {
    let text = time.as_str().unwrap_or_else(|| panic!("no time: {time}"));
    text.parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

/// The current time in milliseconds.
pub fn now_millis() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// The values of one field of a list.
pub fn column(list: &Answer, field: &str) -> Vec<Value> {
    list.data().as_array().unwrap().iter().map(|item| item[field].clone()).collect()
}

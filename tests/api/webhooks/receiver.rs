//! A receiver in a separate process, which outlives the servers that send to it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// The base64 of 32 and of 24 bytes.
pub const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub const OTHER_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub struct Receiver {
    child: Child,
    pub address: String,
    http: reqwest::Client,
}

impl Receiver {
    /// None, with a message, if Python is not installed.
    pub fn start() -> Option<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api/webhooks/receiver.py");
        let child = Command::new("python3").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = child else {
            eprintln!("skipped: python3 is not installed");
            return None;
        };
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        rustls::crypto::ring::default_provider().install_default().ok();
        let http = reqwest::Client::builder().timeout(Duration::from_secs(60)).no_proxy().build().unwrap();
        Some(Self { child, address: format!("http://127.0.0.1:{}", port.trim()), http })
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    /// Sets the answers of a path: these in order, and then always `then`. Verifies with [`SECRET`].
    pub async fn plan(&self, path: &str, answers: Value, then: Value) {
        self.plan_with(path, &[SECRET], answers, then).await;
    }

    pub async fn plan_with(&self, path: &str, secrets: &[&str], answers: Value, then: Value) {
        let plan = json!({ path: { "secrets": secrets, "answers": answers, "then": then } });
        self.post("/_plan", &plan).await;
    }

    /// All deliveries to a path, once there are this many.
    pub async fn seen(&self, path: &str, count: usize) -> Vec<Value> {
        self.wait(json!({ "path": path, "count": count })).await
    }

    /// The same, counting only deliveries answered with this status, and each message only once.
    pub async fn distinct(&self, path: &str, status: u16, count: usize) -> Vec<Value> {
        self.wait(json!({ "path": path, "count": count, "answered": status, "distinct": true })).await
    }

    /// All deliveries to a path so far.
    pub async fn seen_by_now(&self, path: &str) -> Vec<Value> {
        self.wait(json!({ "path": path, "count": 0 })).await
    }

    async fn wait(&self, wanted: Value) -> Vec<Value> {
        let found: Vec<Value> = serde_json::from_str(&self.post("/_seen", &wanted).await).unwrap();
        let statuses: Vec<_> = found.iter().map(|entry| &entry["answered"]).collect();
        let count = found.len() as u64;
        assert!(count >= wanted["count"].as_u64().unwrap(), "only {count} came of {wanted}: {statuses:?}");
        found
    }

    /// Releases everything that hangs.
    pub async fn release(&self) {
        self.post("/_release", &json!({})).await;
    }

    async fn post(&self, path: &str, body: &Value) -> String {
        let answer = self.http.post(self.url(path)).json(body).send().await.unwrap();
        answer.text().await.unwrap()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Checks that every message was signed correctly, and returns the events' ids in the order of arrival.
pub fn event_ids(seen: &[Value]) -> Vec<String> {
    for entry in seen {
        let verified = entry["verified"].as_array().unwrap();
        assert!(!verified.is_empty() && verified.iter().all(|fits| *fits == true), "a bad signature: {entry}");
        assert_eq!(
            (&entry["id"], &entry["body"]["type"]),
            (&entry["body"]["data"]["eventId"], &entry["body"]["data"]["type"])
        );
        assert_eq!(entry["content"], "application/json");
        assert!(entry["agent"].as_str().unwrap().starts_with("lockkeeper/"), "{entry}");
    }
    seen.iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

//! Many clients that claim and release with keys while nodes are stopped and killed one at a time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::nodes::Nodes;
use crate::support::{Answer, Client, at};

const CLIENTS: usize = 12;
const ENVIRONMENTS: [&str; 3] = ["review-1", "review-2", "review-3"];

#[derive(Default)]
struct Seen {
    /// The clients that hold an environment, as far as they know.
    holders: BTreeMap<&'static str, usize>,
    /// The fencing tokens of each environment, in the order in which clients received them.
    tokens: BTreeMap<&'static str, Vec<u64>>,
    sessions: Vec<(&'static str, String)>,
    wrong: Vec<String>,
}

struct Crowd {
    /// The current addresses of the nodes.
    addresses: Mutex<Vec<String>>,
    admin: Client,
    seen: Mutex<Seen>,
    over: AtomicBool,
    keys: AtomicU64,
}

impl Crowd {
    async fn work(self: Arc<Self>, number: usize) {
        while !self.over.load(Ordering::Relaxed) {
            let environment = ENVIRONMENTS[number % ENVIRONMENTS.len()];
            let sessions = format!("{}/sessions", at(environment));
            let claimed = self.until_answered(number, &sessions, json!({ "ttlSeconds": 600, "waitSeconds": 1 })).await;
            if claimed.status == 409 {
                continue;
            }
            let claimed = claimed.created();
            self.took(number, environment, &claimed.data());
            self.left(number, environment);
            self.release(number, environment, &claimed.session()).await;
        }
    }

    fn took(&self, number: usize, environment: &'static str, session: &Value) {
        let mut seen = self.seen.lock().unwrap();
        if let Some(other) = seen.holders.insert(environment, number) {
            seen.wrong.push(format!("{environment} was given to {number} while {other} had it"));
        }
        seen.tokens.entry(environment).or_default().push(session["fencingToken"].as_u64().unwrap());
        seen.sessions.push((environment, session["sessionId"].as_str().unwrap().to_owned()));
    }

    fn left(&self, number: usize, environment: &'static str) {
        let removed = self.seen.lock().unwrap().holders.remove(environment);
        assert_eq!(removed, Some(number));
    }

    /// Repeats until it is certain: a client without an answer retries, and finds it released.
    async fn release(&self, number: usize, environment: &str, session: &str) {
        for attempt in number.. {
            let client = self.client(attempt);
            let path = client.path(&format!("{}/sessions/{session}", at(environment)));
            match client.try_send(client.request(reqwest::Method::DELETE, &path)).await {
                Ok(answer) if [200, 409].contains(&answer.status.as_u16()) => return,
                Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn client(&self, attempt: usize) -> Client {
        let addresses = self.addresses.lock().unwrap();
        self.admin.clone().at_address(&addresses[attempt % addresses.len()])
    }

    /// With one key, trying the nodes in turn, until one has an answer.
    async fn until_answered(&self, number: usize, path: &str, body: Value) -> Answer {
        let key = format!("key-{}", self.keys.fetch_add(1, Ordering::Relaxed));
        for attempt in number.. {
            let client = self.client(attempt);
            let request = client.request(reqwest::Method::POST, &client.path(path));
            let request = request.header("idempotency-key", &key).json(&body);
            match client.try_send(request).await {
                Ok(answer) if answer.status == 503 || answer.status == 408 => {}
                Ok(answer) => return answer,
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        unreachable!("there is always another attempt")
    }
}

#[tokio::test]
async fn whoever_claims_under_a_key_gets_each_lock_once_whatever_happens_to_nodes() {
    let Some(mut nodes) = Nodes::start(3, 1).await else { return };
    let addresses = Mutex::new(nodes.nodes.iter().map(|node| node.address.clone()).collect());
    let (seen, over, keys) = (Mutex::default(), AtomicBool::new(false), AtomicU64::new(0));
    let crowd = Arc::new(Crowd { addresses, admin: nodes.admin(0), seen, over, keys });
    let clients: Vec<_> = (0..CLIENTS).map(|number| tokio::spawn(crowd.clone().work(number))).collect();
    for round in 0..6 {
        let node = round % 3;
        if round < 3 {
            assert!(nodes.nodes[node].terminate().success(), "{}", nodes.nodes[node].log());
        } else {
            nodes.nodes[node].kill();
        }
        nodes.nodes[node].start_again();
        crowd.addresses.lock().unwrap()[node].clone_from(&nodes.nodes[node].address);
        nodes.until_ready(node).await;
        // Waits until another node has taken over.
        nodes.admin(node).environment("review-1").await.ok();
    }
    crowd.over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let seen = std::mem::take(&mut *crowd.seen.lock().unwrap());
    assert_eq!(seen.wrong, Vec::<String>::new());
    for (environment, tokens) in &seen.tokens {
        assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{environment}: {tokens:?}");
    }
    for (environment, session) in &seen.sessions {
        nodes.admin(0).session(environment, session).await.ok();
    }
    println!("{} grants through 3 stops and 3 kills, all there", seen.sessions.len());
    assert_eq!(nodes.admin(1).get("/audit").await.ok().data()["intact"], true);
}

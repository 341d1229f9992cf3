//! Clients that claim, deploy, release and force-claim at random until the server is gone.

use std::sync::{Arc, Mutex};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use tokio::sync::watch;

use super::ledger::{Holder, Ledger};
use crate::support::{Answer, Client, Server, at};

/// The users of the clients, with their tokens: created once, used through all restarts.
pub struct Users {
    tokens: Vec<(String, String)>,
}

impl Users {
    pub async fn make(server: &Server) -> Self {
        let mut tokens = Vec::new();
        for name in ["ana", "ben"] {
            let body = json!({ "name": "durability", "user": name });
            let made = server.admin().post("/tokens", body).await.created();
            tokens.push((name.to_owned(), made.data()["token"].as_str().unwrap().to_owned()));
        }
        Self { tokens }
    }

    pub fn clients(&self, server: &Server) -> Vec<(String, Client)> {
        let clients = self.tokens.iter();
        clients.map(|(name, token)| (name.clone(), server.with_token(token))).collect()
    }
}

pub struct Worker {
    pub clients: Vec<(String, Client)>,
    pub ledger: Arc<Mutex<Ledger>>,
    pub environments: usize,
    pub random: SmallRng,
    /// The number of acknowledged effects since the server's last start.
    pub acknowledged: watch::Sender<usize>,
}

/// The connection broke: the server is gone.
struct Gone;

impl Worker {
    pub async fn run(mut self) {
        while self.step().await.is_ok() {}
    }

    async fn step(&mut self) -> Result<(), Gone> {
        let environment = self.random.random_range(0..self.environments);
        let holder = self.ledger.lock().unwrap().holder(environment);
        match (self.random.random_range(0..100), holder) {
            (0..20, _) => self.claim(environment, "force-claim").await,
            (20..50, Some(holder)) => self.release(environment, holder).await,
            (50..75, Some(holder)) => self.deploy(environment, holder).await,
            (75..85, _) => self.look(environment).await,
            _ => self.claim(environment, "sessions").await,
        }
    }

    async fn claim(&mut self, environment: usize, path: &str) -> Result<(), Gone> {
        let newest_before = self.ledger.lock().unwrap().newest(environment);
        let mut body = json!({ "context": "durability" });
        if self.random.random_bool(0.5) {
            body["commitId"] = json!("c0ffee1");
        }
        let user = self.random.random_range(0..self.clients.len());
        let client = &self.clients[user].1;
        let path = client.path(&format!("{}/{path}", at(&Ledger::name(environment))));
        let answer = ask(client, client.request(Method::POST, &path).json(&body)).await;
        let mut ledger = self.ledger.lock().unwrap();
        let Ok(answer) = answer else {
            ledger.grant_unanswered(environment);
            return Err(Gone);
        };
        match answer.status.as_u16() {
            201 => {
                ledger.granted(environment, &answer.data(), newest_before);
                self.acknowledged.send_modify(|count| *count += 1);
            }
            409 => {
                assert_eq!(answer.problem().1, "environment_locked");
                ledger.shown(environment, &answer.json()["holder"]);
            }
            _ => panic!("{answer:?}"),
        }
        Ok(())
    }

    async fn release(&mut self, environment: usize, holder: Holder) -> Result<(), Gone> {
        let client = self.client_of(&holder);
        let path = client.path(&format!("{}/sessions/{}", at(&Ledger::name(environment)), holder.session));
        let answer = ask(client, client.request(Method::DELETE, &path)).await;
        let mut ledger = self.ledger.lock().unwrap();
        let Ok(answer) = answer else {
            ledger.release_unanswered(environment, &holder.session);
            return Err(Gone);
        };
        ledger.shown(environment, &answer.ok().data());
        ledger.acknowledge();
        self.acknowledged.send_modify(|count| *count += 1);
        Ok(())
    }

    async fn deploy(&mut self, environment: usize, holder: Holder) -> Result<(), Gone> {
        let client = self.client_of(&holder);
        let path = format!("{}/sessions/{}/deploy", at(&Ledger::name(environment)), holder.session);
        let request = client.request(Method::POST, &client.path(&path));
        let answer = ask(client, request.json(&json!({ "commitId": "decade2" }))).await?;
        match answer.status.as_u16() {
            202 => {
                let mut ledger = self.ledger.lock().unwrap();
                ledger.deployed(environment, &answer.data());
                ledger.acknowledge();
                self.acknowledged.send_modify(|count| *count += 1);
            }
            409 => assert!(["session_overridden", "session_released"].contains(&answer.problem().1.as_str())),
            _ => panic!("{answer:?}"),
        }
        Ok(())
    }

    /// A reader never sees a state older than the acknowledged one at its request, or one that is lost later.
    async fn look(&mut self, environment: usize) -> Result<(), Gone> {
        let newest_before = self.ledger.lock().unwrap().newest(environment);
        let client = &self.clients[0].1;
        let path = client.path(&at(&Ledger::name(environment)));
        let answer = ask(client, client.request(Method::GET, &path)).await?.ok().data();
        let lock = &answer["lock"];
        if !lock.is_null() {
            let token = lock["fencingToken"].as_u64().unwrap();
            assert!(token >= newest_before, "a reader was shown {token} after {newest_before}");
            self.ledger.lock().unwrap().shown(environment, lock);
        }
        Ok(())
    }

    fn client_of(&self, holder: &Holder) -> &Client {
        let mine = self.clients.iter().find(|(name, _)| *name == holder.user);
        &mine.unwrap().1
    }
}

async fn ask(client: &Client, request: RequestBuilder) -> Result<Answer, Gone> {
    client.try_send(request).await.map_err(|error| {
        assert!(!error.is_timeout(), "a request was never answered: {error}");
        Gone
    })
}

pub fn random(seed: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed)
}

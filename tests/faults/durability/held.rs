//! Individually acknowledged locks, and whether all of them still exist.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Client, Server, at};

/// Claims that were answered with success, in their order.
#[derive(Default)]
pub struct Held {
    claims: Vec<(String, Value)>,
}

impl Held {
    /// Creates an environment with this name and claims it.
    pub async fn claim_new(&mut self, client: &Client, environment: &str) {
        let answer = make_and_claim(client, environment).await;
        self.note(environment, &answer.created());
    }

    pub fn note(&mut self, environment: &str, claimed: &Answer) {
        self.claims.push((environment.to_owned(), claimed.data()));
    }

    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Checks that the sessions are unchanged, and hold their environments.
    pub async fn assert_all_there(&self, server: &Server) {
        self.assert_first_there(server, self.len()).await;
    }

    pub async fn assert_first_there(&self, server: &Server, count: usize) {
        let client = server.admin();
        for (environment, session) in &self.claims[..count] {
            let id = session["sessionId"].as_str().unwrap();
            let found = client.session(environment, id).await.ok().data();
            assert_eq!(found, *session, "the session of {environment} is not as it was acknowledged");
            let lock = &client.environment(environment).await.ok().data()["lock"];
            assert_eq!(
                (&lock["sessionId"], &lock["fencingToken"]),
                (&session["sessionId"], &session["fencingToken"]),
                "{environment} is not held by the session that was acknowledged"
            );
        }
    }
}

/// Creates an environment with this name and claims it; returns the answer to the claim, or to the creation if that
/// failed.
pub async fn make_and_claim(client: &Client, environment: &str) -> Answer {
    make_and_try_claim(client, environment).await.unwrap()
}

/// The same, for a server that may end meanwhile.
pub async fn make_and_try_claim(client: &Client, environment: &str) -> Result<Answer, reqwest::Error> {
    let path = client.path(&at(environment));
    let made = client.try_send(client.request(Method::PUT, &path).json(&json!({}))).await?;
    if !made.status.is_success() {
        return Ok(made);
    }
    let claim = client.request(Method::POST, &format!("{path}/sessions"));
    client.try_send(claim.json(&json!({ "commitId": "c0ffee1" }))).await
}

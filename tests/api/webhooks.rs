//! Webhooks, with a real receiver that verifies deliveries with an independent implementation.

mod addresses;
mod delivering;
mod disabling;
mod managing;
mod receiver;
mod restarting;

use std::time::Duration;

use crate::support::{Answer, Client, Server, Setup};
use receiver::SECRET;
use reqwest::Method;
use serde_json::{Value, json};

/// A server that may send to this machine and has short waits.
fn server(retry_seconds: &str) -> Server {
    setup(retry_seconds, "").start()
}

fn setup(retry_seconds: &str, more: &str) -> Setup {
    Setup::default().settings(&format!(
        "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[webhooks]\nallow_private = true\nretry_seconds = {retry_seconds}\n{more}"
    ))
}

async fn make(admin: &Client, url: &str, events: Value) -> String {
    let body = json!({ "url": url, "events": events, "secret": SECRET });
    let made = admin.post("/webhooks", body).await.created().data();
    made["webhookId"].as_str().unwrap().to_owned()
}

/// One claim and one release: two events.
async fn cycle(client: &Client, environment: &str) {
    let session = client.claim(environment, json!({})).await.created().session();
    client.release(environment, &session).await.ok();
}

async fn patch(client: &Client, rest: &str, body: Value) -> Answer {
    client.send(client.request(Method::PATCH, &client.path(rest)).json(&body)).await
}

async fn webhook(admin: &Client, id: &str) -> Value {
    admin.get(&format!("/webhooks/{id}")).await.ok().data()
}

pub async fn deliveries(admin: &Client, id: &str) -> Vec<Value> {
    admin.get(&format!("/webhooks/{id}/deliveries?limit=100")).await.ok().data().as_array().unwrap().clone()
}

/// Its only delivery, once it has the wanted state.
async fn only_delivery(admin: &Client, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let found = until(|| deliveries(admin, id), |found| found.first().is_some_and(&wanted)).await;
    let [delivery] = found.as_slice() else { panic!("{found:#?}") };
    delivery.clone()
}

/// Polls until the state is as wanted. The number of polls only makes a test fail instead of hang.
pub async fn until<T: std::fmt::Debug, F: Future<Output = T>>(look: impl Fn() -> F, wanted: impl Fn(&T) -> bool) -> T {
    const LOOKS: usize = 1_500;
    for _ in 0..LOOKS {
        let found = look().await;
        if wanted(&found) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never was as wanted: {:#?}", look().await);
}

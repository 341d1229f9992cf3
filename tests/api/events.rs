//! Events: recorded with every change, listed, streamed, and kept in a chain that reveals tampering.

mod crowd;
mod kinds;
mod listing;
pub mod offline;
mod sse;
mod streaming;
mod tampering;
mod verifying;
mod verifying_online;
mod verifying_remotely;

use crate::support::Client;
use serde_json::{Value, json};

/// Two events.
async fn cycle(client: &Client, environment: &str) -> String {
    let session = client.claim(environment, json!({})).await.created().session();
    client.release(environment, &session).await.ok();
    session
}

/// All events, oldest first, from as many pages as needed.
async fn all_events(client: &Client, query: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut next = Some(client.path(&format!("/events?limit=100{query}")));
    while let Some(path) = next {
        let page = client.send(client.request(reqwest::Method::GET, &path)).await.ok();
        found.extend(page.data().as_array().unwrap().iter().cloned());
        next = page.link("next");
    }
    found.reverse();
    found
}

fn text<'a>(event: &'a Value, field: &str) -> &'a str {
    event[field].as_str().unwrap_or_else(|| panic!("no {field} in {event:#}"))
}

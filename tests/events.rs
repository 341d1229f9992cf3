//! What has happened: recorded with every change, listed, streamed, kept in a chain that shows whether anybody touched it.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "events/crowd.rs"]
mod crowd;
#[path = "events/kinds.rs"]
mod kinds;
#[path = "events/listing.rs"]
mod listing;
#[path = "events/offline.rs"]
mod offline;
#[path = "events/sse.rs"]
mod sse;
#[path = "events/streaming.rs"]
mod streaming;
mod support;
#[path = "events/tampering.rs"]
mod tampering;
#[path = "events/verifying.rs"]
mod verifying;

use serde_json::{Value, json};
use support::Client;

/// Two events.
async fn cycle(client: &Client, environment: &str) -> String {
    let session = client.claim(environment, json!({})).await.created().session();
    client.release(environment, &session).await.ok();
    session
}

/// All there are, oldest first, in as many pages as it takes.
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

//! Five hundred followers while the server is stopped and killed: each sees every event once, in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;

use super::sse::{Follow, Stream};
use super::{all_events, text};
use crate::support::{Client, Server, at};

const SUBSCRIBERS: usize = 500;
/// Between two restarts.
const CYCLES: usize = 25;

/// Only makes the test fail instead of hang if a count does not change.
const PATIENCE: Duration = Duration::from_secs(60);

/// A counter that tasks can wait for.
type Count = Arc<watch::Sender<usize>>;
/// The current address of the server, whose port changes with each start.
type Address = watch::Receiver<Option<Client>>;

struct Sighting {
    /// The last event before it connected, if any.
    after: String,
    seen: Vec<String>,
}

#[tokio::test]
async fn each_of_five_hundred_sees_every_event_once_and_in_order_through_restarts() {
    let mut server = Server::start();
    let (there, address) = watch::channel(Some(server.admin()));
    let connected = Count::default();
    let shared = Follow::new(&server.admin(), "");
    let subscribers: Vec<_> = (0..SUBSCRIBERS)
        .map(|number| {
            let begin = if number % 2 == 0 { "start" } else { "" };
            tokio::spawn(follow(shared.clone(), address.clone(), begin, connected.clone()))
        })
        .collect();
    let done = Arc::new(AtomicBool::new(false));
    let cycles = Count::default();
    let workers: Vec<_> = ["review-1", "review-2", "review-3"]
        .map(|environment| tokio::spawn(work(address.clone(), environment, done.clone(), cycles.clone())))
        .into();
    wait_for(&connected, SUBSCRIBERS).await;
    for kill in [true, false, true, false] {
        wait_for_more(&cycles).await;
        if kill {
            server.kill();
        } else {
            assert!(server.terminate().success());
        }
        there.send_replace(None);
        server.start_again();
        there.send_replace(Some(server.admin()));
    }
    wait_for_more(&cycles).await;
    done.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    server.admin().put(&at("the-end"), json!({})).await.created();

    let all: Vec<_> = all_events(&server.admin(), "").await.iter().map(|e| text(e, "eventId").to_owned()).collect();
    for subscriber in subscribers {
        let Sighting { after, seen } = subscriber.await.unwrap();
        let from = all.iter().position(|id| *id == after).map_or(0, |place| place + 1);
        assert!(after == "start" || from > 0, "{after}");
        assert_eq!(seen.len(), all.len() - from);
        assert!(seen == all[from..], "something is missing, twice or out of order");
    }
}

/// Follows until the last event, reconnecting whenever the stream ends.
async fn follow(shared: Follow, mut address: Address, begin: &'static str, connected: Count) -> Sighting {
    let mut sighting = Sighting { after: begin.to_owned(), seen: Vec::new() };
    let mut last_id = begin.to_owned();
    loop {
        let client = address.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        let Ok(mut stream) = shared.by(client).open(&last_id).await else {
            tokio::task::yield_now().await;
            continue;
        };
        connected.send_modify(|count| *count += 1);
        let ended = read(&mut stream, &mut sighting).await;
        last_id.clone_from(&stream.last_id);
        if ended {
            return sighting;
        }
    }
}

/// Whether it included the last event.
async fn read(stream: &mut Stream, sighting: &mut Sighting) -> bool {
    if sighting.after.is_empty() {
        sighting.after.clone_from(&stream.last_id);
    }
    while let Some(event) = stream.event().await {
        assert_ne!(event.kind, "reset", "{event:?}");
        sighting.seen.push(event.id);
        if event.data["envName"] == "the-end" {
            return true;
        }
    }
    false
}

/// Claims and releases while the server is up.
async fn work(mut address: Address, environment: &'static str, done: Arc<AtomicBool>, cycles: Count) {
    while !done.load(Ordering::Relaxed) {
        let client = address.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        let claim = client.request(reqwest::Method::POST, &client.path(&format!("{}/force-claim", at(environment))));
        let Ok(claimed) = client.try_send(claim.json(&json!({}))).await else { continue };
        if claimed.status != 201 {
            continue;
        }
        let path = client.path(&format!("{}/sessions/{}", at(environment), claimed.session()));
        if client.try_send(client.request(reqwest::Method::DELETE, &path)).await.is_ok() {
            cycles.send_modify(|count| *count += 1);
        }
    }
}

async fn wait_for_more(cycles: &Count) {
    let goal = *cycles.borrow() + CYCLES;
    wait_for(cycles, goal).await;
}

async fn wait_for(count: &Count, goal: usize) {
    let mut reached = count.subscribe();
    let waited = tokio::time::timeout(PATIENCE, reached.wait_for(|count| *count >= goal)).await;
    waited.expect("it stands still").unwrap();
}

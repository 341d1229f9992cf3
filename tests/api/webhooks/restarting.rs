//! The server ends during deliveries, with and without warning: every event is still delivered.

use std::collections::BTreeSet;

use serde_json::json;

use super::receiver::{Receiver, event_ids};
use super::{cycle, make, only_delivery, setup, until, webhook};
use crate::support::Client;

/// Receivers that sometimes fail, so that retries are pending too.
fn flaky() -> serde_json::Value {
    let answers: Vec<_> = (0..60).map(|n| json!({ "status": if n % 3 == 0 { 500 } else { 200 } })).collect();
    json!(answers)
}

#[tokio::test]
async fn every_event_arrives_though_the_server_is_stopped_and_killed_again_and_again() {
    const CYCLES: usize = 12;
    let Some(receiver) = Receiver::start() else { return };
    let mut server = setup("[0, 0, 1, 1, 1, 1]", "").start();
    for path in ["/steady", "/flaky"] {
        receiver.plan(path, if path == "/flaky" { flaky() } else { json!([]) }, json!({ "status": 200 })).await;
    }
    let steady = make(&server.admin(), &receiver.url("/steady"), json!(["session.*"])).await;
    let flaky = make(&server.admin(), &receiver.url("/flaky"), json!(["session.*"])).await;
    let mut happened = 0;
    for round in 0..6 {
        let admin = server.admin();
        for _ in 0..CYCLES {
            cycle(&admin, "review-1").await;
        }
        happened += 2 * CYCLES;
        // Some have arrived, some are being sent, some have not been captured.
        receiver.distinct("/steady", 200, happened - 2 * CYCLES + 1).await;
        if round % 2 == 0 {
            server.kill();
        } else {
            assert!(server.terminate().success());
        }
        server.start_again();
    }
    let admin = server.admin();
    let recorded = recorded(&admin).await;
    assert_eq!(recorded.len(), happened);
    for (path, id) in [("/steady", &steady), ("/flaky", &flaky)] {
        let seen = receiver.distinct(path, 200, happened).await;
        let ids: BTreeSet<String> = event_ids(&seen).into_iter().collect();
        assert_eq!(ids, recorded, "{path}");
        let shown = until(|| webhook(&admin, id), |shown| shown["pendingDeliveries"] == 0).await;
        assert_eq!(shown["missedEvents"], 0);
        let delivered = admin.get(&format!("/webhooks/{id}/deliveries?status=delivered")).await.ok();
        assert_eq!(delivered.json()["pagination"]["total"], happened, "none is delivered under two ids");
    }
}

/// The ids of all events of sessions.
async fn recorded(admin: &Client) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for kind in ["session.claimed", "session.released"] {
        let total =
            admin.get(&format!("/events?type={kind}")).await.ok().json()["pagination"]["total"].as_u64().unwrap();
        for offset in (0..total).step_by(100) {
            let page = admin.get(&format!("/events?type={kind}&limit=100&offset={offset}")).await.ok().data();
            ids.extend(page.as_array().unwrap().iter().map(|event| event["eventId"].as_str().unwrap().to_owned()));
        }
    }
    ids
}

#[tokio::test]
async fn what_was_being_sent_when_the_server_was_killed_is_sent_again() {
    let Some(receiver) = Receiver::start() else { return };
    let mut server = setup("[0]", "timeout_seconds = 60\n").start();
    receiver.plan("/hook", json!([{ "hang": true }]), json!({ "status": 200 })).await;
    let id = make(&server.admin(), &receiver.url("/hook"), json!(["session.claimed"])).await;
    cycle(&server.admin(), "review-1").await;
    receiver.seen("/hook", 1).await;
    server.kill();
    server.start_again();
    let mut ids = event_ids(&receiver.seen("/hook", 2).await);
    ids.dedup();
    assert_eq!(ids.len(), 1, "the same message");
    let admin = server.admin();
    let delivery = only_delivery(&admin, &id, |delivery| delivery["status"] == "delivered").await;
    assert_eq!(delivery["attempts"].as_array().unwrap().len(), 1, "what became of the first nobody knows");
}

#[tokio::test]
async fn a_stop_waits_for_a_receiver_that_is_about_to_answer() {
    let Some(receiver) = Receiver::start() else { return };
    let mut server = setup("[0]", "").start();
    receiver.plan("/hook", json!([{ "hang": true }]), json!({ "status": 200 })).await;
    let id = make(&server.admin(), &receiver.url("/hook"), json!(["session.claimed"])).await;
    cycle(&server.admin(), "review-1").await;
    receiver.seen("/hook", 1).await;
    server.signal("-TERM");
    receiver.release().await;
    assert!(server.wait().success());
    server.start_again();
    let delivery = only_delivery(&server.admin(), &id, |delivery| delivery["status"] == "delivered").await;
    assert_eq!(delivery["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(receiver.seen_by_now("/hook").await.len(), 1, "it is not sent twice");
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_receiver_that_hangs() {
    let Some(receiver) = Receiver::start() else { return };
    let mut server = setup("[0]", "timeout_seconds = 60\n[http]\ndrain_seconds = 1\n").start();
    receiver.plan("/hook", json!([{ "hang": true }]), json!({ "status": 200 })).await;
    let id = make(&server.admin(), &receiver.url("/hook"), json!(["session.claimed"])).await;
    cycle(&server.admin(), "review-1").await;
    receiver.seen("/hook", 1).await;
    assert!(server.terminate().success());
    server.start_again();
    let mut ids = event_ids(&receiver.seen("/hook", 2).await);
    ids.dedup();
    assert_eq!(ids.len(), 1, "the next start sends it again");
    only_delivery(&server.admin(), &id, |delivery| delivery["status"] == "delivered").await;
}

//! The chain, verified by the server itself while it serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::{all_events, cycle, text};
use crate::support::{Client, Server, assert_fields, assert_has};

#[tokio::test]
async fn it_says_what_there_is_and_whether_what_was_noted_is_still_there() {
    let server = Server::start();
    let admin = server.admin();
    cycle(&admin, "review-1").await;
    let report = admin.get("/audit").await.ok().data();
    assert_fields(&report, "organization events first intact head archived seals fault expected");
    let events = all_events(&admin, "").await;
    assert_has(
        &report,
        json!({ "organization": "acme", "events": events.len(), "first": 0, "intact": true, "archived": 0 }),
    );
    assert_has(&report, json!({ "fault": null, "expected": [] }));
    let last = events.last().unwrap();
    assert_eq!(report["head"], json!({ "number": events.len() - 1, "hash": last["hash"] }));
    assert_fields(&report["seals"], "status from next");

    cycle(&admin, "review-1").await;
    let (noted, by_id) = (format!("{}:{}", events.len() - 1, text(last, "hash")), text(last, "eventId"));
    let forged = format!("{}:{}", events.len() - 1, "0".repeat(64));
    let path = format!("/audit?expect={noted}&expect={by_id}:{}&expect={forged}", text(last, "hash"));
    let report = admin.get(&path).await.ok().data();
    let found: Vec<_> = report["expected"].as_array().unwrap().iter().map(|expected| &expected["found"]).collect();
    assert_eq!(found, ["there", "there", "absent"]);
    assert_eq!((&report["intact"], &report["fault"]), (&json!(false), &Value::Null));

    for bad in ["expect=7", "expect=7:12", "expect=", "what=1"] {
        admin.get(&format!("/audit?{bad}")).await.refused(400, "invalid_parameter");
    }
    let many = vec![format!("expect={forged}"); 101].join("&");
    admin.get(&format!("/audit?{many}")).await.refused(400, "invalid_parameter");
}

#[tokio::test]
async fn it_is_intact_whatever_is_recorded_meanwhile() {
    let server = Server::start();
    let admin = server.admin();
    let (stop, stopped) = watch::channel(false);
    let made = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = ["review-1", "review-2", "review-3"]
        .map(|environment| tokio::spawn(work(server.admin(), environment, made.clone(), stopped.clone())))
        .into();
    let (mut noted, mut audits) = (None, 0);
    while audits < 20 || made.load(Ordering::Relaxed) < 200 {
        let expected = noted.map(|head| format!("?expect={head}")).unwrap_or_default();
        let report = admin.get(&format!("/audit{expected}")).await.ok().data();
        assert_eq!((&report["intact"], &report["fault"]), (&json!(true), &Value::Null), "{report:#}");
        noted = Some(format!("{}:{}", report["head"]["number"], text(&report["head"], "hash")));
        audits += 1;
    }
    stop.send_replace(true);
    for worker in workers {
        worker.await.unwrap();
    }
}

async fn work(client: Client, environment: &'static str, made: Arc<AtomicUsize>, stopped: watch::Receiver<bool>) {
    while !*stopped.borrow() {
        cycle(&client, environment).await;
        made.fetch_add(2, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn one_organization_verifies_once_at_a_time() {
    let server = Server::start();
    let admin = server.admin();
    for _ in 0..50 {
        cycle(&admin, "review-1").await;
    }
    let asked: Vec<_> = (0..16)
        .map(|_| {
            let admin = server.admin();
            tokio::spawn(async move { admin.get("/audit").await })
        })
        .collect();
    let mut verified = 0;
    for asked in asked {
        let answer = asked.await.unwrap();
        if answer.status == 200 {
            verified += 1;
        } else {
            let refused = answer.refused(503, "overloaded");
            assert!(!refused.header("retry-after").is_empty());
        }
    }
    assert!(verified >= 1);
}

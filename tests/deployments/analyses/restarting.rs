//! However the server ends, it loses no accepted analysis.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;

use super::{ask, ended, failed};
use crate::site::{Site, stage};
use crate::support::model::{finding, says, setup};
use crate::support::recorded::{Recorded, Request};

/// A model that answers only when permitted to, and reports when it is asked.
async fn silent_model() -> (Recorded, Arc<AtomicBool>, Arc<Notify>) {
    let (speaks, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
    let (spoken, told) = (speaks.clone(), asked.clone());
    let model = Recorded::start(move |_: Request| {
        told.notify_one();
        let spoken = spoken.clone();
        async move {
            if !spoken.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            says(&finding(None))
        }
    });
    (model.await, speaks, asked)
}

/// Waits until the model is asked. The limit only makes a test fail instead of hang.
async fn heard(asked: &Notify) {
    tokio::time::timeout(Duration::from_secs(60), asked.notified()).await.expect("nobody asked the model");
}

#[tokio::test]
async fn an_analysis_that_a_kill_cut_off_is_taken_up_again() {
    let (model, speaks, asked) = silent_model().await;
    let mut site = Site::start(setup(&model), json!([stage("build", "echo x; exit 1")])).await;
    let deployment = failed(&site).await;
    let begun = ask(&site, &deployment, json!({})).await.has_status(202).data();
    heard(&asked).await;
    site.server.kill();
    speaks.store(true, Ordering::SeqCst);
    site.start_again();
    let done = ended(&site, &begun).await;
    assert_eq!((&done["status"], &done["engine"]), (&json!("completed"), &json!("llm")), "{done:#}");
    assert_eq!(done["createdAt"], begun["createdAt"]);
    assert_eq!(model.asked().len(), 2, "once before and once after");
}

#[tokio::test]
async fn a_server_that_is_asked_to_stop_does_not_wait_for_a_model() {
    let (model, speaks, asked) = silent_model().await;
    let mut site = Site::start(setup(&model), json!([stage("build", "echo x; exit 1")])).await;
    let deployment = failed(&site).await;
    let begun = ask(&site, &deployment, json!({})).await.has_status(202).data();
    heard(&asked).await;
    assert!(site.server.terminate().success());
    speaks.store(true, Ordering::SeqCst);
    site.start_again();
    assert_eq!(ended(&site, &begun).await["status"], "completed");
}

#[tokio::test]
async fn whenever_the_server_is_killed_what_it_accepted_is_completed() {
    let mut site = Site::with(json!([stage("build", "echo x; exit 1")])).await;
    let deployment = failed(&site).await;
    let mut accepted = Vec::new();
    for _ in 0..4 {
        for _ in 0..4 {
            accepted.push(ask(&site, &deployment, json!({})).await.has_status(202).data());
        }
        site.server.kill();
        site.start_again();
    }
    for analysis in &accepted {
        assert_eq!(ended(&site, analysis).await["status"], "completed");
    }
}

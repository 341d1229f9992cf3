//! Steps that fill the disk of the data directory.

use serde_json::{Value, json};

use super::full_disk::{readiness, wait_for_reserve};
use super::small_disk::SmallDisk;
use super::until;
use crate::support::{Answer, Client, Server, Setup};

const DISK_MIB: u32 = 256;
/// It goes on when there is nothing left to write to.
const FILLS: &str = "dd if=/dev/zero of=big bs=1M 2>/dev/null; touch \"$TRACE\"; exec sleep 600";

async fn start(disk: &SmallDisk, runner: &str) -> Server {
    let settings = format!("[storage]\nlog_segment_mb = 4\nmin_free_mb = 8\n[runner]\n{runner}\n");
    let server = Setup::default().settings(&settings).start_at(disk.home());
    let stages = json!([{ "name": "fill", "steps": [{ "name": "fill", "run": ["sh", "-c", FILLS] }] }]);
    let variables = json!({ "TRACE": disk.home().join("trace") });
    server.admin().put("/pipelines/web", json!({ "stages": stages, "variables": variables })).await.ok();
    wait_for_reserve(disk, &server).await;
    server
}

/// A deployment that fills the disk, with its session.
async fn deploy(client: &Client) -> (String, String) {
    let session = client.claim("review-1", json!({})).await.created().session();
    let deployed = client.deploy("review-1", &session, json!({ "commitId": "c0ffee1" })).await.has_status(202);
    (session, deployed.data()["deploymentId"].as_str().unwrap().to_owned())
}

async fn finished(client: &Client, deployment: &str) -> Value {
    let is_finished =
        |found: &Value| ["succeeded", "failed", "cancelled"].iter().any(|status| found["status"] == *status);
    client.until(&format!("/deployments/{deployment}"), is_finished).await
}

/// Without any help.
async fn goes_on(disk: &SmallDisk, server: &Server) {
    let work = disk.home().join("data/work");
    let left = || async { std::fs::read_dir(&work).unwrap().count() };
    until("an empty working directory", left, |left| *left == 0).await;
    let client = server.admin();
    let claim = || client.claim("review-2", json!({ "ttlSeconds": 600 }));
    let taken = until("a claim that is taken", claim, |answer: &Answer| answer.status == 201).await;
    client.release("review-2", &taken.session()).await.ok();
}

#[tokio::test]
async fn a_step_that_fills_the_disk_is_ended_and_the_others_go_on() {
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let server = start(&disk, "min_free_mb = 64").await;
    let client = server.admin();
    let (session, deployment) = deploy(&client).await;
    let ended = finished(&client, &deployment).await;
    assert_eq!(ended["status"], "failed");
    assert!(ended["error"].as_str().unwrap().contains("(runner.min_free_mb)"), "{ended:#}");
    let log = client.get(&format!("/deployments/{deployment}/logs")).await.ok().text;
    assert!(log.contains("(runner.min_free_mb)"), "{log}");
    goes_on(&disk, &server).await;
    client.release("review-1", &session).await.ok();
}

#[tokio::test]
async fn a_deployment_over_its_limit_is_ended_and_frees_its_space() {
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let server = start(&disk, "max_disk_mb = 16\nmin_free_mb = \"off\"").await;
    let client = server.admin();
    let (_, deployment) = deploy(&client).await;
    let ended = finished(&client, &deployment).await;
    assert_eq!(ended["status"], "failed");
    let error = ended["error"].as_str().unwrap();
    assert!(error.contains("used more than 16 MiB of disk (runner.max_disk_mb)"), "{error}");
    goes_on(&disk, &server).await;
}

#[tokio::test]
async fn on_a_disk_that_a_step_has_filled_cancelling_works_and_a_start_ends_it() {
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let mut server = start(&disk, "min_free_mb = \"off\"\ntermination_grace_seconds = 1").await;
    let trace = disk.home().join("trace");
    for kill in [false, true] {
        let (session, deployment) = deploy(&server.admin()).await;
        until("a full disk", || async { trace.exists() }, |filled| *filled).await;
        until("a store that refuses", || readiness(&server), |answer| answer.status == 503).await;
        std::fs::remove_file(&trace).unwrap();
        if kill {
            server.kill();
            server.start_again();
        } else {
            let path = format!("/deployments/{deployment}/stages/fill/cancel");
            server.admin().post(&path, json!({})).await.has_status(202);
        }
        let client = server.admin();
        let expected = if kill { "failed" } else { "cancelled" };
        assert_eq!(finished(&client, &deployment).await["status"], expected);
        client.release("review-1", &session).await.ok();
        goes_on(&disk, &server).await;
        wait_for_reserve(&disk, &server).await;
    }
    assert!(!server.log().contains("backup"), "{}", server.log());
}

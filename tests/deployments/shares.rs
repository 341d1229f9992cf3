//! Two organizations, of which one does its worst: the other deploys, and keeps its logs.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::site::{id, is_finished, stage};
use crate::support::tenants::acme_and_beta;
use crate::support::{Client, Setup};

fn setup(more: &str) -> Setup {
    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n";
    Setup::default().settings(&format!("{settings}{more}"))
}

async fn put_stage(client: &Client, script: &str) {
    client.put("/pipelines/web", json!({ "stages": [stage("only", script)] })).await.ok();
}

async fn deploy(client: &Client, environment: &str) -> String {
    let session = client.claim(environment, json!({})).await.created().session();
    id(&client.deploy(environment, &session, json!({ "commitId": "c0ffee1" })).await.has_status(202))
}

async fn finished(client: &Client, deployment: &str) -> Value {
    client.until(&format!("/deployments/{deployment}"), is_finished).await
}

#[tokio::test]
async fn deployments_of_one_organization_do_not_wait_for_those_of_another() {
    let (server, bea) =
        acme_and_beta(|| setup("[runner]\nmax_running_steps = 2\ntermination_grace_seconds = 1\n")).await;
    let admin = server.admin();
    let go = server.home().join("go");
    put_stage(&admin, &format!("echo ready; while [ ! -e {} ]; do sleep 0.05; done", go.display())).await;
    put_stage(&bea, "echo beta").await;
    let mut busy = Vec::new();
    for environment in ["review-1", "review-2", "review-3"] {
        busy.push(deploy(&admin, environment).await);
    }
    for environment in ["review-1", "review-2"] {
        let done = finished(&bea, &deploy(&bea, environment).await).await;
        assert_eq!(done["status"], "succeeded", "{done:#}");
    }
    for deployment in &busy {
        assert!(!is_finished(&admin.get(&format!("/deployments/{deployment}")).await.ok().data()));
    }
    std::fs::write(&go, "").unwrap();
    for deployment in &busy {
        assert_eq!(finished(&admin, deployment).await["status"], "succeeded");
    }
}

#[tokio::test]
async fn output_of_one_organization_does_not_delete_the_logs_of_another() {
    let (server, bea) = acme_and_beta(|| setup("log_max_mb = 16\n")).await;
    let admin = server.admin();
    put_stage(&bea, "echo of beta").await;
    let of_beta = deploy(&bea, "review-1").await;
    finished(&bea, &of_beta).await;
    put_stage(&admin, "head -c 6000000 /dev/zero | tr '\\0' x | fold -w 99").await;
    let session = admin.claim("review-1", json!({})).await.created().session();
    let mut of_acme = Vec::new();
    for _ in 0..4 {
        let deployed = admin.deploy("review-1", &session, json!({ "commitId": "c0ffee1" })).await.has_status(202);
        finished(&admin, &id(&deployed)).await;
        of_acme.push(id(&deployed));
    }
    let file = |deployment: &str| server.data_dir().join("logs").join(format!("{deployment}.log"));
    until_gone(file(&of_acme[0])).await;
    assert!(file(&of_acme[3]).exists(), "the oldest go first");
    let log = bea.get(&format!("/deployments/{of_beta}/logs")).await.ok();
    assert_eq!(log.text, "of beta\n");
}

async fn until_gone(file: PathBuf) {
    for _ in 0..1_200 {
        if !file.exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{} is still there", file.display());
}

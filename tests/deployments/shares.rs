//! Two organizations, one of which does its worst: the other can deploy, and keeps its logs.

use std::path::{Path, PathBuf};
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

/// Writes 24 MiB in small pieces, so that it takes longer than the server needs to notice.
const WRITES: &str =
    "for part in $(seq 96); do dd if=/dev/zero of=part-$part bs=256k count=1 2>/dev/null; done; echo end";
const PACE: &str = "[runner]\nmax_write_mb_per_second = 1\nmin_free_mb = \"off\"\n";

/// The output of a deployment that writes much faster than `PACE` allows.
async fn log_of_writing(client: &Client) -> String {
    put_stage(client, WRITES).await;
    let deployment = deploy(client, "review-1").await;
    let ended = finished(client, &deployment).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    client.get(&format!("/deployments/{deployment}/logs")).await.ok().text
}

#[tokio::test]
async fn a_step_that_writes_too_much_beside_other_organizations_is_held_and_says_so() {
    let (server, bea) = acme_and_beta(|| setup(PACE)).await;
    if !counts_writes(server.home()) {
        return;
    }
    let log = log_of_writing(&bea).await;
    assert!(log.starts_with("end\n") && log.contains("was held for "), "{log}");
    assert!(log.contains("(runner.max_write_mb_per_second)"), "{log}");
}

#[tokio::test]
async fn a_step_of_the_only_organization_writes_as_fast_as_it_can() {
    let server = setup(PACE).start();
    assert_eq!(log_of_writing(&server.admin()).await, "end\n");
}

/// Whether the kernel counts the bytes written there: a file system in memory writes to no disk.
fn counts_writes(dir: &Path) -> bool {
    let written = || {
        let counters = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        counters.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse::<u64>().ok())
    };
    let before = written();
    std::fs::write(dir.join("probe"), vec![0; 1 << 20]).unwrap();
    let counts = written() > before;
    if !counts {
        println!("skipped: what is written to {} is not counted", dir.display());
    }
    counts
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

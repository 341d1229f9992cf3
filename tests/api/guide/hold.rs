//! `docs/examples/hold.sh`, as CI jobs use it.

use std::process::Stdio;

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::{is_installed, sources};
use crate::support::{ADMIN_TOKEN, Server, at};

/// What the script needs beside a shell.
const TOOLS: [&str; 2] = ["curl", "jq"];

#[tokio::test]
async fn a_job_that_loses_its_lock_is_stopped_and_leaves_the_new_holder_alone() {
    let Some((server, mut job)) = start(&["--ttl", "4", "size=large", "--", "sleep", "300"]) else { return };
    server.admin().until_environment("review-3", |found| found["lockStatus"] == "locked").await;
    let taken = server.as_user("ben").await.force_claim("review-3", json!({ "ttlSeconds": 600 })).await.created();
    assert_eq!(job.wait().await.unwrap().code(), Some(79), "{}", said(&mut job).await);
    let found = server.admin().get(&at("review-3")).await.ok().data();
    assert_eq!(found["lock"]["sessionId"], taken.session());
}

#[tokio::test]
async fn a_job_that_is_cancelled_releases_its_environment() {
    let Some((server, mut job)) = start(&["size=large", "--", "sleep", "300"]) else { return };
    server.admin().until_environment("review-3", |found| found["lockStatus"] == "locked").await;
    terminate(&job);
    assert_eq!(job.wait().await.unwrap().code(), Some(143), "{}", said(&mut job).await);
    assert_eq!(server.admin().get(&at("review-3")).await.ok().data()["lockStatus"], "unlocked");
}

#[tokio::test]
async fn a_job_that_is_killed_loses_its_environment() {
    let Some((server, mut job)) = start(&["--ttl", "2", "size=large", "--", "sleep", "10"]) else { return };
    server.admin().until_environment("review-3", |found| found["lockStatus"] == "locked").await;
    job.kill().await.unwrap();
    server.admin().until_environment("review-3", |found| found["lockStatus"] == "unlocked").await;
}

#[tokio::test]
async fn a_job_that_waits_says_for_whom_and_leaves_the_queue_when_it_gives_up() {
    let Some((server, mut first)) = start(&["--context", "job 1", "size=large", "--", "sleep", "300"]) else { return };
    server.admin().until_environment("review-3", |found| found["lockStatus"] == "locked").await;
    let mut second = job(&server, &["--wait", "2", "size=large", "--", "true"]);
    assert_eq!(second.wait().await.unwrap().code(), Some(124));
    let said = said(&mut second).await;
    assert!(said.contains("review-3: admin since") && said.contains("job 1"), "{said}");
    server.admin().until_queue_is("review-3", 0).await;
    terminate(&first);
    first.wait().await.unwrap();
}

#[tokio::test]
async fn a_job_that_may_not_claim_or_is_used_wrongly_says_so() {
    let Some((_server, mut unlabelled)) = start(&["large", "--", "true"]) else { return };
    assert_eq!(unlabelled.wait().await.unwrap().code(), Some(2));
    let (server, mut denied) = start_with("lk_wrong", &["size=large", "--", "true"]).unwrap();
    assert_eq!(denied.wait().await.unwrap().code(), Some(77), "{}", said(&mut denied).await);
    drop(server);
}

/// A server and a job on it; `None`, with a word about it, where the tools are missing.
fn start(arguments: &[&str]) -> Option<(Server, Child)> {
    start_with(ADMIN_TOKEN, arguments)
}

fn start_with(token: &str, arguments: &[&str]) -> Option<(Server, Child)> {
    if let Some(missing) = TOOLS.iter().find(|tool| !is_installed(tool)) {
        eprintln!("skipped: hold.sh is not tried, since {missing} is not installed");
        return None;
    }
    let server = Server::start();
    let job = job_with(&server, token, arguments);
    Some((server, job))
}

fn job(server: &Server, arguments: &[&str]) -> Child {
    job_with(server, ADMIN_TOKEN, arguments)
}

fn job_with(server: &Server, token: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new(sources().join("docs/examples/hold.sh"));
    command.args(arguments).env("LOCKKEEPER_URL", &server.address).env("LOCKKEEPER_TOKEN", token);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
}

fn terminate(job: &Child) {
    let killed = std::process::Command::new("kill").arg(job.id().unwrap().to_string()).status().unwrap();
    assert!(killed.success());
}

async fn said(job: &mut Child) -> String {
    let mut said = String::new();
    job.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
    said
}

//! Deployment logs that outlive their node: read from the node that wrote them, and from a store shared by all nodes.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use reqwest::Method;
use serde_json::{Value, json};

use super::etcd::EtcdServers;
use super::nodes::{Nodes, setup};
use crate::support::waiting::{until, until_found};
use crate::support::{Answer, Client, at, secrecy};

/// The first attempt fails, after an unterminated line.
const TWICE: &str = "echo one; echo two; test -e $TRACE || { touch $TRACE; printf half; exit 1; }; echo three";
const SECRET: &str = "a-value-that-no-log-shows-2718";

async fn start(more: &str) -> Option<Nodes> {
    start_with(more, &[]).await
}

async fn start_with(more: &str, variables: &[(&str, &str)]) -> Option<Nodes> {
    let etcd = EtcdServers::start(1)?;
    let node = |number: usize| {
        let setup = setup(&etcd, &format!("n{number}"), more);
        variables.iter().fold(setup, |setup, (name, value)| setup.variable(name, value)).start()
    };
    let nodes = (1..=2).map(node).collect();
    let nodes = Nodes { nodes, etcd };
    for node in 0..2 {
        nodes.until_ready(node).await;
    }
    Some(nodes)
}

/// The ids of a deployment of this script and of its session, after the expected end.
async fn deployed(admin: &Client, script: &str, trace: &Path, status: &str) -> (String, String) {
    let stages = json!([{ "name": "build", "steps": [{ "name": "run", "run": ["sh", "-c", script] }] }]);
    admin.put("/pipelines/web", json!({ "stages": stages, "variables": { "TRACE": trace } })).await.ok();
    let session = admin.claim("review-1", json!({ "ttlSeconds": 600 })).await.created().session();
    let begun = admin.deploy("review-1", &session, json!({ "commitId": "c0ffee1" })).await.has_status(202).data();
    let deployment = begun["deploymentId"].as_str().unwrap().to_owned();
    admin.until(&format!("/deployments/{deployment}"), |found| found["status"] == status).await;
    (deployment, session)
}

fn logs(deployment: &str, query: &str) -> String {
    format!("/deployments/{deployment}/logs?{query}")
}

/// The answer of the owner, however long a takeover lasts on a busy machine.
async fn answered(admin: &Client, path: &str) -> Answer {
    loop {
        let answer = admin.get(path).await;
        if answer.status != 503 || answer.problem().1 != "engine_unavailable" {
            return answer;
        }
    }
}

async fn until_readable(admin: &Client, deployment: &str) -> String {
    until_found("the log can be read", async || {
        let answer = answered(admin, &logs(deployment, "")).await;
        if answer.status == 200 {
            return Some(answer.text);
        }
        answer.refused(503, "log_unavailable");
        None
    })
    .await
}

#[tokio::test]
async fn a_log_is_read_from_the_node_that_wrote_it_while_that_lives() {
    let Some(mut nodes) = start("step_lease_seconds = 5\n").await else { return };
    let (owner, other) = (nodes.owner(), nodes.other());
    let trace = nodes.nodes[other].home().join("trace");
    let (deployment, _) = deployed(&nodes.admin(other), TWICE, &trace, "failed").await;
    let before = nodes.admin(owner).get(&logs(&deployment, "")).await.ok().text;
    assert!(before.starts_with("one\ntwo\nhalf"), "{before}");
    nodes.nodes[owner].kill();
    let admin = nodes.admin(other);
    let dead = answered(&admin, &logs(&deployment, "")).await.refused(503, "log_unavailable");
    let detail = dead.json()["detail"].as_str().unwrap().to_owned();
    let name = format!("n{}", owner + 1);
    assert!(detail.contains(&name) && detail.contains("cluster.logs"), "{detail}");
    // It returns without its shard: the new owner reads from it.
    nodes.nodes[owner].start_again();
    assert_eq!(until_readable(&admin, &deployment).await, before);
    // The new owner runs the stage again: the log has both parts, in order, and its pages are continuous.
    admin.post(&format!("/deployments/{deployment}/stages/build/retry"), json!({})).await.has_status(202);
    admin.until(&format!("/deployments/{deployment}"), |found| found["status"] == "succeeded").await;
    let whole = admin.get(&logs(&deployment, "")).await.ok().text;
    assert!(whole.starts_with(&before) && whole.ends_with("\none\ntwo\nthree\n"), "{whole}");
    assert_eq!(whole.matches("two\n").count(), 2);
    let lines = admin.get(&logs(&deployment, "format=json")).await.ok().text;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.last().unwrap()["attempt"], 2);
    let numbers: Vec<_> = lines.iter().map(|line| line["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..lines.len() as u64).collect::<Vec<_>>());
    let mut pages = String::new();
    for offset in 0..lines.len() {
        pages += &admin.get(&logs(&deployment, &format!("offset={offset}&limit=1"))).await.ok().text;
    }
    assert_eq!(pages, whole);
    assert_eq!(admin.get(&logs(&deployment, "follow=true")).await.ok().text, whole);
    let head = admin.send(admin.request(Method::HEAD, &admin.path(&logs(&deployment, "")))).await.ok();
    assert_eq!(head.header("lockkeeper-next-offset"), lines.len().to_string());
    // Only nodes may send requests between nodes, to every node and with every header.
    for node in 0..2 {
        let path = format!("/cluster/logs/acme/{deployment}/0?from=0");
        for client in [nodes.nodes[node].anonymous(), nodes.admin(node)] {
            client.send(client.request(Method::GET, &path)).await.refused(404, "route_not_found");
            let forged = client.request(Method::GET, &path).header("lockkeeper-via", "n1 - http 00");
            client.send(forged).await.refused(421, "not_the_owner");
        }
    }
    // The copy stays readable.
    nodes.nodes[owner].kill();
    assert_eq!(until_readable(&admin, &deployment).await, whole);
}

/// The only object in the shared directory, once it contains a whole log.
async fn uploaded(shared: &Path, text: &str) -> PathBuf {
    let has_all = |path: &PathBuf| std::fs::read(path).is_ok_and(|log| String::from_utf8_lossy(&log).contains(text));
    let finished = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    let complete = async || objects(shared).into_iter().find(|path| finished(path) && has_all(path));
    until_found("the log is uploaded", complete).await
}

fn objects(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { objects(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn a_log_in_a_shared_directory_outlives_its_node_masked_and_until_its_deployment_goes() {
    let shared = tempfile::tempdir().unwrap();
    let more = format!("step_lease_seconds = 5\nlogs = \"file://{}\"\n", shared.path().display());
    let Some(mut nodes) = start(&more).await else { return };
    let (owner, other) = (nodes.owner(), nodes.other());
    let admin = nodes.admin(other);
    secrecy::note(SECRET);
    admin.post("/secrets", json!({ "name": "TOKEN", "value": SECRET })).await.created();
    let script = "echo begin; echo token $TOKEN; seq 1 20000; echo end";
    let (deployment, session) = deployed(&admin, script, shared.path(), "succeeded").await;
    let before = admin.get(&logs(&deployment, "")).await.ok().text;
    assert!(before.starts_with("begin\ntoken ") && before.ends_with("\nend\n") && !before.contains(SECRET));
    let object = uploaded(shared.path(), "end").await;
    assert!(object.ends_with(Path::new("acme").join(&deployment).join("0.log")), "{object:?}");
    assert!(!String::from_utf8_lossy(&std::fs::read(&object).unwrap()).contains(SECRET));
    let page = logs(&deployment, "offset=15000&limit=3");
    let page_before = admin.get(&page).await.ok();
    nodes.nodes[owner].kill();
    assert_eq!(until_readable(&admin, &deployment).await, before);
    let after = admin.get(&page).await.ok();
    assert_eq!((&after.text, after.header("lockkeeper-next-offset")), (&page_before.text, "15003"));
    assert!(after.text.lines().count() >= 2 && before.contains(&after.text), "{after:?}");
    // The deletion of the environment deletes the deployment and its log: the next owner cleans up at its start.
    admin.release("review-1", &session).await.ok();
    admin.delete(&at("review-1")).await.has_status(204);
    until("the deployment is gone", async || admin.get(&logs(&deployment, "")).await.status == 404).await;
    nodes.nodes[other].kill();
    nodes.nodes[other].start_again();
    until("its log is removed", async || objects(shared.path()).is_empty()).await;
}

#[tokio::test]
async fn a_log_that_was_not_uploaded_is_so_when_its_node_starts_again() {
    let dir = tempfile::tempdir().unwrap();
    // Not mounted yet.
    let shared = dir.path().join("shared");
    let more = format!("step_lease_seconds = 5\nlogs = \"file://{}\"\n", shared.display());
    let Some(mut nodes) = start(&more).await else { return };
    let (owner, other) = (nodes.owner(), nodes.other());
    let (deployment, _) = deployed(&nodes.admin(other), "echo end", &shared, "succeeded").await;
    until("an upload fails", async || nodes.nodes[owner].log().contains("cannot upload a log")).await;
    nodes.nodes[owner].kill();
    for _ in 0..2 {
        let dead = answered(&nodes.admin(other), &logs(&deployment, "")).await.refused(503, "log_unavailable");
        assert!(dead.text.contains("the store of logs does not work"), "{dead:?}");
    }
    std::fs::create_dir(&shared).unwrap();
    // It is tried again some seconds after it failed.
    until("the store is asked again", async || {
        let dead = answered(&nodes.admin(other), &logs(&deployment, "")).await.refused(503, "log_unavailable");
        dead.text.contains("the store of logs does not have it yet")
    })
    .await;
    for line in ["cannot read from the store of logs", "logs can be read from the store of logs again"] {
        assert_eq!(nodes.nodes[other].log().matches(line).count(), 1, "{line}");
    }
    nodes.nodes[owner].start_again();
    uploaded(&shared, "end").await;
    nodes.nodes[owner].kill();
    assert_eq!(until_readable(&nodes.admin(other), &deployment).await, "end\n");
    let metrics = nodes.admin(other);
    let metrics = metrics.send(metrics.request(Method::GET, "/metrics")).await.ok().text;
    assert!(metrics.contains("lockkeeper_log_uploads_waiting 0"), "{metrics}");
}

/// An S3 server, killed when dropped.
struct Moto(Child, u16);

impl Moto {
    /// `None`, with a message, if it is not installed.
    async fn start() -> Option<Self> {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/target/test-tools/moto/bin/moto_server");
        if !Path::new(program).exists() {
            println!("skipped: moto is not installed (tests/run does)");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let moto = Self(process, port);
        until("moto listens", async || TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
        Some(moto)
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.1)
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[tokio::test]
async fn a_log_on_s3_outlives_its_node() {
    let Some(moto) = Moto::start().await else { return };
    let more = format!("step_lease_seconds = 5\nlogs = \"s3://logs/a\"\nlogs_endpoint = \"{}\"\n", moto.url(""));
    let secret = "the-secret-of-the-bucket-31415";
    let credentials = [("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", secret)];
    let Some(mut nodes) = start_with(&more, &credentials).await else { return };
    secrecy::note(secret);
    let (owner, other) = (nodes.owner(), nodes.other());
    let admin = nodes.admin(other);
    // The bucket is created late: failed uploads are repeated afterwards.
    let (deployment, _) = deployed(&admin, "seq 1 1000", Path::new("none"), "succeeded").await;
    until("an upload fails", async || nodes.nodes[owner].log().contains("cannot upload a log")).await;
    let http = crate::support::http_builder().build().unwrap();
    assert_eq!(http.put(moto.url("/logs")).send().await.unwrap().status(), 200);
    until("uploads work again", async || nodes.nodes[owner].log().contains("logs are uploaded again")).await;
    let before = admin.get(&logs(&deployment, "")).await.ok().text;
    nodes.nodes[owner].kill();
    assert_eq!(until_readable(&admin, &deployment).await, before);
    assert!(before.starts_with("1\n2\n") && before.ends_with("\n1000\n"), "{before}");
}

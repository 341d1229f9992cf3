//! A data directory that becomes a cluster, and returns: with every record, lock and fencing token.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::etcd::EtcdServers;
use super::full::{fill, tidy_up};
use super::nodes::{MASTER_KEY, setup};
use super::postgres::PostgresServer;
use crate::backup::equal::shown;
use crate::backup::{said, text, why};
use crate::older_data::{
    comparable, format_4, known_to, secrets_open, the_lease_and_its_answer_are_kept, the_queue_goes_on, unpack,
    written_in,
};
use crate::support::tenants::acme_and_beta;
use crate::support::waiting::until;
use crate::support::{Client, Server, Setup, at, lockkeeper, refusal};

const SETTINGS: &str = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[git]\nallow_file_urls = true\n";

/// `lockkeeper` with these arguments and the settings of a node.
fn operator(etcd: &EtcdServers, shards: u16, key: &str, arguments: &[&str]) -> Command {
    let mut command = lockkeeper(arguments);
    command.env("LOCKKEEPER_CLUSTER_ENGINE", "etcd").env("LOCKKEEPER_CLUSTER_ETCD", etcd.urls());
    settled(command, shards, key)
}

fn operator_on(postgres: &PostgresServer, shards: u16, key: &str, arguments: &[&str]) -> Command {
    let mut command = lockkeeper(arguments);
    command.env("LOCKKEEPER_CLUSTER_ENGINE", "postgres").env("LOCKKEEPER_CLUSTER_POSTGRES", postgres.url());
    settled(command, shards, key)
}

fn settled(mut command: Command, shards: u16, key: &str) -> Command {
    command.env("LOCKKEEPER_MASTER_KEY", key).env("LOCKKEEPER_CLUSTER_SHARDS", shards.to_string());
    command.env("LOCKKEEPER_STORAGE_LOG_SEGMENT_MB", "4").env("LOCKKEEPER_STORAGE_MIN_FREE_MB", "0");
    command
}

fn import(etcd: &EtcdServers, shards: u16, key: &str, data_dir: &Path) -> Output {
    operator(etcd, shards, key, &["cluster", "import", "--data-dir", text(data_dir)]).output().unwrap()
}

fn export(etcd: &EtcdServers, key: &str, to: &Path, margin: &str) -> Output {
    operator(etcd, 4, key, &["cluster", "export", "--to", text(to), "--fencing-margin", margin]).output().unwrap()
}

/// Waits until the engine answers and every shard has an owner.
async fn until_ready(node: &Server) {
    let client = node.anonymous();
    let is_ready = async || client.send(client.request(reqwest::Method::GET, "/readyz")).await.status == 200;
    until("the node is ready", is_ready).await;
}

fn copy_logs(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.join("logs")).unwrap();
    for entry in std::fs::read_dir(from.join("logs")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join("logs").join(path.file_name().unwrap())).unwrap();
    }
}

/// A server on one machine with an exported data directory, and the key and logs of the cluster.
fn serve_alone(home: &Path, key: &str, organization: &str, logs_of: &Server) -> Server {
    copy_logs(&logs_of.data_dir(), &home.join("data"));
    let setup = Setup::default().settings(SETTINGS).organization(organization);
    setup.variable("LOCKKEEPER_MASTER_KEY", key).start_at(home)
}

fn verified(mut command: Command) {
    let words = said(&command.output().unwrap());
    assert!(words.contains("acme: ") && words.contains("chain intact"), "{words}");
}

#[tokio::test]
async fn a_data_directory_becomes_three_nodes_and_then_one_server_again_with_everything_in_it() {
    let Some(etcd) = EtcdServers::start(1) else { return };
    let home = tempfile::tempdir().unwrap();
    unpack(&format_4(), home.path());
    let data_dir = home.path().join("data");
    let organization = std::fs::read_to_string(format_4().join("organization.toml")).unwrap();
    let written = written_in(home.path());
    let paths: Vec<&String> = written["answers"].as_object().unwrap().keys().collect();
    let key = std::fs::read_to_string(data_dir.join("master.key")).unwrap().trim().to_owned();

    let (code, words) = why(&import(&etcd, 4, MASTER_KEY, &data_dir));
    assert!(code == 1 && words.contains("another master key than LOCKKEEPER_MASTER_KEY"), "{words}");
    let words = said(&import(&etcd, 4, &key, &data_dir));
    assert!(words.contains("into 4 shards") && words.contains("organizations: 1, "), "{words}");
    let (code, words) = why(&import(&etcd, 4, &key, &data_dir));
    assert!(code == 1 && words.contains("this cluster has data"), "{words}");

    let node = |name: &str| {
        let setup = setup(&etcd, name, SETTINGS).organization(&organization);
        setup.variable("LOCKKEEPER_MASTER_KEY", &key).start()
    };
    let mut nodes = [node("n1"), node("n2"), node("n3")];
    for node in &nodes {
        until_ready(node).await;
        copy_logs(&data_dir, &node.data_dir());
    }
    for (place, path) in paths.iter().enumerate() {
        let answer = nodes[place % 3].admin().get(path).await.ok();
        let expected = &written["answers"][path.as_str()];
        let found = if expected.is_string() { Value::from(answer.text) } else { answer.data() };
        assert_eq!(comparable(known_to(expected, found)), comparable(expected.clone()), "GET {path}");
    }
    // Sessions, fencing tokens, answers of idempotency keys, secrets and queues continue.
    the_lease_and_its_answer_are_kept(&nodes[0].admin(), &written["kept"]).await;
    secrets_open(&nodes[1].admin()).await;
    the_queue_goes_on(&nodes[2].admin(), &written, 0).await;
    verified(operator(&etcd, 4, &key, &["audit", "verify"]));

    // While the nodes serve: a backup, whose tokens are higher than any that is granted meanwhile.
    let backup_home = tempfile::tempdir().unwrap();
    let words = said(&export(&etcd, &key, &backup_home.path().join("data"), "1000"));
    assert!(words.contains("Exported 4 shards") && words.contains("is 1000 higher"), "{words}");
    let (code, words) = why(&export(&etcd, &key, &backup_home.path().join("data"), "1000"));
    assert!(code == 1 && words.contains("is not empty"), "{words}");
    let (code, words) = why(&export(&etcd, &key, &backup_home.path().join("none"), "0"));
    assert!(code == 1 && words.contains("--fencing-margin 0 is for a cluster that is stopped"), "{words}");
    let (code, words) =
        why(&operator(&etcd, 4, &key, &["backup", "/dev/null", "--config", "/dev/null"]).output().unwrap());
    assert!(code == 1 && words.contains("lockkeeper cluster export"), "{words}");
    nodes[0]
        .admin()
        .send(nodes[0].admin().request(reqwest::Method::GET, "/api/v1/backup"))
        .await
        .refused(409, "backup_unavailable");

    // An exact copy, when they are stopped.
    let before = shown(&nodes[0].admin(), &paths, &written).await;
    let token = holder(&nodes[1].admin()).await["fencingToken"].as_u64().unwrap();
    for node in &mut nodes {
        assert!(node.terminate().success());
    }
    let exact_home = tempfile::tempdir().unwrap();
    said(&export(&etcd, &key, &exact_home.path().join("data"), "0"));
    for (home, skipped) in [(&exact_home, 0), (&backup_home, 1000)] {
        let mut alone = serve_alone(home.path(), &key, &organization, &nodes[0]);
        let admin = alone.admin();
        if skipped == 0 {
            let found = shown(&admin, &paths, &written).await;
            for ((path, found), (_, expected)) in found.iter().zip(&before) {
                assert_eq!(found, expected, "GET {path}");
            }
        }
        // The holder is the same, and the next one gets the next token.
        let held = holder(&admin).await;
        assert_eq!(held["fencingToken"], token);
        let session = held["sessionId"].as_str().unwrap();
        admin.delete(&format!("{}/sessions/{session}", at("review-2"))).await.ok();
        let next = admin.until(&at("review-2"), |found| found["lock"]["sessionId"] != held["sessionId"]).await;
        let next = match next["lock"]["fencingToken"].as_u64() {
            Some(next) => next,
            None => admin.claim("review-2", json!({})).await.created().data()["fencingToken"].as_u64().unwrap(),
        };
        assert_eq!(next, token + 1 + skipped);
        assert!(alone.terminate().success());
        let mut command = lockkeeper(&["audit", "verify", "--data-dir", text(&alone.data_dir())]);
        command.env("LOCKKEEPER_MASTER_KEY", &key).env("LOCKKEEPER_STORAGE_LOG_SEGMENT_MB", "4");
        verified(command);
    }
}

async fn holder(admin: &Client) -> Value {
    admin.environment("review-2").await.ok().data()["lock"].clone()
}

/// Two organizations, whose shards have separate audit keys, move to another engine with another number of shards.
#[tokio::test]
async fn the_number_of_shards_changes_by_export_and_import() {
    let (Some(etcd), Some(postgres)) = (EtcdServers::start(1), PostgresServer::start()) else { return };
    let (mut node, bea) = acme_and_beta(|| setup(&etcd, "n1", SETTINGS)).await;
    until_ready(&node).await;
    let admin = node.admin();
    let mut tokens = Vec::new();
    for client in [&admin, &bea] {
        for _ in 0..3 {
            let claimed = client.claim("review-1", json!({ "ttlSeconds": 600 })).await.created();
            client.release("review-1", &claimed.session()).await.has_status(200);
        }
        let held = client.claim("review-1", json!({ "ttlSeconds": 600 })).await.created();
        let queued = json!({ "queue": true, "ttlSeconds": 600 });
        client.post(&format!("{}/sessions", at("review-1")), queued).await.has_status(202);
        tokens.push((held.session(), held.data()["fencingToken"].as_u64().unwrap()));
    }
    assert!(node.terminate().success());
    let home = tempfile::tempdir().unwrap();
    let data_dir = home.path().join("data");
    let words = said(&export(&etcd, MASTER_KEY, &data_dir, "0"));
    assert!(words.contains("organizations: 2, "), "{words}");
    let command = |mut command: Command| {
        command.env("LOCKKEEPER_MASTER_KEY", MASTER_KEY).env("LOCKKEEPER_STORAGE_LOG_SEGMENT_MB", "4");
        said(&command.output().unwrap())
    };
    let words = command(lockkeeper(&["audit", "verify", "--data-dir", text(&data_dir)]));
    assert!(words.contains("acme: ") && words.contains("beta: ") && !words.contains("broken"), "{words}");

    let arguments = ["cluster", "import", "--data-dir", text(&data_dir)];
    let words = said(&operator_on(&postgres, 7, MASTER_KEY, &arguments).output().unwrap());
    assert!(words.contains("into 7 shards") && words.contains("organizations: 2, "), "{words}");
    let url = postgres.url();
    node.change_setup(|setup| {
        let setup = setup.variable("LOCKKEEPER_CLUSTER_ENGINE", "postgres").without_variable("LOCKKEEPER_CLUSTER_ETCD");
        setup.variable("LOCKKEEPER_CLUSTER_POSTGRES", &url)
    });
    node.start_again();
    until_ready(&node).await;
    for (client, (session, token)) in [node.admin(), bea.at(&node)].into_iter().zip(tokens) {
        let found = client.environment("review-1").await.ok().data();
        assert_eq!((found["lock"]["sessionId"].as_str(), found["queueLength"].as_u64()), (Some(&*session), Some(1)));
        client.release("review-1", &session).await.has_status(200);
        let next = client.until(&at("review-1"), |found| found["lock"]["sessionId"] != *session).await;
        assert_eq!(next["lock"]["fencingToken"].as_u64(), Some(token + 1));
        let audit = client.get("/audit").await.ok();
        assert_eq!(audit.data()["intact"], true, "{audit:?}");
    }
    let words = said(&operator_on(&postgres, 7, MASTER_KEY, &["audit", "verify"]).output().unwrap());
    assert!(words.contains("acme: ") && words.contains("beta: ") && !words.contains("broken"), "{words}");
    let again = tempfile::tempdir().unwrap();
    let to = again.path().join("data");
    let words =
        said(&operator_on(&postgres, 7, MASTER_KEY, &["cluster", "export", "--to", text(&to)]).output().unwrap());
    assert!(words.contains("Exported 7 shards") && words.contains("is 1000000000 higher"), "{words}");
}

fn state_of(etcd: &EtcdServers) -> Value {
    let output = operator(etcd, 128, MASTER_KEY, &["cluster", "status", "--json"]).output().unwrap();
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["state"].clone()
}

fn give_up(etcd: &EtcdServers) -> Output {
    operator(etcd, 128, MASTER_KEY, &["cluster", "import", "--give-up"]).output().unwrap()
}

/// With many shards, so that the import takes a while; when it is killed does not matter.
fn kill_import(etcd: &EtcdServers, data_dir: &Path, delay: u64) {
    let mut command = operator(etcd, 128, MASTER_KEY, &["cluster", "import", "--data-dir", text(data_dir)]);
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(delay));
    process.kill().unwrap();
    process.wait().unwrap();
}

/// Kills an import after it has begun; returns the next delay.
fn interrupted_import(etcd: &EtcdServers, data_dir: &Path) -> u64 {
    let mut delay = 100;
    while state_of(etcd).is_null() {
        kill_import(etcd, data_dir, delay);
        delay += delay / 2;
    }
    assert_eq!(state_of(etcd), "filling", "it was killed too late to be in the middle");
    delay
}

#[tokio::test]
async fn an_import_is_given_up_while_etcd_takes_no_writes() {
    let Some(etcd) = EtcdServers::start_with(1, &["--quota-backend-bytes=33554432"]) else { return };
    let mut server = Setup::default().variable("LOCKKEEPER_MASTER_KEY", MASTER_KEY).start();
    assert!(server.terminate().success());
    interrupted_import(&etcd, &server.data_dir());
    fill(&etcd, |_| false).await;
    let (code, words) = why(&import(&etcd, 128, MASTER_KEY, &server.data_dir()));
    assert!(code == 1 && words.contains("the engine is full") && words.contains("--give-up"), "{words}");
    let words = said(&give_up(&etcd));
    assert!(words.contains("empty again") && words.contains("etcdctl alarm disarm"), "{words}");
    assert!(state_of(&etcd).is_null());
    tidy_up(&etcd).await;
    said(&import(&etcd, 4, MASTER_KEY, &server.data_dir()));
    assert_eq!(state_of(&etcd), "ready");
}

#[tokio::test]
async fn an_import_that_is_killed_leaves_a_cluster_that_no_node_serves_until_it_is_run_again() {
    let Some(etcd) = EtcdServers::start(1) else { return };
    let mut server = Setup::default().variable("LOCKKEEPER_MASTER_KEY", MASTER_KEY).start();
    let held = server.admin().claim("review-1", json!({ "ttlSeconds": 600 })).await.created();
    let (code, words) = why(&import(&etcd, 128, MASTER_KEY, &server.data_dir()));
    assert!(code == 1 && words.contains("is in use by process"), "{words}");
    assert!(server.terminate().success());
    let (code, words) = why(&import(&etcd, 128, MASTER_KEY, &server.home().join("nowhere")));
    assert!(code == 1 && words.contains("is no data directory"), "{words}");

    let node_home = tempfile::tempdir().unwrap();
    let node = || setup(&etcd, "n1", "");
    let delay = interrupted_import(&etcd, &server.data_dir());
    let (code, words) = refusal(&node(), node_home.path());
    assert!(code == 1 && words.contains("being filled") && words.contains("--give-up"), "{words}");
    let to = node_home.path().join("export");
    let (code, words) = why(&export(&etcd, MASTER_KEY, &to, "1"));
    assert!(code == 1 && words.contains("being filled") && !to.exists(), "{words}");
    // Abandoned, and then completed.
    let words = said(&give_up(&etcd));
    assert!(words.contains("The cluster is empty again: import into it"), "{words}");
    assert!(state_of(&etcd).is_null());
    let (code, words) = why(&give_up(&etcd));
    assert!(code == 1 && words.contains("nothing to give up"), "{words}");
    kill_import(&etcd, &server.data_dir(), delay);
    said(&import(&etcd, 4, MASTER_KEY, &server.data_dir()));
    let node = node().start_at(node_home.path());
    until_ready(&node).await;
    let found = node.admin().environment("review-1").await.ok().data();
    assert_eq!(found["lock"]["sessionId"], held.session());
}

/// With all nodes stopped, a rotation is killed and repeated: no secret is lost.
#[tokio::test]
async fn the_master_key_of_a_cluster_is_replaced_while_it_is_stopped() {
    const NEW: &str = "2222222222222222222222222222222222222222222222222222222222222222";
    let Some(etcd) = EtcdServers::start(1) else { return };
    let mut node = setup(&etcd, "n1", "").start();
    until_ready(&node).await;
    let admin = node.admin();
    admin.post("/secrets", json!({ "name": "DATABASE_PASSWORD", "value": "hush-7f3e9d2c5a1b" })).await.created();
    let rotate = || {
        let mut command = operator(&etcd, 4, MASTER_KEY, &["secrets", "rotate-key"]);
        command.env("LOCKKEEPER_MASTER_KEY_NEW", NEW);
        command
    };
    let (code, words) = why(&rotate().output().unwrap());
    assert!(code == 1 && words.contains("node n1 runs: stop all nodes first"), "{words}");
    admin.environment("review-1").await.ok();
    assert!(node.terminate().success());
    node.start_again();
    until_ready(&node).await;
    assert!(node.terminate().success());

    let state = || -> Value {
        let output = operator(&etcd, 4, MASTER_KEY, &["cluster", "status", "--json"]).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["state"].clone()
    };
    // It looks for nodes for some seconds, and then changes one shard at a time. When it is killed does not matter, as
    // long as it has begun.
    let mut delay = 500;
    while state() == "ready" {
        assert!(delay <= 10_000, "the rotation does not begin");
        let mut process = rotate().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        process.kill().unwrap();
        process.wait().unwrap();
        delay += 500;
    }
    let words = node.try_start_again().unwrap_err();
    assert!(words.contains("is being replaced") && words.contains("run it again with the same two keys"), "{words}");
    let other = "3".repeat(64);
    let (code, words) = why(&rotate().env("LOCKKEEPER_MASTER_KEY_NEW", &other).output().unwrap());
    assert!(code == 1 && words.contains("begun with other keys"), "{words}");
    // With the two keys swapped, it reverts.
    let revert = || rotate().env("LOCKKEEPER_MASTER_KEY", NEW).env("LOCKKEEPER_MASTER_KEY_NEW", MASTER_KEY).output();
    said(&revert().unwrap());
    node.start_again();
    until_ready(&node).await;
    assert!(node.terminate().success());
    said(&rotate().output().unwrap());
    let words = said(&rotate().output().unwrap());
    assert!(words.contains("has the new key already"), "{words}");
    let words = node.try_start_again().unwrap_err();
    assert!(words.contains("is not the key of this cluster"), "{words}");
    node.change_setup(|setup| setup.variable("LOCKKEEPER_MASTER_KEY", NEW));
    node.start_again();
    until_ready(&node).await;
    let admin = node.admin();
    let check = "test \"$DATABASE_PASSWORD\" = hush-7f3e9d2c5a1b";
    let stages = json!([{ "name": "check", "steps": [{ "run": ["sh", "-c", check] }] }]);
    admin.put("/pipelines/web", json!({ "stages": stages })).await.ok();
    let claimed = admin.claim("review-2", json!({ "commitId": "c0ffee1" })).await.created().data();
    let deployment = claimed["deployments"][0]["deploymentId"].as_str().unwrap().to_owned();
    admin.until(&format!("/deployments/{deployment}"), |found| found["status"] == "succeeded").await;
    verified(operator(&etcd, 4, NEW, &["audit", "verify"]));
}

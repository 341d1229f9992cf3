//! SIGHUP: the server reads its files again, and never ends because of it.

use std::io::Write;
use std::process::Command;

use reqwest::Method;
use serde_json::json;

use super::ACME;
use crate::support::waiting::{Bounded, until};
use crate::support::wire::{Wire, head_of_json};
use crate::support::{Server, Setup, at};

#[tokio::test]
async fn without_tls_it_takes_over_the_log_filter_and_names_what_needs_a_restart() {
    let mut server = Setup::default().organization(ACME).start();
    let admin = server.admin();
    let held = admin.claim("review-1", json!({})).await.created().session();
    assert!(!server.log().contains("session.claimed"), "{}", server.log());
    change_settings(&server, |text| text.replace("min_free_mb = 0", "min_free_mb = 0\n[log]\nfilter = \"debug\""));
    change_settings(&server, |text| format!("workers = 3\n{text}"));
    server.signal("-HUP");
    until_logged(&server, "reloaded changed=\"log.filter\"", 1).await;
    until_logged(&server, "count from the next start on settings=\"workers\"", 1).await;
    admin.claim("review-2", json!({})).await.created();
    until_logged(&server, "session.claimed", 1).await;
    server.signal("-HUP");
    until_logged(&server, "reloaded changed=\"nothing\"", 1).await;
    admin.session("review-1", &held).await.ok();
    assert_eq!(server.terminate().code(), Some(0));
}

#[tokio::test]
async fn a_faulty_file_changes_nothing_and_all_its_faults_are_told() {
    let server = Setup::default().organization(ACME).start();
    let faulty = ACME.replace("id = \"acme\"", "id = \"-acme\"") + "\n[[members]]\nname = \"zoe\"\nrole = \"boss\"\n";
    std::fs::write(server.home().join("organization-0.toml"), faulty).unwrap();
    change_settings(&server, |text| text + "[log]\nfilter = \"debug\"\n[http]\ndrain_seconds = 601\n");
    server.signal("-HUP");
    until_logged(&server, "nothing is reloaded, and the next start will be refused faults=3", 1).await;
    for fault in ["organization.id must", "members.role must", "http.drain_seconds must"] {
        assert!(server.log().contains(fault), "{fault} is not in\n{}", server.log());
    }
    server.admin().claim("review-1", json!({})).await.created();
    assert!(!server.log().contains("session.claimed"), "the filter is still the old one: {}", server.log());
    change_settings(&server, |text| text.replace("debug", "debug,[[["));
    change_settings(&server, |text| text.replace("601", "20"));
    std::fs::write(server.home().join("organization-0.toml"), ACME).unwrap();
    server.signal("-HUP");
    until_logged(&server, "nothing is reloaded", 2).await;
    assert!(server.log().contains("log.filter must be a filter"), "{}", server.log());
}

#[tokio::test]
async fn many_at_once_are_few_reloads_and_the_last_state_counts() {
    let server = Server::start();
    for _ in 0..50 {
        server.signal("-HUP");
    }
    change_settings(&server, |text| text + "[log]\nfilter = \"debug\"\n");
    server.signal("-HUP");
    until_logged(&server, "changed=\"log.filter\"", 1).await;
    server.admin().claim("review-1", json!({})).await.created();
}

/// The server hangs while reading an organization file, before it has opened anything.
#[tokio::test]
async fn during_a_start_it_is_kept_until_the_server_serves() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("organization-0.toml");
    let setup = Setup::default().organization(ACME);
    let mut command = setup.command(home.path());
    std::fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let log = std::fs::File::create(home.path().join("stderr")).unwrap();
    let mut child = Bounded::spawn(command.stdout(std::process::Stdio::null()).stderr(log));
    // Returns when the server has opened it for reading.
    let mut fifo = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    assert!(Command::new("kill").args(["-HUP", &child.id().to_string()]).status().unwrap().success());
    // The next reader finds a file.
    let file = home.path().join("new");
    std::fs::write(&file, ACME).unwrap();
    std::fs::rename(&file, &path).unwrap();
    fifo.write_all(ACME.as_bytes()).unwrap();
    drop(fifo);
    let logged = || std::fs::read_to_string(home.path().join("stderr")).unwrap();
    until("it has reloaded", async || {
        assert_eq!(child.try_wait().unwrap(), None, "the server has ended: {}", logged());
        logged().contains("reloaded changed=\"nothing\"")
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn during_a_drain_it_ends_nothing() {
    let mut server = Server::start();
    let path = server.admin().path(&format!("{}/sessions", at("review-1")));
    let body = r#"{"context": "slow"}"#;
    let mut slow = Wire::open(&server).await;
    let head = head_of_json("POST", &path, body.len());
    slow.send(head.replacen("Content-Type", "Expect: 100-continue\r\nContent-Type", 1)).await;
    slow.answer().await.unwrap().has_status(100);
    server.signal("-TERM");
    until_logged(&server, "stopping: answering the requests in flight", 1).await;
    for _ in 0..3 {
        server.signal("-HUP");
    }
    slow.send(body).await;
    slow.answer().await.unwrap().created();
    assert_eq!(server.wait().code(), Some(0));
    assert!(!server.log().contains("stopped at once"), "{}", server.log());
}

#[tokio::test]
async fn a_server_that_was_started_to_ignore_it_reloads_all_the_same() {
    let server = Setup::default().under(&["nohup"]).start();
    server.signal("-HUP");
    until_logged(&server, "reloaded changed=\"nothing\"", 1).await;
    let anonymous = server.anonymous();
    anonymous.send(anonymous.request(Method::GET, "/readyz")).await.ok();
}

fn change_settings(server: &Server, change: impl FnOnce(String) -> String) {
    let path = server.home().join("settings.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, change(text)).unwrap();
}

async fn until_logged(server: &Server, part: &str, times: usize) {
    let what = format!("{part} is logged {times} times");
    until(&what, async || server.log().matches(part).count() >= times).await;
}

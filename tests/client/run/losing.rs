//! A lock that is lost ends the command, and never counts as success.

use serde_json::json;

use super::relay::Relay;
use super::{Notes, Running, is_alive, run_script, until_gone};
use crate::support::Server;

/// Writes its pid, and runs for as long as it may.
fn long(notes: &Notes) -> String {
    format!("echo $$ > {}/pid; exec sleep 300", notes.path().display())
}

#[tokio::test]
async fn a_force_claim_stops_the_command() {
    let server = Server::start();
    let notes = Notes::new();
    let running = Running::start(&mut run_script(&server.address, &["review-1", "--ttl", "5"], &long(&notes)));
    let pid = notes.pid("pid").await;
    server.as_user("ana").await.force_claim("review-1", json!({})).await.created();
    let (code, _, stderr) = running.end();
    assert_eq!(code, 79, "{stderr}");
    assert!(stderr.contains("ana force-claimed the environment"), "{stderr}");
    assert!(!is_alive(pid));
    let lock = server.admin().environment("review-1").await.ok().data()["lock"].clone();
    assert_eq!(lock["user"]["name"], "ana", "the lock of the new holder is not released");
}

#[tokio::test]
async fn a_command_that_ignores_every_request_to_end_is_killed() {
    let server = Server::start();
    let notes = Notes::new();
    let script =
        format!("trap '' TERM INT HUP; echo $$ > {}/pid; while :; do sleep 0.05; done", notes.path().display());
    let running = Running::start(&mut run_script(&server.address, &["review-1", "--ttl", "5"], &script));
    let pid = notes.pid("pid").await;
    server.as_user("ana").await.force_claim("review-1", json!({})).await.created();
    let (code, _, stderr) = running.end();
    assert_eq!(code, 79, "{stderr}");
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_command_has_time_to_clean_up() {
    let server = Server::start();
    let notes = Notes::new();
    let script = format!(
        "trap 'echo cleaned; exit 0' TERM; echo $$ > {}/pid; while :; do sleep 0.02; done",
        notes.path().display()
    );
    let running = Running::start(&mut run_script(&server.address, &["review-1", "--ttl", "8"], &script));
    notes.pid("pid").await;
    server.as_user("mia").await.delete(&format!("{}/lock", crate::support::at("review-1"))).await.ok();
    let (code, stdout, stderr) = running.end();
    assert_eq!((code, stdout.as_str()), (79, "cleaned\n"), "{stderr}");
    assert!(stderr.contains("mia released the session"), "{stderr}");
}

#[tokio::test]
async fn a_command_that_succeeded_without_its_lock_did_not_succeed() {
    let server = Server::start();
    let notes = Notes::new();
    // Waiting requests are refused, and the next heartbeat is fifteen seconds away: only the final check can notice.
    let relay = Relay::to(&server.address);
    relay.refuse_waits();
    let script =
        format!("echo $$ > {0}/pid; while [ ! -e {0}/go ]; do sleep 0.01; done; exit 0", notes.path().display());
    let running = Running::start(&mut run_script(&relay.address, &["review-1", "--ttl", "60"], &script));
    notes.pid("pid").await;
    server.as_user("ana").await.force_claim("review-1", json!({})).await.created();
    notes.write("go");
    let (code, _, stderr) = running.end();
    assert_eq!(code, 79, "{stderr}");
    assert!(stderr.contains("the command itself had ended with 0"), "{stderr}");
}

#[tokio::test]
async fn a_restart_of_the_server_is_no_loss() {
    let mut server = Server::start();
    let relay = Relay::to(&server.address);
    let notes = Notes::new();
    let script =
        format!("echo $$ > {0}/pid; while [ ! -e {0}/go ]; do sleep 0.01; done; exit 4", notes.path().display());
    let running = Running::start(&mut run_script(&relay.address, &["review-1", "--ttl", "20"], &script));
    let pid = notes.pid("pid").await;
    server.kill();
    server.start_again();
    relay.lead_to(&server.address);
    let before = server.admin().environment("review-1").await.ok().data()["lock"]["expiresAt"].clone();
    // The next heartbeat reaches the new server.
    server.admin().until_environment("review-1", |found| found["lock"]["expiresAt"] != before).await;
    assert!(is_alive(pid));
    notes.write("go");
    let (code, _, stderr) = running.end();
    assert_eq!(code, 4, "{stderr}");
    assert_eq!(server.admin().environment("review-1").await.ok().data()["lockStatus"], "unlocked");
}

#[tokio::test]
async fn a_server_that_is_gone_longer_than_the_lease_ends_the_command_before_it() {
    let server = Server::start();
    let relay = Relay::to(&server.address);
    let notes = Notes::new();
    let running = Running::start(&mut run_script(&relay.address, &["review-1", "--ttl", "5"], &long(&notes)));
    let pid = notes.pid("pid").await;
    // The next holder sees no process of the command.
    let admin = server.admin();
    let next = admin.wait_in_line("review-1", json!({ "waitSeconds": 60 }), 1).await;
    relay.cut();
    next.await.unwrap().created();
    assert!(!is_alive(pid), "the command outlived its lease");
    let (code, _, stderr) = running.end();
    assert_eq!(code, 79, "{stderr}");
    assert!(stderr.contains("could not be renewed"), "{stderr}");
}

#[tokio::test]
async fn a_frozen_client_does_not_keep_its_command_alive() {
    let server = Server::start();
    let notes = Notes::new();
    let running = Running::start(&mut run_script(&server.address, &["review-1", "--ttl", "5"], &long(&notes)));
    let pid = notes.pid("pid").await;
    let admin = server.admin();
    let next = admin.wait_in_line("review-1", json!({ "waitSeconds": 60 }), 1).await;
    running.signal("-STOP");
    let granted = next.await.unwrap().created();
    assert!(!is_alive(pid), "the command outlived its lease");
    running.signal("-CONT");
    let (code, _, stderr) = running.end();
    assert_eq!(code, 79, "{stderr}");
    let lock = admin.environment("review-1").await.ok().data()["lock"].clone();
    assert_eq!(lock["sessionId"], granted.session().as_str(), "the next holder keeps its lock");
}

#[tokio::test]
async fn the_longest_hold_of_an_environment_ends_the_command_before_it() {
    let server = Server::start();
    let admin = server.admin();
    admin.put("/pipelines/web/ephemeral-environments/short", json!({ "maxHoldSeconds": 4 })).await.created();
    let notes = Notes::new();
    let running =
        Running::start(&mut run_script(&server.address, &["short", "--ttl", "30", "--grace", "1"], &long(&notes)));
    let pid = notes.pid("pid").await;
    let next = admin.wait_in_line("short", json!({ "waitSeconds": 60 }), 1).await;
    next.await.unwrap().created();
    assert!(!is_alive(pid), "the command outlived its lock");
    let (code, _, stderr) = running.end();
    assert_eq!(code, 79, "{stderr}");
    until_gone(pid).await;
}

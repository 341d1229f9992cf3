//! A lost lock is noticed because the server says so, long before the next heartbeat.

use serde_json::json;

use super::relay::Relay;
use super::{Notes, Running, is_alive, run_script};
use crate::support::Server;

/// The next heartbeat is a quarter of an hour away: waiting for it makes the test fail.
const LONG_TTL: [&str; 3] = ["review-1", "--ttl", "1h"];

/// Runs a command until its environment is force-claimed.
async fn lose(server: &Server, address: &str, arguments: &[&str]) {
    let notes = Notes::new();
    let script = format!("echo $$ > {}/pid; exec sleep 300", notes.path().display());
    let running = Running::start(&mut run_script(address, arguments, &script));
    let pid = notes.pid("pid").await;
    server.as_user("ana").await.force_claim("review-1", json!({})).await.created();
    let (code, _, stderr) = running.end();
    assert_eq!(code, 79, "{stderr}");
    assert!(stderr.contains("ana force-claimed the environment"), "{stderr}");
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_force_claim_stops_the_command_long_before_the_next_heartbeat() {
    let server = Server::start();
    lose(&server, &server.address, &LONG_TTL).await;
}

#[tokio::test]
async fn a_force_claim_is_noticed_through_a_proxy_that_buffers_answers() {
    let server = Server::start();
    let relay = Relay::to(&server.address);
    relay.buffer();
    lose(&server, &relay.address, &LONG_TTL).await;
}

#[tokio::test]
async fn where_nobody_can_wait_the_heartbeat_notices_a_lost_lock() {
    let server = Server::start();
    let relay = Relay::to(&server.address);
    relay.refuse_waits();
    lose(&server, &relay.address, &["review-1", "--ttl", "5"]).await;
    assert!(relay.refused_waits() > 0, "it never asked");
}

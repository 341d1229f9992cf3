//! Leases that expire, and every kind of write, while the disk is full: the server uses few resources, continues when
//! there is space again, and starts on the full disk.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use super::small_disk::SmallDisk;
use super::until;
use crate::support::{Answer, Client, Server, Setup, at};

const MIB: u64 = 1024 * 1024;
const ENVIRONMENTS: usize = 30;
/// How long the full disk is observed.
const WATCHED_SECONDS: u64 = 10;
const LINES_PER_SECOND_MAX: u128 = 10;

#[tokio::test]
async fn a_full_disk_with_leases_running_out_keeps_no_processor_and_no_log_busy() {
    let Some(disk) = SmallDisk::mount(128) else { return };
    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 8\n";
    let mut server = Setup::default().settings(settings).start_at(disk.home());
    let admin = server.admin();
    let names: Vec<String> = (0..ENVIRONMENTS).map(|number| format!("leased-{number}")).collect();
    admin.put(&at("kept"), json!({})).await.created();
    let kept = admin.claim("kept", json!({ "ttlSeconds": 600 })).await.created().session();
    let mut ending = Vec::new();
    for name in ["ending-0", "ending-1"] {
        admin.put(&at(name), json!({})).await.created();
        ending.push((name, admin.claim(name, json!({ "ttlSeconds": 600 })).await.created().session()));
    }
    let mut queued = Vec::new();
    for name in &names {
        admin.put(&at(name), json!({})).await.created();
        admin.claim(name, json!({ "ttlSeconds": 5 })).await.created();
        queued.push(admin.enqueue(name, json!({ "ttlSeconds": 600 })).await.session());
    }
    disk.fill(3 * MIB);
    until("a full disk", || readiness(&server), |answer| answer.status == 503).await;

    watch(&server, &kept, &ending[0]).await;
    // It also starts on the full disk, with the expired leases.
    server.kill();
    server.start_again();
    watch(&server, &kept, &ending[1]).await;
    let admin = server.admin();
    assert_eq!(admin.session("kept", &kept).await.ok().data()["lockStatus"], "active");

    disk.make_room();
    until("room", || readiness(&server), |answer| answer.status == 200).await;
    for (name, queued) in names.iter().zip(&queued) {
        let has_gone_on = |answer: &Answer| answer.data()["lock"]["sessionId"] != json!(null);
        // Its lease expires, and its waiter has the lock, or has lost its place meanwhile.
        let ended = |answer: &Answer| !has_gone_on(answer) || answer.data()["lock"]["sessionId"] == json!(queued);
        until("the end of a lease", || admin.environment(name), ended).await;
    }
    admin.release("kept", &kept).await.ok();
}

/// For some seconds: tries every kind of write, counts the logged lines, and measures the processor use.
async fn watch(server: &Server, kept: &str, (ending, session): &(&str, String)) {
    let (logged_before, used_before, began) = (server.log().len(), processor_seconds(server), Instant::now());
    try_every_write(&server.admin(), kept).await;
    let admin = server.admin();
    // Work can be ended, and new work is refused.
    admin.release(ending, session).await.ok();
    admin.claim(ending, json!({})).await.refused(503, "storage_full");
    let etag = admin.session("kept", kept).await.ok().header("etag").to_owned();
    let tried = (server.log().len(), processor_seconds(server), Instant::now());
    // Held open, since nothing changes.
    let read = format!("{}/sessions/{kept}", at("kept"));
    admin.read_unless(&read, &etag, WATCHED_SECONDS).await.has_status(304);
    let lines = server.log()[logged_before..].lines().count() as u128;
    let seconds = u128::from(began.elapsed().as_secs().max(1));
    let idle = (processor_seconds(server) - tried.1) / tried.2.elapsed().as_secs_f64();
    println!(
        "full disk: {lines} lines in {seconds} s; {:.1}% of a core while nothing was asked, {:.2} s of processor in all",
        idle * 100.0,
        processor_seconds(server) - used_before
    );
    assert!(lines <= LINES_PER_SECOND_MAX * seconds, "{}", &server.log()[logged_before..]);
}

/// Each is refused because of the full disk, or succeeds if it needs no space or may use the reserve.
async fn try_every_write(admin: &Client, kept: &str) {
    let session = format!("{}/sessions/{kept}", at("kept"));
    let member = json!({ "name": "cai", "role": "viewer" });
    let webhook = json!({ "url": "https://hooks.example/x", "events": ["session.claimed"] });
    for (what, answer) in [
        ("claim", admin.claim("leased-0", json!({})).await),
        ("a waiting claim", admin.claim("kept", json!({ "queue": true, "waitSeconds": 1 })).await),
        ("force-claim", admin.force_claim("leased-1", json!({})).await),
        ("claim of any", admin.claim_any(json!({ "queue": true })).await),
        ("heartbeat", admin.heartbeat("kept", kept).await),
        ("deploy", admin.deploy("kept", kept, json!({ "commitId": "c0ffee1" })).await),
        ("environment", admin.put(&at("another"), json!({})).await),
        ("pipeline", admin.put("/pipelines/another", json!({})).await),
        ("token", admin.post("/tokens", json!({ "name": "test", "user": "ana" })).await),
        ("member", admin.post("/members", member).await),
        ("webhook", admin.post("/webhooks", webhook).await),
        ("secret", admin.put("/secrets/KEY", json!({ "value": "hunter22" })).await),
        ("read", admin.get(&session).await),
    ] {
        let status = answer.status.as_u16();
        assert!(
            (200..300).contains(&status) || (400..500).contains(&status) || status == 503,
            "{what}: {}",
            answer.text
        );
        if status == 503 {
            assert_eq!(answer.problem().1, "storage_full", "{what}: {}", answer.text);
        }
    }
}

async fn readiness(server: &Server) -> Answer {
    let client = server.anonymous();
    client.send(client.request(Method::GET, "/readyz")).await
}

/// The processor time that the server has used so far.
fn processor_seconds(server: &Server) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
    // After the name, which may contain spaces, utime and stime are the 12th and 13th.
    let (_, after) = stat.rsplit_once(") ").unwrap();
    let ticks: u64 = after.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10).as_secs_f64()
}

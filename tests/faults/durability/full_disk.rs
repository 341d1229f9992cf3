//! What happens when the disk is full.

use reqwest::Method;
use serde_json::json;

use super::held::{Held, make_and_try_claim};
use super::small_disk::SmallDisk;
use super::{EXIT_DISK_FAILED, EXIT_FAILED, metric, until};
use crate::support::{Answer, Client, Server, Setup, at, refusal};

#[tokio::test]
async fn a_full_disk_refuses_writes_serves_reads_and_recovers_without_a_restart() {
    const MIB: u64 = 1024 * 1024;
    let Some(disk) = SmallDisk::mount(48) else { return };
    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 8\n";
    let mut server = Setup::default().settings(settings).start_at(disk.home());
    let mut held = Held::default();
    for number in 0..20 {
        held.claim_new(&server.admin(), &format!("early-{number}")).await;
    }
    server.admin().put(&at("wanted"), json!({})).await.created();
    let unasked = grant_unasked(&server.admin(), "unasked").await;

    disk.fill(3 * MIB);
    until("a full disk", || readiness(&server), |answer| answer.status == 503).await;
    assert_refuses_writes(&server).await;
    held.assert_all_there(&server).await;
    let read = server.admin().session("unasked", &unasked).await.ok().data();
    assert_eq!(read["lockStatus"], "active", "a read that would have been noted");

    // Also a server that starts on a full disk serves reads.
    server.kill();
    server.start_again();
    held.assert_all_there(&server).await;
    assert_refuses_writes(&server).await;

    disk.make_room();
    let client = server.admin();
    let claim = || client.claim("wanted", json!({}));
    let taken = until("a claim that is taken", claim, |answer| answer.status != 503).await;
    held.note("wanted", &taken.created());
    assert_eq!(readiness(&server).await.status, 200);
    server.kill();
    server.start_again();
    held.assert_all_there(&server).await;
}

/// A queued session that has got its lock, which its client has not read yet.
async fn grant_unasked(client: &Client, name: &str) -> String {
    let first = make_and_try_claim(client, name).await.unwrap().created().session();
    let queued = client.enqueue(name, json!({})).await.session();
    client.release(name, &first).await.ok();
    queued
}

async fn readiness(server: &Server) -> Answer {
    let client = server.anonymous();
    client.send(client.request(Method::GET, "/readyz")).await
}

async fn assert_refuses_writes(server: &Server) {
    let client = server.admin();
    for refused in [
        client.claim("wanted", json!({ "commitId": "c0ffee1" })).await,
        client.force_claim("early-0", json!({})).await,
        client.put(&at("another"), json!({})).await,
        client.post("/tokens", json!({ "name": "test", "user": "ana" })).await,
        readiness(server).await,
    ] {
        assert_eq!(refused.problem(), (503, "storage_full".to_owned()));
        assert!(refused.header("retry-after").parse::<u64>().unwrap() > 0);
    }
    let wanted = client.environment("wanted").await.ok().data();
    assert_eq!(wanted["lockStatus"], "unlocked");
    assert_eq!(client.environment("another").await.status, 404);
}

#[tokio::test]
async fn a_disk_without_a_byte_left_loses_nothing_acknowledged() {
    const CLAIMS_MAX: usize = 20_000;
    let Some(disk) = SmallDisk::mount(48) else { return };
    let mut server = Setup::default().start_at(disk.home());
    let mut held = Held::default();
    held.claim_new(&server.admin(), "early").await;
    let logged_before = server.log().len();
    disk.fill(0);

    // The log has room for a while.
    let client = server.admin();
    let mut stopped = None;
    for number in 0..CLAIMS_MAX {
        let name = format!("held-{number}");
        match make_and_try_claim(&client, &name).await {
            Ok(answer) if answer.status == 201 => held.note(&name, &answer),
            other => {
                stopped = Some(other);
                break;
            }
        }
    }
    match stopped.expect("claims find no end of room on a full disk") {
        Ok(refused) => assert_eq!(refused.problem(), (503, "storage_full".to_owned())),
        Err(error) => assert!(!error.is_timeout(), "{error}"),
    }
    // What it took goes on to the database, which finds room or ends the server.
    let before = checkpoints(&client).await.unwrap_or(0);
    let after = until("a checkpoint", || checkpoints(&client), |count| *count != Some(before)).await;
    if after.is_some() {
        println!("refused after {} claims, and went on", held.len());
        server.kill();
    } else {
        println!("ended after {} claims", held.len());
        assert_eq!(server.wait().code(), Some(EXIT_DISK_FAILED), "{}", server.log());
        let said = server.log()[logged_before..].to_owned();
        let plain = said.lines().filter(|line| line.starts_with("lockkeeper: "));
        assert_eq!(plain.count(), 1, "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    disk.make_room();
    server.start_again();
    held.assert_all_there(&server).await;
    held.claim_new(&server.admin(), "late").await;
}

/// How often the database was brought up to date; `None` if the server is gone.
async fn checkpoints(client: &Client) -> Option<u64> {
    let answer = client.try_send(client.request(Method::GET, "/metrics")).await.ok()?;
    Some(metric(&answer.text, "lockkeeper_checkpoints_total"))
}

#[tokio::test]
async fn a_server_whose_own_log_has_no_room_left_serves_all_the_same() {
    let wrapper = ["sh", "-c", "exec \"$@\" 2>/dev/full", "sh"];
    let mut server = Setup::default().under(&wrapper).start();
    let mut held = Held::default();
    held.claim_new(&server.admin(), "held").await;
    // What cannot be said is not what decides how it ends.
    assert_eq!(refusal(&Setup::default().under(&wrapper), server.home()).0, EXIT_FAILED);
    assert_eq!(server.terminate().code(), Some(0));
    server.start_again();
    held.assert_all_there(&server).await;
}
